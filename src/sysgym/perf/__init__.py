"""Speed figures of ``sysgym perf``, a module for each kind of work."""
