"""Learning for the pipelines family: stages and ranks as members of a set, with a mask."""
