"""Pictures of the congestion environments."""
