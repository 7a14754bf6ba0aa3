"""``sysgym show scenario``: the meaning of a scenario in words and as a picture."""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import pytest

from sysgym.cli.pages.show import show_page
from sysgym.envs.congestion.show.picture import draw
from sysgym.envs.congestion.show.words import in_words
from sysgym.errors import SysgymError, UnknownName
from sysgym.scenarios import CongestionScenario, list_scenarios, load_scenario

NAMES = [info.name for info in list_scenarios("congestion")]


def words(name: str, **overrides: Any) -> dict[str, str]:
    dotted = {key.replace("__", "."): value for key, value in overrides.items()}
    return dict(in_words(load_scenario(name, overrides=dotted, expect=CongestionScenario)))


@pytest.mark.parametrize("name", NAMES)
def test_every_congestion_scenario_has_words(name: str) -> None:
    found = words(name)
    assert list(found)[:3] == ["Network", "Queues", "Traffic"]
    assert all(text.endswith(".") and "None" not in text and "  " not in text for text in found.values())


@pytest.mark.parametrize(
    ("name", "heading", "text"),
    [
        ("fattree-k4-websearch", "Network", "6 links, 4 equally short paths"),
        ("fattree-k8-permutation", "Network", "6 links, 16 equally short paths"),
        ("leafspine-2to1-websearch", "Network", "uplinks of 20 Gb/s; 2:1 oversubscribed"),
        ("leafspine-slow-spine", "Network", "leaf*<->spine3 differs: rate 2.5 Gb/s, buffer 125 kB"),
        ("parking-lot-4", "Traffic", "one across all bottlenecks, one across each"),
        # 64 us of propagation and sending, as the scenario's own comment says.
        ("dumbbell-10g", "Network", "an empty round trip takes 63.7 µs, in which a host sends 79.7 kB"),
        ("dumbbell-10g", "Queues", "marks packets that find more than 97.5 kB (78.0 µs of a link)"),
        ("incast-64", "Traffic", "Every 2.1 ms 64 hosts send 32 kB each to host 0 at once: 2.05 MB a round"),
        ("fattree-k4-websearch", "Traffic", "0.5 of each sender's link, about 460 flows an episode"),
        ("onoff-dumbbell", "Traffic", "which makes 500 Mb/s a pair"),
        ("allreduce-ring-16", "Traffic", "sum up around a ring (4 MB at every host)"),
        ("allreduce-tree-hadoop-mix", "Traffic", "background: Flows arrive at random"),
        ("fattree-k4-websearch", "Decisions", "10.3 empty round trips; 400 in an episode of 80 ms"),
    ],
)
def test_words_say_what_numbers_mean(name: str, heading: str, text: str) -> None:
    assert text in words(name)[heading]


@pytest.mark.parametrize(
    ("overrides", "heading", "text"),
    [
        ({"routing": {"ecmp": "packet"}}, "Network", "4 equally short paths of which every packet takes one"),
        (
            {"routing": {"ecmp": "flowlet", "flowlet_gap_s": 5e-5}},
            "Network",
            "4 equally short paths of which a flow takes one at random, and a new one after a pause of 50 µs",
        ),
        (
            {"queue__shared_buffer_bytes": 2_000_000, "queue__shared_buffer_alpha": 0.5},
            "Queues",
            "All ports of a switch share 2 MB (1.60 ms of a link); each takes at most 0.5 times what is free,"
            " no more than 500 kB, and marks packets",
        ),
    ],
)
def test_words_name_what_switches_do(overrides: dict[str, Any], heading: str, text: str) -> None:
    assert text in words("leafspine-slow-spine", **overrides)[heading]


def test_a_network_of_one_path_has_no_choice_of_paths() -> None:
    assert "one path;" in words("dumbbell-10g", routing={"ecmp": "packet"})["Network"]


@pytest.mark.parametrize(
    "name", ["fattree-k4-websearch", "leafspine-slow-spine", "parking-lot-4", "allreduce-tree-hadoop-mix"]
)
def test_a_picture_can_be_drawn(name: str, tmp_path: Path) -> None:
    path = tmp_path / "picture.png"
    draw(load_scenario(name, expect=CongestionScenario), path)
    header = path.read_bytes()[:24]
    assert header.startswith(b"\x89PNG")
    assert min(struct.unpack(">II", header[16:])) >= 1000


def test_show_prints_words_and_draws(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "picture.svg"
    show_page("leafspine-slow-spine", [], kind="scenario", picture=path)
    printed = capsys.readouterr().out.replace("\n", "")  # long paths are broken
    for text in ("Network", "Traffic", "Decisions", "overrides[0].link", str(path.name)):
        assert text in printed
    drawn = path.read_text(encoding="utf-8")
    assert drawn.startswith("<?xml")
    assert "leafspine-slow-spine" in drawn


def test_tables_inside_a_mix_are_shown_key_by_key(capsys: pytest.CaptureFixture[str]) -> None:
    show_page("incast-websearch-mix", [])
    printed = capsys.readouterr().out
    assert "parts.background.load" in printed
    assert "parts.queries.senders" in printed


@pytest.mark.parametrize(
    ("name", "kind", "reason"),
    [
        (
            "google-2011",
            "scenario",
            "a family with pictures .*congestion.*; google-2011 is of stragglers",
        ),
        ("dctcp", "transport", "expected a scenario, dctcp was given as transport"),
    ],
)
def test_what_has_no_picture_is_refused(name: str, kind: str, reason: str, tmp_path: Path) -> None:
    with pytest.raises(SysgymError, match=reason):
        show_page(name, [], kind=kind, picture=tmp_path / "picture.png")


def test_unknown_formats_folders_and_kinds_are_named(tmp_path: Path) -> None:
    scenario = load_scenario("dumbbell-10g", expect=CongestionScenario)
    for path in (tmp_path / "picture.nothing", tmp_path / "no folder" / "picture.png"):
        with pytest.raises(SysgymError, match="the picture cannot be written"):
            draw(scenario, path)
    with pytest.raises(UnknownName, match="environment, policy, scenario"):
        show_page("dctcp", [], kind="transprot")
    with pytest.raises(UnknownName, match="no scenario"):
        show_page("dctcp", [], kind="scenario")


@pytest.mark.parametrize(("kind", "name"), [("transport", "dctcp"), ("suite", "quick"), ("agent", "aimd")])
def test_a_kind_may_stand_before_the_name(kind: str, name: str, capsys: pytest.CaptureFixture[str]) -> None:
    show_page(name, [], kind=kind)
    assert name in capsys.readouterr().out
