"""Agent that uses the law ``adaptive_target``, with constants found by search, in all flows."""

from __future__ import annotations

from typing import ClassVar

from sysgym.agents.learned.congestion.law import LawAgent, LawForm
from sysgym.emulator.packets.transports.searched.adaptive_target import (
    CONSTANTS,
    NAME,
    adaptive_target_transport,
)

FORM = LawForm(
    NAME,
    "sysgym-adaptive-target-1",
    {"constants": [constant.name for constant in CONSTANTS]},
    adaptive_target_transport,
    CONSTANTS,
)


class AdaptiveTargetAgent(LawAgent):
    """Queueing delay around a target that adapts to other laws, in every flow."""

    form: ClassVar[LawForm] = FORM
    name: ClassVar[str] = NAME
