"""Benchmark: plan, runs, result rows, statistics, report and leaderboard.

``plan`` lists trainings and episodes, ``run`` carries them out, ``results`` stores them, ``report`` shows
them.
"""
