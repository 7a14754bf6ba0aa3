"""Sums of reward terms."""

from __future__ import annotations

from sysgym.envs.rewards import total


def test_terms_are_added_in_order_without_compensation() -> None:
    """Python's sum gives 1.0 from 3.12 on, which would make rewards depend on the version."""
    assert total({"first": 1e16, "second": 1.0, "third": -1e16}) == 0.0
    assert total({}) == 0.0
