"""Studies: experiments with a question of their own, beside the benchmark.

Each is a module or a folder. Some ask about every family (determinism, distillation, robustness, stress); the
others are about one.
"""
