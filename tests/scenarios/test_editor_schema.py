"""The schema for editors agrees with the schema that checks files."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from sysgym.scenarios import json_schema
from sysgym.scenarios.errors import UnknownName
from sysgym.scenarios.families import families
from sysgym.scenarios.schema.compression import METHODS

KINDS = [*families(), "suite"]


def _objects(schema: Any) -> list[dict[str, Any]]:
    if isinstance(schema, list):
        return [found for item in schema for found in _objects(item)]
    if not isinstance(schema, dict):
        return []
    return ([schema] if "properties" in schema else []) + [
        found for item in schema.values() for found in _objects(item)
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_every_table_refuses_unknown_keys_and_explains_known_ones(kind: str) -> None:
    tables = _objects(json_schema(kind))
    assert len(tables) > 4
    for table in tables:
        assert table["additionalProperties"] is False
        for key, field in table["properties"].items():
            assert field.get("description"), f"{table['title']}.{key} is not described"


@pytest.mark.parametrize("kind", KINDS)
def test_numbers_have_units_in_their_names_or_count_something(kind: str) -> None:
    """A float without a unit in its name has to be a ratio."""
    units = ("_s", "_bps", "_bytes", "_packets")
    ratios = {"load", "p_edge", "p_pod", "min_rate_fraction", "scale"}
    # Stragglers: shares, factors, what is counted in a job's medians, and parameters of distributions.
    ratios |= {"short_fraction", "heavy_fraction", "slow_machine_fraction", "warmup_fraction"}
    ratios |= {f"{name}_factor_{end}" for name in ("slow_machine", "interference") for end in ("min", "max")}
    ratios |= {f"{name}_duration" for name in ("background", "interference", "fault")}
    ratios |= {"interference_rate", "fault_rate", "start_spread", "background_load", "burstiness"}
    ratios |= {f"{name}_{end}" for name in ("base_time_log", "skew_log_sd") for end in ("mean", "sd")}
    ratios |= {"contention_log_mean", "contention_log_sd", "heavy_alpha"}
    ratios |= {"counter_noise", "informativeness", "value", "waste_price"}
    # Placement: shares, ratios of one level to the next, log standard deviations, a price in log speed-up.
    ratios |= {"bandwidth_ratio_min", "latency_ratio_max", "ring_fraction", "shared_fraction"}
    ratios |= {"two_axes_fraction", "measurement_price", "noise_log_sd", "bandwidth_log_sd"}
    ratios |= {"collective_log_sd", "stated_log_sd"}
    ratios |= {"background_share_mean", "background_share_sd", "residual_log_sd", "level_share_min"}
    ratios |= {f"slow_{what}_{kind}" for what in ("node", "link") for kind in ("probability", "share")}
    ratios |= {"background_flow_share", "overlap_min", "overlap_max"}
    # Collectives: bandwidth of a slow cable over a sound one, share of the devices.
    ratios |= {"slow_ratio", "group_fraction"}
    # Compression: log standard deviations, shares, factors, iterations, losses by method.
    ratios |= {"log_sd", "straggler_log_sd", "background_share", "overlap_slowdown", "rank_4_ratio"}
    ratios |= {"rebuild_iterations", "critical_share", "critical_factor", *METHODS}
    # Bursts: log standard deviations, factors, shares, a batch.
    ratios |= {"spread_log_sd", "profile_log_sd", "drift_log_sd", "plan_limit", "idle_value", "small_batch"}
    ratios |= {"interference", "most_slowdown"}
    # Tuning: factors and shares; operations a second.
    ratios |= {"flops_per_s", "overlap_slowdown", "jitter_log_sd", "background_probability"}
    # Fail-slow faults: hours, numbers in an hour, factors, shares.
    ratios |= {"healthy_hours", "communication_share", "worker_per_hour", "link_per_hour", "worker_factor"}
    ratios |= {"stage_per_hour", "stage_factor"}
    ratios |= {"link_factor", "duration_log_sd", "factor_log_sd", "reroute_relief"}
    # Pipelines: logarithms' standard deviations.
    ratios |= {"layer_log_sd", "worker_log_sd"}
    # Diagnosis: logarithms' standard deviations, shares, a factor less 1.
    ratios |= {"length_log_sd", "stage_log_sd", "excess", "excess_log_sd", "kind_share", "least_loss"}
    # Network: probabilities, the weight of a sample, a queue over the free memory.
    ratios |= {"loss_probability", "red_max_probability", "red_weight", "shared_buffer_alpha"}
    # Traffic: an index of a tail.
    ratios |= {"pareto_shape"}
    # The agent's flow: multiples of a round trip, a rate, a bandwidth-delay product. Ends of any range.
    ratios |= {"decision_rtts", "start_rate", "action_step", "buffer_bdp", "low", "high"}
    for table in _objects(json_schema(kind)):
        for key, field in table["properties"].items():
            choices = [field, *field.get("anyOf", [])]
            if any(choice.get("type") == "number" for choice in choices):
                assert key.endswith(units) or key in ratios, key


def test_ranges_and_choices_are_in_it() -> None:
    schema = json_schema("congestion")
    poisson = schema["$defs"]["PoissonWorkload"]["properties"]
    assert poisson["load"] | {"title": ""} == {
        "description": (
            "offered load of each host that sends, headers included, as a fraction of its line rate"
        ),
        "exclusiveMaximum": 1.0,
        "exclusiveMinimum": 0.0,
        "title": "",
        "type": "number",
    }
    assert "oneOf" not in json.dumps(schema)


def test_it_can_be_printed() -> None:
    command = [sys.executable, "-m", "sysgym.scenarios.editor_schema", "congestion"]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)
    assert json.loads(done.stdout) == json_schema("congestion")


def test_unknown_kind() -> None:
    with pytest.raises(UnknownName, match="suite"):
        json_schema("suites")
