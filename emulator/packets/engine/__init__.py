"""Compiled event loop: hosts, senders, receivers, links and queues."""
