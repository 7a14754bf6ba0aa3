"""Bounds of measurement errors: every feature has one, with the documented meaning."""

from __future__ import annotations

import numpy as np
import pytest

from sysgym.agents.learned.stragglers.features import feature_names
from sysgym.agents.learned.trust.bounds import Bounds, group_of
from sysgym.envs.congestion.datacenter.observation import FEATURES
from sysgym.envs.congestion.flow.presets import PRESETS
from sysgym.scenarios.errors import SysgymError

DATACENTER = "sysgym/DatacenterCC-v0"


def test_every_feature_of_every_environment_has_a_bound() -> None:
    index = [f"{group.name}[h1] ({group.unit}), t-1" for group in FEATURES.values()]
    assert Bounds.of(DATACENTER, index).groups == tuple(FEATURES)
    for preset in PRESETS.values():
        found = Bounds.of("sysgym/FlowCC-v0", preset.index(3))
        assert set(found.groups) == {feature.name for feature in preset.features}
    names = feature_names(("mean_cpu_usage_rate", "page cache: total"))
    assert len(Bounds.of("sysgym/StragglerPrediction-v0", names).groups) == len(names)


def test_what_is_exact_has_none_and_says_so() -> None:
    with pytest.raises(SysgymError, match="Placement-v0: its observations are exact"):
        Bounds.of("sysgym/Placement-v0", ["axes 4 x 3"])
    with pytest.raises(SysgymError, match="no bound is stated for the feature mood"):
        Bounds.of(DATACENTER, ["mood[h1] (1)"])
    with pytest.raises(SysgymError, match="has to be positive"):
        Bounds.of(DATACENTER, ["rtt[h1] (1)"], 0.0)


def test_a_round_trip_is_off_by_two_per_cent() -> None:
    base_s, rtt_s = 100e-6, np.array([100e-6, 150e-6, 400e-6, 2e-3])
    bounds = Bounds.of(DATACENTER, ["rtt[h1] (1 - base RTT / RTT)"] * len(rtt_s))
    feature = 1.0 - base_s / rtt_s
    longer = 1.0 - base_s / (1.02 * rtt_s)
    half_widths = bounds.half_widths(feature[None])[0]
    assert np.allclose(half_widths, longer - feature, rtol=0.03)


def test_a_factor_widens_all() -> None:
    index = ["queue[p] (1)", "drop_fraction[p] (1)", "active[h1] (1)"]
    values = np.full((1, 3), 0.5)
    assert Bounds.of(DATACENTER, index).half_widths(values)[0] == pytest.approx([0.01, 0.001, 0.0])
    assert Bounds.of(DATACENTER, index, 3.0).half_widths(values)[0] == pytest.approx([0.03, 0.003, 0.0])


def test_groups() -> None:
    assert group_of("rtt[h1] (1 - base RTT / RTT), t-1") == "rtt"
    assert group_of("loss, 2 intervals before [ratio]") == "loss"
    assert group_of("rank of the mean: cpu") == "rank of the mean"
