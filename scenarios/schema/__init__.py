"""Pydantic models of the files: `common` to all families, one module a family, `suite` for benchmarks."""
