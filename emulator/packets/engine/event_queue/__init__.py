"""Event queue: a tournament of the events to come, and a wheel in front of it in dense networks."""
