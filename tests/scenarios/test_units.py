"""Units for display are those that names end with."""

from __future__ import annotations

import pytest

from sysgym.scenarios.units import metric_text


@pytest.mark.parametrize(
    ("name", "value", "text"),
    [
        ("bandwidth_bytes_per_s", 25e9, "25 GB/s"),
        ("bandwidth_min_bytes_per_s", 20e6, "20 MB/s"),
        ("flops_per_s", 1.5e14, "150 TFLOP/s"),
        ("requests_per_s", 2.0, "2 /s"),
        ("decision_interval_s", 1e-5, "10 µs"),
        ("buffer_bytes", 1e6, "1 MB"),
        ("reductions_min", 1, "1"),
        ("reductions_max", 3, "3"),
        ("completion_reduction_unlimited", 0.25, "25%"),
        ("slow_machine_fraction", 0.015, "1.5%"),
    ],
)
def test_a_setting_has_the_unit_of_its_name(name: str, value: float, text: str) -> None:
    assert metric_text(name, value, exact=True) == text
