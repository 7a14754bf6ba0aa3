"""Names, arguments and help texts of the commands."""

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
from sysgym.cli.commands.live import live
from sysgym.cli.commands.new import new
from sysgym.cli.commands.report import report
from sysgym.cli.commands.submit import submit
from sysgym.cli.commands.trace import trace
from sysgym.cli.counts import count
from sysgym.cli.episode.plot import plot
from sysgym.cli.lab import lab
from sysgym.cli.options import (
    AddressOption,
    AgentOption,
    ClusterOption,
    ContenderOption,
    CsvOption,
    IntervalOption,
    JobsOption,
    OnOption,
    PluginOption,
    TransportOption,
    TrustOption,
)
from sysgym.cli.order import OrderedCommands
from sysgym.cli.pages.looking import list_, show
from sysgym.cli.study import study

app = typer.Typer(
    cls=OrderedCommands,
    no_args_is_help=True,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Learned systems control on simulated datacenters: environments, agents, benchmark.",
)
app.add_typer(emulator, name="emulator")
app.add_typer(lab, name="lab")
app.add_typer(study, name="study")
app.add_typer(trace, name="trace")
app.command()(export)
app.command()(fuzz)
app.command()(live)
app.command()(new)
app.command()(plot)


class Render(StrEnum):
    """Live display of an episode."""

    none = "none"
    ansi = "ansi"


SetOption = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="KEY=VALUE",
        help="Replace a scenario key, for example workload.load=0.6; repeatable.",
    ),
]
TimeoutOption = Annotated[
    float,
    typer.Option(
        "--timeout",
        min=0.0,
        metavar="SECONDS",
        help="Time limit of an episode; an episode that exceeds it is skipped; 0: no limit.",
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
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version and exit.")
    ] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show the traceback of an error.")] = False,
) -> None:
    """Handle the options before the command."""


app.command("list")(list_)
app.command()(show)


@app.command()
def run(
    scenario: Annotated[
        str | None,
        typer.Argument(
            help="Scenario name or file (default: dumbbell-10g).", autocompletion=completion.scenarios
        ),
    ] = None,
    scenario_option: Annotated[
        str | None,
        typer.Option(
            "--scenario",
            metavar="SCENARIO",
            help="Scenario, as an option instead of an argument.",
            autocompletion=completion.scenarios,
        ),
    ] = None,
    contender: ContenderOption = None,
    agent: AgentOption = None,
    transport: TransportOption = None,
    checkpoint: Annotated[
        Path | None, typer.Option("--checkpoint", help="Checkpoint of a trained agent.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, help="Seed of the episode (default: first of the split).")
    ] = None,
    split: Annotated[
        str | None,
        typer.Option(
            "--split", help="train, validation or test (default: the split that contains the seed)."
        ),
    ] = None,
    backend: Annotated[
        str | None,
        typer.Option("--backend", help="packets: simulator; linux: kernel, in wall time (networks only)."),
    ] = None,
    set_: SetOption = None,
    render: Annotated[
        Render, typer.Option("--render", help="ansi: show queues and rates in the terminal.")
    ] = Render.none,
    fps: Annotated[
        float,
        typer.Option(
            "--fps",
            min=1.0,
            max=100.0,
            help="Decisions per second on the screen, frames per second in a video.",
        ),
    ] = 25.0,
    picture: Annotated[
        Path | None, typer.Option("--picture", metavar="FILE", help="Write a picture of the episode (PNG).")
    ] = None,
    video: Annotated[
        Path | None,
        typer.Option(
            "--video",
            metavar="FILE",
            help="Write a video: .mp4 (needs the extra video) or .gif; at most one frame per decision.",
        ),
    ] = None,
    csv: CsvOption = None,
    interval: IntervalOption = None,
    trace: Annotated[
        Path | None,
        typer.Option(
            "--trace", metavar="FILE", help="Write a trace of queues and flows for ui.perfetto.dev (JSON)."
        ),
    ] = None,
    pcap: Annotated[
        Path | None,
        typer.Option("--pcap", metavar="FILE", help="Write the packets of --pcap-link for Wireshark (pcap)."),
    ] = None,
    pcap_link: Annotated[
        str | None,
        typer.Option("--pcap-link", metavar="LINK", help="Link to capture, for example west->east."),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print the metrics as one JSON object.")] = False,
    plugin: PluginOption = None,
    trust: TrustOption = False,
) -> None:
    """Run one episode and print its metrics."""
    from sysgym.cli.episode.run import Episode, Shown, only_contender, only_scenario, play_one
    from sysgym.cli.episode.traces import TraceFiles

    play_one(
        Episode(
            scenario=only_scenario(scenario, scenario_option) or "dumbbell-10g",
            contender=only_contender(contender or []),
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
        str, typer.Argument(help="Scenario name or file.", autocompletion=completion.scenarios)
    ],
    steps: Annotated[
        int, typer.Option("--steps", parser=count, metavar="N", help="Number of environment steps.")
    ] = 100_000,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            help="Folder for checkpoints, curves and TensorBoard logs (default: runs/AGENT-SCENARIO-seedN).",
        ),
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Training seed.")] = 0,
    n_envs: Annotated[int, typer.Option("--n-envs", min=1, help="Number of parallel environments.")] = 4,
    action_scale: Annotated[
        str, typer.Option("--action-scale", help="Mapping from the policy's output to a rate: log or linear.")
    ] = "log",
    history: Annotated[
        int, typer.Option("--history", min=1, max=64, help="Number of decision intervals in the observation.")
    ] = 1,
    reward: Annotated[
        str | None, typer.Option("--reward", help="Name of the reward (default: the scenario's).")
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Continue from the newest checkpoint in --out.")
    ] = False,
    set_: SetOption = None,
    parameter: Annotated[
        list[str] | None,
        typer.Option(
            "--parameter",
            "-p",
            metavar="NAME=VALUE",
            help="Hyperparameter of the algorithm, for example learning_rate=1e-3; repeatable.",
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
    suite: Annotated[str, typer.Argument(help="Suite name or file.", autocompletion=completion.suites)],
    out: Annotated[
        Path | None, typer.Option("--out", help="Results folder (default: results/SUITE).")
    ] = None,
    jobs: JobsOption = 0,
    on: OnOption = "local",
    address: AddressOption = None,
    cluster: ClusterOption = None,
    timeout: TimeoutOption = 3600.0,
    seeds: Annotated[
        int | None,
        typer.Option("--seeds", min=1, metavar="N", help="Use only the first N seeds of each task."),
    ] = None,
    contender: Annotated[
        list[str] | None,
        typer.Option(
            "--contender",
            "-c",
            metavar="[NAME=]WHO[@CHECKPOINT]",
            help=(
                "Additional contender for every task: dctcp, TRANSPORT:AGENT, swift,beta=0.4 ...; repeatable."
            ),
            autocompletion=completion.contenders,
        ),
    ] = None,
    scenario: Annotated[
        list[str] | None,
        typer.Option(
            "--scenario",
            metavar="SCENARIO",
            help="Additional scenario, name or file; repeatable.",
            autocompletion=completion.scenarios,
        ),
    ] = None,
    energy: Annotated[
        str,
        typer.Option(
            "--energy",
            help="Energy measurement: cpu-time (an estimate) or codecarbon (needs the extra energy).",
        ),
    ] = "cpu-time",
    grid: Annotated[
        str,
        typer.Option(
            "--grid",
            metavar="NAME|G",
            help="Carbon intensity of electricity: world, europe, usa, wind ... or a number in g/kWh.",
        ),
    ] = "world",
    pue: Annotated[
        float, typer.Option("--pue", help="Power usage effectiveness of the data centre, at least 1.")
    ] = 1.1,
    watts_per_core: Annotated[
        str,
        typer.Option(
            "--watts-per-core",
            metavar="NAME|W",
            help="Power of a busy core: skylake, epyc-2 ... or a number in watts.",
        ),
    ] = "skylake",
    plugin: PluginOption = None,
    trust: TrustOption = False,
) -> None:
    """Run a benchmark: contenders x scenarios x seeds. The same command resumes an interrupted run."""
    from sysgym.cli.commands.bench import Energy, Where, run_benchmark

    run_benchmark(
        suite,
        out=out,
        where=Where(on, jobs, address, cluster or []),
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
        int, typer.Option("--sample", min=0, metavar="N", help="Number of rows to replay; 0: all.")
    ] = 10,
    all_: Annotated[bool, typer.Option("--all", help="Replay every row.")] = False,
    seed: Annotated[
        int | None,
        typer.Option("--seed", help="Seed of the choice of rows (default: a new one each time, printed)."),
    ] = None,
    jobs: JobsOption = 0,
    timeout: TimeoutOption = 3600.0,
    plugin: PluginOption = None,
    trust: TrustOption = False,
) -> None:
    """Replay recorded rows and compare every number; exit code 1 if any differs."""
    from sysgym.cli.commands.bench import stoppable, validate_rows

    count = None if all_ else sample or None
    with stoppable("rows listed as equal are confirmed; the same --seed chooses the same rows again"):
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
        Path | None, typer.Option("--json", metavar="FILE", help="Write the results as JSON lines.")
    ] = None,
    only: Annotated[
        str | None,
        typer.Option("--only", metavar="TEXT", help="Only measurements whose label contains this text."),
    ] = None,
    backend: Annotated[
        str,
        typer.Option("--backend", help="packets: simulator and environments; linux: steps on the kernel."),
    ] = "packets",
) -> None:
    """Measure the speed of simulator and environments on this machine, or of steps on the kernel."""
    from sysgym.cli.commands.perf import print_figures

    print_figures(json_file, only, backend)


@app.command()
def calibrate(
    scenario: Annotated[
        str,
        typer.Argument(
            help="Scenario with generated jobs, name or file.", autocompletion=completion.scenarios
        ),
    ] = "google-2011",
    jobs: Annotated[
        int, typer.Option("--jobs", min=2, metavar="N", help="Number of jobs to generate.")
    ] = 200,
    set_: SetOption = None,
) -> None:
    """Compare generated jobs with their reference statistics; exit code 1 if one is out of tolerance."""
    from sysgym.cli.commands.calibrate import print_calibration

    if not print_calibration(scenario, jobs, set_ or []):
        raise typer.Exit(1)


@functools.cache
def command() -> Any:
    """Return the complete command line; cached, as building it takes a tenth of a second."""
    return typer.main.get_command(app)
