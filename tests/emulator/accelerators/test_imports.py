"""Files of ASTRA-sim and TACCL: content, units, and refusals."""

from __future__ import annotations

import builtins
import itertools
import json
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from sysgym.emulator.accelerators.imports import read_astra_sim, read_taccl
from sysgym.scenarios.errors import MissingExtra, ScenarioError

# The values of ASTRA-sim's inputs for 32 H100, a torus of 32 TPU v3 and one node of V100.
H100 = """\
topology: [ Switch, Ring ]  # innermost first
npus_count: [ 8, 4 ]
bandwidth: [ 400, 50 ]      # GB/s
latency: [ 936.25, 1000 ]   # ns
"""
TPU = """\
topology: [ Ring, Ring ]
npus_count: [ 4, 8 ]
bandwidth: [ 80.0, 80.0 ]
latency: [ 1000.0, 1000.0 ]
"""
V100 = """\
topology: [ Ring, Ring, Ring ]
npus_count: [ 2, 2, 2 ]
bandwidth: [ tbd, tbd, tbd ]
latency: [ tbd, tbd, tbd ]
"""

# The values of TACCL's profiles of a DGX-2 and of an NDv2.
DGX2 = {
    "name": "DGX2_1MB",
    "gpus_per_node": 16,
    "nics_per_node": 8,
    "alpha": 0.3,
    "node_betas_list": [8],
    "node_invbws_list": [8],
    "remote_invbw": 107,
    "remote_alpha": 2.6,
    "remote_beta": 105,
}
NDV2 = DGX2 | {"name": "NDv2_1MB", "gpus_per_node": 8, "nics_per_node": 1, "node_betas_list": [23, 46]}
NDV2_32KB = NDV2 | {
    "name": "NDv2_32KB",
    "alpha": 3,
    "node_betas_list": [7.18, 14.38],
    "remote_alpha": 26,
    "remote_beta": 32.8,
}
GIB_PER_S = 2**30

Yaml = Callable[[str], Path]
Json = Callable[[Any], Path]


@pytest.fixture
def yml(tmp_path: Path) -> Yaml:
    def _write(text: str) -> Path:
        path = tmp_path / "net.yml"
        path.write_text(text)
        return path

    return _write


@pytest.fixture
def topo(tmp_path: Path) -> Json:
    def _write(data: Any) -> Path:
        path = tmp_path / "topo.json"
        path.write_text(data if isinstance(data, str) else json.dumps(data))
        return path

    return _write


def test_astra_sim_turns_the_order_round(yml: Yaml) -> None:
    hierarchy = read_astra_sim(yml(H100))
    assert hierarchy.name == "net"
    assert hierarchy.cardinalities == (4, 8)
    outer, inner = hierarchy.levels
    assert (outer.name, outer.network, outer.uplinks) == ("dim2", "ring", 8)
    assert (inner.name, inner.network, inner.uplinks) == ("dim1", "switch", 1)
    assert inner.bandwidth_bytes_per_s == 400 * GIB_PER_S
    assert outer.bandwidth_bytes_per_s == 2 * 50 * GIB_PER_S  # A link to either side.
    # Through a switch there are two links.
    assert inner.latency_s == pytest.approx(2 * 936.25e-9)
    assert outer.latency_s == pytest.approx(1e-6)


def test_astra_sim_torus(yml: Yaml) -> None:
    hierarchy = read_astra_sim(yml(TPU))
    assert hierarchy.cardinalities == (8, 4)
    assert [level.network for level in hierarchy.levels] == ["ring", "ring"]
    assert [level.uplinks for level in hierarchy.levels] == [4, 1]
    assert {level.bandwidth_bytes_per_s for level in hierarchy.levels} == {160 * GIB_PER_S}


@pytest.mark.parametrize("network", ["Ring", "FullyConnected"])
def test_two_members_of_a_ring_share_one_link(yml: Yaml, network: str) -> None:
    text = f"topology: [{network}]\nnpus_count: [2]\nbandwidth: [50]\nlatency: [500]\n"
    (level,) = read_astra_sim(yml(text)).levels
    assert level.bandwidth_bytes_per_s == 50 * GIB_PER_S
    assert level.latency_s == pytest.approx(500e-9)


def test_numbers_with_exponents(yml: Yaml) -> None:
    assert read_astra_sim(yml(H100.replace("1000 ]", "1e3 ]"))) == read_astra_sim(yml(H100))


def test_tbd_is_told_with_file_and_key(yml: Yaml) -> None:
    path = yml(V100)
    with pytest.raises(ScenarioError) as caught:
        read_astra_sim(path)
    assert (caught.value.key, caught.value.got) == ("bandwidth[0]", "tbd")
    assert "a finite number, more than 0" in caught.value.expected
    assert str(path) in str(caught.value)
    assert "has not filled it in" in str(caught.value)


@pytest.mark.parametrize(
    ("old", "new", "key", "expected"),
    [
        ("[ 8, 4 ]", "[ 8, 0 ]", "npus_count[1]", "a whole number, at least 1"),
        ("[ 8, 4 ]", "[ 8, -4 ]", "npus_count[1]", "a whole number, at least 1"),
        ("[ 8, 4 ]", "[ 8, 4.5 ]", "npus_count[1]", "a whole number"),
        ("[ 8, 4 ]", "[ 8, true ]", "npus_count[1]", "a whole number"),
        ("[ 8, 4 ]", "[ 8 ]", "npus_count", "2 values, one for each dimension"),
        ("[ 8, 4 ]", "8", "npus_count", "a list"),
        ("[ 400, 50 ]", "[ 400, 0 ]", "bandwidth[1]", "more than 0"),
        ("[ 400, 50 ]", "[ 400, .inf ]", "bandwidth[1]", "finite"),
        ("[ 936.25, 1000 ]", "[ 936.25, -1 ]", "latency[1]", "at least 0"),
        ("latency:", "latencies:", "latency", "a value"),
        ("Switch, Ring", "Switch, FullyConnected", "topology[1]", '"Switch" or "Ring"'),
        ("Switch, Ring", "Switch, Torus", "topology[1]", '"Switch" or "Ring"'),
        ("[ Switch, Ring ]", "[]", "topology", "at least one value"),
        ("[ 8, 4 ]", "[ 8, 4", "", "YAML"),
    ],
)
def test_broken_astra_sim(yml: Yaml, old: str, new: str, key: str, expected: str) -> None:
    assert H100.count(old) == 1
    path = yml(H100.replace(old, new))
    with pytest.raises(ScenarioError) as caught:
        read_astra_sim(path)
    assert caught.value.key == key
    assert expected in caught.value.expected
    assert str(path) in str(caught.value)


@pytest.mark.parametrize("text", ["", "- 1\n- 2\n", "five"])
def test_yaml_that_is_no_table(yml: Yaml, text: str) -> None:
    with pytest.raises(ScenarioError, match="a table of keys and values"):
        read_astra_sim(yml(text))


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="No such file"):
        read_astra_sim(tmp_path / "nowhere.yml")
    with pytest.raises(ScenarioError, match="No such file"):
        read_taccl(tmp_path / "nowhere.json", 2)


def test_a_file_that_is_no_text(tmp_path: Path) -> None:
    path = tmp_path / "net.yml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ScenarioError, match="not UTF-8"):
        read_astra_sim(path)


def test_without_pyyaml(yml: Yaml, monkeypatch: pytest.MonkeyPatch) -> None:
    really_import = builtins.__import__

    def _import(name: str, *arguments: Any, **keywords: Any) -> Any:
        if name == "yaml":
            raise ImportError(name)
        return really_import(name, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", _import)
    with pytest.raises(MissingExtra, match=r"sysgym\[placement\]"):
        read_astra_sim(yml(H100))


def test_taccl_dgx2(topo: Json) -> None:
    hierarchy = read_taccl(topo(DGX2), 2)
    node, gpu = hierarchy.levels
    assert hierarchy.cardinalities == (2, 16)
    assert (gpu.network, gpu.uplinks, node.uplinks) == ("switch", 1, 8)
    assert gpu.bandwidth_bytes_per_s == pytest.approx(125e9)
    assert node.bandwidth_bytes_per_s == pytest.approx(9.52e9, rel=1e-3)
    assert (gpu.latency_s, node.latency_s) == pytest.approx((0.3e-6, 2.6e-6))


def test_taccl_ndv2_is_a_ring_of_double_and_single_links(topo: Json) -> None:
    node, gpu = read_taccl(topo(NDV2), 2).levels
    assert gpu.network == "ring"
    assert gpu.bandwidth_bytes_per_s == pytest.approx(2 * (43.48e9 + 21.74e9), rel=1e-3)
    assert node.uplinks == 1


def test_a_factor_common_to_all_values_is_taken_out(topo: Json) -> None:
    megabyte = read_taccl(topo(NDV2), 4)
    kilobytes = read_taccl(topo(NDV2_32KB), 4, factor=10)
    for one, other in zip(megabyte.levels, kilobytes.levels, strict=True):
        assert one.bandwidth_bytes_per_s == pytest.approx(other.bandwidth_bytes_per_s, rel=2e-3)
        assert one.latency_s == pytest.approx(other.latency_s)
    # Without it all times are ten times as long: what is relative stays.
    slower = read_taccl(topo(NDV2_32KB), 4)
    for one, other in zip(slower.levels, kilobytes.levels, strict=True):
        assert one.bandwidth_bytes_per_s == pytest.approx(other.bandwidth_bytes_per_s / 10)
        assert one.latency_s == pytest.approx(other.latency_s * 10)


def test_taccl_with_one_node_needs_no_nics(topo: Json) -> None:
    alone = {key: DGX2[key] for key in ("name", "gpus_per_node", "alpha", "node_betas_list")}
    assert read_taccl(topo(alone), 1).cardinalities == (16,)
    assert read_taccl(topo(DGX2), 1).cardinalities == (1, 16)
    with pytest.raises(ScenarioError) as caught:
        read_taccl(topo(alone), 2)
    assert caught.value.key == "nics_per_node"


@pytest.mark.parametrize(
    ("change", "key", "expected"),
    [
        ({"gpus_per_node": 0}, "gpus_per_node", "at least 1"),
        ({"nics_per_node": -1}, "nics_per_node", "at least 1"),
        ({"nics_per_node": 3}, "levels[0].uplinks", "a divisor of 16"),
        ({"alpha": "tbd"}, "alpha", "a finite number"),
        ({"alpha": -1}, "alpha", "at least 0"),
        ({"node_betas_list": [0]}, "node_betas_list[0]", "more than 0"),
        ({"node_betas_list": []}, "node_betas_list", "at least one value"),
        ({"node_betas_list": [8, 16]}, "node_betas_list", "one beta, or two and eight GPUs"),
        ({"node_betas_list": [8, 16, 24]}, "node_betas_list", "one beta, or two"),
        ({"remote_beta": None}, "remote_beta", "a finite number"),
        ({"name": "DGX2"}, "name", "the message size"),
        ({"name": "DGX2_0MB"}, "name", "the message size"),
        ({"links": [[0, 1], [1, 0]]}, "links", "single pairs"),
    ],
)
def test_broken_taccl(topo: Json, change: dict[str, Any], key: str, expected: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        read_taccl(topo(DGX2 | change), 2)
    assert caught.value.key == key
    assert expected in caught.value.expected


@pytest.mark.parametrize("key", ["name", "gpus_per_node", "alpha", "node_betas_list", "remote_alpha"])
def test_taccl_without_a_key(topo: Json, key: str) -> None:
    path = topo({name: value for name, value in DGX2.items() if name != key})
    with pytest.raises(ScenarioError, match=f"add the key {key}") as caught:
        read_taccl(path, 2)
    assert caught.value.key == key


@pytest.mark.parametrize("factor", [0.0, -1.0, float("nan"), float("inf")])
def test_a_factor_that_is_none(topo: Json, factor: float) -> None:
    with pytest.raises(ScenarioError, match="more than 0"):
        read_taccl(topo(DGX2), 2, factor=factor)


@pytest.mark.parametrize("text", ["{", "[1, 2]", '"DGX2"'])
def test_json_that_is_no_table(topo: Json, text: str) -> None:
    with pytest.raises(ScenarioError, match=r"JSON|a table of keys"):
        read_taccl(topo(text), 2)


def test_no_nodes(topo: Json) -> None:
    with pytest.raises(ScenarioError, match="at least 1"):
        read_taccl(topo(DGX2), 0)


BOMB = "a: &a [1, 1, 1, 1, 1, 1, 1, 1, 1]\n" + "".join(
    f"{after}: &{after} [{', '.join(['*' + before] * 9)}]\n"
    for before, after in itertools.pairwise("abcdefghij")
)
HOSTILE_YAML = {
    "aliases that multiply": (H100 + BOMB, "aliases"),
    "one alias": (H100 + "x: &x 1\ny: *x\n", "aliases"),
    "nested lists": ("topology: " + "[" * 1000 + "]" * 1000, "nested"),
    "a date that is none": (H100 + "x: 2001-99-99\n", "YAML"),
    "a long number": (H100.replace("[ 8, 4 ]", f"[ 8, {'9' * 5000} ]"), "YAML"),
    "a number of many bits": (H100.replace("[ 8, 4 ]", f"[ 8, 0x{'f' * 900} ]"), "whole numbers from"),
    "a large file": (H100 + "# x\n" * 30_000, "at most 65,536 bytes"),
    "code": (H100 + "x: !!python/object/apply:os.system ['false']\n", "YAML"),
    "a word that is a table": (H100.replace("Ring", "{ Ring: 1 }"), "Ring"),
    "a key that is no text": (H100 + "1: 2\n", "keys that are texts"),
    "a key of nothing": (H100 + "'': 2\n", "keys that are texts"),
}


@pytest.mark.parametrize("what", HOSTILE_YAML)
def test_hostile_yaml_is_refused_in_words_and_soon(what: str, yml: Yaml) -> None:
    text, words = HOSTILE_YAML[what]
    began_s = time.process_time()
    with pytest.raises(ScenarioError, match=words) as caught:
        read_astra_sim(yml(text))
    assert time.process_time() - began_s < 3.0
    assert len(str(caught.value)) < 2000


@pytest.mark.parametrize(
    "text",
    ["[" * 100_000, '{"a":' * 20_000, '{"x": ' + "9" * 5000 + "}", '{"": 1}', "{}" + " " * 100_000],
    ids=["lists", "tables", "number", "key", "size"],
)
def test_hostile_json_is_refused_in_words(text: str, tmp_path: Path) -> None:
    path = tmp_path / "topo.json"
    path.write_text(text)
    with pytest.raises(ScenarioError) as caught:
        read_taccl(path, nodes=2)
    assert len(str(caught.value)) < 2000


@pytest.mark.parametrize("read", [read_astra_sim, lambda path: read_taccl(path, nodes=2)])
def test_what_is_no_file_of_a_network_is_refused(read: Callable[[Path], object], tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path, tmp_path / "pipe", Path("/dev/zero"), tmp_path / ("x" * 5000), Path("a\0b")):
        with pytest.raises(ScenarioError, match=r"file, UTF-8|pipe or a device"):
            read(path)
