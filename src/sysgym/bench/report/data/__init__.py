"""What a report says, as data: samples, comparisons, rankings, verdicts, costs, curves."""
