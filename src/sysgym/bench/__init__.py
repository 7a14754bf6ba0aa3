"""The benchmark: who plays what, result rows, statistics, report and leaderboard.

``plan`` says what has to be done, ``run`` does it, ``results`` keeps it, ``report`` shows it.
"""
