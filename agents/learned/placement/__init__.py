"""Learning on the placement family: actions as members of a set, some of them masked."""
