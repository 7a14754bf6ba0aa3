"""Make the labs' starters from their masters: solutions are cut out.

    python scripts/labs/make_labs.py

Reads ``labs/*.py`` and writes ``src/sysgym/labs/starters/*.py.txt``. A test requires that they
are up to date.
"""

from __future__ import annotations

from pathlib import Path

from sysgym.labs.exercises import starter_of

ROOT = Path(__file__).resolve().parents[2]
STARTERS = ROOT / "src" / "sysgym" / "labs" / "starters"


def starters() -> dict[Path, str]:
    """Return path -> text of every starter."""
    return {
        STARTERS / f"{master.name}.txt": starter_of(master.read_text(encoding="utf-8"))
        for master in sorted((ROOT / "labs").glob("*.py"))
    }


def main() -> None:
    """Write the starters."""
    for path, text in starters().items():
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
