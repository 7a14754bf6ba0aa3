"""Jobs of parallel tasks on machines: generated from causes or read from traces, executed and mitigated."""
