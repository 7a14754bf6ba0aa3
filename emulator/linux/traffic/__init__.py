"""TCP flows over a network of the kernel: sockets, congestion controls, paths and records."""
