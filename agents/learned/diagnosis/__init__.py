"""Learning for the diagnosis family: parts of a job as members of a set, with a mask."""
