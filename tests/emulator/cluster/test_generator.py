"""Generated jobs: random draws, their effects, and counters."""

from __future__ import annotations

import hashlib
import math
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sysgym.emulator.cluster.calibration import rank_correlation
from sysgym.emulator.cluster.causes import draw_faults, draw_work, running_share
from sysgym.emulator.cluster.counters import PROFILES
from sysgym.emulator.cluster.generator import Attempts, draw_world, generate_job, simulate_attempt
from sysgym.emulator.cluster.job import CAUSES, FloatArray, Job
from sysgym.emulator.cluster.machines import CPU, DISK, MEMORY, _occupancy, draw_machines, draw_slowness
from sysgym.scenarios import GeneratedJobs, StragglerScenario, load_scenario

SHIPPED = ("alibaba-2018", "google-2011")

# Nothing that makes tasks differ: each test adds the one that it is about.
CALM = {
    "skew_log_sd_mean": -10.0,
    "skew_log_sd_sd": 0.0,
    "short_fraction": 0.0,
    "heavy_fraction": 0.0,
    "contention_log_mean": -10.0,
    "contention_log_sd": 0.0,
    "interference_rate": 0.0,
    "fault_rate": 0.0,
    "counter_noise": 0.0,
    "tasks_min": 400,
    "cluster.slow_machine_fraction": 0.0,
}
CONTENDED = {"contention_log_mean": 0.0}
SKEWED = {"skew_log_sd_mean": -1.2}
NOISY = {"counter_noise": 0.1}


def jobs_of(name: str = "google-2011", /, **changes: float) -> GeneratedJobs:
    overrides = {f"jobs.{key}": value for key, value in changes.items()}
    jobs = load_scenario(name, overrides=overrides, expect=StragglerScenario).jobs
    assert isinstance(jobs, GeneratedJobs)
    return jobs


def lifetime_mean(job: Job, name: str) -> FloatArray:
    series = job.counters[:, 0, :, job.counter_names.index(name)]
    mean: FloatArray = series.sum(axis=1, dtype=np.float64) / np.ceil(job.latency_s / job.window_s)
    return mean


def relation(job: Job, name: str) -> float:
    return rank_correlation(lifetime_mean(job, name), job.latency_s)


def work_done(life: Attempts, n_tasks: int) -> FloatArray:
    done: FloatArray = np.bincount(life.task, life.rate * life.length, n_tasks).astype(np.float64)
    return done


@pytest.mark.parametrize("name", SHIPPED)
def test_a_job_has_the_shapes_it_promises(name: str) -> None:
    jobs = jobs_of(name)
    for seed in range(3):
        job = generate_job(jobs, seed, attempts=2)
        n, counters = job.n_tasks, PROFILES[jobs.profile]
        assert jobs.tasks_min <= n <= jobs.tasks_max
        assert job.counter_names == tuple(counter.name for counter in counters)
        assert job.start_s.shape == (n,)
        assert job.duration_s.shape == (n, 2)
        assert job.counters.shape[:2] == (n, 2)
        assert job.counters.shape[3] == len(counters)
        assert job.counters.dtype == np.float32
        assert job.cause.dtype == np.int8
        assert set(job.cause) <= {CAUSES.index(cause) for cause in CAUSES if cause != "unknown"}


@settings(deadline=None, max_examples=25)
@given(
    st.integers(0, 2**31 - 1),
    st.sampled_from(SHIPPED),
    st.one_of(st.just(0.0), st.floats(1e-300, 1e-9), st.floats(0.01, 2.0)),
    st.floats(0.0, 3.0),
    st.integers(2, 30),
)
def test_whatever_happens_work_is_done_and_counters_end(
    seed: int, name: str, fault_rate: float, start_spread: float, windows_per_median: int
) -> None:
    jobs = jobs_of(
        name,
        tasks_max=120,
        fault_rate=fault_rate,
        start_spread=start_spread,
        windows_per_median=windows_per_median,
    )
    world = draw_world(jobs, seed)
    job = generate_job(jobs, seed, attempts=2)
    assert (job.duration_s > 0.0).all()
    assert np.isfinite(job.duration_s).all()
    assert (job.start_s >= 0.0).all()
    assert np.isfinite(job.counters).all()
    assert (job.counters >= 0.0).all()
    for attempt in range(2):
        life = simulate_attempt(jobs, world, seed, attempt)
        # The rate over the windows sums to the work, and the duration is exactly what that takes.
        np.testing.assert_allclose(work_done(life, world.n_tasks), world.work * windows_per_median, rtol=1e-9)
        np.testing.assert_allclose(np.bincount(life.task, life.length), life.duration, rtol=1e-9)
        np.testing.assert_array_equal(job.duration_s[:, attempt], life.duration * job.window_s)
        n_windows = np.ceil(life.duration - 1e-9).astype(int)
        np.testing.assert_array_equal(np.bincount(life.task), n_windows)
        after = np.arange(job.counters.shape[2]) >= n_windows[:, None]
        assert not job.counters[:, attempt][after].any()
        # While an attempt lives, something of it is measured, even when it stalls.
        assert job.counters[:, attempt][~after].any(axis=-1).all()


def test_an_attempt_is_the_same_however_many_are_asked_for() -> None:
    jobs = jobs_of()
    one, three = (generate_job(jobs, 5, attempts) for attempts in (1, 3))
    np.testing.assert_array_equal(one.duration_s, three.duration_s[:, :1])
    n_windows = one.counters.shape[2]
    np.testing.assert_array_equal(one.counters, three.counters[:, :1, :n_windows])
    assert not three.counters[:, 0, n_windows:].any()


def test_attempts_share_the_work_and_nothing_else() -> None:
    """Without skew, the second attempt knows nothing of the first; with nothing but skew, it is the same."""
    contended = generate_job(jobs_of(**CALM | CONTENDED | {"tasks_min": 400}), 1, 3).duration_s
    for one, other in ((0, 1), (0, 2), (1, 2)):
        assert abs(rank_correlation(contended[:, one], contended[:, other])) < 0.15
    skewed = generate_job(jobs_of(**CALM | SKEWED), 1, 2).duration_s
    assert rank_correlation(skewed[:, 0], skewed[:, 1]) > 0.95


def test_another_attempt_is_on_another_machine_of_the_same_cluster() -> None:
    jobs = jobs_of()
    world = draw_world(jobs, 3)
    machines = [simulate_attempt(jobs, world, 3, attempt).machine for attempt in range(3)]
    assert (machines[0] != machines[1]).all()
    assert (machines[0] != machines[2]).all()
    assert (machines[1] != machines[2]).mean() > 0.9
    assert np.bincount(machines[0]).max() <= jobs.cluster.slots_per_machine


@pytest.mark.parametrize("name", SHIPPED)
def test_same_seed_same_bytes_in_a_second_process(name: str) -> None:
    code = (
        "import hashlib\n"
        "from sysgym.emulator.cluster.generator import generate_job\n"
        "from sysgym.scenarios import load_scenario\n"
        f"job = generate_job(load_scenario({name!r}).jobs, 11, 2)\n"
        "print(hashlib.sha256(job.duration_s.tobytes() + job.counters.tobytes()"
        " + job.start_s.tobytes() + job.cause.tobytes()).hexdigest())"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    job = generate_job(jobs_of(name), 11, 2)
    parts = (job.duration_s, job.counters, job.start_s, job.cause)
    here = hashlib.sha256(b"".join(part.tobytes() for part in parts)).hexdigest()
    assert done.stdout.strip() == here
    assert generate_job(jobs_of(name), 12, 2).duration_s.tobytes() != job.duration_s.tobytes()


def test_a_task_slowed_by_contention_shows_it() -> None:
    job = generate_job(jobs_of(**CALM | CONTENDED | NOISY), 2)
    assert relation(job, "cpu_rate") < -0.8
    assert np.log(job.latency_s).std() > 0.1


def test_a_task_with_more_data_does_not_show_it() -> None:
    job = generate_job(jobs_of(**CALM | SKEWED | NOISY), 2)
    assert np.log(job.latency_s).std() > 0.2
    for name in ("cpu_rate", "max_cpu_rate", "disk_io_time", "cycles_per_instruction"):
        assert abs(relation(job, name)) < 0.15, name
    # But for its memory, a little, and the disk space that it fills over its longer life.
    assert relation(job, "canonical_memory") > 0.1


@pytest.mark.parametrize(
    ("resource", "rises", "falls"),
    [
        (CPU, (), ("cpu_rate", "disk_io_time")),
        (MEMORY, ("cycles_per_instruction", "memory_accesses_per_instruction"), ("disk_io_time",)),
        (DISK, ("disk_io_time",), ("cpu_rate",)),
    ],
)
def test_each_resource_shows_in_its_own_counters(
    resource: int, rises: tuple[str, ...], falls: tuple[str, ...]
) -> None:
    """Machines that are slow in one resource, against those that are slow in none."""
    jobs = jobs_of(**CALM | {"cluster.slow_machine_fraction": 0.5})
    job, world = generate_job(jobs, 4), draw_world(jobs, 4)
    own = world.own[simulate_attempt(jobs, world, 4, 0).machine]
    slow = own > 2.5
    hit = slow[:, resource] & (slow.sum(axis=1) == 1)
    well = ~slow.any(axis=1)
    assert min(hit.sum(), well.sum()) > 20
    for name in rises:
        assert lifetime_mean(job, name)[hit].mean() > 1.3 * lifetime_mean(job, name)[well].mean(), name
    for name in falls:
        assert lifetime_mean(job, name)[hit].mean() < 0.95 * lifetime_mean(job, name)[well].mean(), name
    assert job.latency_s[hit].mean() > 1.05 * job.latency_s[well].mean()


@pytest.mark.parametrize("name", SHIPPED)
def test_counters_can_tell_nothing(name: str) -> None:
    """Spearman's correlation of 400 pairs without a relation: standard deviation 0.05."""
    # A task that differs from others in nothing but noise: causes are at work, and unseen.
    loud = CONTENDED | SKEWED | {"fault_rate": 0.1, "informativeness": 0.0}
    job = generate_job(jobs_of(name, **CALM | NOISY | loud), 6)
    assert np.log(job.latency_s).std() > 0.2
    seen = generate_job(jobs_of(name, **CALM | NOISY | loud | {"informativeness": 1.0}), 6)
    np.testing.assert_array_equal(seen.latency_s, job.latency_s)
    cpu = job.counter_names[0]
    assert abs(relation(seen, cpu)) > 0.3
    for counter in job.counter_names:
        if counter not in ("assigned_memory", "evictions", "failures"):
            assert abs(relation(job, counter)) < 0.2, counter
    for event in {"evictions", "failures"} & set(job.counter_names):
        assert not job.counters[..., job.counter_names.index(event)].any()


def test_causes_are_named_after_what_was_done() -> None:
    for changes, cause in (
        (SKEWED, "skew"),
        (CONTENDED, "interference"),
        ({"cluster.slow_machine_fraction": 0.3}, "slow machine"),
        ({"fault_rate": 0.5}, "fault"),
    ):
        job = generate_job(jobs_of(**CALM | changes), 8)
        slowest = np.argsort(job.latency_s)[-20:]
        assert (job.cause[slowest] == CAUSES.index(cause)).all(), cause
    quiet = generate_job(jobs_of(**CALM | {"cluster.background_load": 0.0}), 8)
    assert (quiet.cause == CAUSES.index("none")).mean() > 0.5


def test_the_median_task_takes_the_windows_it_should() -> None:
    for name in SHIPPED:
        jobs = jobs_of(name)
        windows = [
            float(np.median(job.latency_s)) / job.window_s
            for job in (generate_job(jobs, seed) for seed in range(12))
        ]
        assert np.median(windows) == pytest.approx(jobs.windows_per_median, rel=0.1)


@settings(deadline=None, max_examples=20)
@given(st.floats(0.05, 2.0), st.floats(1.0, 4.0), st.floats(0.1, 3.0), st.integers(0, 1000))
def test_the_load_is_what_was_asked_for(load: float, burstiness: float, duration: float, seed: int) -> None:
    jobs = jobs_of(
        interference_rate=0.0,
        **{
            "cluster.machines": 400,
            "cluster.background_load": load,
            "cluster.burstiness": burstiness,
            "cluster.background_duration": duration,
        },
    )
    slowness = draw_slowness(jobs, np.ones((400, 3)), 1.0, np.random.default_rng(seed))
    # CPU contention is linear in the load.
    assert (slowness.total[..., CPU] - 1.0).mean() == pytest.approx(load, rel=0.25)
    assert (slowness.total >= 1.0).all()


@pytest.mark.parametrize("burstiness", [1.0, 1.84, 3.0])
def test_arrivals_vary_as_they_should(burstiness: float) -> None:
    """In a long time, the count's variance over its mean is the squared coefficient of variation."""
    rate, n_windows = 1.0, 400
    occupied = _occupancy(
        (300, n_windows), rate, burstiness, np.ones, lambda n: np.full(n, 2.0), np.random.default_rng(1)
    )
    count = occupied.sum(axis=1) / 2.0
    assert count.mean() == pytest.approx(rate * n_windows, rel=0.02)
    assert count.std() == pytest.approx(burstiness * math.sqrt(rate * n_windows), rel=0.1)
    # No time is unlike another.
    halves = occupied.reshape(300, 2, n_windows // 2, 3).mean(axis=(0, 2, 3))
    assert halves[0] == pytest.approx(halves[1], rel=0.03)


def test_machines_are_as_measured() -> None:
    """CPU the same everywhere, memory with a second mode, disks broad: vm-noise-data, short lives."""
    jobs = jobs_of(**{"cluster.machines": 20_000, "cluster.slow_machine_fraction": 0.0})
    own = draw_machines(jobs.cluster, np.random.default_rng(0))
    assert own[:, CPU].std() == pytest.approx(0.002, rel=0.1)
    assert np.quantile(own[:, MEMORY], [0.95, 0.99]) == pytest.approx([1.08, 1.5], rel=0.06)
    assert np.quantile(own[:, DISK], [0.9, 0.95, 0.99]) == pytest.approx([1.5, 1.7, 2.1], rel=0.08)


def test_work_has_the_spread_asked_for() -> None:
    jobs = jobs_of(**CALM | {"skew_log_sd_mean": math.log(0.3)})
    work = draw_work(jobs, 20_000, np.random.default_rng(0))
    assert np.log(work).std() == pytest.approx(0.3, rel=0.03)
    heavy = draw_work(jobs_of(**CALM | {"heavy_fraction": 1.0}), 20_000, np.random.default_rng(0))
    # A tenth of the tasks are in the tail, P(work > x) = 0.1 x^-1.5.
    assert (heavy > 4.0).mean() == pytest.approx(0.1 * 4.0**-1.5, rel=0.15)


@given(st.integers(0, 10_000))
def test_stalls_are_apart_and_fill_their_windows(seed: int) -> None:
    start, end = draw_faults(jobs_of(fault_rate=1.0), 20, np.random.default_rng(seed))
    assert (start < end).all()
    assert (end[:, :-1] <= start[:, 1:]).all()
    windows = np.arange(float(np.ceil(end.max())))
    share = running_share(windows, start[:, None], end[:, None])
    assert ((share > -1e-9) & (share < 1 + 1e-9)).all()
    np.testing.assert_allclose((1.0 - share).sum(axis=1), (end - start).sum(axis=1), rtol=1e-9)


def test_stalls_are_counted_in_the_window_in_which_they_begin() -> None:
    jobs = jobs_of(**CALM | {"fault_rate": 0.3})
    job = generate_job(jobs, 9)
    columns = [job.counter_names.index(name) for name in ("evictions", "failures")]
    events = job.counters[:, 0][..., columns].sum(axis=(1, 2))
    world = draw_world(jobs, 9)
    life = simulate_attempt(jobs, world, 9, 0)
    start, _ = draw_faults(jobs, world.n_tasks, _fault_stream(9))
    np.testing.assert_array_equal(events, (start < life.duration[:, None]).sum(axis=1))
    assert events.sum() > 50


def _fault_stream(seed: int) -> np.random.Generator:
    from sysgym.emulator.cluster import generator

    return generator._stream(seed, generator._ATTEMPT, 0, generator._FAULTS)
