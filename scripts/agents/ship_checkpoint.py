"""Add a trained policy to those in the package, without the data for resuming its training.

python scripts/agents/ship_checkpoint.py results/beyond-dctcp/training/neural-incast-32-seed2/final.json
python scripts/agents/ship_checkpoint.py runs/hosts/final.zip --for-scenario

Then write its card, the file of the same name with ``.md``: description, training, figures with the command
that prints them, and limits.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from sysgym.agents.learned.checkpoint import read_checkpoint, write_checkpoint
from sysgym.agents.learned.congestion.law_search.laws import law_of_file
from sysgym.agents.learned.congestion.neural.agent import FORM as NEURAL
from sysgym.agents.learned.shipped import FOLDER
from sysgym.scenarios.errors import SysgymError
from sysgym.scenarios.files import parse_json, read_limited

LARGEST_BYTES = 200_000


def main() -> None:
    """Write the file and say which card is missing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("checkpoint", type=Path)
    parser.add_argument(
        "--for-scenario", action="store_true", help="it plays the scenario it learned on, alone"
    )
    given = parser.parse_args()
    FOLDER.mkdir(exist_ok=True)
    path = _law(given.checkpoint) if given.checkpoint.suffix == ".json" else _network(**vars(given))
    if path.stat().st_size > LARGEST_BYTES:
        raise SysgymError(
            f"{path}: {path.stat().st_size} bytes; shipped policies have {LARGEST_BYTES} at most"
        )
    card = path.with_suffix(".md")
    print(f"{path}, {path.stat().st_size} bytes" + ("" if card.is_file() else f"; now write {card}"))


def _law(checkpoint: Path) -> Path:
    agent = parse_json(read_limited(checkpoint, LARGEST_BYTES)).get("agent")
    form = NEURAL if agent == NEURAL.agent else law_of_file(checkpoint).form
    path = FOLDER / f"{form.agent}.json"
    form.write(form.read(checkpoint), path)
    return path


def _network(checkpoint: Path, for_scenario: bool) -> Path:
    found = read_checkpoint(checkpoint)
    if found.policy is None:
        raise SysgymError(f"{checkpoint}: its policy is no plain network; it would need torch to play")
    name = f"{found.meta.agent}@{found.meta.scenario_name}" if for_scenario else found.meta.agent
    path = FOLDER / f"{name}.zip"
    write_checkpoint(path, found.meta, found.policy, b"")
    return path


if __name__ == "__main__":
    main()
