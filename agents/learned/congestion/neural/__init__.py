"""Learned congestion control law for every flow: weights of the transport ``neural``, found by evolution."""
