"""Training with stable-baselines3: algorithms, runs, and going on where one was stopped."""
