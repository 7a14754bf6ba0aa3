"""Studies: experiments that are not part of the benchmark's suites or extend them.

Each is a module or a folder. Some apply to every family (determinism, distillation, robustness, stress), the
others to one.
"""
