"""Programs of collectives: their language and meaning, all valid ones, and the best for given costs."""
