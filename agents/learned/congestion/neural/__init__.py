"""Learned congestion control law of every flow: weights of the transport ``neural``, found by evolution."""
