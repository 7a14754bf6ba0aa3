"""Benchmarks on other machines: Ray clusters and Slurm.

Episodes are submitted in chunks of some seconds, trainings one by one. A task writes its results to one file,
a shard, in the results folder, which all machines share. The benchmark moves the rows of shards into the
results as soon as they are written. Results on disk are never computed again: if a task, a machine or the
benchmark itself is stopped at any time, the same command continues from the files.
"""
