"""What there is, as lists and pages: ``sysgym list`` and ``sysgym show``."""
