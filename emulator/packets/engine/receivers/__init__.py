"""Receiver-driven transports: messages of a receiving host, its grants, and senders that need them."""
