"""Names, paths, overrides and the resolved form."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from sysgym.scenarios import (
    CongestionScenario,
    Scenario,
    find_scenario,
    list_scenarios,
    list_suites,
    load_scenario,
    load_suite,
    parse_overrides,
    scenario_from_resolved,
    scenario_model,
)
from sysgym.scenarios.errors import ScenarioError, UnknownName
from sysgym.scenarios.reading import parse_toml, read_text

WriteFile = Callable[..., Path]


def test_by_name_and_by_path_give_the_same() -> None:
    path = find_scenario("dumbbell-10g")
    assert load_scenario("dumbbell-10g") == load_scenario(path) == load_scenario(str(path))


def test_unknown_name_suggests_the_closest() -> None:
    with pytest.raises(UnknownName) as caught:
        load_scenario("dumbell-10g")
    assert caught.value.suggestion == "dumbbell-10g"
    assert caught.value.kind == "scenario"
    assert "fattree-k4-websearch" in caught.value.known


def test_a_file_of_one_s_own_needs_no_registration(write: WriteFile) -> None:
    assert load_scenario(write()).name == "mine"


def test_relative_path(write: WriteFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(write().parent)
    assert load_scenario("mine.toml").name == "mine"
    assert load_scenario("./mine.toml").name == "mine"


@pytest.mark.parametrize("place", ["mine.toml", "congestion/mine.toml"])
def test_folders_of_the_environment_variable(
    place: str, write: WriteFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write(name=place)
    monkeypatch.setenv("SYSGYM_SCENARIO_PATH", str(tmp_path))
    assert load_scenario("mine").name == "mine"
    assert [(info.family, info.title) for info in list_scenarios() if info.name == "mine"] == [
        ("congestion", "Mine")
    ]


def test_a_list_follows_its_files(write: WriteFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file that has changed or gone is not listed as it was."""
    monkeypatch.setenv("SYSGYM_SCENARIO_PATH", str(tmp_path))
    path = write(name="mine.toml")
    for title in ("Mine", "Another"):
        path.write_text(path.read_text().replace('"Mine"', f'"{title}"'))
        assert [info.title for info in list_scenarios() if info.name == "mine"] == [title]
    path.unlink()
    assert "mine" not in {info.name for info in list_scenarios()}


def test_several_folders(write: WriteFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(name="one/mine.toml")
    write(('"mine"', '"other"'), name="two/other.toml")
    monkeypatch.setenv(
        "SYSGYM_SCENARIO_PATH", os.pathsep.join([str(tmp_path / "one"), str(tmp_path / "two")])
    )
    assert load_scenario("mine").name == "mine"
    assert load_scenario("other").name == "other"


def test_folder_that_is_not_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SYSGYM_SCENARIO_PATH", str(tmp_path / "gone"))
    with pytest.raises(ScenarioError, match="SYSGYM_SCENARIO_PATH"):
        list_scenarios()


def test_two_files_of_one_name_are_not_guessed_between(
    write: WriteFile, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(('"mine"', '"incast-32"'), name="incast-32.toml")
    monkeypatch.setenv("SYSGYM_SCENARIO_PATH", str(tmp_path))
    with pytest.raises(ScenarioError, match="one scenario of this name"):
        load_scenario("incast-32")
    assert load_scenario(path).title == "Mine"


def test_a_broken_file_does_not_hide_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "broken.toml").write_text("= 3")
    monkeypatch.setenv("SYSGYM_SCENARIO_PATH", str(tmp_path))
    listed = {info.name: info for info in list_scenarios()}
    assert "incast-32" in listed
    assert "cannot be read" in listed["broken"].title
    with pytest.raises(ScenarioError, match="TOML"):
        load_scenario("broken")


def test_list_is_sorted_and_can_be_narrowed() -> None:
    infos = list_scenarios()
    assert infos == sorted(infos, key=lambda info: (info.family, info.name))
    assert {info.family for info in list_scenarios("congestion")} == {"congestion"}
    assert {info.env_id for info in list_scenarios("congestion")} == {
        "sysgym/DatacenterCC-v0",
        "sysgym/FlowCC-v0",
    }
    with pytest.raises(UnknownName, match="congestion"):
        list_scenarios("congestoin")
    assert {"quick", "iroko"} <= {info.name for info in list_suites()}


def test_unknown_family() -> None:
    with pytest.raises(UnknownName):
        scenario_model("routing")
    assert scenario_model("congestion") is CongestionScenario


class OtherFamily(Scenario):
    """A family that no file has."""


def test_another_family_than_the_expected_one_is_refused() -> None:
    with pytest.raises(ScenarioError) as caught:
        load_scenario("incast-32", expect=OtherFamily)
    assert (caught.value.key, caught.value.got) == ("family", "congestion")
    assert "this scenario is for sysgym/DatacenterCC-v0" in str(caught.value)


@pytest.mark.parametrize("name", ["sysgym/FlowCC-v0", "FlowCC-v0", "FlowCC"])
def test_an_environment_is_told_its_scenarios(name: str) -> None:
    with pytest.raises(UnknownName, match="it is an environment; name a scenario of it: ") as caught:
        load_scenario(name)
    first = caught.value.listing.partition("of it: ")[2].partition(",")[0]
    assert load_scenario(first).env_id == "sysgym/FlowCC-v0"


def test_a_scenario_and_a_suite_are_not_taken_for_each_other() -> None:
    with pytest.raises(UnknownName, match=r"it is a suite: sysgym bench quick"):
        load_scenario("quick")
    with pytest.raises(UnknownName, match=r"it is a scenario: sysgym run dumbbell-10g"):
        load_suite("dumbbell-10g")


def test_overrides_replace_values_and_leave_the_rest() -> None:
    plain = load_scenario("dumbbell-10g", expect=CongestionScenario)
    changed = load_scenario(
        "dumbbell-10g",
        overrides={
            "topology.hosts_per_side": 8,
            "queue.ecn_threshold_bytes": None,
            "reward.weights.delay": 2.0,
        },
        expect=CongestionScenario,
    )
    assert changed.topology.n_hosts == 16
    assert changed.queue.ecn_threshold_bytes is None
    assert changed.reward.weights == {"delay": 2.0}
    assert changed.workload == plain.workload
    assert changed.sha256() != plain.sha256()
    assert changed == plain.with_overrides(
        {"topology.hosts_per_side": 8, "queue.ecn_threshold_bytes": None, "reward.weights.delay": 2.0}
    )


def test_overrides_may_be_numbers_of_numpy() -> None:
    given = {"queue.ecn_threshold_bytes": np.int64(30_000), "workload.load": np.float32(0.5)}
    varied = {"splits.test.vary": {"workload.load": [np.float64(0.25), np.float64(0.75)]}}
    scenario = load_scenario("fattree-k4-websearch", overrides=given | varied, expect=CongestionScenario)
    assert scenario.queue.ecn_threshold_bytes == 30_000
    assert scenario.splits.test.vary == {"workload.load": (0.25, 0.75)}
    assert scenario.resolved()["workload"]["load"] == 0.5
    with pytest.raises(ScenarioError, match="whole number"):
        load_scenario("dumbbell-10g", overrides={"queue.ecn_threshold_bytes": np.float64(0.5)})


def test_the_keys_of_overrides_are_texts() -> None:
    for load in (load_scenario("dumbbell-10g").with_overrides, _loaded_with):
        with pytest.raises(ScenarioError) as caught:
            load({5: 3})  # type: ignore[dict-item]
        (problem,) = caught.value.problems
        assert (problem.key, problem.got) == ("overrides", {5: 3})
        assert "a table of dotted keys and values" in problem.expected


def _loaded_with(overrides: dict[str, Any]) -> Scenario:
    return load_scenario("dumbbell-10g", overrides=overrides)


def test_an_overridden_table_takes_another_kind() -> None:
    workload = {"kind": "incast", "senders": 3, "request_bytes": 1000, "period_s": 1e-3}
    scenario = load_scenario("dumbbell-10g", overrides={"workload": workload}, expect=CongestionScenario)
    assert scenario.workload.kind == "incast"
    assert all(scenario.splits[name].vary == {} for name in ("train", "validation", "test"))


def test_an_overridden_key_no_longer_varies() -> None:
    scenario = load_scenario(
        "fattree-k4-websearch", overrides={"workload.load": 0.9}, expect=CongestionScenario
    )
    drawn = [scenario.draw("test", seed).workload for seed in range(20)]
    assert {workload.load for workload in drawn if workload.kind == "poisson"} == {0.9}


def test_overridden_variation_holds() -> None:
    scenario = load_scenario(
        "fattree-k4-websearch",
        overrides={"workload.load": 0.9, "splits.test.vary": {"workload.load": [0.8]}},
    )
    assert scenario.splits.test.vary == {"workload.load": (0.8,)}
    assert scenario.splits.train.vary == {}


@pytest.mark.parametrize(
    ("overrides", "key", "expected"),
    [
        ({"workload.lod": 1}, "workload.lod", "a key of [workload]"),
        ({"workload.load": "0.6"}, "workload.load", "a number"),
        ({"workload.load": [0.6]}, "workload.load", "a number"),
        ({"workload.load": 9.0}, "workload.load", "less than 1"),
        ({"name": "other"}, "name", "can be overridden"),
        ({"schema": 1}, "schema", "can be overridden"),
        ({"env_id": "sysgym/FlowCC-v0"}, "env_id", "not schema, name, family or env_id"),
        ({"title.x": 1}, "title.x", "a dotted key"),
        ({"": 1}, "", "a dotted key"),
        ({"workload.": 1}, "workload.", "a dotted key"),
    ],
)
def test_wrong_overrides(overrides: dict[str, Any], key: str, expected: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        load_scenario("fattree-k4-websearch", overrides=overrides)
    (problem,) = caught.value.problems
    assert problem.key == key
    assert expected in problem.expected
    assert problem.origin == "overrides"
    assert problem.line is None
    assert "(from overrides)" in str(caught.value)


@pytest.mark.parametrize(
    ("key", "advice"),
    [
        ("load", 'did you mean "workload.load"?'),
        ("buffer_bytes", 'did you mean "queue.buffer_bytes"?'),
        ("k", 'did you mean "topology.k"?'),
        ("hosts_per_side", "leave it out"),  # of a dumbbell, and this is a fat tree
        ("workload.lod", 'did you mean "load"?'),
        ("workload.zzz", "leave it out"),
    ],
)
def test_an_unknown_override_is_told_the_key_it_may_mean(key: str, advice: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        load_scenario("fattree-k4-websearch", overrides={key: 1})
    assert [problem.advice for problem in caught.value.problems] == [advice]


def test_override_that_breaks_what_the_file_says_blames_the_file_s_line() -> None:
    with pytest.raises(ScenarioError, match="at most buffer_bytes = 50000") as caught:
        load_scenario("dumbbell-10g", overrides={"queue.buffer_bytes": 50_000})
    assert caught.value.problems[0].line is not None


def test_parse_overrides_reads_toml_and_bare_words() -> None:
    assert parse_overrides(
        ["workload.load=0.6", "a.b = 1_000", "c=true", "d=stride", 'e="quoted"', "f=[1, 2]", "g=x=y", "h="]
    ) == {
        "workload.load": 0.6,
        "a.b": 1000,
        "c": True,
        "d": "stride",
        "e": "quoted",
        "f": [1, 2],
        "g": "x=y",
        "h": "",
    }


@pytest.mark.parametrize("text", ["workload.load", "=3", ""])
def test_parse_overrides_wants_an_assignment(text: str) -> None:
    with pytest.raises(ScenarioError, match="KEY=VALUE"):
        parse_overrides([text])


def test_scenarios_are_frozen() -> None:
    scenario = load_scenario("dumbbell-10g", expect=CongestionScenario)
    with pytest.raises(ValidationError, match="frozen"):
        scenario.queue.buffer_bytes = 5


def test_defaults_are_explicit_in_the_resolved_form(write: WriteFile) -> None:
    resolved = load_scenario(write()).resolved()
    assert resolved["schema"] == 1
    assert resolved["transport"]["mtu_bytes"] == 1500
    assert resolved["transport"]["host_queue_packets"] == 8
    assert resolved["topology"]["core_rate_bps"] is None
    assert resolved["reward"] == {"name": "default", "weights": {}}
    assert json.loads(json.dumps(resolved, allow_nan=False)) == resolved


def test_core_rate_follows_the_links_unless_it_is_given(write: WriteFile) -> None:
    plain = load_scenario(
        write(), overrides={"topology.link_rate_bps": 1e9}, expect=CongestionScenario
    ).topology
    given = load_scenario(
        write(), overrides={"topology.core_rate_bps": 30e9}, expect=CongestionScenario
    ).topology
    assert plain.kind == given.kind == "dumbbell"
    assert plain.core_link_rate_bps == 1e9
    assert given.core_link_rate_bps == 30e9


@pytest.mark.parametrize(
    ("damage", "key"),
    [({"family": None}, "family"), ({"queue": {}}, "queue.buffer_bytes"), ({"more": 1}, "more")],
)
def test_resolved_form_is_checked(damage: dict[str, Any], key: str) -> None:
    resolved = load_scenario("incast-32").resolved() | damage
    with pytest.raises(ScenarioError) as caught:
        scenario_from_resolved(resolved)
    assert caught.value.key == key


VALUES = {
    "topology.link_rate_bps": st.floats(1e3, 1.6e12) | st.integers(1_000, 10**12),
    "topology.link_delay_s": st.floats(0.0, 1.0),
    "topology.hosts_per_side": st.integers(1, 4096),
    "topology.core_rate_bps": st.none() | st.floats(1e3, 1.6e12),
    "queue.buffer_bytes": st.integers(100_000, 2**40),
    "queue.ecn_threshold_bytes": st.none() | st.integers(0, 100_000),
    "transport.host_jitter_s": st.none() | st.floats(0.0, 1.0),
    "transport.max_window_packets": st.integers(4, 20).map(lambda power: 2**power),
    "transport.min_rto_s": st.floats(1e-6, 1.0),
    "workload.flows_per_pair": st.integers(1, 100),
    "workload.pairs": st.sampled_from(["one_to_one", "random", "random_bijective", "hotspot", "iroko"]),
    "workload.start_jitter_s": st.floats(0.0, 7200.0),
    "control.min_rate_fraction": st.floats(0.0, 1.0, exclude_min=True, exclude_max=True),
    "control.episode_steps": st.integers(1, 1_000_000),
    "reward.weights": st.dictionaries(st.text(min_size=1, max_size=200), st.floats(-1e9, 1e9)),
    "title": st.text(st.characters(exclude_categories=("C", "Zl", "Zp")), min_size=1, max_size=100),
}


@given(st.fixed_dictionaries({}, optional=VALUES))
def test_resolved_form_round_trips_through_json(overrides: dict[str, Any]) -> None:
    scenario = load_scenario("dumbbell-10g", expect=CongestionScenario).with_overrides(overrides)
    back = scenario_from_resolved(json.loads(json.dumps(scenario.resolved())))
    assert back == scenario
    assert back.resolved() == scenario.resolved()
    assert back.sha256() == scenario.sha256()


def test_hash_is_the_same_in_another_process() -> None:
    script = "from sysgym.scenarios import load_scenario; print(load_scenario('incast-32').sha256())"
    environment = os.environ | {"PYTHONHASHSEED": "17"}
    done = subprocess.run(
        [sys.executable, "-c", script],
        check=True,
        timeout=60,
        capture_output=True,
        text=True,
        env=environment,
    )
    assert done.stdout.strip() == load_scenario("incast-32").sha256()


def test_hash_does_not_hang_on_how_a_number_is_written(write: WriteFile) -> None:
    plain = load_scenario(write()).sha256()
    assert load_scenario(write(("10e9", "10_000_000_000"))).sha256() == plain
    assert load_scenario(write(("10e9", "10_000_000_001"))).sha256() != plain


@pytest.mark.parametrize(
    ("overrides", "key"),
    [
        ({"queue.class_buffer_bytes": [64, 1_000_000]}, "queue.class_buffer_bytes"),
        ({"queue.class_buffer_bytes": [64, 64], "queue.ack_class": 1}, "queue.class_buffer_bytes"),
        (
            {"queue.class_buffer_bytes": [3_000, 3_000], "queue.class_ecn_threshold_bytes": [2_000, 60_000]},
            "queue.class_ecn_threshold_bytes",
        ),
        ({"transport.segmentation_offload_bytes": 2**21}, "transport.segmentation_offload_bytes"),
        ({"transport.receive_coalescing_s": 1e-12}, "transport.receive_coalescing_s"),
        (
            {"transport.receive_coalescing_s": 0.3, "transport.delayed_ack_timeout_s": 0.4},
            "transport.delayed_ack_timeout_s",
        ),
    ],
)
def test_classes_and_hosts_that_could_not_work_are_refused(overrides: dict[str, Any], key: str) -> None:
    with pytest.raises(ScenarioError) as raised:
        load_scenario("incast-32", overrides={"queue.classes": 2, **overrides})
    assert [problem.key for problem in raised.value.problems] == [key]


def test_a_class_of_headers_or_acks_may_be_small() -> None:
    small = {
        "queue.classes": 3,
        "queue.class_buffer_bytes": [30_000, 600, 400],
        "queue.ecn_threshold_bytes": 400,
    }
    load_scenario("incast-32", overrides={**small, "queue.ack_class": 1, "queue.trim": True})


def test_a_byte_order_mark_is_no_part_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "file.toml"
    path.write_bytes(b"\xef\xbb\xbf" + "name = 'Köln'".encode())
    assert parse_toml(read_text(path, "TOML file"), "file.toml") == {"name": "Köln"}
