"""Event queue: a tournament tree of pending events, and in dense networks a timing wheel in front of it."""
