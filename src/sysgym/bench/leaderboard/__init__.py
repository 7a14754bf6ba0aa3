"""The leaderboard: entries that anyone can replay, their submission, and their ranks."""
