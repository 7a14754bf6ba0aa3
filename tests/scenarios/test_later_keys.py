"""Keys that tables gained later: a scenario's digest names them only where they are used."""

from __future__ import annotations

from typing import Any

import pytest

from sysgym.scenarios import load_scenario


@pytest.mark.parametrize(
    ("overrides", "table", "keys"),
    [
        ({"transport.loss_detection": "rack"}, "transport", {"loss_detection"}),
        (
            {"queue.shared_buffer_bytes": 2_000_000, "queue.shared_buffer_alpha": 2.0},
            "queue",
            {"shared_buffer_bytes", "shared_buffer_alpha"},
        ),
        ({"routing": {"ecmp": "flowlet", "flowlet_gap_s": 1e-4}}, "routing", {"flowlet_gap_s"}),
        (
            {
                "transport.receive_window_bytes": 65_536,
                "transport.slow_start": "hystart",
                "transport.connections": "persistent",
                "transport.idle_window": "keep",
                "transport.handshake": True,
            },
            "transport",
            {"receive_window_bytes", "slow_start", "connections", "idle_window", "handshake"},
        ),
    ],
)
def test_a_digest_names_later_keys_where_they_are_used(
    overrides: dict[str, Any], table: str, keys: set[str]
) -> None:
    plain = load_scenario("dumbbell-10g")
    used = load_scenario("dumbbell-10g", overrides=overrides)
    assert not keys & set(plain.resolved()[table])
    assert keys <= set(used.resolved()[table])
    assert used.sha256() != plain.sha256()
    assert type(used).model_validate(used.resolved()) == used
    assert type(plain).model_validate(plain.resolved()) == plain
