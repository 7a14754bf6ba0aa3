"""Trained policies included in the package, each with a model card.

They are in ``agents/checkpoints/``. For example, ``neural.json`` plays many scenarios, and
``ppo@iroko-dumbbell-10m.zip`` only the scenario in its name. The model card is in the same folder, with the
same name and the suffix ``.md``.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

FOLDER = Path(__file__).parents[1] / "checkpoints"
ENDINGS = (".json", ".zip")
"""Suffixes of the checkpoints of laws and of networks."""


@dataclass(frozen=True)
class Shipped:
    """Trained policy included in the package.

    Attributes:
        path: The checkpoint.
    """

    path: Path

    @property
    def name(self) -> str:
        """Name in lists: the agent, followed by @ and the scenario if it plays only one."""
        return self.path.stem

    @property
    def agent(self) -> str:
        """Name of the agent."""
        return self.name.partition("@")[0]

    @property
    def scenario(self) -> str:
        """Name of the only scenario that it plays; empty if it plays several."""
        return self.name.partition("@")[2]

    @property
    def card(self) -> str:
        """Model card in Markdown: description, training, results and limitations."""
        return self.path.with_suffix(".md").read_text(encoding="utf-8")

    @property
    def title(self) -> str:
        """First line of the card."""
        return self.card.partition("\n")[0].removeprefix("# ")


def list_shipped() -> list[Shipped]:
    """Return all included policies, sorted by name."""
    return [Shipped(path) for path in sorted(FOLDER.glob("*")) if path.suffix in ENDINGS]


def named_checkpoint(given: Path) -> Path:
    """Return a file, or the checkpoint of the included policy of that name if there is no such file.

    Args:
        given: Path of a file, or name of a policy in :func:`list_shipped`.
    """
    if given.exists():
        return given
    return next((one.path for one in list_shipped() if one.name == str(given)), given)


def shipped_checkpoint(agent: str, scenario: str = "", *, only: bool = False) -> Path | None:
    """Return the included checkpoint of an agent for a scenario, or its general one; None without either.

    Args:
        agent: Name of the agent.
        scenario: Name of the scenario.
        only: Whether to ignore the general checkpoint.
    """
    of_agent = {one.scenario: one.path for one in list_shipped() if one.agent == agent}
    return of_agent.get(scenario, None if only else of_agent.get(""))
