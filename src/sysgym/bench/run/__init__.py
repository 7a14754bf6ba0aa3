"""Running a benchmark: trainings, episodes, the workers that play them, and playing rows again."""
