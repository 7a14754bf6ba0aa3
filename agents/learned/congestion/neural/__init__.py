"""The law of every flow, learned: weights of the transport ``neural``, found by evolution."""
