"""Pictures and texts of a diagnosis: the slowness of ranks by step, and the answers so far."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.diagnosis.case import Case
from sysgym.emulator.diagnosis.parts import Part
from sysgym.envs.diagnosis.observation import NOT_ASKED
from sysgym.envs.pictures import Picture, new_figure, pixels

FloatArray = NDArray[np.float64]
ASKED, NAMED = "#0072b2", "#d55e00"
MOST_BARS = 16


@dataclass(frozen=True)
class DiagnosisScene:
    """Data to draw.

    Attributes:
        title: Name of the scenario.
        case: The case.
        answers: Answer about each part; -1: not asked.
        named: The part that was named, if any.
    """

    title: str
    case: Case
    answers: FloatArray
    named: Part | None

    @property
    def heading(self) -> str:
        """The state in words."""
        case = self.case
        words = (
            f"{self.title}: steps {100 * (case.what_if.slowdown - 1):.0f} % longer than without stragglers"
        )
        words += f", {len(self.asked())} questions"
        if self.named:
            words += (
                f"; named: {self.named}, which has {100 * case.score(self.named):.0f} % of the worst cost"
            )
        return words

    def asked(self) -> list[tuple[str, float]]:
        """Return the parts that were asked about and their answers, the largest first."""
        found = [
            (str(part), float(answer))
            for part, answer in zip(self.case.parts, self.answers, strict=True)
            if answer != NOT_ASKED
        ]
        return sorted(found, key=lambda one: -one[1])


def diagnosis_text(scene: DiagnosisScene) -> str:
    """Return the state and a line for each answer."""
    lines = [scene.heading]
    lines += [f"{100 * answer:6.1f} % of the lost time: {part}" for part, answer in scene.asked()]
    return "\n".join(lines) + "\n"


def diagnosis_picture(scene: DiagnosisScene) -> Picture:
    """Return a picture of the job and the answers, shape (height, width, 3)."""
    figure = new_figure(9.5, 4.2)
    figure.suptitle(scene.heading, fontsize=9)
    left, right = figure.subplots(1, 2)
    draw_ranks(figure, left, scene.case)
    draw_answers(right, scene)
    return pixels(figure)


def excess_of_ranks(case: Case) -> FloatArray:
    """Return by how much ranks compute longer than ideally, in %, float64 [n_ranks, n_steps]."""
    what_if = case.what_if
    rows = []
    for rank in what_if.operations.ranks.tolist():
        here = what_if.operations.computes & (what_if.operations.rank == rank)
        rows.append(100.0 * (what_if.durations[:, here].sum(axis=1) / what_if.ideal[here].sum() - 1.0))
    return np.array(rows)


def draw_ranks(figure: Any, axes: Any, case: Case) -> None:
    """Draw ranks by steps on axes of matplotlib, coloured by how slowly they computed."""
    excess = excess_of_ranks(case)
    most = max(float(np.abs(excess).max()), 1.0)
    image = axes.imshow(excess, aspect="auto", cmap="RdBu_r", vmin=-most, vmax=most, interpolation="nearest")
    figure.colorbar(image, ax=axes, label="computing above the mean (%)")
    axes.set_xlabel("step")
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.set_ylabel("rank")
    stages = [part.which for part in case.parts if part.what == "stage"]
    for border in range(1, len(stages)):
        axes.axhline(border * len(excess) / len(stages) - 0.5, color="black", linewidth=0.5)


def draw_answers(axes: Any, scene: DiagnosisScene) -> None:
    """Draw the largest answers as bars on axes of matplotlib."""
    bars = scene.asked()[:MOST_BARS][::-1]
    colours = [NAMED if scene.named and part == str(scene.named) else ASKED for part, _ in bars]
    axes.barh([part for part, _ in bars], [100.0 * answer for _, answer in bars], color=colours)
    axes.set_xlabel("share of the lost time (%)")
    axes.tick_params(axis="y", labelsize=7)
    axes.spines[["top", "right"]].set_visible(False)
    if not bars:
        axes.set_yticks([])
