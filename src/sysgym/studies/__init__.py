"""Studies: experiments that extend the benchmark's suites or are independent of them.

Each study is a module or a package. Some apply to every family (determinism, distillation, robustness and
stress), the others to one family.
"""
