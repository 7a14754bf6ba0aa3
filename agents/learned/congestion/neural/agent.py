"""Agent that uses a learned network as the law of all flows."""

from __future__ import annotations

from typing import ClassVar

from sysgym.agents.learned.congestion.law import LawAgent, LawForm
from sysgym.emulator.packets.transports.searched.neural import INPUTS, NAME, OUTPUTS, neural_transport

FORM = LawForm(NAME, "sysgym-neural-1", {"inputs": INPUTS, "outputs": OUTPUTS}, neural_transport)


class NeuralAgent(LawAgent):
    """DCTCP with a window that is corrected by a network, in every flow."""

    form: ClassVar[LawForm] = FORM
    name: ClassVar[str] = NAME
