"""``sysgym train``: training of an agent."""

from __future__ import annotations

import shlex
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from sysgym.cli.terminal import console


def train_agent(
    agent: str,
    scenario: str,
    *,
    steps: int,
    out: Path | None,
    seed: int,
    n_envs: int,
    action_scale: str,
    history: int,
    reward: str | None,
    resume: bool,
    overrides: Sequence[str],
    hyper_parameters: Sequence[str],
    plugins: Sequence[Path],
) -> None:
    """Train an agent and print the next commands.

    Args:
        agent: Learning algorithm.
        scenario: Name or file.
        steps: Total number of environment steps.
        out: Folder; None: ``runs/AGENT-SCENARIO-seedN``.
        seed: Training seed.
        n_envs: Number of parallel environments.
        action_scale: Mapping from the policy's output to a rate.
        history: Number of intervals in the observation.
        reward: Name of the reward; None: the scenario's.
        resume: Whether to continue from the newest checkpoint.
        overrides: ``KEY=VALUE`` texts for the scenario.
        hyper_parameters: ``NAME=VALUE`` texts for the algorithm.
        plugins: The user's Python files.

    Raises:
        MissingExtra: The extra ``train`` is not installed.
        SysgymError: A name is unknown or a value is invalid.
    """
    from sysgym.agents.learned import train
    from sysgym.agents.learned.training.folders import has_progress
    from sysgym.cli.estimates import say_how_long
    from sysgym.cli.pages.listing import load_plugins
    from sysgym.scenarios import load_scenario, parse_overrides

    load_plugins(plugins)
    loaded = load_scenario(scenario, overrides=parse_overrides(overrides))
    folder = out if out is not None else Path("runs") / f"{agent}-{loaded.name}-seed{seed}"
    screen = console()
    say_how_long(steps=[(loaded, steps)])
    if resume and not has_progress(folder):
        screen.print(
            f"--resume: {folder} has no checkpoint to resume from; the training starts from the beginning",
            soft_wrap=True,
        )
    try:
        with _warnings_on(screen):
            final = train(
                agent,
                loaded,
                total_steps=steps,
                out=folder,
                seed=seed,
                n_envs=n_envs,
                action_scale=action_scale,
                history=history,
                reward=reward,
                resume=resume,
                hyper_parameters=parse_overrides(hyper_parameters),
                progress=True,
            )
    except KeyboardInterrupt:
        screen.print(
            f"stopped; run the same command with --resume to continue from the newest checkpoint in {folder}"
        )
        raise typer.Exit(130) from None
    screen.print(f"checkpoint  {final}", soft_wrap=True)
    command = ["sysgym", "run", scenario, "--agent", agent, "--checkpoint", str(final)]
    command += [word for plugin in plugins for word in ("--plugin", str(plugin))]
    command += [word for override in overrides for word in ("--set", override)]
    screen.print(shlex.join(command), style="dim", soft_wrap=True)
    if (logs := folder / "tensorboard").is_dir():  # the search for neural writes progress.csv instead
        screen.print(shlex.join(["tensorboard", "--logdir", str(logs)]), style="dim", soft_wrap=True)


@contextmanager
def _warnings_on(screen: Any) -> Iterator[None]:
    """Print warnings without file name and source line."""
    with warnings.catch_warnings():
        warnings.showwarning = lambda message, *_, **__: screen.print(f"warning: {message}", soft_wrap=True)
        yield
