"""Study of robustness: agreement of a deployed policy (twin) with the trained one, also under attack.

The study measures, on the policy's observations in held-out episodes: agreement on unchanged observations and
under random noise within measurement error; how often an attack finds errors of this size that change the
twin's action and not the original's; and the effect on returns. Intervals are bootstrap intervals over
episodes, because observations of one episode are correlated.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.checkpoint import Checkpoint, read_checkpoint
from sysgym.agents.learned.deploy.graph import PolicyGraph
from sysgym.agents.learned.learning import agent_that
from sysgym.agents.learned.trust.attacks import ATTACKS, Found, Pair, Tolerance
from sysgym.agents.learned.trust.bounds import Bounds
from sysgym.agents.learned.trust.policies import int8_of, play_seeds, policy_of, watch
from sysgym.bench.contenders import file_sha256
from sysgym.bench.results.versions import machine, versions
from sysgym.bench.statistics import FloatArray, Interval, estimate, mean, paired_difference
from sysgym.errors import SysgymError
from sysgym.scenarios import scenario_from_resolved

FORMAT = 1
INT8 = "int8"
GATE = 0.99
"""Least agreement under random noise that a twin needs to be deployed."""

IN_THE_LOOP = ("undisturbed", "random", "diva")
Tell = Callable[[str, int, int], None]
"""Callback with the current phase, the number of finished parts and the number of all parts."""


@dataclass(frozen=True)
class Settings:
    """Settings of the study.

    Attributes:
        split: Split of the episodes.
        n_episodes: Number of episodes, from the split's first seeds.
        n_observations: Number of observations to attack, evenly from all episodes.
        every: Period of attacked decisions in episodes; 0: no attacked episodes.
        bounds: Factor by which all bounds are multiplied.
        tolerance: Tolerance within which actions count as equal.
        c: Weight, in DIVA's loss, of leaving the original's action unchanged.
        seed: Seed of the noise.
    """

    split: str = "test"
    n_episodes: int = 10
    n_observations: int = 1000
    every: int = 10
    bounds: float = 1.0
    tolerance: Tolerance = field(default_factory=Tolerance)
    c: float = 1.0
    seed: int = 0


@dataclass(frozen=True)
class Attacked:
    """Result of one attack, as shares of the observations on which original and twin agree.

    Attributes:
        name: Name of the attack.
        shifted: Share with a changed action of the twin.
        unchanged: Share with an unchanged action of the original.
        evades: Share with both.
        gap_mean: Mean change of the twin's action minus that of the original's, relative to the range; for
            discrete actions, a difference of shares of observations.
        gap_max: Largest such difference.
    """

    name: str
    shifted: Interval
    unchanged: Interval
    evades: Interval
    gap_mean: float
    gap_max: float


@dataclass(frozen=True)
class Played:
    """Episodes of one policy under one disturbance.

    Attributes:
        policy: ``original`` or ``twin``.
        disturbance: One of IN_THE_LOOP.
        episode_return: Mean return.
        loss: Undisturbed return minus this one, paired by episode.
    """

    policy: str
    disturbance: str
    episode_return: Interval
    loss: Interval


@dataclass(frozen=True)
class Robustness:
    """Results of the study.

    Attributes:
        about: Policies, settings and software.
        discrete: Whether the actions are discrete.
        bounds: Kind of feature -> bound in words, half-width at 0 and at 1.
        n_observations: Number of observations.
        n_agreeing: Number of observations on which original and twin agree.
        agreement: Agreement on unchanged observations.
        agreement_noisy: Agreement under random noise.
        difference_max: Largest difference of actions on unchanged observations.
        attacks: Results by attack; empty if original and twin agree on no observation.
        episodes: Results of episodes with attacked decisions.
    """

    about: Mapping[str, Any]
    discrete: bool
    bounds: Mapping[str, tuple[str, float, float]]
    n_observations: int
    n_agreeing: int
    agreement: Interval
    agreement_noisy: Interval
    difference_max: float
    attacks: tuple[Attacked, ...]
    episodes: tuple[Played, ...]

    @property
    def passes(self) -> bool:
        """Whether the twin agrees under random noise at least as often as :data:`GATE` requires."""
        return self.agreement_noisy.value >= GATE

    def to_json(self) -> dict[str, Any]:
        """Return the results as JSON data."""
        return {"format": FORMAT, "gate": GATE, "passes": self.passes, **asdict(self)}


def open_twin(original: Checkpoint, twin: str) -> tuple[PolicyGraph, str]:
    """Return a policy's twin and the digest of its file, which is empty for ``int8``.

    Args:
        original: The policy.
        twin: ``int8``, or the path of a checkpoint with the same observations and actions, such as a student.

    Raises:
        SysgymError: The twin cannot be read, or has other observations or actions.
    """
    if twin == INT8:
        return int8_of(policy_of(original)), ""
    found = read_checkpoint(twin)
    for what in ("env_id", "observation_index", "action_scale"):
        if getattr(found.meta, what) != getattr(original.meta, what):
            raise SysgymError(f"{twin}: no twin of {original.path}, its {what.replace('_', ' ')} differs")
    return policy_of(found), file_sha256(Path(twin))


def examine(
    checkpoint: str | Path, twin: str = INT8, settings: Settings | None = None, tell: Tell | None = None
) -> Robustness:
    """Test the twin of a policy.

    Args:
        checkpoint: Checkpoint of the trained policy.
        twin: As in :func:`open_twin`.
        settings: Settings of the study.
        tell: Callback of progress.

    Raises:
        SysgymError: Policy or twin cannot be tested, or the split has too few seeds.
    """
    settings, tell = settings or Settings(), tell or (lambda words, done, of: None)
    original = read_checkpoint(checkpoint)
    meta = original.meta
    bounds = Bounds.of(meta.env_id, meta.observation_index, settings.bounds)
    graph_twin, twin_sha256 = open_twin(original, twin)
    pair = Pair(policy_of(original), graph_twin, bounds, settings.tolerance, settings.c)
    seeds = _seeds(original, settings)
    tell("recording observations", 0, 1)
    seen = watch(original, settings.split, seeds).thinned(settings.n_observations)
    rng = np.random.default_rng(settings.seed)
    agree = pair.agree(seen.inputs)
    noisy = pair.agree(pair.noisy(seen.inputs, rng))
    attacks = []
    for number, name in enumerate(ATTACKS if agree.any() else ()):
        tell(f"attack {name}", number, len(ATTACKS))
        found = pair.attack(name, seen.inputs[agree], rng)
        attacks.append(_attacked(name, found, seen.episode[agree], pair))
    return Robustness(
        about={
            "checkpoint": str(checkpoint),
            "checkpoint_sha256": file_sha256(Path(checkpoint)),
            "twin": twin,
            "twin_sha256": twin_sha256,
            "agent": meta.agent,
            "scenario": meta.scenario_name,
            "settings": asdict(settings),
            "versions": versions(learned=True),
            "machine": machine(),
        },
        discrete=pair.discrete,
        bounds={
            group: (bound.words, *(settings.bounds * bound.half_width(np.array([0.0, 1.0]))).tolist())
            for group, bound in bounds.table.items()
        },
        n_observations=len(agree),
        n_agreeing=int(agree.sum()),
        agreement=_rate(agree, seen.episode),
        agreement_noisy=_rate(noisy, seen.episode),
        difference_max=float(pair.apart(seen.inputs).max()),
        attacks=tuple(attacks),
        episodes=_in_the_loop(original, pair, seeds, settings, tell) if settings.every else (),
    )


def _seeds(original: Checkpoint, settings: Settings) -> range:
    first, last = scenario_from_resolved(original.meta.scenario).splits[settings.split].seeds
    if settings.n_episodes > last - first + 1:
        raise SysgymError(
            f"--episodes: got {settings.n_episodes}, but the split {settings.split} has only"
            f" {last - first + 1} seeds"
        )
    return range(first, first + settings.n_episodes)


def _rate(flags: NDArray[np.bool_], episode: NDArray[np.int64]) -> Interval:
    """Return the share of true flags, with all episodes weighted equally."""
    each = [float(flags[episode == number].mean()) for number in np.unique(episode)]
    return estimate(np.array([each]), statistic=mean)


def _attacked(name: str, found: Found, episode: NDArray[np.int64], pair: Pair) -> Attacked:
    tolerance = Tolerance(0.0, 0.0) if pair.discrete else pair.tolerance
    gap = found.twin - found.original
    return Attacked(
        name,
        shifted=_rate(found.twin > tolerance.shifted, episode),
        unchanged=_rate(found.original <= tolerance.same, episode),
        evades=_rate(found.evades, episode),
        gap_mean=float(gap.mean()),
        gap_max=float(gap.max()),
    )


def _in_the_loop(
    original: Checkpoint, pair: Pair, seeds: range, settings: Settings, tell: Tell
) -> tuple[Played, ...]:
    played: list[Played] = []
    total = 2 * len(IN_THE_LOOP) * len(seeds)
    for policy, graph in (("original", pair.original), ("twin", pair.twin)):
        clean: FloatArray | None = None
        for disturbance in IN_THE_LOOP:
            disturbed = _Disturbed(pair, graph, disturbance, settings)
            done = len(played) * len(seeds)

            def begin(
                number: int, disturbed: _Disturbed = disturbed, done: int = done, words: str = disturbance
            ) -> None:
                tell(f"episodes, {words}", done + number, total)
                disturbed.begin(number)

            agent = agent_that(original, disturbed)
            returns = play_seeds(original, agent, settings.split, seeds, begin)[None]
            clean = returns if clean is None else clean
            loss = paired_difference(clean, returns, statistic=mean)
            played.append(Played(policy, disturbance, estimate(returns, statistic=mean), loss))
    return tuple(played)


class _Disturbed:
    """Policy that receives every k-th observation with an error."""

    def __init__(self, pair: Pair, graph: PolicyGraph, disturbance: str, settings: Settings) -> None:
        self._pair, self._network = pair, graph.network
        self._disturbance, self._settings = disturbance, settings
        self.begin(0)

    def begin(self, episode: int) -> None:
        self._rng = np.random.default_rng([self._settings.seed, episode])
        self._decisions = 0

    def __call__(self, observation: NDArray[Any]) -> NDArray[Any]:
        values = np.asarray(observation, dtype=np.float32)
        self._decisions += 1
        if self._disturbance != "undisturbed" and self._decisions % self._settings.every == 0:
            rows = np.atleast_2d(values)
            if self._disturbance == "random":
                rows = self._pair.noisy(rows, self._rng)
            else:
                rows = self._pair.attack(self._disturbance, rows, self._rng).inputs
            values = rows.reshape(values.shape)
        return self._network(values)
