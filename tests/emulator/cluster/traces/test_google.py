"""Google's trace of 2011: latency from windows, causal means, events counted, jobs chosen."""

from __future__ import annotations

import gzip
import os
import pickle
import shutil
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sysgym.emulator.cluster.execution import Execution
from sysgym.emulator.cluster.job import Job
from sysgym.emulator.cluster.traces import TraceError, TraceSource, google_reading, google_tables
from sysgym.emulator.cluster.traces.cache import cache_folder

Read = Callable[..., TraceSource]
WriteRows = Callable[[str, list[str]], str]

SUBMIT, SCHEDULE, EVICT, FAIL, FINISH = range(5)


def event(time_s: float, job: int | str, task: int | str, kind: int, scheduling_class: int | str = 2) -> str:
    return f"{int(time_s * 1e6)},,{job},{task},7,{kind},user,{scheduling_class},9,0.1,0.01,0.001,0"


def usage(
    begin_s: float, end_s: float, job: int, task: int, cpu: float | str, max_memory: float = 0.5
) -> str:
    measured = f"{cpu},.1,.2,.3,.4,{max_memory},.6,.7,.8,.9,1.0,1.1,1,0,1.3"
    return f"{int(begin_s * 1e6)},{int(end_s * 1e6)},{job},{task},7,{measured}"


# Job 5: submitted at 1000 s. Task 0 runs from 1100 to 2000, task 1 from 1150 to 1200, is evicted, runs again
# from 1500 to 1900 and fails, and from 1950 to 2000.
EVENTS = [
    *(event(1000, 5, task, SUBMIT) for task in (0, 1)),
    event(1100, 5, 0, SCHEDULE),
    event(2000, 5, 0, FINISH),
    event(1150, 5, 1, SCHEDULE),
    event(1200, 5, 1, EVICT),
    event(1500, 5, 1, SCHEDULE),
    event(1900, 5, 1, FAIL),
    event(1950, 5, 1, SCHEDULE),
    event(2000, 5, 1, FINISH),
]
USAGE = [
    usage(600, 900, 4, 0, 0.9),
    usage(1100, 1200, 5, 0, 0.1),
    usage(1200, 1500, 5, 0, 0.2),
    usage(1500, 1800, 5, 0, 0.3),
    usage(1800, 2000, 5, 0, 0.4),
    usage(1150, 1200, 5, 1, 0.5, max_memory=0.9),
    usage(1500, 1700, 5, 1, 0.6, max_memory=0.2),
    usage(1700, 1900, 5, 1, 0.7),
    usage(1950, 2000, 5, 1, ""),
    usage(2100, 2400, 4, 0, 0.9),
]


@pytest.fixture
def load(read: Read, write_rows: WriteRows) -> Callable[..., TraceSource]:
    def load(events: list[str] = EVENTS, windows: list[str] = USAGE, **spec: int) -> TraceSource:
        paths = (write_rows("task_usage/part-0.csv", windows), write_rows("task_events/part-0.csv", events))
        return read("google-2011", *paths, **spec)

    return load


def counter(job: Job, name: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return job.counters[:, 0, :, job.counter_names.index(name)]


def test_latency_is_the_sum_of_the_windows(load: Callable[..., TraceSource]) -> None:
    source = load()
    assert source.names == ("5",)
    job = source.job("5")
    np.testing.assert_array_equal(job.latency_s, [900, 500])
    np.testing.assert_array_equal(job.start_s, [100, 150])
    assert job.window_s == 300
    assert job.counters.shape == (2, 1, 3, 15)


def test_durations_are_known_without_counters(load: Callable[..., TraceSource]) -> None:
    source = load()
    for index in range(len(source)):
        assert source._durations_s(index).tolist() == source.job(index).latency_s.tolist()


def test_a_window_shows_the_records_that_ended_in_it(load: Callable[..., TraceSource]) -> None:
    job = load().job("5")
    # Task 0 has lived 100, 400, 700 and 900 s when its records end; the last two end in one window.
    np.testing.assert_allclose(
        counter(job, "cpu_rate")[0], [0.1, 0.2, (300 * 0.3 + 200 * 0.4) / 500], rtol=1e-6
    )
    # Task 1: 50, 250, 450 and 500 s; the record without CPU rate counts as 0.
    first, second = (50 * 0.5 + 200 * 0.6) / 250, (200 * 0.7 + 0) / 250
    np.testing.assert_allclose(counter(job, "cpu_rate")[1], [first, second, 0], rtol=1e-6)
    # Maxima are the largest, not the mean.
    np.testing.assert_allclose(counter(job, "max_memory")[1], [0.9, 0.5, 0], rtol=1e-6)
    every = ("canonical_memory", "total_page_cache", "disk_io_time", "max_cpu_rate", "max_disk_io_time")
    for name, value in zip(every, (0.1, 0.4, 0.6, 0.8, 0.9), strict=True):
        np.testing.assert_allclose(counter(job, name)[0], value, rtol=1e-6)
    for name, value in (("cycles_per_instruction", 1.0), ("sampled_cpu_rate", 1.3)):
        np.testing.assert_allclose(counter(job, name)[0], value, rtol=1e-6)


def test_evictions_and_failures_are_counted_in_their_window(load: Callable[..., TraceSource]) -> None:
    job = load().job("5")
    # The eviction came after 50 s of life, the failure after 450 s.
    np.testing.assert_array_equal(counter(job, "evictions"), [[0, 0, 0], [1, 0, 0]])
    np.testing.assert_array_equal(counter(job, "failures"), [[0, 0, 0], [0, 1, 0]])


def test_events_outside_of_the_records_go_to_the_nearest_window(load: Callable[..., TraceSource]) -> None:
    more = [
        event(1000, 5, 0, FAIL),
        event(1050, 5, 0, FAIL),
        event(1500, 5, 0, EVICT),
        event(1999, 5, 0, FAIL),
    ]
    job = load([*EVENTS, *more, event(1300, 5, 1, FAIL), event(1650, 5, 1, FAIL)]).job("5")
    # Task 0: twice before its life; after 400 s; after 899 s. Task 1: between records; after 200 s of life.
    np.testing.assert_array_equal(counter(job, "failures"), [[2, 0, 1], [2, 1, 0]])
    np.testing.assert_array_equal(counter(job, "evictions"), [[0, 1, 0], [1, 0, 0]])


def test_running_means_divide_by_the_time_so_far(load: Callable[..., TraceSource]) -> None:
    execution = Execution(load().job("5"))
    seen = []
    for now_s in (100 + 299, 100 + 300, 100 + 600, 100 + 900):
        execution.advance_to(now_s)
        seen.append(execution.snapshot().counters_mean[0, 0])
    np.testing.assert_allclose(seen, [0, 0.1, (0.1 + 0.2) / 2, (0.1 + 0.2 + 0.34) / 3], rtol=1e-6)


@pytest.mark.parametrize("cut_s", [1200, 1500, 1800])
def test_what_is_measured_later_changes_nothing_before(load: Callable[..., TraceSource], cut_s: int) -> None:
    """A record can be seen only when it is complete, so all that end after the cut may be anything."""
    was = load().job("5")
    changed = [
        row.replace(".1,.2,.3,.4", "5,5,5,5") if int(row.split(",")[1]) > cut_s * 1e6 else row
        for row in USAGE
    ]
    now = load(windows=changed).job("5")
    lived_s = cut_s - 1100  # of task 0, which runs without a break
    complete = lived_s // 300
    np.testing.assert_array_equal(was.counters[0, 0, :complete], now.counters[0, 0, :complete])
    assert (was.counters[0] != now.counters[0]).any()


def test_files_may_be_compressed_and_in_one_folder(
    read: Read, tmp_path: Path, load: Callable[..., TraceSource]
) -> None:
    folder = tmp_path / "all"
    folder.mkdir()
    for name, rows in (("a", EVENTS[:5]), ("b", EVENTS[5:]), ("c", USAGE[:4]), ("d", USAGE[4:])):
        (folder / f"{name}.csv.gz").write_bytes(gzip.compress("\r\n".join(rows).encode()))
    source = read("google-2011", str(folder))
    assert source.rows_read == len(EVENTS) + len(USAGE)
    assert source.malformed == {}
    np.testing.assert_array_equal(source.job(0, 3, 1).counters, load().job(0, 3, 1).counters)


def test_malformed_rows_are_counted_by_reason(load: Callable[..., TraceSource]) -> None:
    events = [
        *EVENTS,
        "1,2,3",
        event(1000, "", 1, SUBMIT),
        event(1000, 5, "x", SUBMIT),
        event(1000, 5, 1, 9),
        event(1000, 5, 1, SUBMIT, "1_0"),
    ]
    # Events after the trace's end have the largest time there is.
    events.append(EVENTS[-1].replace("2000000000,,5,1", f"{2**63 - 1},,6,1"))
    windows = [
        *USAGE,
        usage(1150, 1190, 5, 1, 0.5),
        usage(1500, 1400, 5, 1, 0.5),
        usage(1200, 1501, 5, 1, 0.5),
        usage(1200, 1200, 5, 1, 0.5),
        usage(1200, 1300, 5, 1, "nan"),
        USAGE[0] + ",",
        "99999999999999999999" + USAGE[1],
    ]
    source = load(events, windows)
    assert source.rows_read == len(events) + len(windows)
    assert source.malformed == {
        "wrong number of columns": 1,
        "no job or task id": 1,
        "not a number": 4,
        "event type is not 0 to 8": 1,
        "end before start": 1,
        "longer than the window of 300 s": 1,
        "overlaps an earlier record of its task": 1,
    }
    # Rows of other jobs are not parsed, so one of them may have a column too many.
    assert source.left_out_rows == {"usage of jobs that are left out": 3, "usage record of 0 s": 1}
    assert source.missing_values == {"cpu_rate": 1}
    np.testing.assert_array_equal(source.job(0).counters, load().job(0).counters)


def test_only_the_record_that_overlaps_is_dropped(load: Callable[..., TraceSource]) -> None:
    """A second copy of a long record must not take the records after it along."""
    source = load(windows=[*USAGE, usage(1250, 1550, 5, 0, 0.9)])
    assert source.malformed == {"overlaps an earlier record of its task": 1}
    np.testing.assert_array_equal(source.job(0).latency_s, [900, 500])


def job_like_5(job: int, scheduling_class: int | str = 2) -> list[str]:
    rows = [row.split(",") for row in EVENTS]
    return [",".join([*r[:2], str(job), *r[3:7], str(scheduling_class), *r[8:]]) for r in rows]


def usage_like_5(job: int) -> list[str]:
    return [row.replace(",5,", f",{job},", 1) for row in USAGE[1:-1]]


def test_jobs_that_cannot_be_replayed_are_counted(load: Callable[..., TraceSource]) -> None:
    events = [
        *EVENTS,
        *job_like_5(11, 0),
        *job_like_5(12, ""),
        *(event(1000, 13, 0, kind) for kind in (SUBMIT, SCHEDULE, FINISH)),
        *job_like_5(14)[:-1],  # the end of a task is not in the files
        *(row for row in job_like_5(15) if ",15,0,7,1," not in row),  # nor is a task's beginning
        *(
            row.replace("2000000000,,16,0", "2500000000,,16,0") for row in job_like_5(16)
        ),  # ends after the usage
        *(event(1000, 17, task, kind) for task in range(3) for kind in (SUBMIT, SCHEDULE, FINISH)),
        *job_like_5(18),
    ]
    windows = [*USAGE, *(row for job in (11, 14, 15, 16) for row in usage_like_5(job))]
    windows += [usage(1100, 1200, 17, task, 0.1) for task in range(3)] + usage_like_5(18)[:4]
    source = load(events, windows, tasks_max=2)
    assert source.names == ("5",)
    assert source.left_out_jobs == {
        "scheduling class is 0 or unknown": 2,
        "largest task index + 1 is less than tasks_min": 1,
        "has tasks that do not begin and end within the files": 3,
        "more than tasks_max tasks": 1,
        "fewer than tasks_min tasks": 1,
    }


def test_a_trace_of_short_jobs_only_is_an_error_that_says_so(
    load: Callable[..., TraceSource],
) -> None:
    with pytest.raises(TraceError, match="median latency less than median_min_s"):
        load(EVENTS, USAGE, median_min_s=1e6)


def test_both_tables_are_needed(read: Read, write_rows: WriteRows) -> None:
    with pytest.raises(TraceError, match=r"one of the two tables(.|\n)*task_usage") as caught:
        read("google-2011", write_rows("events.csv", EVENTS))
    assert "events.csv" in caught.value.path
    with pytest.raises(TraceError, match="task_events"):
        read("google-2011", write_rows("usage.csv", USAGE))


def shards(folder: Path, rows: list[str], n: int, order: int = 1) -> str:
    """Write rows to ``n`` compressed parts, in the order of the trace or the opposite one."""
    folder.mkdir(parents=True)
    for part in range(n):
        text = "".join(f"{row}\n" for row in rows[part::n][::order])
        (folder / f"part-{part:05d}-of-00500.csv.gz").write_bytes(gzip.compress(text.encode(), mtime=0))
    return str(folder)


@pytest.fixture
def sharded(tmp_path: Path) -> tuple[str, str]:
    """Twenty jobs like job 5 in parts, so that a task's rows are in several parts."""
    events = [row for job in range(100, 120) for row in job_like_5(job)]
    windows = [row for job in range(100, 120) for row in usage_like_5(job)]
    return (
        shards(tmp_path / "trace" / "task_events", events, 7, -1),
        shards(tmp_path / "trace" / "task_usage", [*windows, USAGE[0], USAGE[-1]], 6, -1),
    )


def test_rows_may_be_in_any_part_and_order(
    read: Read, sharded: tuple[str, str], load: Callable[..., TraceSource]
) -> None:
    source, expected = read("google-2011", *sharded), load().job(0, 2, 1)
    assert source.names == tuple(map(str, range(100, 120)))
    for name in source.names:
        job = source.job(name, 2, 1)
        np.testing.assert_array_equal(job.counters[:, 0], expected.counters[:, 0])
        np.testing.assert_array_equal(job.start_s, expected.start_s)
        np.testing.assert_array_equal(job.latency_s, expected.latency_s)
    assert pickle.loads(pickle.dumps(source)).job("117").latency_s.tolist() == [900, 500]


def test_an_interrupted_reading_goes_on_with_the_next_file(
    read: Read, sharded: tuple[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = read("google-2011", *sharded)
    shutil.rmtree(cache_folder())
    opened: list[str] = []
    read_usage = google_tables.read_usage

    def stops(path: Path, *others: Any) -> Any:
        opened.append(path.name[:10])
        if len(opened) == 4:
            raise KeyboardInterrupt
        return read_usage(path, *others)

    monkeypatch.setattr(google_reading, "read_usage", stops)
    with pytest.raises(KeyboardInterrupt):
        read("google-2011", *sharded)
    again = read("google-2011", *sharded)
    assert opened == [f"part-0000{part}" for part in (0, 1, 2, 3, 3, 4, 5)]
    assert (again.names, again.rows_read, again.malformed) == (whole.names, whole.rows_read, whole.malformed)
    assert again.left_out_rows == whole.left_out_rows == {"usage of jobs that are left out": 2}
    np.testing.assert_array_equal(again.job(7).counters, whole.job(7).counters)


def test_the_cache_holds_for_the_same_files_only(read: Read, sharded: tuple[str, str]) -> None:
    read("google-2011", *sharded)
    (folder,) = cache_folder().iterdir()
    assert {path.suffix for path in folder.iterdir()} == {"", ".npy", ".npz"}  # the lock, columns, the index
    for path in folder.glob("*.np?"):
        np.load(path, allow_pickle=False)
    first = Path(sharded[1]) / "part-00000-of-00500.csv.gz"
    packed = first.read_bytes()
    first.write_bytes(b"")  # it is not opened again ...
    os.utime(first, ns=(0, 0))
    with pytest.raises(TraceError, match="the file is empty"):  # ... unless it has changed
        read("google-2011", *sharded)
    first.write_bytes(packed)
    assert len(read("google-2011", *sharded, median_min_s=600.0)) == 20
    assert len(list(cache_folder().iterdir())) == 2


def test_a_damaged_cache_is_made_again_or_said(read: Read, sharded: tuple[str, str]) -> None:
    expected = read("google-2011", *sharded).job(3).counters
    (folder,) = cache_folder().iterdir()
    (folder / "index.npz").write_bytes((folder / "index.npz").read_bytes()[:200])
    source = read("google-2011", *sharded)
    np.testing.assert_array_equal(source.job(3).counters, expected)
    (folder / "usage-counters.npy").unlink()
    with pytest.raises(TraceError, match=r"usage-counters\.npy: a file of the cache(.|\n)*remove the folder"):
        source.job(3)


def test_a_task_that_was_there_before_the_files_leaves_its_job_out(load: Callable[..., TraceSource]) -> None:
    begun_before = [row for row in job_like_5(20) if ",20,0,7,0," not in row and ",20,0,7,1," not in row]
    at_time_0 = [
        row.replace("1100000000", "0") for row in job_like_5(21)
    ]  # events from before have the time 0
    events = [
        *EVENTS,
        *begun_before,
        *at_time_0,
        *job_like_5(22)[:-1],
        event((2**63 - 1) / 1e6, 22, 1, FINISH),
    ]
    source = load(events, [*USAGE, *(row for job in (20, 21, 22) for row in usage_like_5(job))])
    assert source.names == ("5",)
    assert source.left_out_jobs == {"has tasks that do not begin and end within the files": 3}
    # Their usage, the most of a trace's, is not even parsed.
    assert source.left_out_rows == {"usage of jobs that are left out": 2 + 3 * 8}


def test_updates_of_a_request_are_not_its_end(load: Callable[..., TraceSource]) -> None:
    updates = [event(2000, 5, 0, kind) for kind in (7, 8)]
    source = load([*EVENTS, *updates])
    np.testing.assert_array_equal(source.job("5").latency_s, [900, 500])


def test_where_a_job_comes_from(read: Read, write_rows: WriteRows) -> None:
    events = [row.replace(",user,", ",,") if ",5,1," in row else row for row in EVENTS]
    submissions = [f"1000000000,,{job},0,user,2,name{job},logical{job}" for job in (4, 5)]
    files = [
        write_rows("events.csv", [*events, *job_like_5(6)]),
        write_rows("usage.csv", [*USAGE, *usage_like_5(6)]),
        write_rows("job_events.csv", [*submissions, "1000000000,,x,0,user,2,name,logical"]),
    ]
    source = read("google-2011", *files)
    assert source.origin("5") == (1000.0, 2000.0, "user", "logical5")
    assert source.origin("6").program == ""
    assert source.span_s == (600.0, 2400.0)
    assert source.malformed == {}
    assert source.left_out_rows["submissions of jobs that are left out"] == 2
    without = read("google-2011", *files[:2])
    assert without.origin("5") == (1000.0, 2000.0, "user", "")


def test_memory_is_needed_for_one_part_at_a_time(read: Read, tmp_path: Path) -> None:
    """Many times the rows, in as many more parts, take the same memory."""
    peaks = []
    for n_parts in (1, 6):
        jobs = range(1000, 1000 + 25 * n_parts)
        folder = tmp_path / f"{n_parts}"
        paths = []
        for name, of_job in (("task_events", job_like_5), ("task_usage", usage_like_5)):
            rows = [row for job in jobs for row in of_job(job)]
            paths.append(shards(folder / name, rows, n_parts))
        tracemalloc.start()
        try:
            source = read("google-2011", *paths)
            peaks.append(tracemalloc.get_traced_memory()[1])
        finally:
            tracemalloc.stop()
        assert len(source) == len(jobs)
    assert peaks[1] < 1.5 * peaks[0]


def test_no_job_is_wide_enough(load: Callable[..., TraceSource]) -> None:
    with pytest.raises(TraceError, match="1 largest task index \\+ 1 is less than tasks_min"):
        load(tasks_min=5)
