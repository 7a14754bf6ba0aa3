"""Results on disk: rows, the records beside them, the versions and the code that they name."""
