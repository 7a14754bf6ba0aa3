"""Messages: round trips, and errors instead of crashes for invalid input."""

from __future__ import annotations

import pickle
import typing
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from sysgym.emulator.linux.service import messages as m
from sysgym.emulator.linux.service import protocol as p
from sysgym.emulator.linux.service.wire_errors import from_wire, to_wire
from sysgym.emulator.packets.topology import build_topology
from sysgym.emulator.packets.workloads import build_flows
from sysgym.scenarios import CongestionScenario, load_scenario
from sysgym.scenarios.errors import (
    BackendError,
    BackendUnavailable,
    MissingExtra,
    Problem,
    ScenarioError,
    SysgymError,
    UnknownName,
)

ARRAYS = hnp.arrays(
    dtype=st.sampled_from([np.float64, np.int64, np.int32, np.bool_]),
    shape=hnp.array_shapes(min_dims=0, max_dims=2, min_side=0, max_side=5),
)
PLAIN = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=8)
    | st.binary(max_size=8)
    | st.builds(msgpack.ExtType, st.integers(0, 127), st.binary(max_size=24)),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
OPS = [
    kind.model_fields["op"].default
    for union in (m.ToService, m.ToWorld)
    for kind in typing.get_args(typing.get_args(union)[0])
]


def frame(**content: Any) -> bytes:
    packed: bytes = msgpack.packb(content, default=p._extension)
    return packed


def understood(data: bytes) -> list[Any]:
    """What both sides make of a frame: messages, or nothing; anything but a ProtocolError gets out."""
    found = []
    for adapter in (m.REQUEST_TO_SERVICE, m.REQUEST_TO_WORLD):
        try:
            request_id, content = p.decode(data)
            found.append(p.parse(adapter, request_id, content))
        except p.ProtocolError as error:
            p.encode_error(error.request_id, to_wire(error))
    return found


def step(n_hosts: int = 16) -> m.Step:
    return m.Step(
        duration_s=1e-3,
        host_caps_bps=np.full(n_hosts, 1e9),
        windows=(np.arange(3), np.array([1.0, 10.0, 100.0])),
        read_flows=np.arange(3),
    )


@given(ARRAYS)
def test_arrays_come_out_as_they_went_in(array: np.ndarray[Any, Any]) -> None:
    _, content = p.decode(frame(v=p.VERSION, id=1, body={"x": array}))
    found = content["body"]["x"]
    assert found.dtype == array.dtype
    np.testing.assert_array_equal(found, array)
    assert found.flags.writeable
    assert found.flags.aligned


@given(
    st.floats(1e-9, 600),
    hnp.arrays(np.float64, st.integers(0, 40), elements=st.floats(1e-3, np.inf, exclude_min=True)),
    st.integers(1, 2**62),
)
def test_a_step_comes_out_as_it_went_in(duration_s: float, caps_bps: Any, number: int) -> None:
    request_id, content = p.decode(p.encode(number, m.Step(duration_s=duration_s, host_caps_bps=caps_bps)))
    found = p.parse(m.REQUEST_TO_WORLD, request_id, content)
    assert (request_id, type(found), found.duration_s, found.windows) == (number, m.Step, duration_s, None)
    np.testing.assert_array_equal(found.host_caps_bps, caps_bps)


@pytest.mark.parametrize(
    "name", ["dumbbell-10g", "incast-32", "fattree-k4-websearch", "allreduce-tree-hadoop-mix"]
)
def test_schedules_travel(name: str) -> None:
    scenario = load_scenario(name, expect=CongestionScenario)
    rng = np.random.default_rng(1)
    schedule = build_flows(scenario.workload, build_topology(scenario.topology), rng, 0.01)
    data = p.encode(1, m.Reset(seed=1, schedule=m.Schedule.from_flows(schedule)))
    found = p.parse(m.REQUEST_TO_WORLD, *p.decode(data)).schedule.flows()
    for one, other in zip(found, schedule, strict=True):
        np.testing.assert_array_equal(one, other)


@given(st.binary(max_size=200))
def test_garbage_is_an_error(data: bytes) -> None:
    assert understood(data) == []


@given(PLAIN)
def test_msgpack_that_is_no_message_is_an_error(content: Any) -> None:
    assert understood(frame(v=p.VERSION, id=1, body=content)) == []
    data: bytes = msgpack.packb(content)
    assert understood(data) == []


@given(
    st.sampled_from(OPS),
    st.dictionaries(st.sampled_from(sorted(m.Step.model_fields | m.Open.model_fields)), PLAIN),
)
def test_requests_with_odd_fields_are_errors_or_right(op: str, fields: dict[str, Any]) -> None:
    for request in understood(frame(v=p.VERSION, id=1, body={**fields, "op": op})):
        assert isinstance(request, m.Message)


@given(st.integers(0, 10_000), st.integers(0, 255), st.booleans())
def test_damaged_frames_are_errors_or_messages(place: int, byte: int, cut: bool) -> None:
    data = bytearray(p.encode(7, step()))
    place %= len(data)
    data[place] = byte
    for request in understood(bytes(data[:place] if cut else data)):
        assert isinstance(request, m.Step | m.Message)


@pytest.mark.parametrize("length", [0, 1, 20, 100])
def test_a_truncated_frame_is_an_error(length: int) -> None:
    assert understood(p.encode(1, step())[:length]) == []


def test_an_oversized_frame_is_an_error_on_both_sides() -> None:
    with pytest.raises(p.ProtocolError, match="4000001 bytes; the largest is 4000000"):
        p.decode(bytes(p.MAX_MESSAGE_BYTES + 1))
    with pytest.raises(p.ProtocolError, match="the largest is"):
        p.encode(1, m.Step(duration_s=1, host_caps_bps=np.ones(600_000)))


@pytest.mark.parametrize("version", [0, 2, 99, "1", None, 1.0, True, [1]])
def test_another_version_is_told_so(version: Any) -> None:
    with pytest.raises(p.ProtocolError, match="have to be of the same sysgym") as caught:
        p.decode(frame(v=version, id=5, body={"something": "new"}))
    assert caught.value.request_id == 5


@pytest.mark.parametrize(
    ("body", "words"),
    [
        (
            {"op": "step", "duration_s": 1.0, "host_caps_bps": np.ones(4, np.int64)},
            "expected an array of float64",
        ),
        ({"op": "step", "duration_s": 1.0, "host_caps_bps": np.ones((2, 2))}, "with 1 dimension, got"),
        ({"op": "step", "duration_s": 1.0, "host_caps_bps": [1.0, 2.0]}, "expected an array"),
        ({"op": "step", "duration_s": 1.0, "host_caps_bps": np.array([1.0, -1.0])}, "positive"),
        ({"op": "step", "duration_s": 1.0, "host_caps_bps": np.array([np.nan])}, "positive"),
        ({"op": "apply", "flow_rates": [np.arange(2), np.array([1.0, np.inf])]}, "finite"),
        ({"op": "apply", "windows": [np.arange(2), np.ones(3)]}, "2 flows and 3 values"),
        ({"op": "apply", "windows": [np.array([-1]), np.ones(1)]}, "from 0 on"),
        ({"op": "step", "duration_s": float("nan")}, "duration_s"),
        ({"op": "step", "duration_s": 1e9}, "600"),
        ({"op": "step", "duration_s": "1"}, "duration_s"),
        ({"op": "step"}, "required"),
        ({"op": "rm -rf /"}, "tag"),
        ({"op": "bye", "more": 1}, "not permitted"),
    ],
)
def test_a_wrong_request_says_what_is_wrong(body: dict[str, Any], words: str) -> None:
    with pytest.raises(p.ProtocolError, match=words):
        p.parse(m.REQUEST_TO_WORLD, *p.decode(frame(v=p.VERSION, id=1, body=body)))


@pytest.mark.parametrize("name", ["$(reboot)", "a b", "", "x" * 65, "../dctcp", "dctcp\n"])
def test_names_of_transports_are_words(name: str) -> None:
    body = {"op": "open", "scenario": {}, "transport": name}
    with pytest.raises(p.ProtocolError, match="transport"):
        p.parse(m.REQUEST_TO_SERVICE, *p.decode(frame(v=p.VERSION, id=1, body=body)))


def test_arrays_that_lie_about_themselves_are_errors() -> None:
    for head in (
        b"",
        b"\0",
        b"\x09\x01",
        b"\0\x03" + bytes(12),
        b"\0\x01\x05\0\0\0",
        b"\0\x02" + b"\xff" * 8,
    ):
        assert (
            understood(frame(v=p.VERSION, id=1, body={"op": "read", "read_flows": msgpack.ExtType(1, head)}))
            == []
        )


def test_deep_nesting_is_an_error() -> None:
    assert understood(b"\x91" * 100_000 + b"\x01") == []
    body = b"\x83\xa1v\x01\xa2id\x01\xa4body" + b"\x81\xa1a" * 900 + b"\x01"
    assert understood(body) == []


@pytest.mark.parametrize(
    ("column", "value", "words"),
    [
        ("dst", 0, "from one host to another"),
        ("src", -2, "from one host to another"),
        ("size_bytes", 0, "at least one byte"),
        ("src_port", 70_000, "ports"),
        ("start_ns", -1, "not negative"),
    ],
)
def test_a_schedule_that_cannot_be_is_an_error(column: str, value: int, words: str) -> None:
    scenario = load_scenario("dumbbell-10g", expect=CongestionScenario)
    schedule = build_flows(
        scenario.workload, build_topology(scenario.topology), np.random.default_rng(1), 0.01
    )
    wrong = getattr(schedule, column).copy()
    wrong[0] = value
    with pytest.raises(SysgymError, match=words):
        m.Schedule.from_flows(schedule._replace(**{column: wrong}))
    with pytest.raises(SysgymError, match="rows, src has"):
        m.Schedule.from_flows(schedule._replace(**{column: wrong[:-1]}))


@pytest.mark.parametrize(
    "error",
    [
        BackendError("it died", "last words"),
        BackendUnavailable("linux", "no BTF", "another kernel"),
        MissingExtra("emulator", "the Linux backend"),
        UnknownName("transport", "dctpc", ["dctcp", "cubic"], hint="so there"),
        ScenarioError("a.toml", "queue.red", {"x": 1}, "nothing", advice="leave it out"),
        ScenarioError("a.toml", problems=[Problem("a", 1, "b"), Problem("c", "d", "e", line=3)]),
        ScenarioError("a.toml", "missing.key", expected="a number"),
        p.ProtocolError("garbage"),
        SysgymError("something"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_errors_travel(error: SysgymError) -> None:
    request_id, content = p.decode(p.encode_error(3, to_wire(error)))
    found = from_wire(content["error"])
    assert (request_id, type(found)) == (3, type(error))
    if not isinstance(error, ScenarioError) or isinstance(error.got, int | str):
        assert str(found) == str(error)
    assert str(pickle.loads(pickle.dumps(found))) == str(found)


def test_an_error_that_is_none_of_sysgyms_becomes_one() -> None:
    assert "KeyError: 'x'" in str(from_wire(to_wire(KeyError("x"))))


@given(st.dictionaries(st.text(max_size=10), PLAIN, max_size=4))
def test_a_strange_report_of_an_error_is_an_error(content: dict[str, Any]) -> None:
    assert isinstance(from_wire(content), BackendError)


def test_what_cannot_travel_is_an_error() -> None:
    for value in (object(), np.ones(3, np.float32), np.ones((1, 1, 1)), 1 << 70):
        with pytest.raises(p.ProtocolError, match="cannot travel"):
            p.encode(1, m.Open(scenario={"x": value}, transport="dctcp"))
