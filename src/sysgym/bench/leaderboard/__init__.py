"""Leaderboard: replayable entries, their submission, and their ranking."""
