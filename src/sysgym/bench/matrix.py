"""Generalisation matrices: agents trained on one scenario and tested on another."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from sysgym.scenarios import MatrixSpec, Scenario


def player_name(agent: str, trained_on: str) -> str:
    """Return the name in tables of the policies that were trained on a scenario."""
    return f"{agent} from {trained_on}"


def fits(agent: str, trained_on: Scenario, played: Scenario, action_scale: str = "log") -> bool:
    """Return whether a policy that was trained on one scenario can play another.

    Both scenarios must have the same environment id. A law of single flows, which has its own transport, can
    then play any scenario. A policy that applies one network to every host needs the same features of a
    host. Any other policy needs the same observation, index by index.

    Args:
        agent: Learning agent.
        trained_on: Scenario of its training.
        played: Scenario to play.
        action_scale: Action scale of the training.
    """
    from sysgym.agents import agent_info

    if trained_on.env_id != played.env_id:
        return False
    info = agent_info(agent, played.family)
    if trained_on.sha256() == played.sha256() or info.transport:
        return True
    from sysgym.agents.learned.learning import learning_of
    from sysgym.agents.learned.training.algorithms import is_over_hosts

    learning = learning_of(played.family)
    over_hosts = is_over_hosts(agent, played.family)
    one, other = (
        learning.signature(
            learning.problem(scenario, {"history": 1}, action_scale).observation_index(),
            over_hosts=over_hosts,
        )
        for scenario in (trained_on, played)
    )
    return one == other


@dataclass(frozen=True)
class Matrix:
    """Matrix of a suite, as stored in ``run.json`` and drawn in the report.

    Attributes:
        agent: Learning agent.
        scenarios: Names of the scenarios for training and test, in order.
        floor: Contender whose score is 0.
        bound: Contender whose score is 1.
        score: Quantity compared: ``return`` or a metric.
        split: Split of the test episodes.
        fits: Pairs (trained on, tested on) for which :func:`fits` is true.
        rules: Other contenders that are tested on all scenarios.
    """

    agent: str
    scenarios: tuple[str, ...]
    floor: str
    bound: str
    score: str
    split: str
    fits: frozenset[tuple[str, str]]
    rules: tuple[str, ...] = ()

    @classmethod
    def of(cls, spec: MatrixSpec, scenarios: Sequence[Scenario]) -> Matrix:
        """Return the matrix of a suite."""
        pairs = frozenset(
            (one.name, other.name)
            for one in scenarios
            for other in scenarios
            if fits(spec.agent, one, other, spec.action_scale)
        )
        names = tuple(scenario.name for scenario in scenarios)
        compared = (spec.floor, spec.bound, spec.score, spec.split)
        return cls(spec.agent, names, *compared, pairs, spec.rule_names)

    def to_json(self) -> dict[str, Any]:
        """Return the matrix as JSON data of ``run.json``."""
        lists = {"scenarios": list(self.scenarios), "rules": list(self.rules)}
        return {**vars(self), **lists, "fits": sorted(map(list, self.fits))}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Matrix:
        """Return the matrix from data of :meth:`to_json`."""
        pairs = frozenset((one, other) for one, other in data["fits"])
        # Records written by older versions have no rules.
        tuples = {"scenarios": tuple(data["scenarios"]), "rules": tuple(data.get("rules", ()))}
        return cls(**{**data, **tuples, "fits": pairs})
