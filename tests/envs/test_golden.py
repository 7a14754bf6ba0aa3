"""Seeded episodes give the results in the golden traces."""

from __future__ import annotations

import importlib.util
import json
import math
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent


def _script() -> ModuleType:
    spec = importlib.util.spec_from_file_location("update_golden", ROOT / "scripts" / "update_golden.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


GOLDEN = _script()
EPISODES = list(GOLDEN.episodes())


def _differs(got: float, expected: float) -> bool:
    if isinstance(expected, int):
        return got != expected
    return not math.isclose(got, expected, rel_tol=1e-9, abs_tol=1e-9)


@pytest.mark.parametrize("episode", EPISODES, ids=lambda episode: episode.path.stem)
def test_an_episode_is_what_it_was(episode: Any) -> None:
    expected = json.loads(episode.path.read_text())
    for step, (got, was) in enumerate(zip(GOLDEN.trace(episode), expected, strict=True)):
        changed = {name: f"{was[name]} -> {got[name]}" for name in was if _differs(got[name], was[name])}
        assert not changed, (
            f"{episode.path.name}, decision {step}: {changed}. If results are meant to change, run "
            "scripts/update_golden.py and say so in the CHANGELOG under 'Environment changes'"
        )


def test_the_traces_have_something_to_tell() -> None:
    """All kinds of events happen in them: a trace of an idle network would hold anything."""
    last = [json.loads(episode.path.read_text())[-1] for episode in EPISODES]
    packets = [record for record in last if "delivered_bytes" in record]
    stragglers = [record for record in last if "finished_tasks" in record]
    placements = [record for record in last if "episode_regret" in record]
    collectives = [record for record in last if "episode_bound_s" in record]
    runs = [record for record in last if "episode_optimum_s" in record]
    plans = [record for record in last if "episode_amplification" in record]
    windows = [record for record in last if "episode_cluster_throughput" in record]
    tuned = [record for record in last if "episode_speedup_over_layers" in record]
    slow = [record for record in last if "episode_delay" in record]
    diagnosed = [record for record in last if "episode_loss" in record]
    divided = [record for record in last if "episode_recomputing" in record]
    others = [*collectives, *runs, *plans, *windows, *tuned, *slow, *diagnosed, *divided]
    placements = [record for record in placements if record not in others]
    jobs = [record for record in last if "episode_mean_slowdown" in record]
    kinds = (
        packets,
        stragglers,
        placements,
        collectives,
        runs,
        plans,
        windows,
        tuned,
        slow,
        diagnosed,
        divided,
        jobs,
    )
    assert sum(map(len, kinds)) == len(EPISODES)
    assert all(record["episode_worst_slowdown"] >= record["episode_mean_slowdown"] > 0.0 for record in jobs)
    assert all(0.0 <= record["episode_regret"] < 3.0 for record in collectives)
    assert all(record["episode_regret"] > 0.0 for record in [*runs, *plans, *windows])
    assert all(record["episode_speedup"] >= 1.0 for record in [*tuned, *divided])
    assert all(record["episode_checkpoints"] > 0.0 and record["episode_delay"] > 0.0 for record in slow)
    assert all(record["episode_questions"] > 0.0 for record in diagnosed)
    assert all(record["delivered_bytes"] > 0 for record in packets)
    assert all(record["finished_tasks"] > 0 for record in stragglers)
    whole = [json.loads(episode.path.read_text()) for episode in EPISODES]
    final = [record for records in whole for record in records if "episode_best_time_s" in record]
    assert len(final) == GOLDEN.PLACEMENT_EPISODES * len(placements)
    assert len({record["reward"] for record in final}) > len(final) / 2
    assert any(record["episode_regret"] > 0.0 for record in final)
    assert any(record["episode_speedup"] > 1.0 for record in final)
    assert any(record.get("episode_measurements", 0) > 0 for record in final)
    for name in ("queue_bytes", "marked_packets", "dropped_packets", "retransmitted_packets"):
        assert any(record[name] > 0 for record in packets), name
    for name in ("true_flags", "false_flags", "relaunches", "copies", "wasted_s"):
        assert any(record.get(name, 0) > 0 for record in stragglers), name


def test_there_is_no_trace_without_an_episode() -> None:
    assert {path.name for path in GOLDEN.FOLDER.glob("*.json")} == {one.path.name for one in EPISODES}
