"""``sysgym live``: episodes of contenders side by side in a browser."""

from __future__ import annotations

import webbrowser
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sysgym.cli import completion
from sysgym.cli.options import PluginOption, TrustOption
from sysgym.cli.terminal import bars, console

if TYPE_CHECKING:
    from sysgym.bench.contenders import Contender
    from sysgym.live.run import Run
    from sysgym.scenarios import Scenario


def live(
    scenario: Annotated[
        str | None, typer.Argument(help="Scenario name or file.", autocompletion=completion.scenarios)
    ] = None,
    contender: Annotated[
        list[str] | None,
        typer.Option(
            "--contender",
            "-c",
            metavar="[NAME=]WHO[@CHECKPOINT]",
            help="Contender, as in sysgym run; repeatable, at most four (default: the family's reference).",
            autocompletion=completion.contenders,
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option("--seed", min=0, help="Seed of the episode (default: first of the test split)."),
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Replace a scenario key; repeatable."),
    ] = None,
    port: Annotated[
        int, typer.Option("--port", min=0, max=65535, help="Port of the page; 0: any free one.")
    ] = 8642,
    host: Annotated[
        str,
        typer.Option("--host", help="Address to listen on; any other than 127.0.0.1 is open to the network."),
    ] = "127.0.0.1",
    speed: Annotated[
        float | None,
        typer.Option("--speed", min=1 / 64, max=64.0, help="Pace (default: 1, an episode in half a minute)."),
    ] = None,
    no_browser: Annotated[bool, typer.Option("--no-browser", help="Print the address only.")] = False,
    record: Annotated[
        Path | None,
        typer.Option("--record", metavar="FILE", help="Record all frames and changes: .jsonl or .jsonl.gz."),
    ] = None,
    replay: Annotated[
        Path | None, typer.Option("--replay", metavar="FILE", help="Show a recording instead of an episode.")
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(
            "--export",
            metavar="FILE.html",
            help="Run to the end and write one page that opens from the disk, instead of serving.",
        ),
    ] = None,
    check: Annotated[
        bool, typer.Option("--check", help="With --replay: simulate the run again and compare all frames.")
    ] = False,
    plugin: PluginOption = None,
    trust: TrustOption = False,
) -> None:
    """Watch contenders side by side in a browser, and change settings while they run."""
    from sysgym.errors import SysgymError

    if (scenario is None) == (replay is None):
        raise SysgymError("sysgym live: give a scenario or --replay FILE, for example: sysgym live incast-32")
    if check and replay is None:
        raise SysgymError("--check compares a recording with a new simulation: give --replay FILE too")
    if replay is not None:
        given = {
            "-c": contender,
            "--seed": seed,
            "--set": set_,
            "--record": record,
            "--speed": speed,
            "--plugin": plugin,
            "--trust": trust or None,
        }
        if wrong := [name for name, value in given.items() if value is not None]:
            raise SysgymError(f"--replay shows a recording as it is: omit {', '.join(wrong)}")
        _show_recording(replay, export, check, host, port, no_browser)
        return
    assert scenario is not None
    if export is None:
        import sysgym.live.server  # noqa: F401, the missing extra is reported before the simulation
    run = _run(scenario, contender or [], seed, set_ or [], plugin or [], trust=trust)
    if export is not None:
        _export(run, record, export)
    else:
        _serve(run, 1.0 if speed is None else speed, record, host, port, no_browser)


def _run(
    name: str,
    texts: Sequence[str],
    seed: int | None,
    overrides: Sequence[str],
    plugins: Sequence[Path],
    *,
    trust: bool,
) -> Run:
    """Return the run of a scenario's contenders at its beginning."""
    from dataclasses import replace

    from sysgym.bench.contenders import parse_contender
    from sysgym.bench.plugins import load_plugin
    from sysgym.cli.estimates import say_how_long
    from sysgym.live.run import Run
    from sysgym.scenarios import get_family, load_scenario, parse_overrides

    loaded_plugins = [load_plugin(path) for path in plugins]
    scenario = load_scenario(name, overrides=parse_overrides(overrides))
    texts = texts or [get_family(scenario.family).evaluation.reference]
    contenders = [
        replace(
            parse_contender(text, loaded_plugins, scenario.family, scenario.env_id).with_shipped(
                scenario.name
            ),
            trusted=trust,
        )
        for text in texts
    ]
    split, chosen = scenario.splits.choose(None, seed)
    say_how_long([(scenario, len(contenders))])
    return Run(scenario, split, chosen, contenders)


def _serve(run: Run, speed: float, record: Path | None, host: str, port: int, no_browser: bool) -> None:
    from sysgym.live.recording import Recorder
    from sysgym.live.server import Server, app_of_session, bound_socket
    from sysgym.live.session import Session

    listening = bound_socket(host, port)
    recorder = None if record is None else Recorder(record, run.header)
    session = Session(run, speed=speed, recorder=recorder)
    port = listening.getsockname()[1]
    server = Server(app_of_session(session, host, port), listening)
    session.start(on_failure=server.stop)
    _open(host, port, no_browser)
    try:
        with suppress(KeyboardInterrupt):
            server.serve()
    finally:
        session.stop()
        if recorder is not None:
            console().print(f"recording: {record} ({recorder.n_frames} frames)", soft_wrap=True)


def _export(run: Run, record: Path | None, path: Path) -> None:
    from sysgym.live.export import exported_page
    from sysgym.live.frames import Frame
    from sysgym.live.recording import Recorder
    from sysgym.scenarios.files import check_replaceable, make_folder, write_atomically

    make_folder(path.parent)
    check_replaceable(path)
    recorder = None if record is None else Recorder(record, run.header)
    frames: list[Frame] = []
    try:
        with bars() as progress:
            bar = progress.add_task("simulating", total=run.end)
            while (frame := run.next_frame()) is not None:
                frames.append(frame)
                if recorder is not None:
                    recorder.add(frame)
                progress.update(bar, completed=frame.time)
    finally:
        run.close()
        if recorder is not None:
            recorder.close()
    page = exported_page(run.header, frames)
    write_atomically(path, page.encode())
    console().print(f"page: {path} ({len(page) / 1e3:.0f} kB, {len(frames)} frames)", highlight=False)


def _show_recording(
    path: Path, export: Path | None, check: bool, host: str, port: int, no_browser: bool
) -> None:
    from sysgym.live.export import exported_page
    from sysgym.live.recording import compare, read_recording
    from sysgym.scenarios.files import make_folder, write_atomically

    out = console()
    recorded = read_recording(path)
    if recorded.incomplete:
        out.print(f"{path}: the last line is cut off and left out", highlight=False)
    if check:
        n_frames = compare(recorded, lambda: _recorded_run(recorded.header))
        out.print(f"{path}: {n_frames} frames simulated again, all the same", highlight=False)
        if export is None:
            return
    page = exported_page(recorded.header, recorded.frames)
    if export is not None:
        make_folder(export.parent)
        write_atomically(export, page.encode())
        out.print(f"page: {export} ({len(page) / 1e3:.0f} kB)", highlight=False)
        return
    from sysgym.live.server import Server, app_of_page, bound_socket

    listening = bound_socket(host, port)
    port = listening.getsockname()[1]
    _open(host, port, no_browser)
    with suppress(KeyboardInterrupt):
        Server(app_of_page(page, host, port), listening).serve()


def _recorded_run(header: dict[str, Any]) -> Run:
    """Return the run of a recording at its beginning; contenders of plugins cannot be made from data.

    Raises:
        SysgymError: A contender comes from a user's file, or is unknown.
    """
    from sysgym.bench.contenders import Contender
    from sysgym.errors import SysgymError
    from sysgym.live.run import Run
    from sysgym.scenarios.loader import scenario_from_resolved

    scenario: Scenario = scenario_from_resolved(header["resolved"])
    contenders: list[Contender] = []
    for data in header["contenders"]:
        contenders.append(Contender.from_json(data))
        if contenders[-1].plugins:
            raise SysgymError(
                f"--check: {contenders[-1].name} comes from a Python file, which a recording does not run"
            )
    return Run(scenario, header["split"], header["seed"], contenders)


def _open(host: str, port: int, no_browser: bool) -> None:
    """Print the address, and open it."""
    shown = "127.0.0.1" if host in ("0.0.0.0", "::") else host
    shown = f"[{shown}]" if ":" in shown else shown
    url = f"http://{shown}:{port}/"
    console().print(f"live: {url}  (Ctrl-C ends it)", highlight=False)
    if not no_browser:
        webbrowser.open(url)
