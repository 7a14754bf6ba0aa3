"""Language of submitted congestion control laws: its check, and transports made of them."""
