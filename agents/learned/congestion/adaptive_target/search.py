"""Search for the constants of the law ``adaptive_target``."""

from __future__ import annotations

from functools import partial

from sysgym.agents.learned.congestion.adaptive_target.agent import FORM
from sysgym.agents.learned.congestion.law_search.search import SearchedLaw, search_law
from sysgym.emulator.packets.transports.searched.adaptive_target import CONSTANTS

LAW = SearchedLaw(FORM, CONSTANTS)

train_adaptive_target = partial(search_law, LAW)
"""Trainer of the agent: :func:`~sysgym.agents.learned.congestion.law_search.search.search_law`."""
