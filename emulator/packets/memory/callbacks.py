"""Table of the transports' callbacks for the compiled loop: the entries of one transport, in order."""

ON_START = 0
ON_ACK = 1
ON_LOSS = 2
ON_TIMEOUT = 3
ON_TICK = 4
ON_GRANT = 5
ON_DATA = 6
ON_RECEIVER_TICK = 7
PARAMETERS = 8
N_PARAMETERS = 9
N_ENTRIES = 10
"""Address and number of a transport's parameters, behind its callbacks; entries in all."""
