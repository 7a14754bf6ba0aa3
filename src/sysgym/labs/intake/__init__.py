"""Submissions before anything looks into them: files in folders, names and texts."""
