"""Results on disk: rows, records of runs and trainings, versions, and the code files named in rows."""
