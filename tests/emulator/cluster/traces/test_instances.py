"""Traces with one row per instance: meaning of rows, malformed rows, windows."""

from __future__ import annotations

import pickle
from collections.abc import Callable

import numpy as np
import pytest

from sysgym.emulator.cluster.execution import Execution
from sysgym.emulator.cluster.job import CAUSES
from sysgym.emulator.cluster.traces import TraceError, TraceSource
from sysgym.scenarios.errors import UnknownName

Read = Callable[..., TraceSource]
WriteRows = Callable[[str, list[str]], str]

# Name, task, job, type, status, start, end, machine, seq_no, total_seq_no, CPU mean, max, memory mean, max.
ROWS_2018 = [
    "i1,M1,j_1,1,Terminated,100,110,m_1,1,1,50,80,0.1,0.2",
    "i2,M1,j_1,1,Terminated,103,111,m_2,1,1,60,90,0.3,0.4",
    "i3,M1,j_1,1,Terminated,100,120,m_3,1,1,,70,-1,0.5",
    "i4,M1,j_1,1,Failed,100,,m_3,1,2,,,,",
    "i5,M1,j_1,1,Terminated,130,100,m_3,1,1,1,1,1,1",
    "i6,M1,j_1,1,Terminated,abc,100,m_3,1,1,1,1,1,1",
    "i7,M1,j_1,1,Terminated,,100,m_3,1,1,1,1,1,1",
    "i8,M1,j_1,1,Terminated,100,1_30,m_3,1,1,1,1,1,1",
    "i9,M1,j_1,1,Terminated,100,130,m_3,1,1,inf,1,1,1",
    "i10,,j_1,1,Terminated,100,130,m_3,1,1,1,1,1,1",
    "i11,M1,j_1,1,Terminated,100,130,m_3,1,1,1,1,1",
    "",
    "i12,M1,j_1,1,Terminated,100,100,m_3,1,1,1,1,1,1",
    "i13,M2,j_1,1,Terminated,100,105,m_3,1,1,1,1,1,1",
]


def test_alibaba_2018_by_hand(read: Read, write_rows: WriteRows) -> None:
    source = read("alibaba-2018", write_rows("batch_instance.csv", ROWS_2018))
    assert source.names == ("j_1/M1",)
    assert source.counter_names == ("cpu_avg", "cpu_max", "mem_avg", "mem_max")
    job = source.job("j_1/M1", attempts=1)
    np.testing.assert_array_equal(job.start_s, [0, 3, 0])
    np.testing.assert_array_equal(job.latency_s, [10, 8, 20])
    assert job.window_s == pytest.approx(10 / 4)  # the first has finished after 10 s
    assert job.counters.shape == (3, 1, 8, 4)
    # 10 s are 4 windows, 8 s are 3.2, 20 s are 8.
    np.testing.assert_array_equal((job.counters[:, 0, :, 1] > 0).sum(axis=1), [4, 4, 8])
    np.testing.assert_allclose(job.counters[1, 0, :4], [[60, 90, 0.3, 0.4]] * 4, rtol=1e-6)
    np.testing.assert_array_equal(job.counters[2, 0, 0], np.array([0, 70, 0, 0.5], np.float32))
    assert [CAUSES[cause] for cause in job.cause] == ["unknown"] * 3


def test_alibaba_2018_counts_every_row_once(read: Read, write_rows: WriteRows) -> None:
    source = read("alibaba-2018", write_rows("batch_instance.csv", ROWS_2018))
    assert source.rows_read == len(ROWS_2018)
    assert source.malformed == {
        "wrong number of columns": 2,
        "no job or task id": 1,
        "not a number": 4,
        "end before start": 1,
    }
    assert source.left_out_rows == {
        "status is not Terminated": 1,
        "lasts 0 s: less than the trace's clock shows": 1,
    }
    assert source.left_out_jobs == {"fewer than tasks_min tasks": 1}
    assert source.missing_values == {"cpu_avg": 1, "mem_avg": 1}


def test_alibaba_2017_has_its_own_order_of_columns(read: Read, write_rows: WriteRows) -> None:
    rows = [
        "41562,41618,120,686,299,Terminated,1,1,1.50,0.35,0.012,0.008",
        "41562,41600,120,686,300,Terminated,1,1,1.60,0.45,0.013,0.009",
        "41562,41600,,686,300,Terminated,1,1,1.60,0.45,0.013,0.009",
        "41562,41600,120,686,300,Interupted,1,1,1.60,0.45,0.013,0.009",
    ]
    source = read("alibaba-2017", write_rows("batch_instance.csv", rows))
    job = source.job("120/686")
    np.testing.assert_array_equal(job.latency_s, [56, 38])
    np.testing.assert_allclose(job.counters[0, 0, 0], [0.35, 1.5, 0.008, 0.012], rtol=1e-6)
    assert source.malformed == {"no job or task id": 1}
    assert source.left_out_rows == {"status is not Terminated": 1}


SPAR_ROWS = [
    "0,j_2,R1,ins_1,52,74.0,0.1",
    "0,j_2,R1,ins_2,38,95.0,0.11",
    "0,j_2,R1,ins_3,35,100.0,0.12",
    "7,j_1,M1,ins_4,4,10.0,0.2",
    "7,j_1,M1,ins_5,6,20.0,0.3",
    "7,j_1,M1,ins_6,9,x,0.3",
]


def test_spar_has_durations_alone(read: Read, write_rows: WriteRows) -> None:
    source = read("spar", write_rows("sample.csv", SPAR_ROWS))
    assert source.names == ("j_1/M1", "j_2/R1")
    job = source.job("j_2/R1")
    np.testing.assert_array_equal(job.latency_s, [52, 38, 35])
    np.testing.assert_array_equal(job.start_s, 0.0)
    assert source.counter_names == job.counter_names == ("cpu_avg", "mem_avg")
    assert source.malformed == {"not a number": 1}


@pytest.mark.parametrize("static_counters", ["lifetime", "withheld"])
def test_what_a_running_task_shows(read: Read, write_rows: WriteRows, static_counters: str) -> None:
    path = write_rows("sample.csv", SPAR_ROWS)
    job = read("spar", path, static_counters=static_counters).job("j_2/R1")
    execution = Execution(job)
    execution.advance(job.window_s)  # 8.75 s
    known = static_counters == "lifetime"
    np.testing.assert_allclose(
        execution.snapshot().counters_mean[:, 0], [74 * known, 95 * known, 100 * known]
    )
    execution.advance_to(36.0)  # the last one has finished
    np.testing.assert_allclose(
        execution.snapshot().counters_mean[:, 0], [74 * known, 95 * known, 100], rtol=1e-6
    )
    execution.run_to_end()
    np.testing.assert_allclose(
        execution.snapshot().counters_mean, [[74, 0.1], [95, 0.11], [100, 0.12]], rtol=1e-6
    )


def test_second_attempts_are_those_of_other_tasks(read: Read, write_rows: WriteRows) -> None:
    source = read("spar", write_rows("sample.csv", SPAR_ROWS))
    job = source.job("j_2/R1", attempts=200, seed=3)
    np.testing.assert_array_equal(job.duration_s[:, 0], [52, 38, 35])
    cpu = {52.0: 74.0, 38.0: 95.0, 35.0: 100.0}
    drawn, counts = np.unique(job.duration_s[:, 1:], return_counts=True)
    assert set(drawn.tolist()) == set(cpu)
    assert counts.min() > 140  # of 597; 199 each are expected
    for task, attempt in np.ndindex(*job.duration_s.shape):
        assert job.counters[task, attempt, 0, 0] == cpu[float(job.duration_s[task, attempt])]


def test_second_attempts_hang_on_the_job_and_the_seed(read: Read, write_rows: WriteRows) -> None:
    other = [row.replace("j_2", "j_3") for row in SPAR_ROWS]
    source = read("spar", write_rows("sample.csv", SPAR_ROWS + other))
    drawn = source.job("j_2/R1", 50, seed=1).duration_s
    np.testing.assert_array_equal(drawn, source.job(source.names.index("j_2/R1"), 50, seed=1).duration_s)
    # More attempts do not come with other luck for the first.
    np.testing.assert_array_equal(drawn[:, 0], source.job("j_2/R1", 1, seed=1).duration_s[:, 0])
    assert (drawn != source.job("j_2/R1", 50, seed=2).duration_s).any()
    assert (drawn != source.job("j_3/R1", 50, seed=1).duration_s).any()


def test_jobs_of_the_wrong_size_are_left_out_and_counted(read: Read, write_rows: WriteRows) -> None:
    path = write_rows("sample.csv", SPAR_ROWS)
    source = read("spar", path, tasks_min=2, tasks_max=2)
    assert source.names == ("j_1/M1",)
    assert source.left_out_jobs == {"more than tasks_max tasks": 1}
    assert read("spar", path, tasks_min=3, tasks_max=3).names == ("j_2/R1",)


def test_jobs_too_short_for_the_clock_are_left_out_and_counted(read: Read, write_rows: WriteRows) -> None:
    rows = [f"0,j_9,R1,i,{s},1,1" for s in (4, 5, 90)] + [f"0,j_9,R2,i,{s},1,1" for s in (4, 30, 90)]
    source = read("spar", write_rows("sample.csv", rows), median_min_s=30.0)
    assert source.names == ("j_9/R2",)
    assert source.left_out_jobs == {"median latency less than median_min_s": 1}


def test_a_job_with_an_endless_task_is_left_out(read: Read, write_rows: WriteRows) -> None:
    long = [f"0,j_9,R1,i,{s},1,1" for s in (4, 4, 2048)] + [f"0,j_9,R2,i,{s},1,1" for s in (4, 4, 2049)]
    source = read("spar", write_rows("sample.csv", long))
    assert source.names == ("j_9/R1",)
    assert source.job(0).counters.shape[2] == 2048
    assert source.left_out_jobs == {"its longest task has more than 2048 windows": 1}


def test_a_group_may_be_spread_over_files_and_a_block(read: Read, write_rows: WriteRows) -> None:
    rows = [f"0,j_{i % 7},R1,ins_{i},{1 + i % 90},{i % 13},0.5" for i in range(7000)]
    folder = str(write_rows("hour/part-0.csv", rows[:2500]))[: -len("/part-0.csv")]
    write_rows("hour/part-1.csv", rows[2500:])
    source = read("spar", folder, tasks_max=1000)
    assert [source.job(name).n_tasks for name in source.names] == [1000] * 7
    np.testing.assert_array_equal(source.job("j_3/R1").latency_s, [1 + i % 90 for i in range(3, 7000, 7)])


def test_a_source_survives_pickling(read: Read, write_rows: WriteRows) -> None:
    source = read("spar", write_rows("sample.csv", SPAR_ROWS))
    again = pickle.loads(pickle.dumps(source))
    np.testing.assert_array_equal(again.job(1, 3, 5).counters, source.job(1, 3, 5).counters)


def test_a_name_that_is_not_there(read: Read, write_rows: WriteRows) -> None:
    source = read("spar", write_rows("sample.csv", SPAR_ROWS))
    with pytest.raises(UnknownName, match=r'did you mean "j_2/R1"'):
        source.job("j_2/R2")
    with pytest.raises(ValueError, match="attempts"):
        source.job(0, attempts=0)


def test_no_job_fits(read: Read, write_rows: WriteRows) -> None:
    with pytest.raises(TraceError, match="2 fewer than tasks_min tasks"):
        read("spar", write_rows("sample.csv", SPAR_ROWS), tasks_min=4)
