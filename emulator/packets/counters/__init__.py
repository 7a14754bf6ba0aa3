"""What a network has counted, and what an ideal controller would have given: for tables, agents and files."""
