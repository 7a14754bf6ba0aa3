"""Trained policies that come with the package, each with a card that says what it is good for.

They lie in ``agents/checkpoints/``: ``neural.json`` plays in many scenarios, ``ppo@iroko-dumbbell-10m.zip``
in the one that it is named after. The card lies beside it, with the same name and ``.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "checkpoints"
ENDINGS = (".json", ".zip")
"""Of checkpoints: a law's, and a network's."""


@dataclass(frozen=True)
class Shipped:
    """A trained policy of the package.

    Attributes:
        path: The checkpoint.
    """

    path: Path

    @property
    def name(self) -> str:
        """How lists call it: the agent, and behind an @ the scenario if it is for one alone."""
        return self.path.stem

    @property
    def agent(self) -> str:
        """Whose checkpoint it is."""
        return self.name.partition("@")[0]

    @property
    def scenario(self) -> str:
        """The one scenario that it plays; empty where it plays several."""
        return self.name.partition("@")[2]

    @property
    def card(self) -> str:
        """What it is, what it was trained on, how good it is, what it is not for; Markdown."""
        return self.path.with_suffix(".md").read_text(encoding="utf-8")

    @property
    def title(self) -> str:
        """First line of the card."""
        return self.card.partition("\n")[0].removeprefix("# ")


def list_shipped() -> list[Shipped]:
    """Return all, by name."""
    return [Shipped(path) for path in sorted(FOLDER.glob("*")) if path.suffix in ENDINGS]


def shipped_checkpoint(agent: str, scenario: str = "") -> Path | None:
    """Return the checkpoint of an agent for a scenario, else the one for many; None if there is neither."""
    of_agent = {one.scenario: one.path for one in list_shipped() if one.agent == agent}
    return of_agent.get(scenario, of_agent.get(""))
