"""Hierarchies: counts, refusals, and round trips as data."""

from __future__ import annotations

import json
import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sysgym.emulator.accelerators.hierarchy import MOST_DEVICES, Hierarchy, Level
from sysgym.scenarios.errors import ScenarioError, UnknownName


def _hierarchy(*cardinalities: int) -> Hierarchy:
    return Hierarchy(
        "test", tuple(Level(f"level{index}", size, 1e9, 1e-6) for index, size in enumerate(cardinalities))
    )


EXAMPLE = Hierarchy(
    "example",
    (
        Level("rack", 1, 1e9, 1e-5),
        Level("server", 2, 2e9, 1e-5, uplinks=4),
        Level("cpu", 2, 3e9, 1e-6),
        Level("gpu", 4, 4e9, 1e-6, network="ring"),
    ),
    ("made up",),
)


def test_the_example_of_16_devices() -> None:
    assert EXAMPLE.cardinalities == (1, 2, 2, 4)
    assert EXAMPLE.n_levels == 4
    assert EXAMPLE.n_devices == 16
    assert [EXAMPLE.devices_inside(level) for level in range(4)] == [16, 8, 4, 1]
    assert EXAMPLE.level_index("cpu") == 2
    # ((rack*2 + server)*2 + CPU)*4 + GPU
    assert EXAMPLE.device_name(((0 * 2 + 1) * 2 + 0) * 4 + 3) == "server 1, cpu 0, gpu 3"


def test_unknown_level() -> None:
    with pytest.raises(UnknownName, match='did you mean "server"') as caught:
        EXAMPLE.level_index("servers")
    assert caught.value.suggestion == "server"


@pytest.mark.parametrize("device", [-1, 16])
def test_unknown_device(device: int) -> None:
    with pytest.raises(ScenarioError, match="from 0 to 15") as caught:
        EXAMPLE.device_name(device)
    assert (caught.value.key, caught.value.got) == ("device", device)


def test_one_device() -> None:
    single = _hierarchy(1)
    assert (single.n_devices, single.devices_inside(0)) == (1, 1)
    assert single.device_name(0) == "level0 0"


@given(st.lists(st.integers(1, 13), min_size=1, max_size=4))
def test_devices_are_counted_from_the_levels(cardinalities: list[int]) -> None:
    hierarchy = _hierarchy(*cardinalities)
    inside = hierarchy.n_devices
    for level, size in enumerate(cardinalities):
        assert hierarchy.devices_inside(level) * size == inside
        inside = hierarchy.devices_inside(level)
    assert inside == 1
    names = {hierarchy.device_name(device) for device in range(min(hierarchy.n_devices, 200))}
    assert len(names) == min(hierarchy.n_devices, 200)


def test_it_survives_as_data() -> None:
    assert Hierarchy.from_dict(json.loads(json.dumps(EXAMPLE.to_dict()))) == EXAMPLE
    assert pickle.loads(pickle.dumps(EXAMPLE)) == EXAMPLE
    assert hash(Hierarchy.from_dict(EXAMPLE.to_dict())) == hash(EXAMPLE)


def test_data_may_leave_out_what_has_a_default() -> None:
    levels = [{"name": "gpu", "cardinality": 8, "bandwidth_bytes_per_s": 1e9, "latency_s": 0.0}]
    assert Hierarchy.from_dict({"levels": levels}).levels[0] == Level("gpu", 8, 1e9, 0.0)


@pytest.mark.parametrize("level", [{"name": "gpu"}, {"nane": "gpu"}, 5])
def test_data_that_are_no_level(level: Any) -> None:
    with pytest.raises(ScenarioError, match="name, cardinality, bandwidth_bytes_per_s") as caught:
        Hierarchy.from_dict({"name": "mine", "levels": [level]})
    assert caught.value.key == "levels[0]"
    assert "<hierarchy mine>" in str(caught.value)


BROKEN: dict[str, tuple[dict[str, Any], str]] = {
    "no instance": ({"cardinality": 0}, "at least 1"),
    "fewer than none": ({"cardinality": -4}, "at least 1"),
    "half an instance": ({"cardinality": 2.5}, "a whole number"),
    "true": ({"cardinality": True}, "a whole number"),
    "no bandwidth": ({"bandwidth_bytes_per_s": 0.0}, "more than 0"),
    "endless bandwidth": ({"bandwidth_bytes_per_s": float("inf")}, "a finite number"),
    "bandwidth is no number": ({"bandwidth_bytes_per_s": "tbd"}, "a finite number"),
    "latency from the future": ({"latency_s": -1e-6}, "at least 0"),
    "latency is no number": ({"latency_s": float("nan")}, "a finite number"),
    "no uplink": ({"uplinks": 0}, "at least 1"),
    "uplinks for unequal blocks": ({"uplinks": 3}, "a divisor of 8, the devices inside a node"),
    "more uplinks than devices": ({"uplinks": 16}, "a divisor of 8"),
    "unknown network": ({"network": "torus"}, '"switch" or "ring"'),
    "no name": ({"name": ""}, "not empty"),
}


@pytest.mark.parametrize(("change", "expected"), BROKEN.values(), ids=BROKEN.keys())
def test_broken_level(change: dict[str, Any], expected: str) -> None:
    node: dict[str, Any] = {
        "name": "node",
        "cardinality": 2,
        "bandwidth_bytes_per_s": 1e9,
        "latency_s": 1e-6,
    }
    gpus = Level("gpu", 8, 1e9, 1e-6)
    Hierarchy("whole", (Level(**node), gpus))
    with pytest.raises(ScenarioError) as caught:
        Hierarchy("broken", (Level(**node | change), gpus))
    (key,) = change
    assert caught.value.key == f"levels[0].{key}"
    assert caught.value.got == pytest.approx(change[key], nan_ok=True)
    assert expected in str(caught.value.expected)
    assert "<hierarchy broken>" in str(caught.value)


def test_all_problems_are_told_at_once() -> None:
    with pytest.raises(ScenarioError, match="2 problems") as caught:
        Hierarchy("broken", (Level("node", 0, 1e9, 1e-6), Level("gpu", 8, -1.0, 1e-6)))
    assert [problem.key for problem in caught.value.problems] == [
        "levels[0].cardinality",
        "levels[1].bandwidth_bytes_per_s",
    ]


def test_levels_have_different_names() -> None:
    with pytest.raises(ScenarioError, match="no other level") as caught:
        Hierarchy("broken", (Level("gpu", 2, 1e9, 1e-6), Level("gpu", 8, 1e9, 1e-6)))
    assert caught.value.key == "levels[1].name"


def test_there_is_a_level() -> None:
    with pytest.raises(ScenarioError, match="at least one level"):
        Hierarchy("empty", ())


def test_too_many_devices() -> None:
    assert _hierarchy(1024, 1024).n_devices == MOST_DEVICES
    with pytest.raises(ScenarioError, match="at most 1048576 devices"):
        _hierarchy(1024, 1024, 2)


@pytest.mark.parametrize("cardinalities", [(3, 5), (7,), (1, 11, 1), (13, 2)])
def test_prime_levels_work(cardinalities: tuple[int, ...]) -> None:
    assert _hierarchy(*cardinalities).cardinalities == cardinalities
