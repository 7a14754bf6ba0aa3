"""Output queues that are lists of packets, by class: schedulers, priority flow control and trimming."""
