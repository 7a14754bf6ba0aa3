"""Description of a scenario of diagnosis in words, and its picture."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from sysgym.emulator.diagnosis.case import draw_case
from sysgym.emulator.diagnosis.parts import DATA_RANK
from sysgym.envs.diagnosis.observation import NOT_ASKED
from sysgym.envs.diagnosis.render import DiagnosisScene, draw_answers, draw_ranks
from sysgym.envs.pictures import new_figure, write_picture
from sysgym.scenarios.schema.diagnosis import DiagnosisScenario


def in_words(scenario: DiagnosisScenario) -> Iterator[tuple[str, str]]:
    """Yield the heading and text of each paragraph."""
    job, faults = scenario.job, scenario.faults
    if job.trace:
        yield "Job", f"{job.steps} steps of the trace {job.trace}."
    else:
        yield (
            "Job",
            f"{job.stages} stages, {job.data_ranks} data-parallel ranks, {job.microbatches} microbatches,"
            f" {job.schedule}; {job.steps} recorded steps.",
        )
    yield (
        "Faults",
        f"{faults.least} to {faults.most} in ranks, stages or kinds of operations, with a median factor of"
        f" {1 + faults.excess:g}.",
    )
    yield "Questions", f"At most {scenario.control.episode_steps}."
    seed = scenario.splits["test"].first_seed
    case = draw_case(scenario.draw("test", seed), seed)
    told = [
        f"{fault.part} (factor {fault.factor:.2f}, {100 * cost / case.what_if.step_s:.1f} % of a step)"
        for fault, cost in zip(case.faults, case.cost_s, strict=True)
    ]
    yield "Faults of the first test seed", ", ".join(told) + "."


def draw(scenario: DiagnosisScenario, path: Path) -> None:
    """Draw the first test episode, and the answers about all its parts, into a file.

    Raises:
        SysgymError: If the format is unknown, or the file cannot be written.
    """
    seed = scenario.splits["test"].first_seed
    case = draw_case(scenario.draw("test", seed), seed)
    answers = np.array([NOT_ASKED if part.what == DATA_RANK else case.share(part) for part in case.parts])
    figure = new_figure(10.0, 4.6, dpi=120)
    figure.suptitle(
        f"{scenario.name}: steps {100 * (case.what_if.slowdown - 1):.0f} % longer than without stragglers;"
        f" the worst fault is in {case.culprit}",
        fontsize=11,
    )
    left, right = figure.subplots(1, 2)
    draw_ranks(figure, left, case)
    draw_answers(right, DiagnosisScene(scenario.name, case, answers, case.culprit))
    write_picture(figure, path)
