"""Policies over sets, blind to the order of their members: in NumPy, and for PPO in torch."""
