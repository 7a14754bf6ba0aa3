"""``sysgym run``: one episode."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.text import Text

from sysgym.cli.episode.traces import TraceFiles
from sysgym.cli.terminal import bars, console, interactive, table

if TYPE_CHECKING:
    import gymnasium as gym
    from rich.console import Console

    from sysgym.bench.contenders import Contender
    from sysgym.bench.plugins import Plugin
    from sysgym.bench.run.episodes import Played
    from sysgym.cli.episode.video import Video
    from sysgym.scenarios import Scenario


@dataclass(frozen=True)
class Episode:
    """Episode that the user asked for; None selects a default."""

    scenario: str
    contender: str | None
    agent: str | None
    transport: str | None
    checkpoint: Path | None
    seed: int | None
    split: str | None
    backend: str | None
    overrides: Sequence[str]
    plugins: Sequence[Path]
    trust: bool


@dataclass(frozen=True)
class Shown:
    """Display of an episode.

    Attributes:
        live: Whether to show queues and rates while it runs.
        fps: Decisions per second on the screen, frames per second of a video.
        picture: File for a picture of the whole episode.
        video: File for a video.
    """

    live: bool
    fps: float
    picture: Path | None
    video: Path | None

    @property
    def render_mode(self) -> str | None:
        """Render mode of the environment; raises SysgymError if two would be needed."""
        from sysgym.errors import SysgymError

        drawn = self.picture is not None or self.video is not None
        if self.live and drawn:
            option = "--picture" if self.video is None else "--video"
            raise SysgymError(f"--render ansi and {option} need different render modes; choose one")
        return "ansi" if self.live else "rgb_array" if drawn else None


def only_scenario(argument: str | None, option: str | None) -> str | None:
    """Return the scenario that a command names by an argument or an option, if any.

    Raises:
        SysgymError: It names one by each.
    """
    from sysgym.errors import SysgymError

    if argument is not None and option is not None:
        raise SysgymError(
            f"got two scenarios, {argument} and --scenario {option}: expected one; omit the other"
        )
    return argument or option


def only_contender(contenders: Sequence[str]) -> str | None:
    """Return the contender that a command names, if any.

    Raises:
        SysgymError: It names several.
    """
    from sysgym.errors import SysgymError

    if len(contenders) > 1:
        raise SysgymError(
            f"--contender: got {len(contenders)} ({', '.join(contenders)}), expected one, as this command"
            " plays one episode; sysgym plot, sysgym live and sysgym bench play several contenders"
        )
    return contenders[0] if contenders else None


def play_one(episode: Episode, shown: Shown, *, files: TraceFiles, as_json: bool) -> None:
    """Run an episode and print its metrics.

    Args:
        episode: Scenario, contender and seed.
        shown: Display, picture and video.
        files: Traces to write.
        as_json: Whether to print JSON instead of a table.

    Raises:
        SysgymError: A name is unknown, options do not fit together, or a file cannot be written.
    """
    from sysgym.bench.plugins import load_plugin
    from sysgym.bench.run.episodes import make_contender
    from sysgym.cli.estimates import say_how_long
    from sysgym.errors import SysgymError
    from sysgym.scenarios import get_family, load_scenario, parse_overrides
    from sysgym.scenarios.units import time_text
    from sysgym.series import about_episode

    render_mode = shown.render_mode
    plugins = [load_plugin(path) for path in episode.plugins]
    scenario = load_scenario(episode.scenario, overrides=parse_overrides(episode.overrides))
    contender = _contender(episode, plugins, scenario).with_shipped(scenario.name)
    contender = replace(contender, trusted=episode.trust)
    split, seed = scenario.splits.choose(episode.split, episode.seed)
    backends = get_family(scenario.family).backends
    if episode.backend is not None and not backends:
        raise SysgymError(f"--backend: {scenario.name} has no network and runs in the simulator only")
    files.check(episode.backend)
    simulated = episode.backend is None or episode.backend == backends[0]
    if simulated:
        say_how_long([(scenario, 1)])
    env, agent = make_contender(
        scenario.resolved(), split, contender, render_mode=render_mode, backend=episode.backend
    )
    with closing(env):
        if render_mode == "rgb_array":
            _prepare_pictures(env, contender, shown)
        write_files = files.watch(env) if files.wanted else None

        out = console(stderr=as_json)
        with _video(shown, scenario) as video:
            out.print(
                Text.assemble((scenario.name, "bold"), f"  {contender.parts}  ({split} split, seed {seed})")
            )
            began_s = time.perf_counter()
            try:
                played = _play(env, agent, seed, shown, video, out)
            except KeyboardInterrupt:
                if video is not None:
                    out.print(f"stopped; {video.path} has the first {video.n_frames} frames")
                raise
            total, steps, info, decision_ms = played
            wall_s = time.perf_counter() - began_s
        written = []
        if write_files is not None:
            about = about_episode(scenario, contender, split, seed, info["episode_metrics"])
            written = write_files(about)
        if shown.picture is not None:
            _write_picture(env, shown.picture)
            written.insert(0, f"picture: {shown.picture}")
        if video is not None:
            written.insert(
                0, f"video: {video.path} ({video.n_frames} frames, {video.n_frames / video.fps:.3g} s)"
            )
    if as_json:
        for line in written:
            out.print(line, highlight=False)
        print(json.dumps({"return": total, "steps": steps, "metrics": info["episode_metrics"]}))
        return
    _print_metrics(scenario.family, scenario.env_id, info, total, steps)
    time_of = "simulated" if simulated else "on the kernel"
    out.print(
        f"\n{steps} decisions, {time_text(info.get('time_s', 0.0), 3)} {time_of}, {time_text(wall_s)} "
        f"of wall time, the agent took {time_text(decision_ms / 1e3)} for each decision",
        style="dim",
    )
    for line in written:
        out.print(line, highlight=False)


def _prepare_pictures(env: gym.Env[Any, Any], contender: Contender, shown: Shown) -> None:
    """Check that the environment draws pictures, and name the contender in them."""
    from sysgym.cli.episode.video import check_picture
    from sysgym.errors import SysgymError

    if "rgb_array" not in env.metadata.get("render_modes", ()):
        raise SysgymError(f"{env.spec.id if env.spec else env}: cannot draw pictures; use --render ansi")
    if shown.picture is not None:
        check_picture(shown.picture)
    recorder = getattr(env.unwrapped, "recorder", None)
    if recorder is not None:
        words = f"transport {contender.transport}, agent {contender.agent}"
        recorder.contender = (
            contender.name if contender.parts == contender.name else f"{contender.name}   ({words})"
        )


def _video(shown: Shown, scenario: Scenario) -> AbstractContextManager[Video | None]:
    if shown.video is None:
        return nullcontext()
    from sysgym.cli.episode.video import recording

    steps = getattr(getattr(scenario, "control", None), "episode_steps", None)
    return recording(shown.video, shown.fps, steps)


def _play(
    env: gym.Env[Any, Any], agent: Any, seed: int, shown: Shown, video: Video | None, out: Console
) -> Played:
    from sysgym.bench.run.episodes import play

    if shown.live:
        return _play_live(env, agent, seed, shown.fps, out)
    return play(env, agent, seed) if video is None else _play_filmed(env, agent, seed, video)


def _play_filmed(env: gym.Env[Any, Any], agent: Any, seed: int, video: Video) -> Played:
    from sysgym.bench.run.episodes import play

    with bars() as progress:
        bar = progress.add_task("drawing", total=video.n_steps)

        def film(step: int, info: dict[str, Any]) -> None:
            if step % video.every == 0 or "episode_metrics" in info:  # always the last decision
                pixels: Any = env.render()
                video.add(pixels)
            progress.update(bar, completed=step)

        return play(env, agent, seed, film)


def _contender(episode: Episode, plugins: Sequence[Plugin], scenario: Scenario) -> Contender:
    from sysgym.bench.contenders import contender_from, parse_contender
    from sysgym.errors import SysgymError
    from sysgym.scenarios import get_family

    family, env_id = scenario.family, scenario.env_id
    declared = get_family(family)
    agent, at, file = (episode.agent or "").partition("@")
    if at and episode.checkpoint is None:  # the notation NAME@CHECKPOINT
        episode = replace(episode, agent=agent, checkpoint=Path(file))
    if episode.contender is not None:
        if episode.agent is not None or episode.transport is not None:
            raise SysgymError("--contender names transport and agent; omit --agent and --transport")
        contender = parse_contender(episode.contender, plugins, family, env_id)
    elif episode.transport is None and episode.agent is None:
        contender = parse_contender(declared.evaluation.reference, plugins, family, env_id)
    elif declared.transports is None:
        # Without an agent, the transport is looked up as an agent; the error lists the family's agents.
        agent = episode.agent or episode.transport or ""
        contender = contender_from(agent, episode.transport or "", agent, plugins, family, env_id=env_id)
    else:
        transport = episode.transport or declared.transports.driven
        agent = episode.agent or declared.transports.uncapped
        name = f"{transport}-{agent}"
        contender = contender_from(name, transport, agent, plugins, family, env_id=env_id)
    if episode.checkpoint is not None:
        if not contender.learned:
            raise SysgymError(f'--checkpoint: the agent "{contender.agent}" takes no checkpoint')
        contender = contender.with_checkpoint(episode.checkpoint)
    return contender


def _play_live(env: gym.Env[Any, Any], agent: Any, seed: int, fps: float, out: Console) -> Played:
    from rich.live import Live

    from sysgym.bench.run.episodes import play

    if not interactive():  # a pipe gets the last picture only, without delay
        outcome = play(env, agent, seed)
        print(env.render(), file=out.file)
        return outcome
    next_s = time.perf_counter()
    with Live(console=out, auto_refresh=False) as screen:

        def show(step: int, info: dict[str, Any]) -> None:
            nonlocal next_s
            screen.update(Text(str(env.render())), refresh=True)
            next_s = max(next_s + 1.0 / fps, time.perf_counter())
            time.sleep(max(next_s - time.perf_counter(), 0.0))

        return play(env, agent, seed, show)


def _write_picture(env: gym.Env[Any, Any], path: Path) -> None:
    from PIL import Image

    from sysgym.scenarios.files import replacing

    pixels: Any = env.render()
    form = Image.registered_extensions()[path.suffix.lower()]
    with replacing(path) as file:
        # PNG has no quality setting; JPEG uses both settings.
        Image.fromarray(pixels).save(file, format=form, optimize=True, quality=92)


def _print_metrics(family: str, env_id: str, info: dict[str, Any], total: float, steps: int) -> None:
    from sysgym.scenarios.families import evaluation_of
    from sysgym.scenarios.units import metric_text, significant

    known, metrics = evaluation_of(family, env_id), info["episode_metrics"]
    meanings = known.metric_meanings()
    curves = [list(curve.points(metrics).values()) for curve in known.curves]
    drawn = {name for names in curves for name in names}
    rows = [("return", significant(total, 4), f"sum of rewards, {significant(total / steps)} per decision")]
    rows += [
        (name, metric_text(name, value), meanings.get(name, ""))
        for name, value in metrics.items()
        if name not in drawn
    ]
    console().print(table("metric", ">value", "meaning", rows=rows))
    if drawn:
        ranges = ", ".join(f"{names[0]} to {names[-1]}" for names in curves if names)
        console().print(f"over time, with --json: {ranges}", style="dim")
