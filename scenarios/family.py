"""Declaration of a family of problems.

A family is a folder: ``envs/FAMILY/__init__.py`` defines its ``FAMILY``, an object of :class:`Family`, which
every command uses. A declaration is data. Heavy parts are named by an entry, ``module:attribute``, and
imported on first use, so that reading all declarations is cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from sysgym.scenarios.errors import SysgymError

if TYPE_CHECKING:
    from sysgym.scenarios.schema.scenario import Scenario


def load_entry(entry: str) -> Any:
    """Return the object that an entry names.

    Args:
        entry: ``module:attribute``.

    Raises:
        ImportError: If the module cannot be imported.
        AttributeError: If the module has no such attribute.
    """
    module, _, attribute = entry.partition(":")
    return getattr(import_module(module), attribute)


@dataclass(frozen=True)
class Metric:
    """Column of the report.

    Attributes:
        name: Key in the rows; its suffix is the unit, as in ``queue_delay_p99_s``.
        label: Heading.
        higher_is_better: Whether higher values are better.
    """

    name: str
    label: str
    higher_is_better: bool


@dataclass(frozen=True)
class Curve:
    """Metrics that are points of one curve, such as ``f1_at_10``, ``f1_at_20``; plotted instead of tabulated.

    Attributes:
        prefix: Common prefix of their names; the number after it is the point's position on the x-axis.
        label: Label of the y-axis.
        x_label: Label of the x-axis.
        higher_is_better: Whether higher values are better.
    """

    prefix: str
    label: str
    x_label: str
    higher_is_better: bool

    def points(self, names: Iterable[str]) -> dict[int, str]:
        """Return the metrics that are points of the curve, by position, in order."""
        ends = {name: name.removeprefix(self.prefix) for name in names if name.startswith(self.prefix)}
        return dict(sorted((int(end), name) for name, end in ends.items() if end.isdecimal()))


@dataclass(frozen=True)
class Evaluation:
    """Evaluation and reporting of results.

    Attributes:
        reference: Contender with which the others are compared, where it takes part.
        headline: Metric of the report's first sentence where a scenario has it; else ``benefit``.
        benefit: Metric to increase; the y-axis of the trade-off plot.
        cost: Metric paid for the benefit; the x-axis of that plot.
        metrics_entry: Entry of a dictionary from the metrics of an episode to their meaning and unit.
        enough_benefit: Fraction of the best contender's benefit above which a low cost counts, because an
            agent that does nothing often costs nothing. 0 where doing nothing is a valid strategy.
        curves: Metrics over the time of an episode, the most important first.
        average: Average over episodes: ``iqm``, the interquartile mean, or ``mean`` where most episodes are
            solved and the few others matter.
        leading: Metrics that come first in tables, independently of the suite's order.
    """

    reference: str
    headline: Metric
    benefit: Metric
    cost: Metric
    metrics_entry: str
    enough_benefit: float = 0.0
    curves: tuple[Curve, ...] = ()
    average: Literal["iqm", "mean"] = "iqm"
    leading: tuple[str, ...] = ()

    @property
    def metrics(self) -> tuple[Metric, ...]:
        """Default columns, for suites that name none."""
        return tuple(dict.fromkeys((self.headline, self.benefit, self.cost)))

    def metric_meanings(self) -> Mapping[str, str]:
        """Return the meaning and unit of each metric."""
        found: Mapping[str, str] = load_entry(self.metrics_entry)
        return found


@dataclass(frozen=True)
class Environment:
    """Environment of a family.

    Attributes:
        env_id: Gymnasium id.
        entry_point: Entry of its class.
        vector_entry_point: Entry of its vector form for ``gymnasium.make_vec``; empty if it has none.
        evaluation: Evaluation of its results; None: that of the family.
        agent_arguments: Arguments with which agents, benchmarks and checkpoints create it.
        discount: Discount factor with which agents are trained in it by default; None: that of the algorithm.
    """

    env_id: str
    entry_point: str
    vector_entry_point: str = ""
    evaluation: Evaluation | None = None
    agent_arguments: Mapping[str, Any] = field(default_factory=dict)
    discount: float | None = 0.99


@dataclass(frozen=True)
class Transports:
    """Transports of a family whose contenders are pairs of a transport and an agent.

    Attributes:
        registry: Module with ``list_transports()`` and ``get_transport(name)``; a transport has ``constants``
            and ``with_constants(values)``.
        driven: Transport whose rate the agent sets; used for a contender named by its agent alone.
        uncapped: Agent that leaves the transport alone; used for a contender named by its transport alone.
    """

    registry: str
    driven: str
    uncapped: str

    def names(self) -> list[str]:
        """Return the names of the transports, in the order of registration."""
        found: list[str] = import_module(self.registry).list_transports()
        return found

    def check(self, name: str) -> None:
        """Raise UnknownName unless there is a transport of that name."""
        import_module(self.registry).get_transport(name)

    def constants(self, name: str) -> list[str]:
        """Return the names of a transport's constants, in their order; none if it is an agent's own."""
        if name not in self.names():
            return []
        return [constant.name for constant in import_module(self.registry).get_transport(name).constants]

    def with_constants(self, name: str, values: Mapping[str, Any]) -> Any:
        """Return the transport of a name with other values of some constants.

        Raises:
            UnknownName: There is no such transport or constant.
            SysgymError: A value is no number, or outside its bounds.
        """
        return import_module(self.registry).get_transport(name).with_constants(values)


@dataclass(frozen=True)
class Disturbance:
    """Disturbance of a chosen strength that a family declares for ``sysgym study stress``.

    It sets or multiplies values of the scenario, of which agents are told as little as before, or wraps the
    environment, so that agents observe less than there is.

    Attributes:
        name: Name in ``--disturb NAME=STRENGTH``.
        words: Text for tables in which ``{}`` stands for the strength.
        strength: Meaning of the strength, with its unit; label of an axis.
        levels: Strengths that are tried if the user chooses no condition, each stronger than the last.
        keys: Dotted keys of the scenario that get the strength as their value.
        relative: Whether the values of ``keys`` are multiplied by the strength instead.
        wrapper: Entry of a function (env, strength) -> env; empty if there are ``keys``.
        env_ids: Environments of the family that it applies to; empty: all.
    """

    name: str
    words: str
    strength: str
    levels: tuple[float, ...]
    keys: tuple[str, ...] = ()
    relative: bool = False
    wrapper: str = ""
    env_ids: tuple[str, ...] = ()

    def label(self, strength: float) -> str:
        """Return the text for tables."""
        return self.words.format(f"{strength:g}")

    def values(self, scenario: Scenario) -> dict[str, float]:
        """Return the values of the keys in a scenario.

        Raises:
            SysgymError: The scenario has no such key, or a split varies it.
        """
        found = {}
        for split, of_split in scenario.splits:
            if varied := sorted(set(self.keys) & set(of_split.varied)):
                raise SysgymError(
                    f'{scenario.name}: "{self.name}" does not apply: its split {split} varies {varied[0]}'
                )
        for key in self.keys:
            value: Any = scenario  # its resolved form may leave out a key at its default
            for part in key.split("."):
                value = getattr(value, part, None)
            if value is None:
                reason = f"it has no key {key}, which the disturbance changes"
                raise SysgymError(f'{scenario.name}: "{self.name}" does not apply: {reason}')
            found[key] = float(value)
        return found

    def undisturbed(self, scenario: Scenario) -> float:
        """Return the strength that changes nothing in a scenario."""
        if self.relative:
            return 1.0
        return next(iter(self.values(scenario).values()), 0.0)

    def applied(self, scenario: Scenario, strength: float) -> Scenario:
        """Return the disturbed scenario; the scenario itself if the disturbance wraps the environment.

        Raises:
            SysgymError: The scenario has no such key or varies it, or the strength is not possible.
        """
        values = self.values(scenario)
        if not values:
            return scenario
        return scenario.with_overrides(
            {key: strength * value if self.relative else strength for key, value in values.items()}
        )

    def wrapped(self, env: Any, strength: float) -> Any:
        """Return the environment as agents see it."""
        return load_entry(self.wrapper)(env, strength) if self.wrapper else env


@dataclass(frozen=True)
class Disturbances:
    """Disturbances of a family in ``sysgym study stress``.

    Attributes:
        noise: Whether observations are measurements and can have noise.
        noise_keys: Measured entries of an observation that is a dictionary.
        late_actions: Whether actions can take effect late.
        link_failure: Entry of a function (scenario, link, down_share, up_share) -> scenario, in which the
            link is down between two fractions of the episode; empty if there are no links.
        kernel_backend: Backend of the real kernel; empty if there is none.
        own: Disturbances that only this family has.
    """

    noise: bool = False
    noise_keys: tuple[str, ...] | None = None
    late_actions: bool = False
    link_failure: str = ""
    kernel_backend: str = ""
    own: tuple[Disturbance, ...] = ()

    def of(self, env_id: str) -> dict[str, Disturbance]:
        """Return the family's own disturbances of an environment, by name."""
        return {one.name: one for one in self.own if not one.env_ids or env_id in one.env_ids}


class Work(NamedTuple):
    """Estimated work of a simulation.

    Attributes:
        wall_s: Wall time on one core, s.
        amount: Number of the simulator's operations.
        unit: Name of these operations.
    """

    wall_s: float
    amount: float
    unit: str


class SurveyPage(NamedTuple):
    """Table of a survey.

    Attributes:
        title: Title above the table.
        text: Content and method, in words.
        columns: Headings.
        rows: Cells as shown; the first is the name of the row.
    """

    title: str
    text: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class Family:
    """Family of problems.

    Attributes:
        name: Value of ``family`` in its scenario files, and name of its folders.
        scenario: Entry of the schema, a subclass of :class:`sysgym.scenarios.Scenario`.
        environments: Environments of the family.
        evaluation: Evaluation of results.
        agents: Entry of a sequence of :class:`sysgym.agents.AgentInfo`, the agents of the family.
        learning: Entry of a :class:`sysgym.agents.learned.learning.Learning`, which describes the family to
            learners; the default serves environments whose observation is a box of numbers.
        transports: Transports of the family; None if a contender is an agent alone.
        backends: Values of the environments' argument ``backend``; the first is the default. Empty: they have
            no such argument.
        disturbances: Disturbances of ``sysgym study stress``.
        scenario_folder: Folder of its scenario files, with its suites in ``suites/``; None: files lie in the
            folder of the package sysgym.
        describe: Entry of a function from a scenario to pairs of heading and text for ``sysgym show``; may
            be empty.
        draw: Entry of a function (scenario, path) that draws a scenario into a file; may be empty.
        estimate: Entry of a function (scenario, episodes, steps) -> :class:`Work`; may be empty.
        compile: Entry of a function that compiles the code that each worker process would otherwise compile;
            may be empty. Workers are copies of a process that has imported the first environment of such a
            family, so its module must not start a thread.
        prepare: Entry of a function from a scenario that reads the user's files for it, such as a trace,
            before a benchmark starts workers; may be empty.
        live: Entry of a function from an environment to its view in ``sysgym live``, a
            ``sysgym.envs.live.LiveView``; may be empty.
        surveys: Surveys that suites may request, by name: entry of a function (folder, n_workers,
            progress) -> sequence of :class:`SurveyPage`, tables about the family's world that need no
            contender. ``folder`` is that of the results; ``progress(done, of)`` reports parts.
        parallel: Entries of multi-agent environments by id, each a ``pettingzoo.ParallelEnv``.
    """

    name: str
    scenario: str
    environments: tuple[Environment, ...]
    evaluation: Evaluation
    agents: str
    learning: str = "sysgym.agents.learned.boxes:BOXES"
    transports: Transports | None = None
    backends: tuple[str, ...] = ()
    disturbances: Disturbances = field(default_factory=Disturbances)
    scenario_folder: Path | None = None
    describe: str = ""
    draw: str = ""
    estimate: str = ""
    compile: str = ""
    prepare: str = ""
    live: str = ""
    surveys: Mapping[str, str] = field(default_factory=dict)
    parallel: Mapping[str, str] = field(default_factory=dict)

    def environment(self, env_id: str) -> Environment | None:
        """Return an environment by its id; None if there is none."""
        return next((one for one in self.environments if one.env_id == env_id), None)

    def evaluation_of(self, env_id: str) -> Evaluation:
        """Return the evaluation of an environment's results."""
        found = self.environment(env_id)
        return self.evaluation if found is None or found.evaluation is None else found.evaluation

    def agent_arguments(self, env_id: str) -> dict[str, Any]:
        """Return the arguments with which agents and benchmarks create an environment."""
        found = self.environment(env_id)
        return {} if found is None else dict(found.agent_arguments)

    def describe_scenario(self, scenario: Scenario) -> Sequence[tuple[str, str]]:
        """Return headings and texts that describe a scenario; empty if the family has none."""
        return list(load_entry(self.describe)(scenario)) if self.describe else []

    def estimate_work(self, scenario: Scenario, *, episodes: float = 0.0, steps: float = 0.0) -> Work | None:
        """Return the estimated work of episodes and single steps; None if the family has no estimate."""
        if not self.estimate:
            return None
        work: Callable[[Scenario, float, float], Work] = load_entry(self.estimate)
        return work(scenario, episodes, steps)

    def prepare_for(self, scenario: Scenario) -> None:
        """Read the user's files that a scenario needs.

        Raises:
            SysgymError: A file is missing or cannot be used.
        """
        if self.prepare:
            load_entry(self.prepare)(scenario)
