"""Formats of training jobs: each reads files of others and returns a job to be replayed."""
