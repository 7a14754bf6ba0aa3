"""Write a law of the agent adaptive_target with other constants, to see what one of them does.

python scripts/law_variant.py first before.json                 # the constants before any search
python scripts/law_variant.py LAW.json patient.json patience=16
sysgym run fattree-k4-websearch --contender adaptive_target@patient.json
"""

from __future__ import annotations

import argparse
from dataclasses import replace
from pathlib import Path

from sysgym.agents.learned.congestion.adaptive_target.agent import FORM
from sysgym.agents.learned.congestion.law import Law
from sysgym.emulator.packets.transports.adaptive_target import CONSTANTS

NAMES = [constant.name for constant in CONSTANTS]


def main() -> None:
    """Read, change and write."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("law", help="checkpoint, or first")
    parser.add_argument("out", type=Path)
    parser.add_argument("changes", nargs="*", metavar="NAME=VALUE")
    given = parser.parse_args()
    first = Law([constant.value for constant in CONSTANTS], [], 0, 0, 0.0, {}, {})
    law = first if given.law == "first" else FORM.read(given.law)
    parameters = list(law.parameters)
    for change in given.changes:
        name, _, value = change.partition("=")
        if name not in NAMES:
            parser.error(f"no constant is named {name!r}; there are {', '.join(NAMES)}")
        parameters[NAMES.index(name)] = float(value)
    FORM.transport(parameters)  # checks the bounds
    FORM.write(replace(law, parameters=parameters), given.out)


if __name__ == "__main__":
    main()
