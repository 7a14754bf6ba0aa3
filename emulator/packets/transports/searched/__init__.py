"""Laws whose constants are found by search, and their common functions.

``neural`` is DCTCP with corrections by a small neural network; ``adaptive_target`` and ``adaptive_swift``
keep the queue at a target that adapts to other laws. Programs for the Linux kernel take the same decisions in
fixed-point arithmetic.
"""
