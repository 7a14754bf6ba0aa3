"""Entry point of ``python -m sysgym``, the command line without its script on the path."""

from sysgym.cli import main

main()
