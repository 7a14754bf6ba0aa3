"""Studies of single families: what ``sysgym bench`` prints beside, or instead of, a suite's report."""
