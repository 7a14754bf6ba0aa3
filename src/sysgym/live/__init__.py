"""Live views of running episodes in a browser: ``sysgym live``.

``run`` plays an episode of several contenders side by side and reports frames; ``session`` paces them and
takes commands; ``server`` serves the page, ``recording`` keeps a run in a file, ``export`` writes it as one
page.
"""
