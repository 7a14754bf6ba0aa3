"""Lists and pages of everything that has a name: ``sysgym list`` and ``sysgym show``."""
