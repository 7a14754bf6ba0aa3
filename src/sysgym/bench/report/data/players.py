"""Contenders in a report, with the episodes from which they may learn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from sysgym.bench.report.texts import shown_name
from sysgym.bench.results.rows import Row
from sysgym.errors import UnknownName


@dataclass(frozen=True)
class Player:
    """Contender in a report.

    Attributes:
        name: Name in tables.
        parts: Agent, and transport if there is one.
        learned: Whether the contender plays a checkpoint, which was trained on episodes of a train split.
        privileged: Whether the contender reads more than the observation.
        fitted: Whether the contender needs no checkpoint, but is fitted to episodes of the train split when
            it begins.
        constants: Parameters that are set explicitly, such as ``alpha = 0.25``; empty if they differ between
            the rows.
    """

    name: str
    parts: str
    learned: bool
    privileged: bool
    fitted: bool = False
    constants: str = ""

    @property
    def knows_other_episodes(self) -> bool:
        """Whether the contender learns from episodes other than the one that it plays."""
        return self.learned or self.fitted


def players_of(rows: Sequence[Row], order: Sequence[str]) -> list[Player]:
    """Return the contenders in rows, with privileged references at the end.

    Args:
        rows: Rows of a benchmark.
        order: Names of contenders in the order of the suite.
    """
    found: dict[str, Player] = {}
    for row in rows:
        player = _player(row)
        known = found.setdefault(player.name, player)
        if player.constants != known.constants:  # tuned on several scenarios
            found[player.name] = replace(known, constants="")
    ranks = {name: rank for rank, name in enumerate(order)}
    return sorted(found.values(), key=lambda player: (player.privileged, ranks.get(player.name, len(ranks))))


def _player(row: Row) -> Player:
    who = row.contender
    constants = ", ".join(f"{name} = {value}" for name, value in who.parameters)
    return Player(
        who.name,
        shown_name(who.parts),
        who.learned,
        who.privileged,
        _is_fitted(who.agent, str(row.scenario_resolved.get("family", ""))),
        shown_name(constants) if constants else "",
    )


def _is_fitted(agent: str, family: str) -> bool:
    from sysgym.agents import agent_info

    try:
        return agent_info(agent, family or None).fits_train_split
    except UnknownName:  # an agent of a user's file
        return False
