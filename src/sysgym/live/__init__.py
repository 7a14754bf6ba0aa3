"""Live views of running episodes in a browser: ``sysgym live``.

``run`` simulates an episode of several contenders side by side and returns frames; ``session`` paces the
frames and executes commands; ``server`` serves the page; ``recording`` stores a run in a file; ``export``
writes a run as one HTML page.
"""
