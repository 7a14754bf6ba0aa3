"""Kernel objects of an emulated network: namespaces, links, queues and eBPF programs."""
