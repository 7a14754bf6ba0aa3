"""Picture of a program as a timeline, above the all-reduce and the best program."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from sysgym.emulator.accelerators.programs.patterns import Instruction, Program
from sysgym.envs.pictures import Picture, new_figure, pixels
from sysgym.envs.placement.metrics import Outcome
from sysgym.envs.placement.render.common import (
    COLLECTIVE_COLOURS,
    COLLECTIVE_NAMES,
    FAINT,
    INK,
    compared,
    instruction,
    reduction,
    system,
    time,
    time_scale,
    wrapped,
)
from sysgym.envs.placement.tasks import ProgramTask

BAR_WIDTH = 36
FINISHED, BEST = "this program", "the best program"


@dataclass(frozen=True)
class ProgramScene:
    """Data to draw.

    Attributes:
        title: Name of the scenario.
        task: The reduction and its placement.
        edges: Steps of the program so far, as edges of the task's space.
        max_steps: Largest number of steps.
        outcome: Outcome of the episode; None while it is in progress.
    """

    title: str
    task: ProgramTask
    edges: tuple[int, ...]
    max_steps: int
    outcome: Outcome | None

    @property
    def programs(self) -> list[tuple[str, list[tuple[Instruction, float]]]]:
        """(name, steps with their times) of the program, the all-reduce and the best program."""
        best, _ = self.task.best(self.max_steps)
        mine = [
            (self.task.space.edge_instruction(edge), float(self.task.edge_time_s[edge]))
            for edge in self.edges
        ]
        state = FINISHED if self.outcome is not None else "this program so far"
        if self.outcome is not None and not self.outcome.valid:
            state = "this program, not valid: counts as the AllReduce"
        return [
            (state, mine),
            ("a single AllReduce, the default", self._timed(self.task.all_reduce)),
            (BEST, self._timed(best)),
        ]

    @property
    def groups(self) -> str:
        """One-line description of the reduction groups."""
        task, hierarchy = self.task, self.task.problem.hierarchy
        spans = " x ".join(f"{factor} {hierarchy.levels[level].name}s" for level, factor in task.factors)
        members = 1
        for _, factor in task.factors:
            members *= factor
        n_groups = hierarchy.n_devices // members
        together = (
            f"{n_groups} groups at once, each of {members} devices"
            if n_groups > 1
            else f"one group of {members} devices"
        )
        return f"{together} = {spans}"

    @property
    def patterns(self) -> str:
        """One or two lines on the meaning of the patterns in this problem."""
        names = [self.task.problem.hierarchy.levels[level].name for level, _ in self.task.factors]
        if len(names) == 1:
            return f"all: the {names[0]}s of a group"
        if len(names) == 2:
            outer, inner = names
            return (
                f"inside: {inner}s of one {outer};  across: {inner}s at the same place of all {outer}s;  "
                f"masters: the first {inner} of every {outer};  all: everyone"
            )
        levels = ", ".join(f"{index} {name}" for index, name in enumerate(names))
        return (
            f"numbers: the levels in which the members of a group differ ({levels})\n"
            "inside: these are the innermost;  across: members are at the same place inside them;  "
            "masters: only the first place inside takes part"
        )

    def _timed(self, program: Program) -> list[tuple[Instruction, float]]:
        edges = self.task.space.edges_of(program)
        return [(one, float(self.task.edge_time_s[edge])) for one, edge in zip(program, edges, strict=True)]


def program_text(scene: ProgramScene) -> str:
    """Return a few lines: the reduction, then every program step by step."""
    task = scene.task
    problem = task.problem
    lines = [
        f"{scene.title}: {system(problem)}, {reduction(task.reduction, problem.axes)}",
        f"  {scene.groups}",
    ]
    longest_s = max(sum(time_s for _, time_s in steps) for _, steps in scene.programs) or 1.0
    for name, steps in scene.programs:
        lines.append(f"{name}: {_summary(scene, name, steps)}")
        begin_s = 0.0
        for one, time_s in steps:
            bar = _bar(begin_s / longest_s, (begin_s + time_s) / longest_s)
            lines.append(f"  {instruction(one, task.space.n_levels):<28} |{bar}| {time(time_s):>8}")
            begin_s += time_s
    return "\n".join(lines) + "\n"


def program_picture(scene: ProgramScene) -> Picture:
    """Return a picture of the timelines, shape (height, width, 3): a row per step, on a common time scale."""
    from matplotlib.patches import Patch

    task, programs = scene.task, scene.programs
    longest_s = max(sum(time_s for _, time_s in steps) for _, steps in programs) or 1e-6
    scale = min(time_scale(longest_s)[0], 1e-3)
    unit = {1e-3: "ms", 1e-6: "us"}[scale]
    # The size is that of the longest programs, and the first row has room for one: it does not grow in an
    # episode.
    longest = scene.max_steps
    rows = [longest, *(max(len(steps), 1) for _, steps in programs[1:])]
    figure = new_figure(11.0, 3.2 + 0.34 * (2 * longest + 1))
    heading = f"{scene.title}: {system(task.problem)}, {reduction(task.reduction, task.problem.axes)}"
    figure.suptitle(wrapped([heading, scene.groups], 11.0, 11), fontsize=11)
    panels = figure.subplots(len(programs), 1, sharex=True, height_ratios=[count + 0.3 for count in rows])
    for axes, count, (name, steps) in zip(panels, rows, programs, strict=True):
        _draw_steps(axes, steps, task.space.n_levels, scale, longest_s)
        axes.set_ylim(count - 0.4, -0.6)
        axes.set_title(f"{name}: {_summary(scene, name, steps)}", fontsize=10, loc="left")
    panels[-1].set_xlabel(f"time ({unit})\n{scene.patterns}", fontsize=9)
    panels[-1].set_xlim(0.0, 1.12 * longest_s / scale)
    used = dict.fromkeys(one.collective for _, steps in programs for one, _ in steps)
    handles = [Patch(facecolor=COLLECTIVE_COLOURS[one], label=COLLECTIVE_NAMES[one]) for one in used]
    figure.legend(handles=handles, loc="outside lower center", ncols=5, fontsize=9, frameon=False)
    return pixels(figure)


def _summary(scene: ProgramScene, name: str, steps: Sequence[tuple[Instruction, float]]) -> str:
    if not steps:
        return "nothing yet"
    default_s = scene.task.all_reduce_time_s
    total_s = sum(time_s for _, time_s in steps)
    compare = name in (FINISHED, BEST)
    words = f"{time(total_s)} in {len(steps)} {'step' if len(steps) == 1 else 'steps'}"
    return f"{words}, {compared(total_s, default_s, 'a single AllReduce')}" if compare else words


def _draw_steps(
    axes: Any, steps: Sequence[tuple[Instruction, float]], n_levels: int, scale: float, longest_s: float
) -> None:
    begin_s = 0.0
    for row, (one, time_s) in enumerate(steps):
        left, width = begin_s / scale, time_s / scale
        axes.barh(row, width, left=left, height=0.72, color=COLLECTIVE_COLOURS[one.collective])
        axes.text(
            left + width + 0.006 * longest_s / scale, row, time(time_s), va="center", fontsize=9, color=INK
        )
        if row + 1 < len(steps):
            axes.plot([left + width] * 2, [row, row + 1], color=FAINT, linewidth=0.8, zorder=0)
        begin_s += time_s
    axes.set_yticks(range(len(steps)), [instruction(one, n_levels) for one, _ in steps], fontsize=9)
    axes.tick_params(axis="y", length=0)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x", color="#e4e4e4", linewidth=0.8)
    axes.set_axisbelow(True)


def _bar(begin: float, end: float) -> str:
    first, last = round(begin * BAR_WIDTH), round(end * BAR_WIDTH)
    return (" " * first + "█" * max(last - first, 1)).ljust(BAR_WIDTH)[:BAR_WIDTH]
