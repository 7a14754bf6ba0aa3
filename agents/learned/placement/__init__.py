"""Learning for the placement family: actions as members of a set, with a mask."""
