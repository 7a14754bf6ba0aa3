"""``python -m sysgym``: the command line, also without its script on the path."""

from sysgym.cli import main

main()
