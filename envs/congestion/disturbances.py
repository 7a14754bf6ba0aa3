"""Link failures that a stress test adds to a congestion scenario."""

from __future__ import annotations

from sysgym.scenarios import CongestionScenario


def with_failed_link(
    scenario: CongestionScenario, link: str, down_share: float, up_share: float
) -> CongestionScenario:
    """Return the scenario with one more link failure.

    Args:
        scenario: The scenario; its own link failures are kept.
        link: Name of the link.
        down_share: Share of the episode after which the link goes down.
        up_share: Share of the episode after which it is up again.

    Raises:
        ScenarioError: If there is no such link.
    """
    length_s = scenario.control.episode_steps * scenario.control.decision_interval_s
    began_s = scenario.control.warmup_s
    failure = {"link": link, "down_s": began_s + down_share * length_s, "up_s": began_s + up_share * length_s}
    before = [other.model_dump() for other in scenario.faults.links]
    return scenario.with_overrides({"faults.links": [*before, failure]})
