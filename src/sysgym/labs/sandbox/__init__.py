"""Process for functions of strangers: limited in time, memory and files, and asked by JSON over a pipe.

``child.py`` is the program of that process, and ``linux.py`` is what the kernel refuses to it. Both import
nothing of this package.
"""
