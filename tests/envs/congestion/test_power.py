"""Power: what counts as equal, and what an episode without an end of flows has."""

from __future__ import annotations

import numpy as np
import pytest

from sysgym.envs.congestion.power import LEAST_QUEUE_BYTES, NONE_ENDED, parts_of_power, power


def test_it_is_goodput_over_queue_and_slowdown() -> None:
    assert power(8e9, 4e4, 5.0) == pytest.approx(8e9 / 4e4 / 5.0)
    assert power(8e9, 4e4) == pytest.approx(8e9 / 4e4)
    np.testing.assert_allclose(power(np.array([1e9, 2e9]), np.array([1e4, 1e4]), np.array([2.0, 4.0])), 5e4)


def test_queues_of_two_packets_and_less_are_equal() -> None:
    assert power(1e9, 0.0) == power(1e9, 1.0) == power(1e9, LEAST_QUEUE_BYTES) > power(1e9, 3_001.0)


def test_a_law_under_which_no_flow_ends_has_the_least_power() -> None:
    none = {"goodput_bps": 0.0, "queue_p99_bytes": 10.0}
    assert parts_of_power(none) == (1.0, LEAST_QUEUE_BYTES, NONE_ENDED)
    some = {"goodput_bps": 1e9, "queue_p99_bytes": 1e5, "fct_slowdown_p99": 20.0}
    assert parts_of_power(some) == (1e9, 1e5, 20.0)
    assert power(*parts_of_power(none)) < power(*parts_of_power(some))
