"""Agent that uses Swift, with constants found by search, in all flows."""

from __future__ import annotations

from functools import partial
from typing import ClassVar

from sysgym.agents.learned.congestion.law import LawAgent, LawForm
from sysgym.emulator.packets.transports.swift import CONSTANTS, swift_transport

NAME = "tuned_swift"

FORM = LawForm(
    NAME,
    "sysgym-tuned-swift-1",
    {"constants": [constant.name for constant in CONSTANTS]},
    partial(swift_transport, name=NAME),
    CONSTANTS,
)


class TunedSwiftAgent(LawAgent):
    """Swift with constants found by search, in every flow."""

    form: ClassVar[LawForm] = FORM
    name: ClassVar[str] = NAME
