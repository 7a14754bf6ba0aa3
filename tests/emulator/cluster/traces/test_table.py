"""Tables of one's own: windows and lives by hand, what is left out, and errors."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import numpy as np
import pytest

from sysgym.emulator.cluster.traces import TraceError, TraceSource

Read = Callable[..., TraceSource]
WriteRows = Callable[[str, list[str]], str]

HEADER = "job,task,start_s,end_s,cpu,memory"
WINDOWS = [
    HEADER,
    "b,t1,100,110,1,10",
    "a,t1,100,110,1,10",
    "a,t1,120,125,3,30",  # the last window lasts half as long
    "a,t1,110,120,2,20",
    "a,t2,105,115,5,50",
    "a,t2,125,135,7,70",  # nothing was measured from 115 to 125
    "b,t2,100,110,,20",
]


def test_windows_by_hand(read: Read, write_rows: WriteRows) -> None:
    source = read("table", write_rows("mine.csv", WINDOWS))
    assert (source.names, source.counter_names) == (("a", "b"), ("cpu", "memory"))
    job = source.job("a")
    assert job.window_s == 10.0
    assert job.start_s.tolist() == [0.0, 5.0]
    assert job.latency_s.tolist() == [25.0, 30.0]
    np.testing.assert_array_equal(job.counters[0, 0], [[1, 10], [2, 20], [3, 30]])
    # Where no row ends, what was known before.
    np.testing.assert_array_equal(job.counters[1, 0], [[5, 50], [5, 50], [7, 70]])
    assert source.missing_values == {"cpu": 1}
    assert source.origin("a").begin_s == 100.0
    assert source.origin("a").end_s == 135.0
    assert source.span_s == (100.0, 135.0)
    assert source.rows_read == len(WINDOWS) - 1
    assert pickle.loads(pickle.dumps(source)).job("a").counters.tolist() == job.counters.tolist()


def test_the_order_of_rows_and_files_does_not_matter(read: Read, write_rows: WriteRows) -> None:
    one = read("table", write_rows("one.csv", WINDOWS))
    several = read(
        "table",
        write_rows("x.csv", [HEADER, *WINDOWS[:4:-1]]),
        write_rows("y.csv", [HEADER, *WINDOWS[4:0:-1]]),
    )
    for name in one.names:
        assert several.job(name).counters.tolist() == one.job(name).counters.tolist()
        assert several.job(name).duration_s.tolist() == one.job(name).duration_s.tolist()


def test_a_row_is_shown_when_it_has_ended(read: Read, write_rows: WriteRows) -> None:
    """Rows of 10 s that begin 4 s late: each is known in the window in which it ends."""
    rows = [HEADER, "a,t1,0,4,9,9"]
    rows += [f"a,t1,{4 + 10 * k},{14 + 10 * k},{k},{k}" for k in range(3)]
    rows += [f"a,t2,{10 * k},{10 * k + 10},{k},{k}" for k in range(4)]
    job = read("table", write_rows("mine.csv", rows)).job("a")
    assert job.window_s == 10.0
    assert job.counters[0, 0, :, 0].tolist() == [9.0, 0.0, 1.0, 2.0]
    assert job.counters[1, 0, :, 0].tolist() == [0.0, 1.0, 2.0, 3.0]


@pytest.mark.parametrize(
    ("how", "expected"), [("lifetime", [6.0, 6.0, 6.0, 6.0]), ("withheld", [0.0, 0.0, 0.0, 24.0])]
)
def test_a_row_for_each_task_is_a_mean_over_its_life(
    read: Read, write_rows: WriteRows, how: str, expected: list[float]
) -> None:
    rows = [HEADER, "a,t1,0,40,6,1", "a,t2,0,40,6,1", "a,t3,0,90,6,1"]
    job = read("table", write_rows("mine.csv", rows), static_counters=how).job("a")
    assert job.window_s == pytest.approx(10.0)  # four windows until the first has finished
    np.testing.assert_allclose(job.counters[0, 0, :4, 0], expected)
    assert job.counters[0, 0, 4:].sum() == 0.0


def test_what_was_not_measured_is_what_was_known_before(read: Read, write_rows: WriteRows) -> None:
    rows = [HEADER, "a,t1,0,10,4,1", "a,t1,10,20,,2", "a,t1,20,30,6,3", "a,t2,0,10,,1", "a,t2,10,20,8,2"]
    source = read("table", write_rows("mine.csv", rows))
    counters = source.job("a").counters[:, 0]
    assert counters[0, :, 0].tolist() == [4.0, 4.0, 6.0]
    assert counters[1, :, 0].tolist() == [0.0, 8.0, 0.0]  # nothing before the first, nothing after the end
    assert source.missing_values == {"cpu": 2}


def test_a_few_tasks_with_two_rows_do_not_change_what_rows_are(read: Read, write_rows: WriteRows) -> None:
    rows = [HEADER, *(f"a,t{k},0,40,6,1" for k in range(4)), "a,t9,0,10,4,1", "a,t9,10,40,8,1"]
    job = read("table", write_rows("mine.csv", rows)).job("a")
    assert job.window_s == pytest.approx(10.0)
    assert job.counters[4, 0, :, 0].tolist() == [7.0] * 4


@pytest.mark.parametrize("order", [[0, 1, 2], [2, 1, 0], [1, 2, 0]])
def test_of_overlapping_rows_the_first_in_time_is_kept(
    read: Read, write_rows: WriteRows, order: list[int]
) -> None:
    mine = ["a,t1,0,10,1,1", "a,t1,5,12,2,2", "a,t1,11,20,3,3"]
    others = [f"a,t2,{10 * k},{10 * k + 10},1,1" for k in range(4)]
    source = read("table", write_rows("mine.csv", [HEADER, *(mine[k] for k in order), *others]))
    assert source.malformed == {"a row begins before the one before it of the same task has ended": 1}
    assert source.job("a").latency_s.tolist() == [20.0, 40.0]


def test_a_header_may_have_blanks(read: Read, write_rows: WriteRows) -> None:
    rows = ["job, task, start_s, end_s, cpu", "a,t1,0,10,1", "a,t2,0,10,2"]
    source = read("table", write_rows("mine.csv", rows))
    assert source.counter_names == ("cpu",)
    assert source.rows_read == 2


@pytest.mark.parametrize("text", ["nan", "NaN", "NA", "-", "None", "inf", "1e300", "1_0", ""])
def test_a_counter_that_cannot_be_read_is_missing_and_its_times_count(
    read: Read, write_rows: WriteRows, text: str
) -> None:
    """The probe of task t2 dies after 20 s of 50; without the times t2 would take as long as t1."""
    rows = [f"a,t1,{10 * k},{10 * k + 10},1,1" for k in range(2)]
    rows += [f"a,t2,{10 * k},{10 * k + 10},{2 if k < 2 else text},1" for k in range(5)]
    source = read("table", write_rows("mine.csv", [HEADER, *rows]))
    assert (source.malformed, source.missing_values) == ({}, {"cpu": 3})
    job = source.job("a")
    assert job.latency_s.tolist() == [20.0, 50.0]
    assert job.counters[1, 0, :, 0].tolist() == [2.0] * 5


@pytest.mark.parametrize("times", ["40,nan", "40,", "later,50", "50,40", "40,1e300"])
def test_a_job_with_a_row_without_times_is_left_out(read: Read, write_rows: WriteRows, times: str) -> None:
    """Without the row, its task would have a shorter latency than it had."""
    rows = [
        HEADER,
        *(f"{job},t{task},{10 * k},{10 * k + 10},1,1" for job in "ab" for task in "12" for k in range(4)),
    ]
    source = read("table", write_rows("mine.csv", [*rows, f"b,t2,{times},1,1", f"c,t1,{times},1,1"]))
    assert source.names == ("a",)
    assert source.left_out_jobs == {"a row has no valid begin and end": 2}
    assert sum(source.malformed.values()) == 2


def test_rows_without_a_length_are_left_out(read: Read, write_rows: WriteRows) -> None:
    source = read("table", write_rows("mine.csv", [*WINDOWS, "a,t1,125,125,9,9"]))
    assert source.left_out_rows == {"begins and ends at the same time": 1}
    assert source.job("a").latency_s.tolist() == [25.0, 30.0]


def test_windows_are_those_of_the_table_and_not_of_the_job(read: Read, write_rows: WriteRows) -> None:
    """A job's own rows, of which some are in its future, do not set the unit of its times."""
    rows = [f"a,{task},{10 * k},{10 * k + 10},1,1" for task in "123" for k in range(4)]
    rows += [f"b,{task},{4 * k},{4 * k + 4},1,1" for task in "12" for k in range(2)]
    source = read("table", write_rows("mine.csv", [HEADER, *rows]))
    assert [source.job(name).window_s for name in source.names] == [10.0, 10.0]


def test_what_is_left_out_is_counted(read: Read, write_rows: WriteRows) -> None:
    rows = [
        *WINDOWS,
        "d,t1,abc,120,1,1",
        ",t1,0,10,1,1",
        "d,t9,20,10,1,1",
        "a,t1,0,10,1",
        "a,t2,130,140,1,1",  # overlaps with the row from 125 to 135
        "c,t1,0,10,1,1",
    ]
    source = read("table", write_rows("mine.csv", rows))
    assert source.malformed == {
        "not a number": 1,
        "no job or task id": 1,
        "end before start": 1,
        "wrong number of columns": 1,
        "a row begins before the one before it of the same task has ended": 1,
    }
    assert source.left_out_jobs == {
        "fewer than tasks_min tasks": 1,
        "a row has no valid begin and end": 1,
    }
    assert source.names == ("a", "b")


@pytest.mark.parametrize(
    ("rows", "words"),
    [
        (["job,task,start_s,cpu", "a,t,0,1"], "no column end_s"),
        (["job,task,start_s,end_s", "a,t,0,1"], "1 to 256 counters"),
        (["job,task,start_s,end_s,cpu,cpu", "a,t,0,1,1,1"], "each once"),
        ([HEADER], "none of the 0 rows is usable"),
        ([HEADER, "a,t,1,0,1,1"], r"none of the 1 rows is usable \(1 × end before start\)"),
        ([HEADER, "a,t,0,soon,1,1"], r"1 × not a number; the first one: end_s is 'soon' in mine\.csv"),
        ([HEADER, "a,t,,1,1,1"], "the first one: start_s is '' in"),
        ([HEADER, "a,t,0,1e300,1,1"], "the first one: a number is too large"),
        (["a,t1,0,10,1,1", "a,t2,0,10,1,1"], "no column job"),
        ([HEADER, "a,t1,0,10,-1,1", "a,t2,0,10,-2,1"], "the counter cpu has 2 negative values"),
        (
            [HEADER, "a,t1,0,10,host7,1", "a,t2,0,10,,1"],
            "the counter cpu has no number; cpu is 'host7' in",
        ),
    ],
)
def test_tables_without_a_meaning_are_refused(
    read: Read, write_rows: WriteRows, rows: list[str], words: str
) -> None:
    with pytest.raises(TraceError, match=words):
        read("table", write_rows("mine.csv", rows))


def test_files_have_the_same_columns(read: Read, write_rows: WriteRows) -> None:
    with pytest.raises(
        TraceError, match=r"y\.csv: other columns than .*x\.csv: job, task, start_s, end_s, ram"
    ):
        read(
            "table",
            write_rows("x.csv", WINDOWS),
            write_rows("y.csv", ["job,task,start_s,end_s,ram", "a,t,0,1,1"]),
        )
