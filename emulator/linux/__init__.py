"""Linux backend: the same scenarios on the real kernel, with namespaces, TCP and queueing disciplines.

Only the service needs root (``sysgym emulator serve``). Environments talk to it over ZeroMQ through
:class:`sysgym.emulator.linux.client.LinuxNetwork`.
"""
