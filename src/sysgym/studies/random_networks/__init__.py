"""Study of random networks: scores and slowdowns of congestion control laws on random networks."""
