"""Statistics of generated jobs are within tolerance of the references of their profile."""

from __future__ import annotations

import math

import numpy as np
import pytest

from sysgym.emulator.cluster.calibration import (
    FIGURES,
    REFERENCES,
    Held,
    Row,
    calibrate,
    rank_correlation,
    sample_of,
)
from sysgym.emulator.cluster.job import FloatArray, Job
from sysgym.scenarios import GeneratedJobs, load_scenario

N_JOBS = 200
"""As many as ``sysgym calibrate`` generates; the percentiles of the outer jobs need them."""


@pytest.mark.slow
@pytest.mark.parametrize("name", ["alibaba-2018", "google-2011", "google-2011-near"])
def test_generated_jobs_come_as_near_as_stated(name: str) -> None:
    jobs = load_scenario(name).jobs  # type: ignore[attr-defined]
    assert isinstance(jobs, GeneratedJobs)
    rows = calibrate(jobs, range(N_JOBS))
    off = [f"{row.figure}: {row.generated:.3g}, not {row.reference}" for row in rows if not row.fits]
    assert not off
    assert {row.figure for row in rows if row.is_held} == {
        figure for figure, held in REFERENCES[jobs.profile][jobs.tail].items() if held.within is not None
    }


def test_every_reference_has_its_figure() -> None:
    for references in (each for profile in REFERENCES.values() for each in profile.values()):
        assert set(references) <= set(FIGURES)
        assert all(held.source for held in references.values())


def _job(latency_s: FloatArray, cpu: FloatArray) -> Job:
    """Return a job whose counters are constant over each life, in windows of a second."""
    n, n_windows = len(latency_s), int(np.ceil(latency_s.max()))
    alive = np.arange(n_windows) < np.ceil(latency_s)[:, None]
    counters = np.zeros((n, 1, n_windows, 4), dtype=np.float32)
    counters[:, 0, :, 0] = cpu[:, None] * alive
    counters[:, 0, :, 2] = latency_s[:, None] * alive
    return Job(
        name="by hand",
        window_s=1.0,
        counter_names=("cpu_avg", "cpu_max", "mem_avg", "mem_max"),
        start_s=np.zeros(n),
        duration_s=latency_s[:, None],
        counters=counters,
        cause=np.zeros(n, dtype=np.int8),
    )


def test_figures_of_a_job_made_by_hand() -> None:
    # 101 tasks whose median is 10 s: the quantiles are those of the numbers.
    latency = np.concatenate([np.linspace(5.0, 10.0, 51), np.linspace(10.0, 20.0, 51)[1:-1], [40.0]])
    sample = sample_of(iter([_job(latency, 50.0 / latency)]))
    figure = {name: compute(sample) for name, compute in FIGURES.items()}
    assert figure["tasks of a job, p50"] == 101
    assert figure["median latency, mean of log s"] == pytest.approx(math.log(10.0))
    assert figure["completion, mean of log s"] == pytest.approx(math.log(40.0))
    assert figure["slowest / median, mean over jobs"] == pytest.approx(4.0)
    assert figure["p90 / median, p50 of jobs"] == pytest.approx(1.8)
    assert figure["tasks > 3 x median, %"] == pytest.approx(100.0 / 101.0)
    assert figure["jobs whose slowest > 3 x median, %"] == 100.0
    assert figure["jobs whose slowest > 10 x median, %"] == 0.0
    assert figure["jobs whose p90 < slowest / 2, %"] == 100.0
    assert figure["shorter if trimmed to p90, p50 of jobs, %"] == pytest.approx(55.0)
    assert figure["longer by tasks > 1.5 x median, p50 of jobs, %"] == pytest.approx(100.0 * (40 / 15 - 1))
    # Constant work at a varying rate: CPU falls as the latency grows, one for one.
    assert figure["rank correlation CPU, latency, p50 of jobs"] == pytest.approx(-1.0)
    assert figure["slope log CPU on log latency, p50 of jobs"] == pytest.approx(-1.0, abs=1e-5)
    assert figure["rank correlation memory, latency, p50 of jobs"] == pytest.approx(1.0)


def test_rank_correlation_agrees_with_scipy() -> None:
    from scipy.stats import spearmanr

    rng = np.random.default_rng(0)
    x = rng.standard_normal(200)
    y = x + rng.standard_normal(200)
    assert rank_correlation(x, y) == pytest.approx(float(spearmanr(x, y).statistic))


def test_what_fits() -> None:
    held = Held(-0.5, 0.1, "me")
    assert Row("a", -0.549, held).fits
    assert not Row("a", -0.551, held).fits
    assert not Row("a", -0.449, held).fits
    shown = Row("a", 7.0, Held(1.0, None, "me"))
    assert shown.fits
    assert not shown.is_held
    assert Row("a", 7.0, None).fits
    said = [
        row.verdict for row in (Row("a", -0.549, held), Row("a", -0.551, held), shown, Row("a", 7.0, None))
    ]
    assert said == ["fits", "off", "not claimed", "not claimed"]
