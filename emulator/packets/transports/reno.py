"""Reno: additive increase, halving, NewReno recovery (RFC 5681, RFC 6582)."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from sysgym.emulator.packets.transports.base import (
    Transport,
    multiplicative_decrease,
    reduce_whole_packets,
    reno_increase,
    restart_from_one,
    restart_in_whole_packets,
)


def on_ack(flow: Any, event: Any) -> None:
    """Grow as in slow start or congestion avoidance."""
    reno_increase(flow, event)


def on_loss(flow: Any, event: Any) -> None:
    """Halve the window."""
    multiplicative_decrease(flow, event, 0.5)


def on_timeout(flow: Any, event: Any) -> None:
    """Start again from one packet."""
    restart_from_one(flow, event, 0.5)


def on_loss_linux(flow: Any, event: Any) -> None:
    """Halve the window, in whole packets."""
    reduce_whole_packets(flow, 0.5)


def on_timeout_linux(flow: Any, event: Any) -> None:
    """Start again from one packet; the threshold is a number of whole packets."""
    restart_in_whole_packets(flow, 0.5)


RENO = Transport(
    name="reno",
    summary="TCP Reno with NewReno recovery: loss is the only signal",
    reference="RFC 5681, RFC 6582",
    on_ack=on_ack,
    on_loss=on_loss,
    on_timeout=on_timeout,
    recovery="new_reno",
)
RENO = replace(RENO, linux=replace(RENO, on_loss=on_loss_linux, on_timeout=on_timeout_linux))
