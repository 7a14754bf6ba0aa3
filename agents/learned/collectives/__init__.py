"""Learning for the collectives family: candidate transfers as members of a set, with a mask."""
