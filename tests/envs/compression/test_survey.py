"""Survey of set-ups: counts against the model's own times, and what assumptions change."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from sysgym.bench import surveys
from sysgym.emulator.compression.times import NONE, iteration_times_s, job_of
from sysgym.envs.compression.survey import (
    ASSUMPTIONS,
    BANDWIDTHS_BPS,
    BATCHES,
    MODELS,
    PUBLISHED,
    WORKERS,
    kept_progress,
    scenario_of,
    survey,
)


def test_a_cell_is_the_progress_a_second_over_that_of_no_compression() -> None:
    found = survey(ASSUMPTIONS[0])
    gradient_bytes, reference_s = MODELS["ResNet-101"]
    backward_s = BATCHES[1] * reference_s
    scenario = scenario_of(gradient_bytes, backward_s, ASSUMPTIONS[0])
    place = np.array([BANDWIDTHS_BPS[2]]), np.array([WORKERS[3]]), np.array([backward_s])
    times_s = iteration_times_s(job_of(scenario), *place)[0]
    expected = kept_progress(scenario) * times_s[NONE] / times_s - 1.0
    np.testing.assert_allclose(found.gains[1, 3, 2, 1], expected)
    assert (found.gains[..., NONE] == 0.0).all()


def test_faster_encoding_wins_more_and_plain_half_precision_fewer() -> None:
    won = {one.name: int((survey(one).winners(PUBLISHED) != NONE).sum()) for one in ASSUMPTIONS}
    assert won["encoding twice as slow"] < won["as assumed"] < won["encoding ten times as fast"]
    assert won["no compression has 16 bits a value"] < won["as assumed"]


def test_the_benchmark_prints_it(tmp_path: Path) -> None:
    reported: list[tuple[int, int]] = []
    first, second = surveys.make("compression", tmp_path, 1, lambda done, of: reported.append((done, of)))
    assert reported[-1] == (len(ASSUMPTIONS), len(ASSUMPTIONS))
    assert [row[0] for row in first.rows] == [one.name for one in ASSUMPTIONS]
    n_setups = len(MODELS) * len(WORKERS) * len(BANDWIDTHS_BPS) * len(BATCHES)
    assert first.rows[0][1].endswith(f" of {n_setups}")
    counts = [int(cell.split()[0]) for row in second.rows for cell in row[1:]]
    assert sum(counts) == int(first.rows[0][1].split()[0])
