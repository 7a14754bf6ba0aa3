"""Pydantic models of scenario and suite files: `common` fields, one module per family, and `suite`."""
