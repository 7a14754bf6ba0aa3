"""Agent that uses the law ``adaptive_swift``, with constants found by search, in all flows."""

from __future__ import annotations

from typing import ClassVar

from sysgym.agents.learned.congestion.law import LawAgent, LawForm
from sysgym.emulator.packets.transports.searched.adaptive_swift import (
    CONSTANTS,
    NAME,
    adaptive_swift_transport,
)

FORM = LawForm(
    NAME,
    "sysgym-adaptive-swift-5",
    {"constants": [constant.name for constant in CONSTANTS]},
    adaptive_swift_transport,
    CONSTANTS,
)


class AdaptiveSwiftAgent(LawAgent):
    """Swift with a target that adapts to other laws, in every flow."""

    form: ClassVar[LawForm] = FORM
    name: ClassVar[str] = NAME
