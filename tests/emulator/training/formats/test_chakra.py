"""Chakra's execution traces: dependencies, collectives, transfers, costs, malformed files."""

from __future__ import annotations

import gzip
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sysgym.emulator.trace_errors import TraceError
from sysgym.emulator.training.collective_costs import CollectiveCosts
from sysgym.emulator.training.formats.chakra import read_chakra
from sysgym.emulator.training.job import Job
from sysgym.scenarios.errors import MissingExtra

pytest.importorskip("google.protobuf")

from sysgym.emulator.training.formats import chakra_schema
from sysgym.emulator.training.formats.chakra_schema import COLLECTIVE_TYPES, NODE_TYPES, message

Node = dict[str, Any]


def varint(number: int) -> bytes:
    data = b""
    while number > 0x7F:
        data += bytes([number & 0x7F | 0x80])
        number >>= 7
    return data + bytes([number])


def attribute(name: str, value: object) -> Any:
    kind = {bool: "bool_val", int: "int64_val", str: "string_val"}[type(value)]
    return message("AttributeProto")(name=name, **{kind: value})


def node(number: int, kind: str = "COMP", after: tuple[int, ...] = (), us: int = 0, **about: Any) -> Any:
    return message("Node")(
        id=number, name=f"node {number}", type=NODE_TYPES.index(kind), data_deps=after, duration_micros=us,
        attr=[attribute(*pair) for pair in about.items()],
    )  # fmt: skip


def collective(number: int, name: str, size: int, after: tuple[int, ...] = (), **about: Any) -> Any:
    return node(number, "COMM_COLL", after, comm_type=COLLECTIVE_TYPES.index(name), comm_size=size, **about)


def encoded(nodes: list[Any]) -> bytes:
    messages = [message("GlobalMetadata")(version="1.0.0"), *nodes]
    texts = [one.SerializeToString() for one in messages]
    return b"".join(varint(len(text)) + text for text in texts)


def job_of(folder: Path, *ranks: list[Any], system: str = "dgx-h100") -> Job:
    paths = []
    for rank, nodes in enumerate(ranks):
        paths.append(folder / f"job.{rank}.et")
        paths[-1].write_bytes(encoded(nodes))
    return read_chakra(paths, "job", system)


def test_bytes_by_hand_are_read(tmp_path: Path) -> None:
    """Field numbers of et_def.proto: Node id 1, name 2, type 3, data_deps 5, duration_micros 7, attr 10."""
    metadata = b"\x0a\x051.0.0"
    first = b"\x08\x01\x12\x01a\x18\x04\x38\x05"
    # data_deps packed; inputs (8), which are not declared; an attribute with uint64_val (13).
    second = b"\x08\x02\x12\x01b\x18\x04\x2a\x01\x01\x38\x07\x42\x02\x0a\x00\x52\x09\x0a\x05extra\x68\x03"
    data = b"".join(varint(len(text)) + text for text in (metadata, first, second))
    path = tmp_path / "job.0.et"
    path.write_bytes(gzip.compress(data))
    job = read_chakra([path], "job")
    assert job.trace.operations.kind.tolist() == ["a", "b"]
    assert job.graph.edges() == {(0, 1)}
    assert job.trace.end_s[0] == pytest.approx([5e-6, 12e-6])
    assert job.modelled


def test_data_dependencies_order_nodes_and_control_dependencies_without_them(tmp_path: Path) -> None:
    nodes = [node(1, us=5), node(2, us=7), node(3, us=1)]
    nodes[1].ctrl_deps.append(1)
    assert job_of(tmp_path, nodes).graph.edges() == {(0, 1)}
    nodes[2].data_deps.append(2)
    assert job_of(tmp_path, nodes).graph.edges() == {(1, 2)}


def test_collectives_of_a_group_meet_and_take_what_the_model_says(tmp_path: Path) -> None:
    def rank(number: int) -> list[Any]:
        group = f"tp{number // 2}"
        return [
            node(1, us=10 * number),
            collective(2, "all_reduce", 2**20, (1,)),
            collective(3, "all_gather", 2**20, (2,), pg_name=group),
            collective(4, "all_to_all", 2**20, (3,)),
            collective(5, "barrier", 0, (4,)),
        ]

    job = job_of(tmp_path, *(rank(number) for number in range(4)))
    everyone = [frozenset(5 * rank + place for rank in range(4)) for place in (1, 3, 4)]
    assert job.graph.groups() == {*everyone, frozenset((2, 7)), frozenset((12, 17))}
    costs = CollectiveCosts("dgx-h100", 4)
    expected = 30e-6 + costs.collective_time_s("all_reduce", 4, 1, 2**20)
    expected += costs.collective_time_s("all_gather", 2, 1, 2 * 2**20)
    expected += costs.collective_time_s("all_to_all", 4, 1, 2**20)
    expected += costs.collective_time_s("barrier", 4, 1, 0)
    assert job.trace.step_s[0] == pytest.approx(expected, rel=1e-12)
    assert job.notes == ("5 communications without a duration take what the links of dgx-h100 allow",)


def test_a_group_whose_size_does_not_divide_the_ranks_has_a_time(tmp_path: Path) -> None:
    """Three of eight ranks count as four that are spread over them."""
    size, members = 2**20, (0, 3, 7)
    ranks = [[collective(1, "all_reduce", size, pg_name="all")] for _ in range(8)]
    for member in members:
        ranks[member].append(collective(2, "all_gather", size, (1,), pg_name="few"))
    costs = CollectiveCosts("dgx-h100", 8)
    expected = costs.collective_time_s("all_reduce", 8, 1, size)
    expected += costs.collective_time_s("all_gather", 4, 2, len(members) * size)
    assert job_of(tmp_path, *ranks).trace.step_s[0] == pytest.approx(expected, rel=1e-12)


def test_a_ring_of_sends_takes_the_closed_form_of_an_all_reduce(tmp_path: Path) -> None:
    """Every rank sends to the next one before it receives, as ASTRA-sim's own examples do: no circle."""
    n_ranks, size = 4, 2**22
    ranks = []
    for rank in range(n_ranks):
        about = {"comm_size": size // n_ranks, "comm_tag": 0}
        before, after = (rank - 1) % n_ranks, (rank + 1) % n_ranks
        nodes: list[Any] = []
        for turn in range(2 * (n_ranks - 1)):
            last = (2 * turn - 1,) if turn else ()
            nodes.append(node(2 * turn, "COMM_SEND", last, comm_dst=after, **about))
            nodes.append(node(2 * turn + 1, "COMM_RECV", (2 * turn,), comm_src=before, **about))
        ranks.append(nodes)
    job = job_of(tmp_path, *ranks)
    assert job.graph.groups() == set()
    assert (0, 2 * 2 * (n_ranks - 1) + 1) in job.graph.edges()
    closed_form = CollectiveCosts("dgx-h100", n_ranks).collective_time_s("all_reduce", n_ranks, 1, size)
    assert job.trace.step_s[0] == pytest.approx(closed_form, rel=1e-12)


def test_traced_durations_of_communications_are_kept_and_told(tmp_path: Path) -> None:
    ranks = [[collective(1, "all_reduce", 2**20)] for _ in range(2)]
    for nodes in ranks:
        nodes[0].duration_micros = 40
    job = job_of(tmp_path, *ranks)
    assert job.trace.step_s[0] == pytest.approx(40e-6)
    assert job.notes == ("2 communications take their traced durations, with all waiting in them",)


def test_communications_without_a_partner_are_counted(tmp_path: Path) -> None:
    job = job_of(
        tmp_path,
        [collective(1, "all_reduce", 8), node(2, "COMM_SEND", comm_dst=1), node(3, "MEM_LOAD")],
        [collective(1, "all_reduce", 8), collective(2, "all_reduce", 8)],
    )
    assert job.trace.left_out.unmatched == 4
    assert job.notes == ("1 loads and stores without a duration take no time",)


def test_streams_of_nodes(tmp_path: Path) -> None:
    nodes = [
        node(1, tid=3, is_cpu_op=True),
        node(2, stream=7, is_cpu_op=False),
        node(3),
        node(4, "COMM_SEND"),
    ]
    operations = job_of(tmp_path, nodes).trace.operations
    assert operations.stream.tolist() == ["thread 3", "stream 7", "computation", "communication"]


def test_nodes_that_are_twice_there_invalid_or_not_there_are_counted(tmp_path: Path) -> None:
    job = job_of(tmp_path, [node(1), node(1), node(2, "INVALID"), node(3, after=(1, 77))])
    assert len(job.trace.operations) == 2
    assert job.trace.left_out.malformed_rows == 3


@pytest.mark.parametrize(
    ("data", "message_"),
    [
        (b"\xff" * 12, "no length of a message"),
        (b"\x02\x08", "ends inside a message"),
        (encoded([])[:1] + b"\xff" * 8, "damaged|ends inside"),
        (b"", "no node"),
        (encoded([]), "no node"),
        (encoded([node(1, after=(2,)), node(2, after=(1,))]), "in a circle"),
        (gzip.compress(encoded([node(1)]), mtime=0)[:-9], "ends too early"),
    ],
    ids=["no length", "half a message", "no bytes", "empty", "no node", "circle", "half a gzip file"],
)
def test_damaged_files_are_errors(tmp_path: Path, data: bytes, message_: str) -> None:
    path = tmp_path / "job.0.et"
    path.write_bytes(data)
    with pytest.raises(TraceError, match=message_):
        read_chakra([path], "job")


def test_collectives_without_a_model_and_ranks_that_do_not_fit_are_errors(tmp_path: Path) -> None:
    with pytest.raises(TraceError, match=r"collective with a known time.*gather"):
        job_of(tmp_path, *([collective(1, "gather", 8)] for _ in range(2)))
    with pytest.raises(TraceError, match="9 ranks do not fill nodes of 8 devices"):
        job_of(tmp_path, *([collective(1, "all_reduce", 8)] for _ in range(9)))


def test_two_files_of_a_rank_are_an_error(tmp_path: Path) -> None:
    paths = [tmp_path / "a.3.et", tmp_path / "b.3.et"]
    for path in paths:
        path.write_bytes(encoded([node(1)]))
    with pytest.raises(TraceError, match="a second file of rank 3"):
        read_chakra(paths, "job")


def test_without_protobuf_the_error_names_the_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "job.0.et"
    path.write_bytes(encoded([node(1)]))
    chakra_schema._messages.cache_clear()
    for name in ("google", "google.protobuf", "google.protobuf.message"):
        monkeypatch.setitem(sys.modules, name, None)
    with pytest.raises(MissingExtra, match="chakra"):
        read_chakra([path], "job")
    monkeypatch.undo()
    chakra_schema._messages.cache_clear()


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    data=st.one_of(
        st.binary(max_size=60),
        st.binary(max_size=12).map(lambda tail: encoded([node(1), node(2, after=(1,))]) + tail),
        st.lists(st.binary(max_size=12)).map(
            lambda texts: b"".join(varint(len(text)) + text for text in texts)
        ),
    )
)
def test_any_bytes_are_a_job_or_a_clear_error(tmp_path: Path, data: bytes) -> None:
    path = tmp_path / "job.0.et"
    path.write_bytes(data)
    try:
        job = read_chakra([path], "job")
    except TraceError:
        return
    assert len(job.trace.operations)


@settings(deadline=None, max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(place=st.integers(0, 200), byte=st.integers(0, 255))
def test_a_file_with_a_damaged_byte_is_a_job_or_a_clear_error(tmp_path: Path, place: int, byte: int) -> None:
    data = bytearray(
        encoded([node(number, after=(number - 1,) if number else (), us=5) for number in range(8)])
    )
    data[place % len(data)] = byte
    path = tmp_path / "job.0.et"
    path.write_bytes(bytes(data))
    try:
        job = read_chakra([path], "job")
    except TraceError:
        return
    assert np.isfinite(job.trace.end_s).all()
