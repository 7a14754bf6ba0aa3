"""The same scenarios on the real Linux kernel: network namespaces, real TCP, real queues.

Only the service needs root (``sysgym emulator serve``); environments talk to it over ZeroMQ through
:class:`sysgym.emulator.linux.client.LinuxNetwork`.
"""
