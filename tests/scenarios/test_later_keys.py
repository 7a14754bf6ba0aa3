"""Keys that tables gained later: a scenario's digest names them only where they are used."""

from __future__ import annotations

from typing import Any

import pytest

from sysgym.scenarios import load_scenario, scenario_from_resolved

DIGEST_BEFORE_LOSS_DETECTION = "0e6139873df22db35208a1cffb7c15b0d3d715c30dac7958446590ce2d76bf4d"


@pytest.mark.parametrize(
    ("overrides", "table", "keys"),
    [
        ({"transport.timer_tick_s": 0.004}, "transport", {"timer_tick_s"}),
        (
            {"queue.shared_buffer_bytes": 2_000_000, "queue.shared_buffer_alpha": 2.0},
            "queue",
            {"shared_buffer_bytes", "shared_buffer_alpha"},
        ),
        ({"routing": {"ecmp": "flowlet", "flowlet_gap_s": 1e-4}}, "routing", {"flowlet_gap_s"}),
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


def test_a_resolved_form_keeps_the_value_that_was_the_default_then() -> None:
    today = load_scenario("dumbbell-10g")
    duplicates = load_scenario("dumbbell-10g", overrides={"transport.loss_detection": "dupack"})
    assert today.resolved()["transport"]["loss_detection"] == "rack"
    assert duplicates.resolved()["transport"]["loss_detection"] == "dupack"
    earlier = duplicates.resolved()
    del earlier["transport"]["loss_detection"]
    read = scenario_from_resolved(earlier)
    assert read == duplicates
    assert read.sha256() == duplicates.sha256() == DIGEST_BEFORE_LOSS_DETECTION


def test_tables_of_a_user_get_the_default_of_today() -> None:
    given = load_scenario("dumbbell-10g").resolved()
    given["transport"] = {"min_rto_s": 0.2}
    assert scenario_from_resolved(given).resolved()["transport"]["loss_detection"] == "rack"
