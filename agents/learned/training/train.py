"""Training with stable-baselines3 on the train split of a scenario, with checkpoints and resuming.

The folder of a run contains:

- ``checkpoints/step_000040960.zip`` etc.; off-policy algorithms also store a ``.replay.npz`` for each of the
  two newest checkpoints;
- ``final.zip``, ``progress.csv`` and ``tensorboard/``;
- ``.lock``, which is held by one process at a time.

No file contains pickles.
"""

from __future__ import annotations

import inspect
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from importlib import import_module
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from sysgym.agents.learned.learning import problem_of
from sysgym.agents.learned.training.algorithms import (
    ACTION_NOISE_STD,
    ALGORITHMS,
    EXTRA,
    FINAL_LEARNING_RATE,
    Algorithm,
    get_algorithm,
    has_algorithm,
)
from sysgym.agents.learned.training.folders import in_use
from sysgym.agents.learned.training.progress import Progress, telling
from sysgym.agents.learned.training.run import CHECKPOINT_FOLDER, Training
from sysgym.agents.registry import agent_info, list_agents
from sysgym.envs.episodes import check_registered
from sysgym.scenarios import Scenario, get_family, load_scenario
from sysgym.scenarios.errors import MissingExtra, SysgymError, UnknownName
from sysgym.scenarios.files import write_atomically
from sysgym.scenarios.locks import alone_in

FINAL = "final.zip"
CHECKPOINTS_A_RUN = 10
"""Approximate number of checkpoints of a run if ``checkpoint_every`` is not given."""

_TRAINS = "trains in"
"""Activity of the process that holds the lock of a run's folder, for the error message."""

_CHECKPOINT_NAME = re.compile(r"step_(\d+)\.zip")


def train(
    agent: str,
    scenario: str | PathLike[str] | Scenario,
    *,
    total_steps: int,
    out: str | PathLike[str],
    seed: int = 0,
    n_envs: int = 4,
    resume: bool = False,
    hyper_parameters: Mapping[str, Any] | None = None,
    overrides: Mapping[str, Any] | None = None,
    features: Sequence[str] | None = None,
    history: int = 1,
    reward: str | None = None,
    action_scale: str = "log",
    checkpoint_every: int | None = None,
    n_threads: int = 1,
    progress: Progress = False,
) -> Path:
    """Train an agent on the train split of a scenario.

    The same arguments on the same machine give a bit-identical policy, with or without interruption. After
    Ctrl-C, the rollout is completed and a checkpoint is written before the exception is raised; a second
    Ctrl-C interrupts immediately. Broken checkpoints are skipped with a warning.

    Args:
        agent: Learning algorithm, such as ``ppo``.
        scenario: Scenario, or its name or file.
        total_steps: Environment steps, including those of earlier sessions; rounded up to whole rollouts.
        out: Folder of the run.
        seed: Seed of all random numbers.
        n_envs: Number of parallel environments, in one process.
        resume: Whether to resume from the newest checkpoint in ``out``, if there is one.
        hyper_parameters: Hyper-parameters that replace the environment's discount factor and the defaults in
            :mod:`sysgym.agents.learned.training.algorithms`.
        overrides: Values of the scenario to replace, by dotted key.
        features: Feature groups of the observation; None: the agent's own, or the environment's default.
        history: Intervals in the observation.
        reward: Name of the reward; None: the scenario's.
        action_scale: ``"log"`` or ``"linear"``.
        checkpoint_every: Environment steps between checkpoints; None: a tenth of ``total_steps``.
        n_threads: Threads of torch. Small networks are slower with several threads, and a benchmark trains
            one agent per core.
        progress: True for a bar in the terminal, or a callback with the number of steps done.

    Returns:
        Path of the final checkpoint.

    Raises:
        MissingExtra: If the extra ``train`` is not installed.
        UnknownName: If there is no such agent, scenario, hyper-parameter, feature or reward.
        SysgymError: If the algorithm does not support the actions of the scenario, a setting does not apply
            to the scenario or agent, ``resume`` finds a checkpoint of another training run, ``out`` holds a
            run and ``resume`` is not set, another process trains in ``out``, or a hyper-parameter cannot be
            stored in a checkpoint.
    """
    resolved = _resolve(scenario, overrides)
    check_registered(resolved.env_id)
    own_trainer = _own_trainer(agent, resolved)
    if own_trainer:
        settings = {"features": features, "history": history, "reward": reward, "action_scale": action_scale}
        _check_none_is_set(agent, settings)
        chosen = dict(hyper_parameters or {})
        return _train_by(own_trainer, agent, resolved, total_steps, Path(out), seed, resume, progress, chosen)
    algorithm = get_algorithm(agent)
    chosen = {**_discount(resolved), **(hyper_parameters or {})}
    arguments = algorithm.arguments(chosen)
    env_kwargs: dict[str, Any] = {"history": history}
    most = algorithm.episode_steps
    if most is not None and resolved.resolved().get("control", {}).get("episode_steps", 0) > most:
        resolved = resolved.with_overrides({"control.episode_steps": most})
    if algorithm.action_scale not in (None, action_scale):
        raise SysgymError(
            f'"{agent}" learns on the scale "{algorithm.action_scale}" of rates, got "{action_scale}";'
            f" use --action-scale {algorithm.action_scale}"
        )
    if algorithm.features is not None:
        if features is not None and tuple(features) != algorithm.features:
            raise SysgymError(f'"{agent}" observes {", ".join(algorithm.features)}, and no other features')
        features = algorithm.features
    env_kwargs |= {"features": list(features)} if features is not None else {}
    env_kwargs |= {"reward": reward} if reward is not None else {}
    training = Training(
        algorithm=algorithm,
        scenario=resolved,
        problem=problem_of(resolved, env_kwargs, action_scale, over_hosts=algorithm.over_hosts),
        seed=seed,
        n_envs=n_envs,
        hyper_parameters=_as_json(chosen),
        folder=Path(out),
    )
    if training.problem.discrete_actions and not algorithm.discrete_actions:
        able = [name for name, other in ALGORITHMS.items() if other.discrete_actions]
        raise SysgymError(
            f'{resolved.name}: its actions are discrete, which "{agent}" cannot learn; '
            f"use one of {', '.join(able)}"
        )
    shape = training.problem.set_shape
    if algorithm.masks and shape is None:
        raise SysgymError(
            f'{resolved.name}: "{agent}" requires an environment that forbids some actions;'
            " this one forbids none"
        )
    if algorithm.over_sets and shape is not None:
        arguments["policy_kwargs"] = {**arguments["policy_kwargs"], "set_shape": asdict(shape)}
    every = checkpoint_every or max(total_steps // CHECKPOINTS_A_RUN, 1)
    with alone_in(training.folder, _TRAINS):
        found = checkpoints_in(out)
        if found and not resume:
            raise in_use(training.folder)
        return _run(training, arguments, total_steps, found, every, n_threads, progress)


def _discount(scenario: Scenario) -> dict[str, float]:
    """Return the discount factor declared by the scenario's environment; empty: the algorithm's is used."""
    environment = get_family(scenario.family).environment(scenario.env_id)
    if environment is None or environment.discount is None:
        return {}
    return {"gamma": environment.discount}


def _own_trainer(agent: str, scenario: Scenario) -> str:
    """Return the entry point of an agent's own trainer; empty if stable-baselines3 trains it.

    Raises:
        UnknownName: If there is no such agent or it cannot be trained. The message lists those that can be
            trained on this scenario.
    """
    try:
        info = agent_info(agent, scenario.family)
    except UnknownName:
        info = None
    if info is not None and (info.trainer or has_algorithm(info)):
        return info.trainer
    transports = get_family(scenario.family).transports
    kind = "an agent" if info else "a transport" if transports and agent in transports.names() else ""
    able = _trainable(scenario)
    listing = f"it is {kind} of which nothing is trained; " if kind else ""
    listing += f"on {scenario.name}: {', '.join(able)}"
    raise UnknownName("learning algorithm", agent, able, listing=listing)


def _trainable(scenario: Scenario) -> list[str]:
    """Return the names of the agents that can be trained on a scenario."""
    family = scenario.family
    infos = [agent_info(name, family) for name in list_agents(family)]
    fitting = [info for info in infos if info.learned and info.env_id in ("", scenario.env_id)]
    problem = problem_of(scenario, {}, "log")

    def suits(algorithm: Algorithm) -> bool:
        able = algorithm.discrete_actions or not problem.discrete_actions
        return able and not (algorithm.masks and problem.set_shape is None)

    return [
        info.short_name
        for info in fitting
        if info.trainer or (has_algorithm(info) and suits(get_algorithm(info.short_name)))
    ]


def _check_none_is_set(agent: str, settings: Mapping[str, Any]) -> None:
    """Raise SysgymError if a setting of environments differs from its default."""
    defaults = inspect.signature(train).parameters
    for name, value in settings.items():
        if value != defaults[name].default:
            raise SysgymError(f'{name} is {value!r}, but "{agent}" has its own trainer, without that setting')


_COMMON_ARGUMENTS = frozenset(("scenario", "total_steps", "out", "seed", "progress", "resume", "source"))


def _train_by(
    trainer: str,
    agent: str,
    scenario: Scenario,
    total_steps: int,
    out: Path,
    seed: int,
    resume: bool,
    progress: Progress,
    hyper_parameters: Mapping[str, Any],
) -> Path:
    """Train an agent that has its own trainer; the trainer's other arguments are hyper-parameters."""
    module, _, function = trainer.partition(":")
    train_it = getattr(import_module(module), function)
    taken = set(inspect.signature(train_it).parameters)
    for name in hyper_parameters:
        if name not in taken - _COMMON_ARGUMENTS:
            raise UnknownName(f"hyper-parameter of {agent}", name, taken - _COMMON_ARGUMENTS)
    can_resume = {"resume": resume} if "resume" in taken else {}
    with alone_in(out, _TRAINS), telling(progress, f"{agent} on {scenario.name}", total_steps) as told:
        if (out / FINAL).exists() and not resume:
            raise in_use(out, can_resume=bool(can_resume))
        path: Path = train_it(
            scenario,
            total_steps=total_steps,
            out=out,
            seed=seed,
            progress=told,
            **can_resume,
            **hyper_parameters,
        )
    return path


def checkpoints_in(folder: str | PathLike[str]) -> list[Path]:
    """Return the checkpoints in the folder of a run, in decreasing order of steps."""
    found = [
        (int(match[1]), path)
        for path in (Path(folder) / CHECKPOINT_FOLDER).glob("step_*.zip")
        if (match := _CHECKPOINT_NAME.fullmatch(path.name))
    ]
    return [path for _, path in sorted(found, reverse=True)]


def _run(
    training: Training,
    arguments: dict[str, Any],
    total_steps: int,
    checkpoints: list[Path],
    checkpoint_every: int,
    n_threads: int,
    progress: Progress,
) -> Path:
    try:
        import torch

        import_module("stable_baselines3")
        import_module("tensorboard")  # stable-baselines3 imports it later, for its log
    except ImportError as error:
        raise MissingExtra(EXTRA, "training") from error
    from sysgym.agents.learned.training.recording import Recording
    from sysgym.agents.learned.training.resuming import go_on

    torch.set_num_threads(n_threads)
    envs = training.problem.envs(training.n_envs, training.seed)
    try:
        model, resumed = go_on(training, lambda: _new_model(training, arguments, envs), checkpoints)
        recording = Recording(training, total_steps, checkpoint_every, progress, resumed)
        if model.num_timesteps < total_steps:
            with recording:
                # stable-baselines3 counts steps from the current one.
                model.learn(
                    total_steps - model.num_timesteps,
                    callback=recording,
                    tb_log_name=training.algorithm.name,
                    reset_num_timesteps=False,
                )
            path = recording.save(in_rollout=False)
        else:
            path = training.checkpoint_path(model.num_timesteps)
    finally:
        envs.close()
    final = training.folder / FINAL
    write_atomically(final, path.read_bytes())
    return final


def _new_model(training: Training, arguments: Mapping[str, Any], envs: Any) -> Any:
    # stable-baselines3 seeds torch and everything else that it uses.
    arguments = dict(arguments)
    if deviation := arguments.pop(ACTION_NOISE_STD, 0.0):
        from stable_baselines3.common.noise import NormalActionNoise

        size = envs.action_space.shape[0]
        arguments["action_noise"] = NormalActionNoise(np.zeros(size), np.full(size, deviation))
    if (final := arguments.pop(FINAL_LEARNING_RATE, None)) is not None:
        from stable_baselines3.common.utils import LinearSchedule

        known = inspect.signature(training.algorithm.load_class()).parameters
        first = arguments.get("learning_rate", known["learning_rate"].default)
        arguments["learning_rate"] = LinearSchedule(first, final, 1.0)
    try:
        return training.algorithm.load_class()(
            training.algorithm.load_policy(),
            envs,
            seed=training.seed,
            device="cpu",
            tensorboard_log=str(training.folder / "tensorboard"),
            verbose=0,
            **arguments,
        )
    except (AssertionError, TypeError, ValueError) as error:
        if not training.hyper_parameters:
            raise
        reason = str(error).partition("\n")[0]
        raise SysgymError(
            f"{training.algorithm.name} does not accept the hyper-parameters {training.hyper_parameters}:"
            f" {reason}"
        ) from error


def _resolve(scenario: str | PathLike[str] | Scenario, overrides: Mapping[str, Any] | None) -> Scenario:
    if isinstance(scenario, Scenario):
        return scenario.with_overrides(overrides) if overrides else scenario
    return load_scenario(scenario, overrides=overrides)


def _as_json(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values in the form in which checkpoints store them: tuples as lists, classes by name."""
    values_again: dict[str, Any] = json.loads(json.dumps(dict(values), default=_class_name))
    return values_again


def _class_name(value: Any) -> str:
    if isinstance(value, type):
        return f"{value.__module__}.{value.__qualname__}"
    raise SysgymError(
        f"{value!r}: a checkpoint can hold numbers, texts, lists and names of classes, not this"
    )
