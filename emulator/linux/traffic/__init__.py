"""TCP flows over an emulated network: sockets, congestion controls, paths and records."""
