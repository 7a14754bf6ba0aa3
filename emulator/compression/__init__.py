"""Data-parallel training with compressed gradients: times, conditions, progress, the optimum."""
