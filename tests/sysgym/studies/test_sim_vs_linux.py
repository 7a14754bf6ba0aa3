"""The comparison of the two backends: its arithmetic, and errors for missing requirements."""

from __future__ import annotations

import math
import statistics
from importlib import import_module

import pytest

from sysgym.bench.contenders import parse_contender
from sysgym.bench.surveys import SURVEYS
from sysgym.envs.congestion.datacenter.metrics import EPISODE_METRICS
from sysgym.scenarios import load_scenario, load_suite
from sysgym.scenarios.schema.splits import SPLIT_NAMES
from sysgym.studies import sim_vs_linux
from sysgym.studies.sim_vs_linux import METRICS, SCENARIOS, SEEDS, TRANSPORTS, Measured


def player(name: str, simulated: float, real: float, metric: str = "goodput_bps") -> Measured:
    values = {"packets": {metric: [simulated] * len(SEEDS)}, "linux": {metric: [real] * len(SEEDS)}}
    return Measured(name, values)


def test_a_cell_shows_both_and_the_simulators_difference() -> None:
    assert player("cubic", 95e6, 100e6).cell("goodput_bps") == "95.0 Mb/s / 100 Mb/s (-5.0%)"
    assert player("cubic", 1.0, 0.0, "mark_fraction").cell("mark_fraction") == "100% / 0%"
    assert player("cubic", 95e6, 100e6).cell("fct_slowdown_p99") == "–"


def test_a_metric_that_one_seed_lacks_has_no_mean() -> None:
    one = Measured("dctcp", {"packets": {"rtt_mean_s": [1e-3]}, "linux": {"rtt_mean_s": [1e-3] * len(SEEDS)}})
    assert one.cell("rtt_mean_s") == "–"


def test_the_margin_follows_from_the_spread_of_both_backends() -> None:
    values = {
        "packets": {"timeouts": [8.0, 12.0] * 5, "fct_slowdown_p99": [9.0, 11.0] * 5},
        "linux": {"timeouts": [4.0, 6.0] * 5, "fct_slowdown_p99": [10.0] * 10},
    }
    row = Measured("dctcp", values)
    error = statistics.stdev([9.0, 11.0] * 5) / 10**0.5
    assert row.relative("fct_slowdown_p99") == pytest.approx((0.0, 1.96 * error / 10.0))
    judged = row.judged("timeouts")
    assert judged is not None
    assert judged.value == pytest.approx(math.log(10.5 / 5.5) / math.log(1.5))
    relative = math.hypot(2.0 * error / 10.5, error / 5.5)
    assert judged.margin == pytest.approx(1.96 * relative / math.log(1.5))
    outside = sim_vs_linux._outside({"20 packets": [row]}, {"20 packets"})
    assert [(metric, clearly) for _, metric, _, clearly in outside.rows] == [("timeouts", "yes")]
    assert row.cell("timeouts") == "10.0 / 5.00 (+100.0% ± 37.0%)"


def test_winners_within_a_percent_share_the_place() -> None:
    players = [player("cubic", 100.0, 90.0), player("reno", 99.5, 100.0), player("dctcp", 90.0, 99.9)]
    page = sim_vs_linux._winners({"linux-dumbbell-1g": players})
    assert page.rows == (("linux-dumbbell-1g, goodput_bps", "cubic, reno", "reno, dctcp", "yes"),)


def test_losses_have_a_row_for_each_variant_and_law() -> None:
    players = [player("cubic", 0.2, 0.25, "round_completion_mean_s"), player("dctcp", 0.1, 0.1, "timeouts")]
    page = sim_vs_linux._losses({"20 packets": players})
    assert [row[0] for row in page.rows] == ["20 packets, cubic", "20 packets, dctcp"]
    assert page.rows[0][page.columns.index("round_completion_mean_s")] == "200 ms / 250 ms (-20.0%)"


def test_pairs_within_and_outside_the_goals() -> None:
    calm = [player("cubic", 94.0, 100.0), player("neural", 96.0, 100.0)]
    lost = [
        player("dctcp", 4.0, 5.0, "timeouts"),
        player("cubic", 4.0, 8.0, "timeouts"),
        player("reno", 0.0, 0.2, "timeouts"),
        player("bbr", 0.3, 0.1, "drop_fraction"),
    ]
    counts = sim_vs_linux._counts({"dumbbell": calm}, {"20 packets": lost})
    by_metric = {row[0]: row[2:] for row in counts.rows}
    assert by_metric["goodput_bps"] == ("0 of 1", "1 of 1", "–", "–")
    assert by_metric["timeouts"] == ("–", "–", "2 of 3", "–")
    assert by_metric["drop_fraction"] == ("–", "–", "0 of 1", "–")
    outside = sim_vs_linux._outside({"dumbbell": calm, "20 packets": lost}, {"20 packets"})
    assert [row[:2] for row in outside.rows] == [
        ("dumbbell, cubic", "goodput_bps"),
        ("20 packets, bbr", "drop_fraction"),
        ("20 packets, cubic", "timeouts"),
    ]


@pytest.mark.parametrize("variant", sim_vs_linux.LOSSES)
def test_the_variants_lose_packets_on_the_simulator(variant: str) -> None:
    scenario, overrides = sim_vs_linux.LOSSES[variant]
    episodes = sim_vs_linux._episodes(scenario, parse_contender("dctcp", (), "congestion"), None, overrides)
    assert next(iter(episodes))["drop_fraction"] > 0.001


def test_a_different_winner_is_said_so() -> None:
    players = [player("cubic", 2e3, 1e3, "queue_mean_bytes"), player("dctcp", 1e3, 2e3, "queue_mean_bytes")]
    page = sim_vs_linux._winners({"linux-dumbbell-1g": players})
    assert page.rows == (("linux-dumbbell-1g, queue_mean_bytes", "dctcp", "cubic", "no"),)


def test_its_scenarios_and_metrics_exist() -> None:
    assert set(METRICS) <= set(EPISODE_METRICS)
    for name in SCENARIOS:
        test = load_scenario(name).splits[SPLIT_NAMES[-1]]
        assert all(seed in test for seed in SEEDS)
    suite = load_suite("sim-vs-linux")
    assert [task.scenario for task in suite.tasks] == list(SCENARIOS)
    assert all(tuple(task.contenders) == TRANSPORTS for task in suite.tasks)


def test_the_simulators_half_is_played() -> None:
    measured = list(
        sim_vs_linux._episodes("linux-fattree-incast", parse_contender("dctcp", (), "congestion"), None)
    )
    assert len(measured) == len(SEEDS)
    assert all(one["completed_flows"] > 0 for one in measured)


def test_the_short_form_plays_the_scenario_that_the_policy_is_trained_for() -> None:
    suite = load_suite("linux-quick")
    assert suite.survey is not None
    module, _, function = SURVEYS[suite.survey].partition(":")
    assert getattr(import_module(module), function) is sim_vs_linux.quick
    (task,) = suite.tasks
    assert task.scenario == sim_vs_linux.TRANSFER_SCENARIO
    assert tuple(task.contenders) == sim_vs_linux.TRANSFER_AGAINST
    assert set(SEEDS) <= set(task.seed_values)


@pytest.mark.parametrize("metric", sorted(METRICS))
def test_directions_are_words(metric: str) -> None:
    assert METRICS[metric] in ("higher", "lower", "")
