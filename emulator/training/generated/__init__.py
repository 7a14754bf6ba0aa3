"""Generated training jobs: layers, parallelism and schedules, with a finer truth than a replay's."""
