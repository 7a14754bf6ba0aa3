"""The benchmark: who plays what, result rows, statistics, report and validation."""
