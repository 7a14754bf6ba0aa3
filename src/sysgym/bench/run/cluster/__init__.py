"""Benchmarks on other machines: Ray clusters and Slurm.

Episodes go out in chunks of some seconds, trainings one by one. A task writes what it has done into one file
of the results folder, which all machines share; the benchmark moves the rows of these shards into the results
as they come. What is on disk is done, whoever did it: after the end of a task, a machine or the benchmark
itself at any moment, the same command goes on from there.
"""
