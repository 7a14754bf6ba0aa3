"""The commands' names, arguments and help."""

from __future__ import annotations

import functools
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any

import typer

from sysgym.cli import completion
from sysgym.cli.commands.emulator import emulator
from sysgym.cli.commands.export import export
from sysgym.cli.commands.fuzz import fuzz
from sysgym.cli.commands.new import new
from sysgym.cli.commands.report import report
from sysgym.cli.commands.submit import submit
from sysgym.cli.episode.plot import plot
from sysgym.cli.options import (
    AgentOption,
    ContenderOption,
    CsvOption,
    IntervalOption,
    PluginOption,
    TransportOption,
    TrustOption,
)
from sysgym.cli.pages.looking import list_, show
from sysgym.cli.study import study

app = typer.Typer(
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Learned systems control on simulated datacenters: environments, agents, benchmark.",
)
app.add_typer(emulator, name="emulator")
app.add_typer(study, name="study")
app.command()(export)
app.command()(fuzz)
app.command()(new)
app.command()(plot)


class Render(StrEnum):
    """How an episode is shown."""

    none = "none"
    ansi = "ansi"


SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Replace a key of the scenario, as in workload.load=0.6; may be repeated.",
    ),
]
JobsOption = Annotated[
    int, typer.Option("--jobs", "-j", min=0, help="Worker processes; 0: one for each CPU.")
]
TimeoutOption = Annotated[
    float,
    typer.Option(
        "--timeout",
        min=0.0,
        metavar="SECONDS",
        help="Give an episode up that is not over by then, and go on with the others; 0: never.",
    ),
]


def _version(wanted: bool) -> None:
    if wanted:
        import sysgym

        typer.echo(f"sysgym {sysgym.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and leave.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Options that stand before the command."""


app.command("list")(list_)
app.command()(show)


@app.command()
def run(
    scenario: Annotated[
        str | None,
        typer.Argument(
            help="Scenario, name or file; dumbbell-10g if left out.", autocompletion=completion.scenarios
        ),
    ] = None,
    scenario_option: Annotated[
        str | None,
        typer.Option(
            "--scenario",
            metavar="SCENARIO",
            help="The same as an option.",
            autocompletion=completion.scenarios,
        ),
    ] = None,
    contender: ContenderOption = None,
    agent: AgentOption = None,
    transport: TransportOption = None,
    checkpoint: Annotated[Path | None, typer.Option("--checkpoint", help="What training wrote.")] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Episode seed; the first of the split if left out.")
    ] = None,
    split: Annotated[
        str | None,
        typer.Option("--split", help="train, validation or test; the one that has the seed if left out."),
    ] = None,
    backend: Annotated[
        str | None,
        typer.Option("--backend", help="packets: the simulator; linux: the kernel, in wall time (networks)."),
    ] = None,
    set_: SetOption = None,
    render: Annotated[Render, typer.Option("--render", help="ansi: watch queues and rates.")] = Render.none,
    fps: Annotated[
        float,
        typer.Option("--fps", min=1.0, max=100.0, help="Decisions a second on the screen or in a video."),
    ] = 25.0,
    picture: Annotated[
        Path | None, typer.Option("--picture", metavar="FILE", help="Write a picture of the episode, PNG.")
    ] = None,
    video: Annotated[
        Path | None,
        typer.Option(
            "--video",
            metavar="FILE",
            help="Write a video, .mp4 (extra video) or .gif; one frame a decision or fewer.",
        ),
    ] = None,
    csv: CsvOption = None,
    interval: IntervalOption = None,
    trace: Annotated[
        Path | None,
        typer.Option("--trace", metavar="FILE", help="Write queues and flows for ui.perfetto.dev, JSON."),
    ] = None,
    pcap: Annotated[
        Path | None,
        typer.Option("--pcap", metavar="FILE", help="Write the packets of --pcap-link for Wireshark."),
    ] = None,
    pcap_link: Annotated[
        str | None, typer.Option("--pcap-link", metavar="LINK", help="As in west->east.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the metrics as one JSON object.")] = False,
    plugin: PluginOption = None,
    trust: TrustOption = False,
) -> None:
    """Play one episode and print its metrics."""
    from sysgym.cli.episode.run import Episode, Shown, play_one
    from sysgym.cli.episode.traces import TraceFiles

    play_one(
        Episode(
            scenario=scenario_option or scenario or "dumbbell-10g",
            contender=contender,
            agent=agent,
            transport=transport,
            checkpoint=checkpoint,
            seed=seed,
            split=split,
            backend=backend,
            overrides=set_ or [],
            plugins=plugin or [],
            trust=trust,
        ),
        Shown(live=render is Render.ansi, fps=fps, picture=picture, video=video),
        files=TraceFiles(csv, interval, trace, pcap, pcap_link),
        as_json=as_json,
    )


@app.command()
def train(
    agent: Annotated[
        str,
        typer.Argument(help="Learning algorithm: ppo, sac, td3, a2c ...", autocompletion=completion.learners),
    ],
    scenario: Annotated[
        str, typer.Argument(help="Scenario, name or file.", autocompletion=completion.scenarios)
    ],
    steps: Annotated[int, typer.Option("--steps", min=1, help="Environment steps.")] = 100_000,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Folder for checkpoints, curves and TensorBoard; runs/AGENT-SCENARIO-seedN if left out.",
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of the training.")] = 0,
    n_envs: Annotated[int, typer.Option("--n-envs", min=1, help="Environments side by side.")] = 4,
    action_scale: Annotated[
        str, typer.Option("--action-scale", help="How the policy's output becomes a rate: log or linear.")
    ] = "log",
    history: Annotated[
        int, typer.Option("--history", min=1, max=64, help="Decision intervals that the observation holds.")
    ] = 1,
    reward: Annotated[
        str | None, typer.Option("--reward", help="Reward, by name; the scenario's if left out.")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the newest checkpoint in --out.")
    ] = False,
    set_: SetOption = None,
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            "--parameter",
            "-p",
            metavar="NAME=VALUE",
            help="Hyper-parameter of the algorithm, as in learning_rate=1e-3; may be repeated.",
        ),
    ] = None,
    plugin: PluginOption = None,
) -> None:
    """Train an agent on the train split of a scenario."""
    from sysgym.cli.commands.train import train_agent

    train_agent(
        agent,
        scenario,
        steps=steps,
        out=out,
        seed=seed,
        n_envs=n_envs,
        action_scale=action_scale,
        history=history,
        reward=reward,
        resume=resume,
        overrides=set_ or [],
        hyper_parameters=parameter or [],
        plugins=plugin or [],
    )


@app.command()
def bench(
    suite: Annotated[str, typer.Argument(help="Suite, name or file.", autocompletion=completion.suites)],
    out: Annotated[
        Path | None, typer.Option("--out", help="Results folder; results/SUITE if left out.")
    ] = None,
    jobs: JobsOption = 0,
    timeout: TimeoutOption = 3600.0,
    seeds: Annotated[
        int | None,
        typer.Option("--seeds", min=1, metavar="N", help="Play N seeds of each task, from its first on."),
    ] = None,
    contender: Annotated[
        list[str] | None,
        typer.Option(
            "--contender",
            "-c",
            metavar="[NAME=]WHO[@CHECKPOINT]",
            help="One more contender for every task: dctcp, TRANSPORT:AGENT ...; may be repeated.",
            autocompletion=completion.contenders,
        ),
    ] = None,
    scenario: Annotated[
        list[str] | None,
        typer.Option(
            "--scenario",
            metavar="SCENARIO",
            help="One more scenario, name or file; may be repeated.",
            autocompletion=completion.scenarios,
        ),
    ] = None,
    energy: Annotated[
        str,
        typer.Option(
            "--energy", help="How energy is measured: cpu-time, an estimate, or codecarbon (extra energy)."
        ),
    ] = "cpu-time",
    grid: Annotated[
        str,
        typer.Option(
            "--grid", metavar="NAME|G", help="Carbon intensity: world, europe, usa, wind ... or g/kWh."
        ),
    ] = "world",
    pue: Annotated[
        float, typer.Option("--pue", help="Power usage effectiveness of the building, at least 1.")
    ] = 1.1,
    watts_per_core: Annotated[
        str,
        typer.Option(
            "--watts-per-core", metavar="NAME|W", help="Of a busy core: skylake, epyc-2 ... or watts."
        ),
    ] = "skylake",
    plugin: PluginOption = None,
    trust: TrustOption = False,
) -> None:
    """Run a benchmark: contenders x scenarios x seeds. Started again, it goes on where it was stopped."""
    from sysgym.cli.commands.bench import Energy, run_benchmark

    run_benchmark(
        suite,
        out=out,
        n_workers=jobs,
        n_seeds=seeds,
        contenders=contender or [],
        scenarios=scenario or [],
        plugins=plugin or [],
        energy=Energy(energy, grid, pue, watts_per_core),
        trust=trust,
        timeout_s=timeout,
    )


app.command()(report)
app.command()(submit)


@app.command()
def validate(
    folder: Annotated[Path, typer.Argument(metavar="DIR", help="Results folder of a benchmark.")],
    sample: Annotated[
        int, typer.Option("--sample", min=0, metavar="N", help="Rows to play again; 0: all.")
    ] = 10,
    all_: Annotated[bool, typer.Option("--all", help="Play every row again.")] = False,
    seed: Annotated[
        int | None,
        typer.Option("--seed", help="Of the choice of rows; new each time, and printed, if left out."),
    ] = None,
    jobs: JobsOption = 0,
    timeout: TimeoutOption = 3600.0,
    plugin: PluginOption = None,
    trust: TrustOption = False,
) -> None:
    """Play recorded rows again and compare every number; exit code 1 if one differs."""
    from sysgym.cli.commands.bench import stoppable, validate_rows

    count = None if all_ else sample or None
    with stoppable("rows listed as equal are; the same --seed goes over the same rows again"):
        validate_rows(
            folder,
            count=count,
            seed=seed,
            n_workers=jobs,
            plugins=plugin or [],
            trust=trust,
            timeout_s=timeout,
        )


@app.command()
def perf(
    json_file: Annotated[
        Path | None, typer.Option("--json", metavar="FILE", help="Write the figures as JSON lines.")
    ] = None,
    only: Annotated[
        str | None, typer.Option("--only", metavar="TEXT", help="Only figures whose label has this.")
    ] = None,
    backend: Annotated[
        str, typer.Option("--backend", help="packets: all but the kernel; linux: steps on the kernel.")
    ] = "packets",
) -> None:
    """Measure how fast simulator and environments are here, or steps on the real kernel."""
    from sysgym.cli.commands.perf import print_figures

    print_figures(json_file, only, backend)


@app.command()
def calibrate(
    scenario: Annotated[
        str,
        typer.Argument(help="Scenario of generated jobs, name or file.", autocompletion=completion.scenarios),
    ] = "google-2011",
    jobs: Annotated[int, typer.Option("--jobs", min=2, metavar="N", help="Jobs to generate.")] = 200,
    set_: SetOption = None,
) -> None:
    """Compare generated jobs with the figures that they are held to; exit code 1 if one is off."""
    from sysgym.cli.commands.calibrate import print_calibration

    if not print_calibration(scenario, jobs, set_ or []):
        raise typer.Exit(1)


@functools.cache
def command() -> Any:
    """Return the whole command line, built once: that takes a tenth of a second."""
    return typer.main.get_command(app)
