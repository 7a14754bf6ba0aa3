"""What comes from strangers, before anything looks into it: files in folders, names and texts."""
