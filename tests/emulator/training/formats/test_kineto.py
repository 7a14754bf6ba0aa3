"""Traces of PyTorch's profiler: every kind of edge, steps, ranks, malformed rows, and a real trace."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sysgym.emulator.trace_errors import TraceError
from sysgym.emulator.training.accuracy import step_errors
from sysgym.emulator.training.clocks import aligned, clock_offsets_s
from sysgym.emulator.training.formats.kineto import read_kineto
from sysgym.emulator.training.job import Job
from sysgym.emulator.training.operations import BETWEEN, LATE_START
from sysgym.emulator.training.replay import replay
from sysgym.emulator.training.timing import durations_s
from tests.emulator.training.formats.kineto_files import (
    BACKWARD_THREAD,
    Row,
    call,
    kernel,
    launch,
    operator,
    span,
    step,
    write,
)

DATA = Path(__file__).parent / "data"


def job_of(folder: Path, *ranks: list[Row]) -> Job:
    return read_kineto([write(folder / f"r{i}.json", rows, i) for i, rows in enumerate(ranks)], "job")


def name(job: Job, one: int) -> str:
    operations = job.trace.operations
    return f"{operations.kind[one]} {operations.index[one]}"


def edges(job: Job, *, between: bool = False) -> set[tuple[str, str]]:
    """Edges by names; what threads do between operators is left out, and those around it are joined."""
    found = job.graph.edges()
    if not between:
        kinds = job.trace.operations.kind
        inner = [one for one in range(len(kinds)) if kinds[one] in (BETWEEN, LATE_START)]
        for one in inner:
            before = [a for a, b in found if b == one]
            after = [b for a, b in found if a == one]
            found = {edge for edge in found if one not in edge} | {(a, b) for a in before for b in after}
    return {(name(job, a), name(job, b)) for a, b in found}


def time_us(job: Job, kind: str, index: int = 0, rank: int = 0, place: int = 0) -> tuple[float, float]:
    one = job.trace.operations.number()[rank, kind, index]
    times = job.trace.start_s[place, one], job.trace.end_s[place, one]
    return round(1e6 * times[0], 3), round(1e6 * times[1], 3)


def test_a_thread_is_a_chain_of_its_outermost_operators_and_what_is_between(tmp_path: Path) -> None:
    rows = [
        step(3, 100.0, 100.0),
        operator("aten::linear", 110.0, 20.0),
        operator("aten::addmm", 112.0, 10.0),
        operator("aten::relu", 150.0, 30.0),
        operator("aten::late", 205.0, 5.0),
    ]
    job = job_of(tmp_path, rows)
    assert job.trace.steps.tolist() == [3]
    assert edges(job, between=True) == {
        (f"{LATE_START} 0", f"{BETWEEN} 0"), (f"{BETWEEN} 0", "aten::linear 0"),
        ("aten::linear 0", f"{BETWEEN} 1"), (f"{BETWEEN} 1", "aten::relu 0"),
        ("aten::relu 0", f"{BETWEEN} 2"),
    }  # fmt: skip
    assert time_us(job, BETWEEN, 1) == (30.0, 50.0)
    assert time_us(job, BETWEEN, 2) == (80.0, 100.0)
    assert 1e6 * job.trace.step_s[0] == pytest.approx(100.0)
    assert set(job.trace.operations.stream) == {"thread 0"}


def test_a_kernel_follows_its_launch_and_its_stream(tmp_path: Path) -> None:
    rows = [
        step(1, 0.0, 100.0),
        operator("aten::mm", 10.0, 30.0),
        *launch("void gemm<float, 3>(float*)", 15.0, 20.0, 40.0, correlation=1),
        *launch("relu_kernel(int)", 25.0, 60.0, 5.0, correlation=2),
    ]
    job = job_of(tmp_path, rows)
    assert edges(job) == {
        ("aten::mm 0", "cudaLaunchKernel 0"), ("cudaLaunchKernel 0", "aten::mm 1"),
        ("aten::mm 1", "cudaLaunchKernel 1"), ("cudaLaunchKernel 1", "aten::mm 2"),
        ("cudaLaunchKernel 0", "gemm 0"), ("cudaLaunchKernel 1", "relu_kernel 0"),
        ("gemm 0", "relu_kernel 0"),
    }  # fmt: skip
    assert [time_us(job, "aten::mm", one) for one in range(3)] == [(10.0, 15.0), (17.0, 25.0), (27.0, 40.0)]
    assert "stream 7 of device 0" in job.trace.operations.stream
    assert job.trace.operations.computes.all()


def test_arrows_tell_what_launched_a_kernel_without_correlations(tmp_path: Path) -> None:
    rows = [step(1, 0.0, 100.0), operator("aten::mm", 10.0, 30.0), *launch("gemm", 15.0, 20.0, 40.0, 1)]
    for row in rows:
        row["args"].pop("correlation", None)
    rows += [
        {"ph": "s", "cat": "ac2g", "name": "ac2g", "id": 5, "pid": 1, "tid": 10, "ts": 15.0},
        {"ph": "f", "cat": "ac2g", "name": "ac2g", "id": 5, "pid": 0, "tid": 7, "ts": 20.0, "bp": "e"},
    ]
    assert ("cudaLaunchKernel 0", "gemm 0") in edges(job_of(tmp_path, rows))


def test_a_call_that_returns_after_what_it_started_has_begun_is_cut_there(tmp_path: Path) -> None:
    rows = [
        step(1, 0.0, 100.0),
        operator("c10d::allreduce_", 10.0, 50.0),
        span("user_annotation", "gloo:all_reduce", 20.0, 20.0, 99),
        operator("aten::add", 70.0, 5.0),
    ]
    job = job_of(tmp_path, rows)
    assert ("c10d::allreduce_ 0", "gloo:all_reduce 0") in edges(job)
    assert time_us(job, "c10d::allreduce_", 0) == (10.0, 20.0)
    assert time_us(job, "c10d::allreduce_", 1) == (20.0, 60.0)
    assert ("c10d::allreduce_ 1", "aten::add 0") in edges(job)
    assert ("c10d::allreduce_ 0", "aten::add 0") not in edges(job)


@pytest.mark.parametrize("recorded", [False, True])
def test_a_synchronising_call_waits_for_devices(tmp_path: Path, recorded: bool) -> None:
    """Without a record, it may have waited for all that ended before; with one, for the stream it names."""
    rows = [
        step(1, 0.0, 100.0),
        *launch("gemm", 10.0, 15.0, 40.0, 1, stream=7),
        *launch("copy", 20.0, 25.0, 10.0, 2, stream=8),
        *launch("long", 30.0, 35.0, 60.0, 3, stream=9),
        call("cudaStreamSynchronize", 40.0, 20.0, 4),
        operator("aten::item", 70.0, 5.0),
    ]
    if recorded:
        rows.append(span("cuda_sync", "Stream Sync", 40.0, 20.0, 7, correlation=4, stream=7))
    job = job_of(tmp_path, rows)
    waits = {before for before, after in edges(job) if after == "cudaStreamSynchronize 0"}
    expected = {"cudaLaunchKernel 2", "gemm 0"}
    assert waits == (expected if recorded else expected | {"copy 0"})
    # Its own time begins when the kernel is done.
    assert time_us(job, "cudaStreamSynchronize") == (55.0, 60.0)


def test_a_stream_waits_for_an_event_that_another_has_recorded(tmp_path: Path) -> None:
    rows = [
        step(1, 0.0, 200.0),
        *launch("before", 10.0, 15.0, 40.0, 1, stream=7),
        call("cudaEventRecord", 14.0, 1.0, 2),
        *launch("after", 16.0, 60.0, 10.0, 3, stream=7),
        call("cudaStreamWaitEvent", 20.0, 1.0, 4),
        *launch("elsewhere", 22.0, 30.0, 10.0, 5, stream=9),
        *launch("waiting", 26.0, 56.0, 10.0, 6, stream=8),
        span(
            "cuda_sync", "Stream Wait Event", 20.0, 1.0, 8, correlation=4, stream=8, wait_on_stream=7,
            wait_on_cuda_event_record_corr_id=2,
        ),
    ]  # fmt: skip
    found = edges(job_of(tmp_path, rows))
    assert {before for before, after in found if after == "waiting 0"} == {"cudaLaunchKernel 3", "before 0"}
    assert {before for before, after in found if after == "elsewhere 0"} == {"cudaLaunchKernel 2"}


def test_without_records_communication_waits_for_its_stream_and_computation_for_it(tmp_path: Path) -> None:
    nccl = {"Collective name": "allreduce"}
    rows = [
        step(1, 0.0, 200.0),
        *launch("backward", 10.0, 15.0, 40.0, 1),
        *launch("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 20.0, 56.0, 30.0, 2, stream=9, **nccl),
        *launch("other", 24.0, 55.0, 5.0, 3),
        *launch("optimizer", 28.0, 87.0, 10.0, 4),
    ]
    job = job_of(tmp_path, rows)
    found = edges(job)
    assert ("backward 0", "nccl:allreduce 0") in found
    assert ("nccl:allreduce 0", "optimizer 0") in found
    assert ("nccl:allreduce 0", "other 0") not in found
    operations = job.trace.operations
    assert operations.kind[~operations.computes].tolist() == ["nccl:allreduce"]


def test_the_thread_of_the_backward_pass_is_started_and_waited_for(tmp_path: Path) -> None:
    backward = "autograd::engine::evaluate_function: MmBackward0"
    rows = [
        step(1, 0.0, 100.0),
        operator("aten::mm", 10.0, 10.0),
        operator(backward, 30.0, 10.0, BACKWARD_THREAD),
        operator(backward, 42.0, 10.0, BACKWARD_THREAD),
        operator("aten::add_", 60.0, 10.0),
    ]
    job = job_of(tmp_path, rows)
    assert edges(job) == {
        ("aten::mm 0", f"{backward} 0"), (f"{backward} 0", f"{backward} 1"),
        (f"{backward} 1", "aten::add_ 0"), ("aten::mm 0", "aten::add_ 0"),
    }  # fmt: skip


def ddp_rank(late_us: float = 0.0) -> list[Row]:
    """Two buckets that are reduced and copied back, on two threads of gloo."""
    copy = "torch.distributed.ddp.reducer::copy_bucket_to_grad"
    rows: list[Row] = []
    for number in range(3):
        begin = 1000.0 * number + late_us
        rows += [
            step(number, begin, 900.0),
            operator("aten::mm", begin + 10.0, 100.0),
            operator("c10d::allreduce_", begin + 120.0, 10.0),
            operator("aten::mm", begin + 140.0, 100.0),
            operator("c10d::allreduce_", begin + 250.0, 10.0),
            span("user_annotation", "gloo:all_reduce", begin + 135.0, 200.0 + 10.0 * number, 98),
            span("user_annotation", "gloo:all_reduce", begin + 265.0, 200.0 + 20.0 * number, 99),
            operator("aten::as_strided", begin + 370.0, 5.0),
            operator(copy, begin + 380.0, 20.0),
            operator(copy, begin + 400.0, 20.0),
            operator("aten::as_strided", begin + 520.0, 5.0),
            operator(copy, begin + 530.0, 20.0),
            operator("aten::add_", begin + 560.0, 50.0),
        ]
    return rows


def test_the_reducer_waits_for_its_buckets_in_their_order(tmp_path: Path) -> None:
    found = edges(job_of(tmp_path, ddp_rank()))
    assert {after for before, after in found if before == "gloo:all_reduce 0"} == {"aten::as_strided 0"}
    assert {after for before, after in found if before == "gloo:all_reduce 1"} == {"aten::as_strided 1"}
    assert {before for before, after in found if after == "gloo:all_reduce 1"} == {"c10d::allreduce_ 1"}


def test_without_a_reducer_the_thread_that_paused_has_waited(tmp_path: Path) -> None:
    rows = [row for row in ddp_rank() if "copy_bucket" not in row["name"] and "as_strided" not in row["name"]]
    found = edges(job_of(tmp_path, rows))
    # The first ends while the thread is idle, too, and is waited for by the first operator after it.
    assert ("gloo:all_reduce 0", "aten::add_ 0") in found
    assert ("gloo:all_reduce 1", "aten::add_ 0") in found


def test_collectives_of_a_busy_thread_wait_for_it(tmp_path: Path) -> None:
    rows = [
        step(1, 0.0, 100.0),
        *(operator("c10d::allreduce_", start, 1.0) for start in (10.0, 12.0, 14.0)),
        span("user_annotation", "gloo:all_reduce", 15.0, 20.0, 98),
        span("user_annotation", "gloo:all_reduce", 16.0, 30.0, 99),
        span("user_annotation", "gloo:all_reduce", 36.0, 20.0, 98),
    ]
    found = edges(job_of(tmp_path, rows))
    assert ("gloo:all_reduce 0", "gloo:all_reduce 2") in found
    assert ("gloo:all_reduce 0", "gloo:all_reduce 1") not in found


def test_ranks_meet_and_a_late_one_is_late(tmp_path: Path) -> None:
    job = job_of(tmp_path, ddp_rank(), ddp_rank(late_us=30.0))
    number = job.trace.operations.number()
    assert job.graph.groups() == {
        frozenset(number[rank, "gloo:all_reduce", one] for rank in (0, 1)) for one in (0, 1)
    }
    assert time_us(job, LATE_START, rank=0) == (0.0, 0.0)
    assert time_us(job, LATE_START, rank=1) == (0.0, 30.0)
    operations = job.trace.operations
    assert operations.data_rank.tolist() == operations.rank.tolist()
    for kind in ("aten::mm", "gloo:all_reduce"):
        assert operations.work[number[0, kind, 1]] == operations.work[number[1, kind, 1]]
    # The second one by the clock of the first is the same as the first.
    offsets_s = clock_offsets_s(job.trace, job.graph)
    assert offsets_s == pytest.approx([0.0, 30e-6], abs=1e-9)
    same = aligned(job.trace, offsets_s)
    assert (same.end_s - same.start_s)[:, number[1, LATE_START, 0]] == pytest.approx(0.0, abs=1e-9)


@pytest.mark.parametrize("with_numbers", [False, True])
def test_collectives_of_a_group_are_matched_by_number_or_order(tmp_path: Path, with_numbers: bool) -> None:
    """The second rank has one collective less at the beginning; only numbers tell which."""

    def rank(first: int) -> list[Row]:
        rows = [step(1, 0.0, 100.0)]
        for one in range(first, 3):
            about: dict[str, Any] = {"Collective name": "allreduce", "Process Group Name": "dp"}
            about |= {"Seq": 40 + one} if with_numbers else {}
            rows += launch("ncclDevKernel", 10.0 * one + 5.0, 10.0 * one + 8.0, 5.0, one + 1, 9, **about)
        return rows

    job = job_of(tmp_path, rank(0), rank(1))
    number = job.trace.operations.number()
    if with_numbers:
        assert job.graph.groups() == {
            frozenset((number[0, "nccl:allreduce", one], number[1, "nccl:allreduce", one - 1]))
            for one in (1, 2)
        }
        assert job.trace.left_out.unmatched == 1
    else:
        assert job.graph.groups() == set()
        assert job.trace.left_out.unmatched == 5


def test_a_send_meets_its_receive(tmp_path: Path) -> None:
    def rank(about: dict[str, Any]) -> list[Row]:
        rows = launch("ncclDevKernel_SendRecv", 5.0, 8.0, 5.0, 1, 9, **about)
        return [step(1, 0.0, 100.0), *rows]

    ranks = [
        {"Collective name": "send", "Dst Rank": 1},
        {"Collective name": "recv", "Src Rank": 0},
        {"Collective name": "send", "Dst Rank": 0},
    ]
    job = job_of(tmp_path, *(rank(one) for one in ranks))
    number = job.trace.operations.number()
    assert job.graph.groups() == {frozenset((number[0, "nccl:send", 0], number[1, "nccl:recv", 0]))}
    assert job.trace.left_out.unmatched == 1


def test_steps_with_other_operations_are_left_out(tmp_path: Path) -> None:
    rows = []
    for number in range(4):
        begin = 100.0 * number
        rows += [step(number, begin, 90.0), operator("aten::mm", begin + 10.0, 10.0)]
    rows.append(operator("aten::allocate", 30.0, 5.0))
    job = job_of(tmp_path, rows)
    assert job.trace.steps.tolist() == [1, 2, 3]
    assert job.trace.left_out.steps == (0,)


def test_a_trace_without_steps_is_one_step(tmp_path: Path) -> None:
    job = job_of(tmp_path, [operator("aten::mm", 10.0, 10.0), operator("aten::add", 30.0, 10.0)])
    assert job.notes == ("no ProfilerStep: the whole trace counts as one step",)
    assert 1e6 * job.trace.step_s[0] == pytest.approx(30.0)


def test_the_rank_is_that_of_the_file_its_name_or_its_place(tmp_path: Path) -> None:
    rows = [step(1, 0.0, 50.0), operator("aten::mm", 10.0, 10.0)]
    paths = [
        write(tmp_path / "a.json", rows, 4),
        write(tmp_path / "rank_7.json.gz", rows, None),
        write(tmp_path / "b.json", rows, None),
    ]
    assert read_kineto(paths, "job").trace.operations.ranks.tolist() == [2, 4, 7]


def test_files_of_one_job_have_a_common_clock(tmp_path: Path) -> None:
    """Times are since a base, of which float64 cannot hold the nanoseconds."""
    rows = [step(1, 0.0, 50.0), operator("aten::mm", 10.0, 10.0)]
    base = 1_790_857_026_000_000_000
    paths = [write(tmp_path / f"{i}.json", rows, i, baseTimeNanoseconds=base + i * 2_001) for i in (0, 1)]
    job = read_kineto(paths, "job")
    assert time_us(job, LATE_START, rank=1)[1] == pytest.approx(2.001, abs=1e-3)


@pytest.mark.parametrize(
    ("write_files", "message"),
    [
        (lambda folder: [folder / "none.json"], "no such file"),
        (lambda folder: [_text(folder, "no json")], "no JSON"),
        (lambda folder: [_text(folder, "[" * 200_000)], "no JSON"),
        (lambda folder: [_text(folder, "[]")], 'no list "traceEvents"'),
        (lambda folder: [_text(folder, '{"traceEvents": {}}')], 'no list "traceEvents"'),
        (lambda folder: [write(folder / "a.json", [])], "no operator, kernel or copy"),
        (
            lambda folder: [write(folder / "a.json", [step(1, 0, 1), operator("x", 5, 1)])],
            "without operators",
        ),
        (lambda folder: [write(folder / f"{i}.json", [operator("x", 5, 1)]) for i in (0, 1)], "two files of"),
        (
            lambda folder: [
                write(folder / f"{i}.json", [step(i, 0, 9), operator("x", 5, 1)], i) for i in (0, 1)
            ],
            "no step that all ranks have",
        ),
    ],
)
def test_other_files_are_errors(
    tmp_path: Path, write_files: Callable[[Path], list[Path]], message: str
) -> None:
    with pytest.raises(TraceError, match=message):
        read_kineto(write_files(tmp_path), "job")


def _text(folder: Path, text: str) -> Path:
    path = folder / "a.json"
    path.write_text(text)
    return path


def test_ranks_whose_collectives_are_in_another_order_are_an_error(tmp_path: Path) -> None:
    def rank(order: tuple[str, str]) -> list[Row]:
        rows = [step(1, 0.0, 100.0)]
        for one, kind in enumerate(order):
            start = 10.0 + 20.0 * one
            rows += launch("ncclDevKernel", start, start + 3.0, 5.0, one + 1, 9, **{"Collective name": kind})
        return rows

    with pytest.raises(TraceError, match="collectives of the ranks do not fit together"):
        job_of(tmp_path, rank(("allreduce", "broadcast")), rank(("broadcast", "allreduce")))


values = st.one_of(
    st.none(), st.booleans(), st.integers(-5, 5), st.floats(), st.text(max_size=3), st.just([]), st.just({})
)
keys = st.sampled_from(["ph", "cat", "name", "ts", "dur", "tid", "pid", "args", "id"])
categories = st.sampled_from(["cpu_op", "kernel", "cuda_runtime", "ac2g", "user_annotation", "cuda_sync"])


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    bad=st.lists(
        st.one_of(
            values,
            st.dictionaries(keys, values),
            st.builds(
                lambda row, key, value, category: {**row, "cat": category, key: value},
                st.just(operator("aten::mm", 20.0, 5.0)), keys, values, categories,
            ),
        ),
        max_size=6,
    )
)  # fmt: skip
def test_malformed_rows_are_counted_and_never_break_the_reader(tmp_path: Path, bad: list[Any]) -> None:
    good = [step(1, 0.0, 100.0), operator("aten::mm", 10.0, 5.0), *launch("gemm", 16.0, 19.0, 4.0, 1)]
    path = tmp_path / "a.json"
    path.write_text(json.dumps({"traceEvents": [*bad, *good], "distributedInfo": {"rank": 0}}))
    job = read_kineto([path], "job")
    assert job.trace.left_out.malformed_rows <= len(bad)
    assert sum(not isinstance(row, dict) for row in bad) <= job.trace.left_out.malformed_rows
    assert "gemm" in job.trace.operations.kind
    assert np.isfinite(job.trace.start_s).all()
    assert (job.trace.end_s >= job.trace.start_s).all()


def test_a_real_trace_of_two_gloo_processes_is_replayed() -> None:
    """Recorded by scripts/training/ddp_replay.py --steps 3 --width 8 --batch 4; other process numbers."""
    job = read_kineto([DATA / f"rank{rank}.json.gz" for rank in (0, 1)], "ddp")
    trace, graph = job.trace, job.graph
    assert trace.steps.tolist() == [5, 6, 7]
    assert trace.left_out.malformed_rows == trace.left_out.unmatched == 0
    assert len(graph.groups()) == 3
    errors = {one.name: one for one in step_errors(trace, graph)}
    assert errors["durations of the step"].largest < 0.01
    assert errors["durations and gaps of the step"].largest < 1e-9
    assert abs(clock_offsets_s(trace, graph)).max() < 1e-3
    # Nothing of the step is lost: what a rank's thread does and waits for takes the whole step.
    replayed = replay(graph, durations_s(trace, graph)[0])
    main = (trace.operations.stream == "thread 0") & (trace.operations.rank == 0)
    assert durations_s(trace, graph)[0, main].sum() < replayed.step_s
    assert replayed.critical[trace.operations.kind == "gloo:all_reduce"].any()


def test_a_copy_between_hosts_and_devices_is_launched_too(tmp_path: Path) -> None:
    rows = [
        step(1, 0.0, 100.0),
        call("cudaMemcpyAsync", 10.0, 5.0, 1),
        {**kernel("Memcpy HtoD (Pageable -> Device)", 16.0, 5.0, 1), "cat": "gpu_memcpy"},
    ]
    assert edges(job_of(tmp_path, rows)) == {("cudaMemcpyAsync 0", "Memcpy HtoD 0")}
