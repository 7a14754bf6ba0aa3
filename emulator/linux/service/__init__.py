"""The privileged service and its world processes: messages, sessions, processes and their removal."""
