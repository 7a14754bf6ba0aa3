"""Search for the constants of Swift."""

from __future__ import annotations

from functools import partial

from sysgym.agents.learned.congestion.law_search.search import SearchedLaw, search_law
from sysgym.agents.learned.congestion.tuned_swift.agent import FORM
from sysgym.emulator.packets.transports.swift import CONSTANTS

LAW = SearchedLaw(FORM, CONSTANTS)

train_tuned_swift = partial(search_law, LAW)
"""Trainer of the agent: :func:`~sysgym.agents.learned.congestion.law_search.search.search_law`."""
