"""Write a law with other constants, to see what one of them does.

python scripts/law_variant.py adaptive_target before.json       # the constants before any search
python scripts/law_variant.py LAW.json patient.json patience=16
sysgym run fattree-k4-websearch --contender adaptive_target@patient.json
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from sysgym.agents.learned.congestion.law import Law
from sysgym.agents.learned.congestion.law_search.laws import SEARCHED_LAWS, law_of_file


def main() -> None:
    """Read, change and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("law", help=f"checkpoint, or {', '.join(SEARCHED_LAWS)}")
    parser.add_argument("out", type=Path)
    parser.add_argument("changes", nargs="*", metavar="NAME=VALUE")
    given = parser.parse_args()
    searched = SEARCHED_LAWS.get(given.law) or law_of_file(given.law)
    names = [constant.name for constant in searched.constants]
    first = Law([constant.value for constant in searched.constants], [], 0, 0, 0.0, {}, {})
    law = first if given.law in SEARCHED_LAWS else searched.form.read(given.law)
    parameters = list(law.parameters)
    for change in given.changes:
        name, _, value = change.partition("=")
        if name not in names:
            parser.error(f"no constant is named {name!r}; there are {', '.join(names)}")
        parameters[names.index(name)] = float(value)
    searched.form.transport(parameters)  # checks the bounds
    searched.form.write(replace(law, parameters=parameters), given.out)


if __name__ == "__main__":
    main()
