"""Laws whose numbers are found by searches, and the functions that they share.

``neural`` is DCTCP with the corrections of a small network; ``adaptive_target`` and ``adaptive_swift`` hold
the queue at a target that adapts to other laws. Programs for the Linux kernel decide alike, in fixed point.
"""
