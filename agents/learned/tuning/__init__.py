"""Learning for the tuning family: buckets as members of a set, with a mask."""
