"""Language of submitted congestion control laws: checks of laws, and transports made from them."""
