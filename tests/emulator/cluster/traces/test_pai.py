"""Alibaba's GPU trace of 2020: tables joined by worker, machine, task and job; what is known at the start."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sysgym.emulator.cluster.execution import Execution
from sysgym.emulator.cluster.job import Job
from sysgym.emulator.cluster.traces import TraceError, TraceSource

Read = Callable[..., TraceSource]
WriteRows = Callable[[str, list[str]], str]


def instance(
    job: str,
    worker: str,
    begin: float | str,
    end: float | str,
    machine: str = "m1",
    status: str = "Terminated",
) -> str:
    return f"{job},worker,name{worker},{worker},id-{job},{status},{begin},{end},{machine}"


def sensor(worker: str, cpu: float | str, gpu: float = 50.0, read: float = 2e6) -> str:
    return f"j1,worker,{worker},id-j1,m1,/dev/nvidia0,{cpu},{gpu},1.5,2.5,1.25,2.25,{read},3e6,10.5,20.5"


def metric(worker: str, load: float = 18.5) -> str:
    return f"{worker},m1,100,200,0.5,3.5,15.0,87.5,{load},1.1e8,5.0,18.5"


TABLES: dict[str, list[str]] = {
    "pai_instance_table": [
        instance("j1", "w1", 1000.0, 1010.0),
        instance("j1", "w2", 1003.0, 1023.0, "m2"),
        instance("j1", "w3", 1000.0, 1040.0, "m3"),
        instance("j1", "w4", 1000.0, "", status="Running"),
        instance("j2", "v1", 500.0, 600.0),
        instance("j2", "v2", 500.0, 620.0),
    ],
    "pai_sensor_table": [sensor("w3", 300.0), sensor("w1", 100.0), sensor("v1", 5.0)],
    "pai_machine_metric": [metric("w1"), metric("w2", 2.0), metric("w3")],
    "pai_machine_spec": ["m0,P100,64,512,2", "m1,T4,96,512,2", "m2,V100M32,96,384,8", "m3,CPU,96,512,0"],
    "pai_task_table": [
        "j1,ps,1.0,Terminated,900.0,1000.0,100.0,1.0,,",
        "j1,worker,4.0,Terminated,990.0,1040.0,600.0,29.25,50.0,MISC",
        "j2,worker,2.0,Terminated,490.0,620.0,200.0,10.0,,",
    ],
    "pai_group_tag_table": ["id-j1,alice,V100M32,g7,nmt", "id-j2,bob,,g8,", "id-j9,carol,,g7,"],
}


@pytest.fixture
def load(read: Read, write_rows: WriteRows) -> Callable[..., TraceSource]:
    def load(**changed: Any) -> TraceSource:
        tables = TABLES | {name: changed.pop(name) for name in TABLES if name in changed}
        paths = [write_rows(f"{name}.csv", rows) for name, rows in tables.items() if rows]
        return read("pai-2020", *paths, **{"warmup_windows": 2} | changed)

    return load


def counter(job: Job, name: str) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    return job.counters[:, 0, :, job.counter_names.index(name)]


def test_tasks_are_instances_with_their_times(load: Callable[..., TraceSource]) -> None:
    source = load()
    assert source.names == ("j1/worker", "j2/worker")
    job = source.job("j1/worker")
    np.testing.assert_array_equal(job.start_s, [0, 3, 0])
    np.testing.assert_array_equal(job.latency_s, [10, 20, 40])
    assert job.window_s == pytest.approx(10 / 2)  # the first has finished after 10 s
    assert source.submission("j1/worker") == "j1"
    assert source.origin("j1/worker") == (1000.0, 1040.0, "alice", "g7")
    assert source.origin("j2/worker") == (500.0, 620.0, "bob", "g8")
    assert source.span_s == (500.0, 1040.0)
    assert source.left_out_rows["status is not Terminated"] == 1


def test_what_is_known_at_the_start_is_shown_from_the_start(load: Callable[..., TraceSource]) -> None:
    job = load(static_counters="withheld").job("j1/worker")
    alive = np.array([[1, 1, 0, 0, 0, 0, 0, 0], [1, 1, 1, 1, 0, 0, 0, 0], [1] * 8])
    for name, values in {
        "gpu_type_t4": [1, 0, 0],
        "gpu_type_v100m32": [0, 1, 0],
        "gpu_type_p100": [0, 0, 0],
        "machine_cores": [96, 96, 96],
        "machine_memory": [512, 384, 512],
        "machine_gpus": [2, 8, 0],
        "plan_cpu": [600, 600, 600],
        "plan_mem": [29.25] * 3,
        "plan_gpu": [50, 50, 50],
    }.items():
        np.testing.assert_array_equal(counter(job, name), alive * np.array(values)[:, None], err_msg=name)


def test_means_over_a_life_are_shown_at_its_end(load: Callable[..., TraceSource]) -> None:
    job = load(static_counters="withheld").job("j1/worker")
    # Tasks of 2, 4 and 8 windows; all is in the last window, so that the mean over the life is right.
    np.testing.assert_array_equal(counter(job, "cpu_usage")[0], [0, 200, 0, 0, 0, 0, 0, 0])
    np.testing.assert_array_equal(counter(job, "cpu_usage")[1], np.zeros(8))  # without a row: shown as 0
    np.testing.assert_array_equal(counter(job, "cpu_usage")[2], [0, 0, 0, 0, 0, 0, 0, 2400])
    np.testing.assert_allclose(counter(job, "read")[0, 1], 2 * 2.0)  # million bytes
    np.testing.assert_allclose(counter(job, "machine_net_receive")[0, 1], 2 * 110.0, rtol=1e-6)
    np.testing.assert_allclose(counter(job, "machine_load_1")[1, 3], 4 * 2.0)
    leaking = load(static_counters="lifetime").job("j1/worker")
    np.testing.assert_array_equal(counter(leaking, "cpu_usage")[2], [300] * 8)


def test_withheld_means_change_nothing_while_the_task_runs(load: Callable[..., TraceSource]) -> None:
    seen = []
    for cpu in (100.0, 900.0):
        job = load(static_counters="withheld", pai_sensor_table=[sensor("w3", cpu)]).job("j1/worker")
        execution = Execution(job)
        execution.advance_to(39.0)
        seen.append(execution.snapshot().counters_mean[2].copy())
    np.testing.assert_array_equal(seen[0], seen[1])
    assert seen[0][job.counter_names.index("machine_cores")] == 96


def test_every_row_is_counted_once(load: Callable[..., TraceSource]) -> None:
    source = load(
        tasks_min=3,
        pai_instance_table=[
            *TABLES["pai_instance_table"],
            instance("j1", "w1", 900.0, 950.0),  # an earlier attempt
            instance("j1", "w5", 0.0, 950.0),
            instance("j1", "w6", "", 950.0),
            instance("j1", "w7", "x", 950.0),
            instance("j1", "w8", 950.0, 900.0),
            instance("j1", "w9", 950.0, 950.0),
            instance("j1", "", 950.0, 960.0),
            "j1,worker",
        ],
        pai_sensor_table=[
            *TABLES["pai_sensor_table"],
            sensor("w1", 7.0),
            sensor("w2", "x"),
            sensor("w2", ""),
        ],
        pai_machine_spec=[*TABLES["pai_machine_spec"][1:], "m0,ODD,1,1,1"],
    )
    assert source.names == ("j1/worker",)
    np.testing.assert_array_equal(source.job(0).latency_s, [10, 20, 40])
    assert source.malformed == {
        "wrong number of columns": 1,
        "no job or task id": 1,
        "not a number": 2,
        "end before start": 1,
    }
    assert source.left_out_rows == {
        "status is not Terminated": 1,
        "earlier row of the same worker": 1,
        "no time of its start or end": 2,
        "lasts 0 s: less than the trace's clock shows": 1,
        "second row of what has one": 1,
        # One machine, two tasks, one worker, and the tags of two jobs.
        "belongs to instances that are not used": 6,
    }
    assert source.left_out_jobs == {"fewer than tasks_min tasks": 1}
    assert source.missing_values["cpu_usage"] == 1
    assert "gpu_type_t4" not in source.missing_values


def test_a_machine_of_an_unknown_type_is_missing(load: Callable[..., TraceSource]) -> None:
    source = load(pai_machine_spec=["m1,H100,96,512,2", "m2,T4,96,512,2"])
    job = source.job("j1/worker")
    assert counter(job, "machine_cores")[0, 0] == 96
    assert source.missing_values["gpu_type_t4"] == 4  # three instances on m1, one on a machine without a row
    assert source.missing_values["machine_cores"] == 1


def test_tables_are_needed_and_known_by_their_names(
    load: Callable[..., TraceSource], read: Read, write_rows: WriteRows, tmp_path: Path
) -> None:
    with pytest.raises(TraceError, match=r"tables are not there: pai_sensor_table(.|\n)*jobs\.paths"):
        load(pai_sensor_table=[])
    with pytest.raises(TraceError, match=r"pai_machine_spec \(5 columns\)"):
        load(pai_machine_spec=TABLES["pai_task_table"])
    with pytest.raises(TraceError, match="name is not that of a table"):
        read("pai-2020", write_rows("other/instances.csv", TABLES["pai_instance_table"]))
    with pytest.raises(TraceError, match=r"no such file(.|\n)*CC-BY 4\.0"):
        read("pai-2020", str(tmp_path / "pai"))
    load()
    write_rows(
        "pai_job_table.csv", ["j1,id-j1,alice,Terminated,1,2"]
    )  # published with the others, not in use
    assert len(read("pai-2020", str(tmp_path), tasks_min=2)) == 2


def test_no_task_has_as_many_instances(load: Callable[..., TraceSource]) -> None:
    with pytest.raises(TraceError, match="2 fewer than tasks_min tasks"):
        load(tasks_min=5)


@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=10, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_joins_are_those_of_dictionaries(seed: int, load: Callable[..., TraceSource]) -> None:
    rng = np.random.default_rng(seed)
    workers = [f"w{i}" for i in range(30)]
    job_of = {worker: f"j{rng.integers(4)}" for worker in workers}
    machine_of = {worker: f"m{rng.integers(5)}" for worker in workers}
    sensed = {worker: float(rng.integers(1, 1000)) for worker in workers if rng.random() < 0.8}
    loads = {worker: float(rng.integers(1, 100)) for worker in workers if rng.random() < 0.8}
    cores = {f"m{i}": int(rng.integers(1, 100)) for i in range(5) if rng.random() < 0.8}
    plans = {f"j{i}": int(rng.integers(1, 100)) for i in range(4) if rng.random() < 0.8}

    def shuffled(rows: list[str]) -> list[str]:
        return [rows[i] for i in rng.permutation(len(rows))]

    end = {worker: 1000 + int(rng.integers(20, 40)) for worker in workers}
    source = load(
        tasks_min=1,
        tasks_max=30,
        pai_instance_table=[instance(job_of[w], w, 1000, end[w], machine_of[w]) for w in workers],
        pai_sensor_table=shuffled([sensor(w, value) for w, value in sensed.items()] + [sensor("else", 1.0)]),
        pai_machine_metric=shuffled([metric(w, value) for w, value in loads.items()] + [metric("else", 1.0)]),
        pai_machine_spec=shuffled([f"{m},T4,{n},1,1" for m, n in cores.items()] + ["else,P100,1,1,1"]),
        pai_task_table=shuffled(
            [f"{j},worker,1,Terminated,1,2,{n},1,1,T4" for j, n in plans.items()]
            + ["j0,ps,1,Terminated,1,2,7,7,7,T4"]
        ),
    )
    for name in source.names:
        job, mine = source.job(name), [w for w in workers if job_of[w] == name.split("/")[0]]
        np.testing.assert_array_equal(job.latency_s, [end[w] - 1000 for w in mine])
        for column, expected in {
            "cpu_usage": [sensed.get(w, 0) for w in mine],
            "machine_load_1": [loads.get(w, 0) for w in mine],
            "machine_cores": [cores.get(machine_of[w], 0) for w in mine],
            "gpu_type_t4": [machine_of[w] in cores for w in mine],
            "plan_cpu": [plans.get(job_of[w], 0) for w in mine],
        }.items():
            np.testing.assert_array_equal(counter(job, column)[:, 0], expected, err_msg=column)
