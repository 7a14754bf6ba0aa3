"""Process for functions of strangers: limited in time, memory and files, and asked by JSON over a pipe.

``child.py`` is the program of that process. It imports nothing of this package.
"""
