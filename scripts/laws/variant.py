"""Write a law with other constants, to see what one of them does.

python scripts/laws/variant.py adaptive_target before.json       # the constants before any search
python scripts/laws/variant.py LAW.json patient.json patience=16
sysgym run fattree-k4-websearch --contender adaptive_target@patient.json
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from sysgym.agents.learned.congestion.law_search.laws import SEARCHED_LAWS, law_named
from sysgym.scenarios.errors import SysgymError, UnknownName


def main() -> None:
    """Read, change and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("law", help=f"checkpoint, or {', '.join(SEARCHED_LAWS)}")
    parser.add_argument("out", type=Path)
    parser.add_argument("changes", nargs="*", metavar="NAME=VALUE")
    given = parser.parse_args()
    try:
        write_variant(given.law, given.out, given.changes)
    except SysgymError as error:
        sys.exit(f"error: {error}")


def write_variant(source: str, out: Path, changes: Sequence[str]) -> None:
    """Write a law with other constants.

    Args:
        source: Checkpoint, or the name of a law, whose first constants are meant.
        out: File to write.
        changes: Changed constants, each as ``NAME=VALUE``.

    Raises:
        UnknownName: If there is no such law or constant.
        SysgymError: If a value is outside its bounds.
    """
    searched, law = law_named(source)
    names = [constant.name for constant in searched.constants]
    parameters = list(law.parameters)
    for change in changes:
        name, _, value = change.partition("=")
        if name not in names:
            raise UnknownName("constant", name, names)
        try:
            parameters[names.index(name)] = float(value)
        except ValueError:
            raise SysgymError(f"{change}: expected NAME=VALUE with a number, as {name}=1.5") from None
    searched.form.transport(parameters)  # checks the bounds
    searched.form.write(replace(law, parameters=parameters), out)


if __name__ == "__main__":
    main()
