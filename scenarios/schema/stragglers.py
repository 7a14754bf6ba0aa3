"""Scenarios of the straggler family: jobs of parallel tasks, the definition of stragglers, and machines.

Durations that belong to a job are in units of its median task's latency ("medians"), so that one scenario
suits jobs of seconds and of hours.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from sysgym.scenarios.errors import Problem
from sysgym.scenarios.schema.later_keys import GrownTable
from sysgym.scenarios.schema.problems import range_problems
from sysgym.scenarios.schema.scenario import Scenario
from sysgym.scenarios.schema.tables import FromList, Reward, Table

MOST_TASKS = 20_000
MOST_MACHINES = 20_000

Share = Annotated[float, Field(ge=0.0, le=1.0)]
Medians = Annotated[float, Field(gt=0.0, le=100.0)]
PerMedian = Annotated[float, Field(ge=0.0, le=10.0)]
Factor = Annotated[float, Field(ge=1.0, le=100.0)]


class _Jobs(GrownTable):
    tasks_min: Annotated[int, Field(ge=2, le=MOST_TASKS)] = Field(
        default=100, description="minimum number of tasks of a job (NURD: 100)"
    )
    tasks_max: Annotated[int, Field(ge=2, le=MOST_TASKS)] = Field(
        default=1000,
        description="maximum number of tasks of a job; sets the size of observations and actions",
    )

    def cross_checks(self) -> Iterator[Problem]:
        """Check the range of the number of tasks."""
        yield from range_problems(self, "tasks")


class Cluster(Table):
    """Machines that run the tasks of generated jobs, with their other load."""

    machines: Annotated[int, Field(ge=2, le=MOST_MACHINES)] = Field(
        default=500, description="number of machines of the cluster"
    )
    slots_per_machine: Annotated[int, Field(ge=1, le=256)] = Field(
        default=4, description="number of tasks of the job that fit on a machine at once"
    )
    slow_machine_fraction: Share = Field(
        default=0.02, description="share of machines with one resource that is much slower than normal"
    )
    slow_machine_factor_min: Factor = Field(
        default=1.5, description="minimum slowdown of a slow machine's resource"
    )
    slow_machine_factor_max: Factor = Field(
        default=4.0, description="maximum slowdown of a slow machine's resource"
    )
    background_load: Annotated[float, Field(ge=0.0, le=2.0)] = Field(
        default=0.4, description="mean demand of the other jobs on a machine, as a share of its capacity"
    )
    background_duration: Medians = Field(
        default=0.7, description="mean duration of another job, in medians; durations are log-normal"
    )
    burstiness: Annotated[float, Field(ge=1.0, le=10.0)] = Field(
        default=1.84,
        description="coefficient of variation of the time between arrivals of other jobs; 1: Poisson"
        " arrivals",
    )

    def cross_checks(self) -> Iterator[Problem]:
        """Check the range of factors."""
        yield from range_problems(self, "slow_machine_factor")


class GeneratedJobs(_Jobs):
    """Jobs drawn by the episode's seed from a model of machines, contention, skew and faults."""

    LATER: ClassVar[Mapping[str, Any]] = {"tail": "far"}

    kind: Literal["generated"] = Field(description="source of jobs")
    profile: Literal["google-2011", "alibaba-2018"] = Field(
        description="trace whose counters and units are used: 15 or 4 counters"
    )
    tail: Literal["far", "near"] = Field(
        default="far",
        description="published statistic of the slowest tasks with which `sysgym calibrate` compares"
        " google-2011: far, 8 times the median task (Dolly), or near, jobs 34 % longer because of tasks"
        " over 1.5 medians (Mantri)",
    )
    windows_per_median: Annotated[int, Field(ge=2, le=200)] = Field(
        default=10,
        description="number of measuring windows in the latency of a job's typical task, which a scheduler"
        " would know of the job beforehand; each ends with a checkpoint. In the included scenarios the true"
        " median is 0.76 to 1.16 times as long",
    )
    base_time_log_mean: Annotated[float, Field(ge=-5.0, le=15.0)] = Field(
        default=4.35, description="mean over jobs of the natural log of the typical task's latency in s"
    )
    base_time_log_sd: Annotated[float, Field(ge=0.0, le=3.0)] = Field(
        default=0.68,
        description="standard deviation over jobs of the natural log of the typical task's latency",
    )
    start_spread: Annotated[float, Field(ge=0.0, le=10.0)] = Field(
        default=0.02, description="tasks start at times drawn between 0 and this, in medians"
    )
    skew_log_sd_mean: Annotated[float, Field(ge=-10.0, le=2.0)] = Field(
        default=-2.5,
        description="data skew: the log of a task's work has standard deviation exp(x), x normal over jobs;"
        " the mean of x",
    )
    skew_log_sd_sd: Annotated[float, Field(ge=0.0, le=3.0)] = Field(
        default=1.0, description="the standard deviation of x over jobs"
    )
    short_fraction: Share = Field(
        default=0.02, description="mean share of tasks with a small or empty input, drawn for each job"
    )
    heavy_fraction: Share = Field(
        default=0.05, description="share of jobs whose skew is heavy-tailed: Pareto instead of log-normal"
    )
    heavy_alpha: Annotated[float, Field(gt=1.0, le=20.0)] = Field(
        default=3.0, description="tail index of the work in heavy-tailed jobs"
    )
    contention_log_mean: Annotated[float, Field(ge=-10.0, le=5.0)] = Field(
        default=-1.0,
        description="sensitivity of a job's tasks to load: strength exp(y), y normal over jobs; the mean"
        " of y",
    )
    contention_log_sd: Annotated[float, Field(ge=0.0, le=3.0)] = Field(
        default=1.0, description="the standard deviation of y over jobs"
    )
    interference_rate: PerMedian = Field(
        default=0.02, description="number of interference episodes that begin on a machine, per median"
    )
    interference_duration: Medians = Field(
        default=0.7, description="mean duration of an interference episode, in medians; exponential"
    )
    interference_factor_min: Factor = Field(
        default=1.5, description="minimum slowdown of the resource that an interference episode affects"
    )
    interference_factor_max: Factor = Field(
        default=4.0, description="maximum slowdown of the resource that an interference episode affects"
    )
    fault_rate: PerMedian = Field(
        default=0.002,
        description="number of transient faults of an attempt (it stalls, then continues), per median",
    )
    fault_duration: Medians = Field(
        default=1.0, description="mean duration of a stall, in medians; exponential"
    )
    counter_noise: Annotated[float, Field(ge=0.0, le=5.0)] = Field(
        default=0.1, description="log standard deviation of a counter's measurement in one window"
    )
    informativeness: Share = Field(
        default=1.0,
        description="exponent on the effect of causes on a counter; 0: counters contain no information",
    )
    cluster: Cluster = Field(
        default_factory=Cluster, description="machines, and the other work on these machines"
    )

    def cross_checks(self) -> Iterator[Problem]:
        """Check ranges, and that all tasks find a slot."""
        yield from super().cross_checks()
        yield from range_problems(self, "interference_factor")
        slots = self.cluster.machines * self.cluster.slots_per_machine
        if self.tasks_max > slots:
            yield Problem(
                "cluster.machines",
                self.cluster.machines,
                f"room for tasks_max = {self.tasks_max} tasks; there are {slots} slots",
                "give the cluster more machines, or more slots a machine",
            )


TELLS = {
    "time": ("google-2011", "alibaba-2017", "alibaba-2018", "pai-2020", "table"),
    "user": ("google-2011", "pai-2020"),
    "program": ("google-2011", "pai-2020"),
}
"""Way to split a trace's jobs -> formats that tell what it needs; every format tells submissions."""


class TraceJobs(_Jobs, GrownTable):
    """Jobs replayed from a trace in a user's files, which tells the split that a job is in."""

    LATER: ClassVar[Mapping[str, Any]] = {"split": "submission"}

    kind: Literal["trace"] = Field(description="source of jobs")
    format: Literal["google-2011", "alibaba-2017", "alibaba-2018", "pai-2020", "spar", "table"] = Field(
        description=(
            "format of the files; spar: the hour of Alibaba's 2018 trace that the package spar contains;"
            " table: a custom table, with columns job, task, start_s, end_s and counters, and one row for"
            " each window"
        )
    )
    paths: Annotated[tuple[str, ...], FromList] = Field(
        default=(),
        description=(
            "files or folders of the trace; relative paths start at the current folder; none for spar. A"
            " leading $SYSGYM_TRACES stands for the value of this environment variable"
        ),
    )
    median_min_s: Annotated[float, Field(ge=0.0, le=1e6)] = Field(
        default=0.0,
        description="minimum median latency of a job, s; a trace in whole seconds has too little"
        " resolution for shorter jobs",
    )
    warmup_windows: Annotated[int, Field(ge=2, le=200)] = Field(
        default=10,
        description=(
            "number of measuring windows until 4 % of a job's tasks have finished, or until median_min_s if"
            " that is later; each ends with a checkpoint. So the window depends on nothing that happens"
            " after the first decision. Google's trace has windows of 300 s instead, and a table with several"
            " rows for each task those of its median row"
        ),
    )
    static_counters: Literal["withheld", "lifetime"] = Field(
        default="withheld",
        description=(
            "counters of which a trace has only the mean over the lifetime of an attempt. withheld: shown"
            " after the attempt has finished; lifetime: shown from the first window on, which leaks the"
            " future, as in NURD's evaluation"
        ),
    )
    split: Literal["submission", "time", "user", "program"] = Field(
        default="submission",
        description=(
            "division of jobs into train, validation and test, 60, 20 and 20 %. submission: by a hash of"
            " the name; time: the last two fifths of the trace are validation and test, and jobs that"
            " cross a boundary belong to no split; user, program: by a hash of the user, or of the program"
            " that jobs repeat, so that those of the test split are unseen"
        ),
    )

    def cross_checks(self) -> Iterator[Problem]:
        """Check that there is something to read, and that the trace tells how to split it."""
        yield from super().cross_checks()
        if self.format == "spar" and self.paths:
            yield Problem("paths", list(self.paths), 'no paths with format = "spar"', "delete the key")
        if self.format != "spar" and not self.paths:
            yield Problem("paths", [], "the files of the trace", 'add paths = ["/folder/of/the/trace"]')
        if self.format not in TELLS.get(self.split, (self.format,)):
            formats = ", ".join(TELLS[self.split])
            yield Problem("split", self.split, f"a way that the trace tells; this one needs one of {formats}")


SHARE_OF_WARMUP = 0.04
"""Share of a job's tasks that have finished when the window of a traced job is known."""

Jobs = Annotated[
    GeneratedJobs | TraceJobs,
    Field(discriminator="kind", description="source of jobs, and their sizes"),
]


class Straggler(Table):
    """Definition of stragglers: tasks whose latency reaches a threshold of their own job."""

    definition: Literal["quantile", "median_multiple"] = Field(
        default="quantile", description="quantile of the job's latencies, or multiple of their median"
    )
    value: Annotated[float, Field(gt=0.0, le=100.0)] = Field(
        default=0.9, description="the quantile (NURD: 0.9), or the multiple (usual: 1.5)"
    )
    threshold_known: bool = Field(
        default=True,
        description="whether agents see the threshold, as in NURD's setting, although it is unknown while"
        " a job runs",
    )

    @property
    def quantile(self) -> float | None:
        """The quantile; None if stragglers are defined by a multiple of the median."""
        return self.value if self.definition == "quantile" else None

    def cross_checks(self) -> Iterator[Problem]:
        """Check the value against the definition."""
        if self.definition == "quantile" and self.value >= 1.0:
            yield Problem("value", self.value, 'less than 1 with definition = "quantile"')
        if self.definition == "median_multiple" and self.value <= 1.0:
            yield Problem("value", self.value, 'more than 1 with definition = "median_multiple"')


class StragglerControl(Table):
    """Decision times: the ends of the measurement windows."""

    warmup_fraction: Annotated[float, Field(ge=0.0, lt=1.0)] = Field(
        default=0.04, description="share of tasks that have finished before the first decision (NURD: 0.04)"
    )
    max_checkpoints: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=200, description="maximum number of decisions in an episode"
    )


class Mitigation(Table):
    """Actions against stragglers."""

    spare_machines: Annotated[int, Field(ge=-1, le=MOST_MACHINES)] = Field(
        default=-1,
        description="number of machines for relaunches and copies, in addition to the job's own; -1: no"
        " limit",
    )
    attempts: Annotated[int, Field(ge=1, le=8)] = Field(
        default=3, description="maximum number of attempts of a task, including the first"
    )
    waste_price: Annotated[float, Field(ge=0.0, le=100.0)] = Field(
        default=0.1, description="price of the wasted machine time per task, in completion time"
    )
    actions_per_checkpoint: Annotated[int, Field(ge=0, le=MOST_TASKS)] = Field(
        default=0, description="maximum number of relaunches and copies at one checkpoint; 0: no limit"
    )


class StragglerScenario(Scenario):
    """Scenario of straggler prediction and mitigation."""

    VARIABLE_TABLES: ClassVar[tuple[str, ...]] = ("jobs", "mitigation")
    FIXED_KEYS: ClassVar[tuple[str, ...]] = (
        "jobs.kind",
        "jobs.profile",
        "jobs.format",
        "jobs.paths",
        "jobs.split",
        "jobs.tasks_max",
    )

    family: Literal["stragglers"] = Field(description="family of problems; determines the keys of the file")
    jobs: Jobs
    straggler: Straggler = Field(default_factory=Straggler, description="definition of stragglers")
    control: StragglerControl = Field(default_factory=StragglerControl, description="times of decisions")
    mitigation: Mitigation = Field(
        default_factory=Mitigation, description="resources and prices of mitigation"
    )
    reward: Reward = Field(default_factory=Reward, description="reward of the environment")

    def cross_checks(self) -> Iterator[Problem]:
        """Check that a job's window is known at the first decision."""
        yield from super().cross_checks()
        share = self.control.warmup_fraction
        if self.jobs.kind == "trace" and self.jobs.format != "google-2011" and share < SHARE_OF_WARMUP:
            yield Problem(
                "control.warmup_fraction",
                share,
                f"at least {SHARE_OF_WARMUP}: the first tasks to finish determine the job's measuring window",
            )
