"""Pydantic models of the files: ``common`` for all families, one module a family, ``suite`` for benchmark suites."""
