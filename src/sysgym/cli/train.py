"""``sysgym train``."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

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
    """Train an agent and say how to go on.

    Args:
        agent: Learning algorithm.
        scenario: Name or file.
        steps: Environment steps in all.
        out: Folder; None: ``runs/AGENT-SCENARIO-seedN``.
        seed: Of the training.
        n_envs: Environments side by side.
        action_scale: How the policy's output becomes a rate.
        history: Intervals in the observation.
        reward: Name of the reward; None: the scenario's.
        resume: Whether to go on from the newest checkpoint.
        overrides: ``KEY=VALUE`` texts for the scenario.
        hyper_parameters: ``NAME=VALUE`` texts for the algorithm.
        plugins: The user's files.

    Raises:
        MissingExtra: The extra ``train`` is not installed.
        SysgymError: Something does not exist or does not fit.
    """
    from sysgym.agents.learned import train
    from sysgym.cli.listing import load_plugins
    from sysgym.scenarios import load_scenario, parse_overrides

    load_plugins(plugins)
    loaded = load_scenario(scenario, overrides=parse_overrides(overrides))
    folder = out if out is not None else Path("runs") / f"{agent}-{loaded.name}-seed{seed}"
    screen = console()
    try:
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
        screen.print(f"stopped; a checkpoint is in {folder}, the same command with --resume goes on from it")
        raise typer.Exit(130) from None
    screen.print(f"checkpoint  {final}", soft_wrap=True)
    screen.print(f"[dim]sysgym run {scenario} --agent {agent} --checkpoint {final}[/dim]", soft_wrap=True)
    if (logs := folder / "tensorboard").is_dir():  # a search of neural has a progress.csv instead
        screen.print(f"[dim]tensorboard --logdir {logs}[/dim]", soft_wrap=True)
