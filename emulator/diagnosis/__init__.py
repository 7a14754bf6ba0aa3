"""Recorded steps of a training job with faults whose effects are known."""
