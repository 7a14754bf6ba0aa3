"""Process for untrusted functions: limited in time, memory and files, and called with JSON over a pipe.

``child.py`` is the program of this process, and ``linux.py`` is its confinement by the kernel. Neither
imports anything of this package.
"""
