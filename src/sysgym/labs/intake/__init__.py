"""Intake of submissions: files in folders, names and texts."""
