"""Data of a report: samples, comparisons, rankings, verdicts, costs, curves."""
