"""Live view of a network: links by use, queues and rates over time, events, and settings that can change."""
