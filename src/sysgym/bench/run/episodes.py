"""Single episodes of a benchmark: environment, contender, and the resulting row."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym

from sysgym.agents import Agent, environment_arguments, make_agent
from sysgym.bench.contenders import RESERVED, Contender
from sysgym.bench.energy import DEFAULT, EnergySettings, start_meter
from sysgym.bench.results.queues import QueueWatch
from sysgym.bench.results.rows import Row
from sysgym.bench.results.versions import versions
from sysgym.bench.run.pool import PLAYING
from sysgym.emulator.packets.sizing.estimate import LongEpisode
from sysgym.envs.episodes import check_registered
from sysgym.errors import SysgymError, UnknownName
from sysgym.scenarios.families import families, get_family
from sysgym.scenarios.family import load_entry
from sysgym.scenarios.interrupts import interrupts_deferred

__all__ = ["EpisodeJob", "Played", "make_contender", "play"]


class Played(NamedTuple):
    """Outcome of an episode.

    Attributes:
        total_reward: Sum of rewards.
        steps: Number of decisions.
        info: Info of the last step.
        decision_ms: Mean wall time of the agent's ``act``, ms.
    """

    total_reward: float
    steps: int
    info: dict[str, Any]
    decision_ms: float


@dataclass(frozen=True)
class EpisodeJob:
    """Job that plays one episode.

    Attributes:
        scenario: Resolved scenario.
        scenario_sha256: Digest of the scenario.
        split: Split of the seed.
        contender: Contender; a learned contender has a checkpoint.
        seed: Episode seed.
        folder: Results folder, to which the path of a checkpoint may be relative.
        energy: Measurement of energy.
        keep_queue: Whether to store the queue over time for the report's picture.
    """

    scenario: Mapping[str, Any]
    scenario_sha256: str
    split: str
    contender: Contender
    seed: int
    folder: str
    energy: EnergySettings = DEFAULT
    keep_queue: bool = False

    @property
    def label(self) -> str:
        """Name of the episode in messages."""
        return f"{self.scenario['name']} / {self.contender.name} / {self.split} seed {self.seed}"

    @property
    def cell(self) -> tuple[Any, ...]:
        """:attr:`Row.cell` of the resulting row."""
        return (self.scenario_sha256, self.split, self.contender.identity, self.seed)

    def run(self, report: Callable[[Any], None]) -> Row:
        """Run the episode and return its row.

        Only the beginning of the episode is reported, by :data:`~sysgym.bench.run.pool.PLAYING`.

        Raises:
            UnknownName: If there is no such split.
            SysgymError: If the seed is not in the split, so that the row would be mislabelled.
        """
        splits = self.scenario["splits"]
        if self.split not in splits:
            raise UnknownName("split", self.split, splits)
        first, last = splits[self.split]["seeds"]
        if not first <= self.seed <= last:
            raise SysgymError(f"{self.label}: seed outside the split, which has the seeds {first} to {last}")
        meter = start_meter(self.energy)
        began_s = time.perf_counter()
        env, agent = make_contender(self.scenario, self.split, self.contender, Path(self.folder))
        watch = QueueWatch() if self.keep_queue else None
        report(PLAYING)
        try:
            total, steps, info, decision_ms = play(env, agent, self.seed, watch)
        finally:
            env.close()
        row = Row(
            env_id=self.scenario["env_id"],
            scenario=self.scenario["name"],
            scenario_sha256=self.scenario_sha256,
            scenario_resolved=self.scenario,
            split=self.split,
            contender=self.contender,
            seed=self.seed,
            metrics={name: float(value) for name, value in info["episode_metrics"].items()},
            total_reward=total,
            versions=versions(learned=self.contender.learned),
            wall_s=round(time.perf_counter() - began_s, 3),
            steps=steps,
            decision_ms=round(decision_ms, 6),
            energy=meter.read(),
        )
        if watch is not None:
            watch.write(Path(self.folder), row)
        return row


def compile_for_workers(names: Iterable[str]) -> None:
    """Compile code that is not in the cache, so that not every worker compiles it.

    Args:
        names: Families of the episodes. Families of plugins that only workers load are ignored.
    """
    known = families()
    entries = {known[name].compile for name in names if name in known}
    with interrupts_deferred():  # an interrupt in one of the compiler's destructors would be lost
        for entry in sorted(entries - {""}):
            load_entry(entry)()


def make_contender(
    scenario: Mapping[str, Any],
    split: str,
    contender: Contender,
    folder: Path | None = None,
    render_mode: str | None = None,
    backend: str | None = None,
) -> tuple[gym.Env[Any, Any], Agent]:
    """Make an environment, with the contender's transport if there is one, and the contender's agent.

    Args:
        scenario: Resolved scenario.
        split: Split of the episodes.
        contender: Contender.
        folder: Folder to which the path of the checkpoint is relative.
        render_mode: Render mode of the environment.
        backend: Backend of the environment; None: its default.

    Raises:
        UnknownName: If there is no such environment.
        SysgymError: If the checkpoint is missing or invalid, or the environment cannot be made.
    """
    check_registered(scenario["env_id"])
    family = get_family(scenario["family"])
    constants, parameters = contender.parameters_of(family.transports)
    if reserved := RESERVED & parameters.keys():
        raise SysgymError(
            f"{contender.name}: {', '.join(sorted(reserved))} cannot be a parameter of an agent"
        )
    agent = make_agent(
        contender.agent,
        checkpoint=contender.checkpoint_path(folder),
        family=scenario["family"],
        trust=contender.trusted,
        **parameters,
    )
    arguments = {**family.agent_arguments(scenario["env_id"]), **environment_arguments(agent)}
    # The return in a row is that of the scenario's reward, even if the agent was trained with another reward.
    arguments.pop("reward", None)
    if family.transports is not None:
        name = contender.transport
        law = family.transports.with_constants(name, constants) if constants else name
        arguments.setdefault("transport", law)  # unless the agent has its own transport
    arguments |= {} if backend is None else {"backend": backend}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", LongEpisode)  # the command has printed an estimate already
        # The environment checker tests every step, which costs time and serves only authors of environments.
        try:
            env = gym.make(
                scenario["env_id"],
                scenario=scenario,
                split=split,
                render_mode=render_mode,
                disable_env_checker=True,
                **arguments,
            )
        except UnknownName as error:
            if error.name in environment_arguments(agent) and error.kind.startswith("argument of "):
                raise _other_environment(contender, agent, scenario, error.name) from error
            raise
    return env, agent


def _other_environment(
    contender: Contender, agent: Agent, scenario: Mapping[str, Any], argument: str
) -> SysgymError:
    """Return the error for an agent that needs an argument which the scenario's environment lacks."""
    trained = getattr(getattr(agent, "meta", None), "env_id", "another environment")
    value = environment_arguments(agent)[argument]
    return SysgymError(
        f"{contender.name}: its agent plays {trained}, with {argument} = {value!r}; the scenario"
        f" {scenario['name']} is for {scenario['env_id']}, which has no such argument: choose a scenario for"
        f" {trained} (sysgym list scenarios)"
    )


def play(
    env: gym.Env[Any, Any],
    agent: Agent,
    seed: int,
    each_step: Callable[[int, dict[str, Any]], None] | None = None,
) -> Played:
    """Play one episode.

    Args:
        env: Environment.
        agent: Agent.
        seed: Episode seed.
        each_step: Callback that receives the number and the info of every step.

    Raises:
        SysgymError: If the last info of the environment has no metrics of the episode.
    """
    observation, info = env.reset(seed=seed, options={"episode_seed": seed})
    agent.begin(env)
    total, steps, over, deciding_ns = 0.0, 0, False, 0
    while not over:
        began_ns = time.perf_counter_ns()
        action = agent.act(observation)
        deciding_ns += time.perf_counter_ns() - began_ns
        observation, reward, terminated, truncated, info = env.step(action)
        total += float(reward)
        steps += 1
        over = terminated or truncated
        if each_step is not None:
            each_step(steps, info)
    if "episode_metrics" not in info:
        raise SysgymError(f"{env.unwrapped}: the info of the last step has no episode_metrics")
    return Played(total, steps, info, deciding_ns / 1e6 / steps)
