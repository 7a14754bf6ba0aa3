"""Table of the transports' callbacks for the compiled loop: the entries of one transport, in order."""

ON_START = 0
ON_ACK = 1
ON_LOSS = 2
ON_TIMEOUT = 3
ON_TICK = 4
ON_RESTART = 5
ON_GRANT = 6
ON_DATA = 7
ON_RECEIVER_TICK = 8
PARAMETERS = 9
N_PARAMETERS = 10
N_ENTRIES = 11
"""Address and number of a transport's parameters, after its callbacks, and total number of entries."""
