"""Errors for broken scenario files name file, key, line, what was found and what was expected."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from sysgym.scenarios import load_scenario
from sysgym.scenarios.errors import NOTHING, ScenarioError

WriteFile = Callable[..., Path]


class Broken(NamedTuple):
    old: str
    new: str
    key: str
    got: Any
    expected: str
    advice: str = ""
    line: int | None = None


BROKEN = {
    "unknown key": Broken(
        "load = 0.4",
        "load = 0.4\nflow_size = 3",
        "workload.flow_size",
        3,
        "a key of [workload]: priority, kind, load, flow_sizes, fixed_bytes",
        'did you mean "flow_sizes"?',
        21,
    ),
    "unknown key of nothing like a known one": Broken(
        "load = 0.4", "load = 0.4\nzzz = 3", "workload.zzz", 3, "a key of [workload]", "delete it", 21
    ),
    "unknown table": Broken(
        "[queue]",
        "[queues]",
        "queues",
        {"buffer_bytes": 1_000_000, "ecn_threshold_bytes": 97_500},
        "a key of the file",
    ),
    "number in quotes": Broken(
        "load = 0.4", 'load = "0.4"', "workload.load", "0.4", "a number (offered load", "without quotes", 20
    ),
    "float for a whole number": Broken(
        "1_000_000", "1e6", "queue.buffer_bytes", 1e6, "a whole number", "without decimal point", 15
    ),
    "true for a whole number": Broken("= 400", "= true", "control.episode_steps", True, "a whole number"),
    "true for a number": Broken(
        "10e9", "true", "topology.link_rate_bps", True, "a number (rate of every link"
    ),
    "not finite": Broken("10e9", "inf", "topology.link_rate_bps", float("inf"), "a finite number"),
    "a value for a table": Broken(
        '[workload]\nkind = "poisson"\nload = 0.4\nflow_sizes = "websearch"',
        "[workload.deeper]",
        "workload.kind",
        NOTHING,
        'one of "long_lived", "incast", "poisson", "on_off", "training", "mix"',
        "add the key kind",
        18,
    ),
    "missing key": Broken(
        "load = 0.4\n", "", "workload.load", NOTHING, "a number (offered load", "add the key load", 18
    ),
    "missing kind": Broken(
        'kind = "dumbbell"\n',
        "",
        "topology.kind",
        NOTHING,
        'one of "dumbbell", "single_switch", "fat_tree"',
        "",
        8,
    ),
    "unknown kind": Broken(
        '"dumbbell"', '"fattree"', "topology.kind", "fattree", '"fat_tree"', 'did you mean "fat_tree"?', 9
    ),
    "key of another kind": Broken(
        "hosts_per_side = 4", "k = 4", "topology.k", 4, "a key of [topology]: link_rate_bps", "", 10
    ),
    "unknown choice": Broken(
        '"websearch"',
        '"websaerch"',
        "workload.flow_sizes",
        "websaerch",
        '"websearch"',
        'did you mean "websearch"?',
        21,
    ),
    "below the range": Broken(
        "= 400", "= 0", "control.episode_steps", 0, "at least 1 (number of decisions in an episode)"
    ),
    "above the range": Broken("load = 0.4", "load = 4.0", "workload.load", 4.0, "less than 1"),
    "at an open end": Broken("load = 0.4", "load = 0.0", "workload.load", 0.0, "more than 0"),
    "threshold above the buffer": Broken(
        "97_500",
        "1_000_001",
        "queue.ecn_threshold_bytes",
        1_000_001,
        "at most buffer_bytes = 1000000",
        "lower",
        16,
    ),
    "episode too long": Broken(
        "250e-6",
        "100.0",
        "control.episode_steps",
        400,
        "at most 7200 simulated seconds; it has 40000",
        "fewer",
        25,
    ),
    "overlapping splits": Broken(
        "[20, 29]",
        "[9, 29]",
        "splits.test.seeds",
        [9, 29],
        "outside those of the split train, [0, 9]",
        "unseen",
        35,
    ),
    "seeds backwards": Broken("[10, 19]", "[19, 10]", "splits.validation.seeds", [19, 10], "first <= last"),
    "one seed": Broken("[10, 19]", "[10]", "splits.validation.seeds", [10], "at least 2 entries"),
    "three seeds": Broken(
        "[10, 19]", "[10, 11, 12]", "splits.validation.seeds", [10, 11, 12], "at most 2 entries"
    ),
    "negative seed": Broken("[10, 19]", "[-1, 19]", "splits.validation.seeds[0]", -1, "at least 0"),
    "missing split": Broken(
        "[splits.test]\nseeds = [20, 29]\n",
        "",
        "splits.test",
        NOTHING,
        "a table (episodes that results",
        "add a table [splits.test]",
    ),
    "unknown split": Broken("[splits.validation]", "[splits.valid]", "splits.validation", NOTHING, "a table"),
    "unknown family": Broken(
        '"congestion"',
        '"congestoin"',
        "family",
        "congestoin",
        '"congestion"',
        'did you mean "congestion"?',
        3,
    ),
    "missing family": Broken(
        'family = "congestion"\n', "", "family", NOTHING, '"congestion"', "the family decides"
    ),
    "unknown format": Broken(
        "schema = 1", "schema = 2", "schema", 2, "at most 1 (version of this file format"
    ),
    "bad env id": Broken(
        "DatacenterCC-v0", "DatacenterCC", "env_id", "sysgym/DatacenterCC", "a text that matches"
    ),
    "wrong stem": Broken('"mine"', '"yours"', "name", "yours", '"mine", the name of the file', "rename", 2),
    "varied value out of range": Broken(
        "[0.3, 0.4]", "[0.3, 5.0]", 'splits.train.vary."workload.load"', 5.0, "less than 1", "", 29
    ),
    "varied key unknown": Broken(
        '"workload.load" =',
        '"workload.laod" =',
        'splits.train.vary."workload.laod"',
        0.3,
        "a key of [workload]",
        "load",
    ),
    "varied key that fixes the spaces": Broken(
        '"workload.load" = [0.3, 0.4]',
        '"topology.hosts_per_side" = [2, 4]',
        'splits.train.vary."topology.hosts_per_side"',
        [2, 4],
        "other than topology.kind, topology.hosts_per_side",
        "a scenario file of its own",
    ),
    "varied key outside the world": Broken(
        '"workload.load" = [0.3, 0.4]',
        '"control.episode_steps" = [2, 4]',
        'splits.train.vary."control.episode_steps"',
        [2, 4],
        "a key of [topology], [queue], [transport], [routing], [faults], [workload]",
    ),
    "whole table varied": Broken(
        '"workload.load" =', '"workload" =', "splits.train.vary.workload", [0.3, 0.4], "a key of [topology]"
    ),
    "nothing to vary over": Broken(
        "[0.3, 0.4]", "[]", 'splits.train.vary."workload.load"', [], "at least 1 entries"
    ),
    "varied over a table": Broken(
        "[0.3, 0.4]", "[[0.3]]", 'splits.train.vary."workload.load"[0]', [0.3], "a number"
    ),
}


@pytest.mark.parametrize("case", BROKEN.values(), ids=BROKEN.keys())
def test_broken_file(case: Broken, write: WriteFile) -> None:
    path = write((case.old, case.new))
    with pytest.raises(ScenarioError) as caught:
        load_scenario(path)
    error = caught.value
    assert error.path == str(path)
    problem = next((problem for problem in error.problems if problem.key == case.key), None)
    assert problem is not None, str(error)
    assert problem.got == case.got
    assert case.expected in problem.expected
    assert case.advice in problem.advice
    if case.line is not None:
        assert problem.line == case.line
        assert f"{case.key} (line {case.line})" in str(error)
    assert str(path) in str(error)
    assert problem.describe().splitlines()[0] in str(error)
    first = error.problems[0]
    assert (error.key, error.got, error.expected) == (first.key, first.got, first.expected)
    assert "pydantic" not in str(error)


def test_several_problems_are_listed_at_once_in_the_order_of_the_file(write: WriteFile) -> None:
    path = write(
        ("1_000_000", '"big"'), ("load = 0.4", "laod = 0.4"), ("hosts_per_side = 4", "hosts_per_side = 0")
    )
    with pytest.raises(ScenarioError, match="4 problems") as caught:
        load_scenario(path)
    assert [problem.key for problem in caught.value.problems] == [
        "topology.hosts_per_side",
        "queue.buffer_bytes",
        "workload.load",
        "workload.laod",
    ]


def test_syntax_error_names_the_line(write: WriteFile) -> None:
    path = write(("hosts_per_side = 4", "hosts_per_side = = 4"))
    with pytest.raises(ScenarioError) as caught:
        load_scenario(path)
    (problem,) = caught.value.problems
    assert problem.line == 10
    assert problem.got == "hosts_per_side = = 4"
    assert problem.expected.startswith("TOML")
    assert "(line 10)" in str(caught.value)


def test_file_that_ends_too_early(tmp_path: Path) -> None:
    path = tmp_path / "cut.toml"
    path.write_text('schema = 1\nname = """cut')
    with pytest.raises(ScenarioError, match=r"cut\.toml") as caught:
        load_scenario(path)
    assert caught.value.expected.startswith("TOML")


def test_key_given_twice(write: WriteFile) -> None:
    with pytest.raises(ScenarioError, match="TOML"):
        load_scenario(write(("load = 0.4", "load = 0.4\nload = 0.5")))


def test_file_that_is_not_text(tmp_path: Path) -> None:
    path = tmp_path / "binary.toml"
    path.write_bytes(b"\xff\xfe\x00")
    with pytest.raises(ScenarioError, match="UTF-8"):
        load_scenario(path)


def test_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(ScenarioError, match="a scenario file") as caught:
        load_scenario(tmp_path / "gone.toml")
    assert caught.value.path == str(tmp_path / "gone.toml")


CROSS = {
    "senders than hosts": (
        {"workload": {"kind": "incast", "senders": 8, "request_bytes": 1000, "period_s": 1e-3}},
        "workload.senders",
        "at most 7",
    ),
    "jitter than period": (
        {
            "workload": {
                "kind": "incast",
                "senders": 7,
                "request_bytes": 1000,
                "period_s": 1e-3,
                "jitter_s": 2e-3,
            }
        },
        "workload.jitter_s",
        "at most period_s = 0.001",
    ),
    "stride than hosts": (
        {"workload": {"kind": "long_lived", "pairs": "stride", "stride": 8}},
        "workload.stride",
        "less than the 8 hosts",
    ),
    "probability than one": (
        {"workload": {"kind": "long_lived", "pairs": "one_to_one", "p_edge": 0.6, "p_pod": 0.5}},
        "workload.p_pod",
        "at most 1 - p_edge = 0.4",
    ),
    "flows than memory": (
        {
            "workload": {"kind": "long_lived", "pairs": "all_to_all", "flows_per_pair": 4096},
            "topology.hosts_per_side": 64,
        },
        "workload.flows_per_pair",
        "at most 1000000 flows",
    ),
    "staggered without edges": (
        {"workload": {"kind": "long_lived", "pairs": "staggered"}},
        "workload.pairs",
        'topology.kind = "fat_tree"',
    ),
    "iroko without sides": (
        {
            "workload": {"kind": "long_lived", "pairs": "iroko"},
            "topology": {"kind": "fat_tree", "k": 4, "link_rate_bps": 1e9, "link_delay_s": 0.0},
        },
        "workload.pairs",
        'topology.kind = "dumbbell"',
    ),
    "load than a core": (
        {"topology.core_rate_bps": 5e9},
        "workload.load",
        "what crosses the core link is 1.83",
    ),
    "load than a leaf's uplinks": (
        {
            "topology": {
                "kind": "leaf_spine",
                "leaves": 4,
                "spines": 1,
                "hosts_per_leaf": 4,
                "link_rate_bps": 1e10,
                "link_delay_s": 0.0,
            }
        },
        "workload.load",
        "what crosses a leaf's uplinks is 1.28",
    ),
    "load than a hot host": (
        {"workload.load": 0.2, "workload.destinations": "hotspot"},
        "workload.load",
        "what a host receives is 1.4",
    ),
    "load than a receiver": (
        {"workload": {"kind": "incast", "senders": 7, "request_bytes": 146_000, "period_s": 0.8e-3}},
        "workload.period_s",
        "what a host receives is 1.05",
    ),
    "load than a host": (
        {
            "topology.core_rate_bps": 40e9,
            "workload": {
                "kind": "mix",
                "parts": {
                    "rpc": {"kind": "poisson", "load": 0.3, "flow_sizes": "google-rpc"},
                    "bursts": {
                        "kind": "on_off",
                        "pairs": "stride",
                        "stride": 1,
                        "rate_bps": 10e9,
                        "on_s": 3e-3,
                        "off_s": 1e-3,
                    },
                },
            },
        },
        "workload.parts.bursts.rate_bps",
        "what a host sends is 1.05",
    ),
    "hosts in jobs": (
        {
            "workload": {
                "kind": "training",
                "collective": "all_to_all",
                "job_hosts": 3,
                "jobs": 3,
                "size_bytes": 1000,
                "compute_s": 0.0,
            }
        },
        "workload.job_hosts",
        "at most 2: the topology has 8 hosts for 3 jobs",
    ),
    "shares than bytes": (
        {
            "workload": {
                "kind": "training",
                "collective": "all_to_all",
                "job_hosts": 4,
                "size_bytes": 3,
                "compute_s": 0.0,
            }
        },
        "workload.size_bytes",
        "a byte for each of job_hosts = 4",
    ),
    "a part of a mix that does not fit": (
        {"workload": {"kind": "mix", "parts": {"far": {"kind": "long_lived", "pairs": "stride"}}}},
        "workload.parts.far.stride",
        "less than the 8 hosts",
    ),
    "an override without an arrow": (
        {"topology.overrides": [{"link": "h0", "rate_bps": 1e9}]},
        "topology.overrides[0].link",
        "two nodes with -> or <-> between them",
    ),
    "an override of nothing": (
        {"topology.overrides": [{"link": "h0->west"}]},
        "topology.overrides[0].rate_bps",
        "one of rate_bps",
    ),
    "an override without room for a packet": (
        {"topology.overrides": [{"link": "h0->west", "buffer_bytes": 1499}]},
        "topology.overrides[0].buffer_bytes",
        "room for one packet",
    ),
    "one host": (
        {
            "topology": {
                "kind": "leaf_spine",
                "leaves": 1,
                "spines": 1,
                "hosts_per_leaf": 1,
                "link_rate_bps": 1e10,
                "link_delay_s": 0.0,
            }
        },
        "topology.hosts_per_leaf",
        "2 to 8192 hosts in all",
    ),
    "odd fat tree": (
        {"topology": {"kind": "fat_tree", "k": 5, "link_rate_bps": 1e9, "link_delay_s": 0.0}},
        "topology.k",
        "a multiple of 2",
    ),
    "fixed without size": ({"workload.flow_sizes": "fixed"}, "workload.fixed_bytes", "a size in bytes"),
    "size without fixed": ({"workload.fixed_bytes": 1000}, "workload.fixed_bytes", "no such key"),
    "window": ({"transport.max_window_packets": 5000}, "transport.max_window_packets", "a power of two"),
    "first window": (
        {"transport.max_window_packets": 8},
        "transport.initial_window_packets",
        "at most max_window_packets = 8",
    ),
    "receive window": (
        {"transport.receive_window_bytes": 1000},
        "transport.receive_window_bytes",
        "at least the payload of a full packet, 1460",
    ),
    "idle rule": ({"transport.idle_window": "keep"}, "transport.idle_window", "no such key with connections"),
    "time-outs": ({"transport.min_rto_s": 2.0}, "transport.min_rto_s", "at most max_rto_s = 1.0"),
    "headers": (
        {"transport.mtu_bytes": 128, "transport.header_bytes": 128},
        "transport.header_bytes",
        "less than mtu_bytes = 128",
    ),
    "ack": ({"transport.ack_bytes": 1501}, "transport.ack_bytes", "at most mtu_bytes = 1500"),
    "no room for a packet": (
        {"transport.mtu_bytes": 9000, "queue.buffer_bytes": 8000, "queue.ecn_threshold_bytes": 0},
        "queue.buffer_bytes",
        "room for one packet",
    ),
}


@pytest.mark.parametrize(("overrides", "key", "expected"), CROSS.values(), ids=CROSS.keys())
def test_values_that_do_not_fit_together(
    overrides: dict[str, Any], key: str, expected: str, write: WriteFile
) -> None:
    with pytest.raises(ScenarioError) as caught:
        load_scenario(write(), overrides=overrides)
    assert [problem.key for problem in caught.value.problems] == [key]
    assert expected in caught.value.expected
