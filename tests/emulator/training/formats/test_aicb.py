"""Workload files of AICB: SimAI's order, groups, times, malformed lines."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sysgym.emulator.trace_errors import TraceError
from sysgym.emulator.training.collective_costs import CollectiveCosts
from sysgym.emulator.training.formats.aicb import read_aicb
from sysgym.emulator.training.job import Job

HEADER = (
    "HYBRID_TRANSFORMER_FWD_IN_BCKWD model_parallel_NPU_group: 8 ep: 2 pp: 1 vpp: 2 ga: 1 all_gpus: 32 "
    "checkpoints: 0 checkpoint_initiates: 0 pp_comm: 0"
)
ATTENTION = "attention\t-1\t1000\tALLREDUCE\t4096\t2000\tALLREDUCE\t4096\t500\tREDUCESCATTER\t65536\t100"
EXPERT = "moe\t-1\t3000\tALLTOALL_EP\t8192\t4000\tNONE\t0\t1\tALLGATHER_DP_EP\t32768\t100"


def write(folder: Path, *lines: str, header: str = HEADER, count: int | None = None) -> Path:
    path = folder / "job.txt"
    path.write_text("\n".join([header, str(len(lines) if count is None else count), *lines]) + "\n")
    return path


def names(job: Job) -> list[str]:
    return list(map(str, job.trace.operations.kind))


def test_the_order_is_simais_and_communication_of_weights_goes_on_beside(tmp_path: Path) -> None:
    job = read_aicb(write(tmp_path, ATTENTION, EXPERT))
    assert names(job) == [
        "forward-compute", "forward, all_reduce of tp", "forward-compute", "forward, all_to_all of ep",
        "input gradient-compute", "weight gradient-compute", "weight gradient, all_gather of dp_ep", "update",
        "input gradient-compute", "input gradient, all_reduce of tp", "weight gradient-compute",
        "weight gradient, reduce_scatter of dp", "update",
    ]  # fmt: skip
    chain = [(0, 1), (1, 2), (2, 3), (3, 4), (4, 5), (5, 8), (8, 9), (9, 10)]
    assert job.graph.edges() == {*chain, (5, 6), (6, 7), (10, 11), (6, 11), (11, 12)}


def test_times_are_nanoseconds_and_the_models(tmp_path: Path) -> None:
    job = read_aicb(write(tmp_path, ATTENTION, EXPERT), "dgx-a100")
    costs = CollectiveCosts("dgx-a100", 32)
    tensor_s = costs.collective_time_s("all_reduce", 8, 1, 4096)
    expert_s = costs.collective_time_s("all_to_all", 2, 8, 8192)
    gather_s = costs.collective_time_s("all_gather", 2, 16, 32768)
    scatter_s = costs.collective_time_s("reduce_scatter", 4, 8, 65536)
    computed_s = 1e-9 * (1000 + 3000 + 4000 + 1 + 2000 + 500)
    before_last_s = computed_s + 2 * tensor_s + expert_s
    gathered_s = 1e-9 * (1000 + 3000 + 4000 + 1) + tensor_s + expert_s + gather_s
    expected_s = max(before_last_s, gathered_s) + scatter_s + 1e-7
    assert job.trace.step_s[0] == pytest.approx(expected_s, rel=1e-12)


def test_old_headers_have_no_number_of_ranks(tmp_path: Path) -> None:
    header = (
        "HYBRID_TRANSFORMER_FWD_IN_BCKWD\tmodel_parallel_NPU_group: 2 checkpoints: 0 checkpoint_initiates: 0"
    )
    path = write(tmp_path, ATTENTION, header=header)
    path.write_bytes(b"\xef\xbb\xbf" + path.read_bytes())
    with pytest.raises(TraceError, match="give it with --ranks"):
        read_aicb(path)
    assert len(read_aicb(path, n_ranks=4).trace.operations) == 7


def test_a_micro_test_uses_all_ranks(tmp_path: Path) -> None:
    path = write(tmp_path, "micro_test\t-1\t1\tNONE\t0\t1\tNONE\t0\t1\tALLREDUCE\t4096\t1", header="MICRO")
    job = read_aicb(path, n_ranks=16)
    reduced = names(job).index("weight gradient, all_reduce of dp")
    expected_s = CollectiveCosts("dgx-h100", 16).collective_time_s("all_reduce", 16, 1, 4096)
    assert (job.trace.end_s - job.trace.start_s)[0, reduced] == pytest.approx(expected_s)


def test_what_is_not_modelled_is_told(tmp_path: Path) -> None:
    header = HEADER.replace("pp: 1", "pp: 2").replace("checkpoints: 0", "checkpoints: 1", 1)
    notes = read_aicb(write(tmp_path, ATTENTION, header=header)).notes
    assert "2 pipeline stages do not wait for each other here" in notes[1]
    assert "repeated" in notes[2]


@pytest.mark.parametrize(
    "line",
    [
        "short\t-1\t1",
        ATTENTION.replace("1000", "-5"),
        ATTENTION.replace("1000", "nan"),
        ATTENTION.replace("ALLREDUCE", "ALLSORTS", 1),
        ATTENTION.replace("65536", "many"),
        f"{ATTENTION}\t5",
    ],
)
def test_malformed_lines_are_counted(tmp_path: Path, line: str) -> None:
    job = read_aicb(write(tmp_path, ATTENTION, line))
    assert job.trace.left_out.malformed_rows == 1
    assert len(job.trace.operations) == 7


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "fewer than two lines"),
        ("HYBRID_DLRM\n1\nx\n", "a first line that begins with"),
        (f"{HEADER}\nx\n{ATTENTION}\n", "a second line"),
        (f"{HEADER}\n3\n{ATTENTION}\n", "a second line"),
        (f"{HEADER}\n1\nx\n", "no layer with valid values"),
        (f"{HEADER.replace('Group: 8', '')}\n1\n{ATTENTION.replace('ALLREDUCE', 'NONE')}\n", None),
        (HEADER.replace("group: 8", "group: 5") + f"\n1\n{ATTENTION}\n", "32 ranks with tensor axis 5"),
        (
            HEADER.replace("ep: 2", "ep: 3") + f"\n1\n{ATTENTION}\n",
            "4 data-parallel ranks with expert axis 3",
        ),
        ("\udcff", "cannot be read"),
    ],
)
def test_other_files_are_errors(tmp_path: Path, text: str, message: str | None) -> None:
    path = tmp_path / "job.txt"
    path.write_bytes(text.encode("utf-8", "surrogateescape"))
    if message is None:
        assert len(read_aicb(path).trace.operations)
        return
    with pytest.raises(TraceError, match=message):
        read_aicb(path)


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(cells=st.lists(st.lists(st.text("0123456789.-eALNONE\x00 ", max_size=6), max_size=13), max_size=5))
def test_any_lines_are_counted_or_a_clear_error(tmp_path: Path, cells: list[list[str]]) -> None:
    lines = ["\t".join(row) or "x" for row in cells]
    try:
        job = read_aicb(write(tmp_path, ATTENTION, *lines))
    except TraceError:
        return
    assert job.trace.left_out.malformed_rows <= len(lines)
