"""Policies over sets, equivariant to the order of members: in NumPy, and for PPO in torch."""
