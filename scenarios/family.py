"""The declaration of a family of problems.

A family is a folder: ``envs/FAMILY/__init__.py`` holds its ``FAMILY``, an object of :class:`Family`, and
every command asks that object. A declaration is data. What is heavy is named by an entry,
``module:attribute``, and imported when it is first used, so that reading all declarations is cheap.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from sysgym.scenarios.schema.common import Scenario


def load_entry(entry: str) -> Any:
    """Return what an entry names.

    Args:
        entry: ``module:attribute``.

    Raises:
        ImportError: The module cannot be imported.
        AttributeError: The module has no such attribute.
    """
    module, _, attribute = entry.partition(":")
    return getattr(import_module(module), attribute)


@dataclass(frozen=True)
class Metric:
    """A column of the report.

    Attributes:
        name: Key in the rows; its ending is its unit, as in ``queue_delay_p99_s``.
        label: Heading.
        higher_is_better: Direction.
    """

    name: str
    label: str
    higher_is_better: bool


@dataclass(frozen=True)
class Curve:
    """Metrics that are points of one line, such as ``f1_at_10``, ``f1_at_20``; drawn instead of tabulated.

    Attributes:
        prefix: Common beginning of their names; the number behind it is the point's place on the x-axis.
        label: Label of the y-axis.
        x_label: Label of the x-axis.
        higher_is_better: Direction.
    """

    prefix: str
    label: str
    x_label: str
    higher_is_better: bool

    def points(self, names: Iterable[str]) -> dict[int, str]:
        """Return place -> metric for the names that are points of the curve, in order."""
        ends = {name: name.removeprefix(self.prefix) for name in names if name.startswith(self.prefix)}
        return dict(sorted((int(end), name) for name, end in ends.items() if end.isdecimal()))


@dataclass(frozen=True)
class Evaluation:
    """How results are evaluated and reported.

    Attributes:
        reference: Contender that others are compared with where it plays.
        headline: Metric of the report's first sentence where a scenario has it; else ``benefit``.
        benefit: What contenders want more of; the y-axis of the trade-off's plot.
        cost: What they pay for it; the x-axis of that plot.
        metrics_entry: Entry of a dictionary: metric of an episode -> its meaning and unit.
        enough_benefit: Share of the best contender's benefit from which on a low cost counts, because an
            agent that does nothing often costs nothing. 0 where doing nothing is a contender like any other.
        curves: Metrics over the time of an episode, the most important first.
        average: Average over episodes: ``iqm``, the interquartile mean, or ``mean`` where most episodes are
            solved and the few others count.
        leading: Metrics that come first in tables, whatever the suite's order.
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
        """Columns where a suite names none."""
        return tuple(dict.fromkeys((self.headline, self.benefit, self.cost)))

    def metric_meanings(self) -> Mapping[str, str]:
        """Return metric -> its meaning and unit."""
        found: Mapping[str, str] = load_entry(self.metrics_entry)
        return found


@dataclass(frozen=True)
class Environment:
    """An environment of a family.

    Attributes:
        env_id: Gymnasium id.
        entry_point: Entry of its class.
        vector_entry_point: Entry of its vector form for ``gymnasium.make_vec``; empty where it has none.
        evaluation: How its results are evaluated; None: as the family's.
        agent_arguments: Arguments with which agents, benchmarks and checkpoints make it.
    """

    env_id: str
    entry_point: str
    vector_entry_point: str = ""
    evaluation: Evaluation | None = None
    agent_arguments: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True)
class Transports:
    """The transports of a family whose contenders are pairs of a transport and an agent.

    Attributes:
        registry: Module with ``list_transports()`` and ``get_transport(name)``.
        driven: Transport whose rate the agent sets; that of a contender named by its agent alone.
        uncapped: Agent that leaves a transport to itself; that of a contender named by its transport alone.
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


@dataclass(frozen=True)
class Disturbances:
    """The disturbances under which ``sysgym study stress`` can play a family.

    Attributes:
        noise: Whether observations are measured and can have noise.
        noise_keys: Of an observation that is a dictionary, the entries that are measured.
        late_actions: Whether actions can take effect late.
        link_failure: Entry of a function (scenario, link, down_share, up_share) -> scenario, which has the
            link down between two shares of the episode; empty where there are no links.
        kernel_backend: Backend of the real kernel; empty where there is none.
    """

    noise: bool = False
    noise_keys: tuple[str, ...] | None = None
    late_actions: bool = False
    link_failure: str = ""
    kernel_backend: str = ""


class Work(NamedTuple):
    """Work that a simulation takes, estimated.

    Attributes:
        wall_s: Time on one core.
        amount: Number of the simulator's operations.
        unit: Name of these operations.
    """

    wall_s: float
    amount: float
    unit: str


@dataclass(frozen=True)
class Family:
    """A family of problems.

    Attributes:
        name: Key ``family`` of its scenario files, and name of its folders.
        scenario: Entry of the schema, a subclass of :class:`sysgym.scenarios.Scenario`.
        environments: Its environments.
        evaluation: How results are evaluated.
        agents: Entry of a sequence of :class:`sysgym.agents.AgentInfo`, its own agents.
        learning: Entry of a :class:`sysgym.agents.learned.learning.Learning`, which says how a learner sees
            the family; the default serves environments whose observation is a box of numbers.
        transports: Its transports; None where a contender is an agent alone.
        backends: Values of the environments' argument ``backend``; the first is the default. Empty: they have
            no such argument.
        disturbances: What ``sysgym study stress`` can do to it.
        scenario_folder: Folder of its scenario files, with its suites in ``suites/``; None: files lie in the
            folder of the package sysgym.
        describe: Entry of a function scenario -> pairs of heading and text for ``sysgym show``; may be
            empty.
        draw: Entry of a function (scenario, path) that draws a scenario into a file; may be empty.
        estimate: Entry of a function (scenario, episodes, steps) -> :class:`Work`; may be empty.
        compile: Entry of a function that compiles what worker processes would each compile for themselves;
            may be empty. Workers are copies of a process that has imported the first environment of such a
            family, so that its module must not start a thread.
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

    def environment(self, env_id: str) -> Environment | None:
        """Return one of its environments; None where it has none of this id."""
        return next((one for one in self.environments if one.env_id == env_id), None)

    def evaluation_of(self, env_id: str) -> Evaluation:
        """Return how the results of an environment are evaluated."""
        found = self.environment(env_id)
        return self.evaluation if found is None or found.evaluation is None else found.evaluation

    def agent_arguments(self, env_id: str) -> dict[str, Any]:
        """Return the arguments with which agents and benchmarks make an environment."""
        found = self.environment(env_id)
        return {} if found is None else dict(found.agent_arguments)

    def describe_scenario(self, scenario: Scenario) -> Sequence[tuple[str, str]]:
        """Return headings and texts on a scenario; empty where the family has no words for it."""
        return list(load_entry(self.describe)(scenario)) if self.describe else []

    def estimate_work(self, scenario: Scenario, *, episodes: float = 0.0, steps: float = 0.0) -> Work | None:
        """Return the work of episodes and of single steps; None where the family has no estimate."""
        if not self.estimate:
            return None
        work: Callable[[Scenario, float, float], Work] = load_entry(self.estimate)
        return work(scenario, episodes, steps)
