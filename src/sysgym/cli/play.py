"""``sysgym run``: one episode."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sysgym.cli.terminal import console, interactive, table
from sysgym.cli.traces import Traced, TraceFiles

if TYPE_CHECKING:
    import gymnasium as gym

    from sysgym.bench.contenders import Contender, Plugin
    from sysgym.bench.episodes import Played
    from sysgym.scenarios import Scenario


@dataclass(frozen=True)
class Episode:
    """What the user asked for; None where a default has to be found."""

    scenario: str
    contender: str | None
    agent: str | None
    transport: str | None
    checkpoint: Path | None
    seed: int | None
    split: str | None
    overrides: Sequence[str]
    plugins: Sequence[Path]


def play_one(
    episode: Episode, *, live: bool, fps: float, picture: Path | None, files: TraceFiles, as_json: bool
) -> None:
    """Play an episode and print its metrics.

    Args:
        episode: Who plays what.
        live: Whether to show queues and rates while it runs.
        fps: Decisions a second on the screen.
        picture: Where to draw the whole episode.
        files: Traces to write.
        as_json: Whether to print JSON instead of a table.

    Raises:
        SysgymError: Something asked for does not exist or does not fit.
    """
    from sysgym.bench.contenders import load_plugin
    from sysgym.bench.episodes import make_contender, play
    from sysgym.errors import SysgymError
    from sysgym.scenarios import load_scenario, parse_overrides

    if live and picture is not None:
        raise SysgymError("--render ansi and --picture show the episode in two ways; choose one")
    plugins = [load_plugin(path) for path in episode.plugins]
    scenario = load_scenario(episode.scenario, overrides=parse_overrides(episode.overrides))
    contender = _contender(episode, plugins, scenario.family)
    split, seed = _split_and_seed(scenario, episode.split, episode.seed)
    render_mode = "ansi" if live else "rgb_array" if picture is not None else None
    env, agent = make_contender(scenario.resolved(), split, contender, render_mode=render_mode)
    traced = Traced(env, files) if files.wanted else None
    env = traced or env

    out = console(stderr=as_json)
    out.print(f"[bold]{scenario.name}[/bold]  {contender.parts}  ({split} split, seed {seed})")
    began_s = time.perf_counter()
    played = _play_live(env, agent, seed, fps) if live else play(env, agent, seed)
    total, steps, info, decision_ms = played
    wall_s = time.perf_counter() - began_s
    if picture is not None:
        _write_picture(env, picture)
    written = traced.write() if traced is not None else []
    env.close()
    if as_json:
        for line in written:
            out.print(line, highlight=False)
        print(json.dumps({"return": total, "steps": steps, "metrics": info["episode_metrics"]}))
        return
    _print_metrics(scenario.family, scenario.env_id, info, total, steps)
    out.print(
        f"\n[dim]{steps} decisions, {info.get('time_s', 0.0):.4g} simulated s, {wall_s:.2f} s here, "
        f"{decision_ms:.3g} ms a decision[/dim]"
    )
    if picture is not None:
        out.print(f"picture: {picture}")
    for line in written:
        out.print(line, highlight=False)


def _contender(episode: Episode, plugins: Sequence[Plugin], family: str) -> Contender:
    from sysgym.bench.contenders import NETWORKS, PACED, UNCAPPED, contender_from, parse_contender
    from sysgym.bench.families import get_family
    from sysgym.errors import SysgymError

    if episode.contender is not None:
        if episode.agent is not None or episode.transport is not None:
            raise SysgymError("--contender names transport and agent; leave --agent and --transport out")
        contender = parse_contender(episode.contender, plugins, family)
    elif episode.transport is None and episode.agent is None:
        contender = parse_contender(get_family(family).reference, plugins, family)
    elif family != NETWORKS:
        contender = contender_from(
            episode.agent or "", episode.transport or "", episode.agent or "", plugins, family
        )
    else:
        transport, agent = episode.transport or PACED, episode.agent or UNCAPPED
        contender = contender_from(f"{transport}-{agent}", transport, agent, plugins)
    if episode.checkpoint is not None:
        if not contender.learned:
            raise SysgymError(f'--checkpoint: the agent "{contender.agent}" takes none')
        contender = contender.with_checkpoint(episode.checkpoint)
    return contender


def _split_and_seed(scenario: Scenario, split: str | None, seed: int | None) -> tuple[str, int]:
    """Find what was left out: the split that has the seed, or the first seed of the test split."""
    from sysgym.scenarios.schema.common import SPLIT_NAMES

    if split is None:
        having = [name for name in SPLIT_NAMES if seed in scenario.splits[name]]
        split = having[0] if having else "test"
    return split, scenario.splits[split].first_seed if seed is None else seed


def _play_live(env: gym.Env[Any, Any], agent: Any, seed: int, fps: float) -> Played:
    from rich.live import Live
    from rich.text import Text

    from sysgym.bench.episodes import play

    if not interactive():  # a pipe gets the last picture, and is not kept waiting
        outcome = play(env, agent, seed)
        print(env.render())
        return outcome
    next_s = time.perf_counter()
    with Live(console=console(), auto_refresh=False) as screen:

        def show(step: int, info: dict[str, Any]) -> None:
            nonlocal next_s
            screen.update(Text(str(env.render())), refresh=True)
            next_s = max(next_s + 1.0 / fps, time.perf_counter())
            time.sleep(next_s - time.perf_counter())

        return play(env, agent, seed, show)


def _write_picture(env: gym.Env[Any, Any], path: Path) -> None:
    from matplotlib.image import imsave

    pixels: Any = env.render()
    path.parent.mkdir(parents=True, exist_ok=True)
    imsave(path, pixels)


def _print_metrics(family: str, env_id: str, info: dict[str, Any], total: float, steps: int) -> None:
    from sysgym.bench.families import get_family
    from sysgym.bench.units import metric_text, significant

    known, metrics = get_family(family, env_id), info["episode_metrics"]
    meanings = known.metric_meanings()
    curves = [list(curve.points(metrics).values()) for curve in known.curves]
    drawn = {name for names in curves for name in names}
    rows = [("return", significant(total, 4), f"sum of rewards, {significant(total / steps)} a decision")]
    rows += [
        (name, metric_text(name, value), meanings.get(name, ""))
        for name, value in metrics.items()
        if name not in drawn
    ]
    console().print(table("metric", ">value", "meaning", rows=rows))
    if drawn:
        ranges = ", ".join(f"{names[0]} to {names[-1]}" for names in curves if names)
        console().print(f"[dim]over time, with --json: {ranges}[/dim]")
