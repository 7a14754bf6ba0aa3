"""``python -m sysgym``: the command line, where its script is not on the path."""

from sysgym.cli import main

main()
