"""What runs: scenario files by family, the schema that reads them, benchmark suites."""
