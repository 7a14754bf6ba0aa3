r"""Write docs/leaderboard.md from results/entries, make an entry from a results folder, or complete one.

python scripts/pages/leaderboard.py
python scripts/pages/leaderboard.py neighbours results/neighbours-dumbbell-10g results/entries/contest/mine
python scripts/pages/leaderboard.py pack results/quick results/entries/quick/mine \
    --title "Mine" --by "Me" --contenders ppo
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from sysgym.bench.leaderboard.entries import pack, read_entry
from sysgym.bench.leaderboard.neighbours import COMMAND, add_rows
from sysgym.bench.leaderboard.ranking import write_page
from sysgym.errors import SysgymError
from sysgym.studies.kept_rows import packed_name
from sysgym.studies.neighbours import ROWS

ROOT = Path(__file__).resolve().parents[2]


def main() -> None:
    """Read the command line and do it."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    commands = parser.add_subparsers(dest="command")
    packing = commands.add_parser("pack", help="make an entry of a results folder")
    packing.add_argument("results", type=Path)
    packing.add_argument("entry", type=Path)
    packing.add_argument("--title", required=True)
    packing.add_argument("--by", required=True)
    packing.add_argument("--contenders", nargs="+", required=True, help="who enters")
    packing.add_argument("--plugins", nargs="*", type=Path, default=[], help="files that the rows need")
    adding = commands.add_parser("neighbours", help="store rows of sysgym study neighbours in an entry")
    adding.add_argument("results", type=Path)
    adding.add_argument("entry", type=Path)
    given = parser.parse_args()
    try:
        if given.command == "pack":
            who = {"title": given.title, "by": given.by, "contenders": given.contenders}
            who["plugins"] = given.plugins
            print(f"{given.entry}; now write {pack(given.results, given.entry, **who)}")
        elif given.command == "neighbours":
            entry = read_entry(given.entry)
            rows = entry.benchmark.rows
            own = [row.contender for row in rows if row.contender.name in entry.contenders]
            if not add_rows(given.results, given.entry, own):
                raise SysgymError(
                    f"{given.results}: no rows of {', '.join(entry.contenders)} beside the laws of the"
                    f" contest; make them with {COMMAND}"
                )
            print(packed_name(given.entry / ROWS))
        else:
            print(write_page(ROOT))
    except SysgymError as error:
        sys.exit(f"error: {error}")


if __name__ == "__main__":
    main()
