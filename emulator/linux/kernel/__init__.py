"""What is built from the kernel: namespaces, links, queues and eBPF programs."""
