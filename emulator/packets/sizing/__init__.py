"""How large a world is and how long it takes, from its scenario alone."""
