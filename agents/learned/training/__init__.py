"""Training with stable-baselines3: algorithms, runs, and resumption of interrupted runs."""
