"""Transports: plain functions over one flow's record, compiled to a common type.

A callback takes the records ``flow`` (:data:`~sysgym.emulator.packets.memory.flow_record.FLOW`) and ``event``
(:data:`~sysgym.emulator.packets.memory.records.EVENT`), reads both, and writes ``flow.cwnd`` and
``flow.ssthresh`` in packets and, for a paced flow, ``flow.pacing_rate_bps``. It keeps its own state in
``flow.state``, 40 floats that start at 0. It is compiled by numba and may use arithmetic, ``if``, loops,
``math`` and other ``njit`` functions.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import cache, cached_property
from types import CodeType, FunctionType
from typing import Any, Literal

import numba
import numpy as np
from numba import njit
from numpy.typing import NDArray

from sysgym.emulator.compiling import address_of, compile_for
from sysgym.emulator.packets.memory.flow_record import FLOW, GO_BACK_N, NEW_RENO, RACK, SACK, TOLD
from sysgym.emulator.packets.memory.message_records import ARRIVAL, INBOX, MESSAGE
from sysgym.emulator.packets.memory.numba_records import record_accessor
from sysgym.emulator.packets.memory.records import EVENT
from sysgym.emulator.packets.transports.constants import Constant, checked_values
from sysgym.emulator.packets.transports.slow_start import slow_start
from sysgym.scenarios.errors import SysgymError, UnknownName

Callback = Callable[[Any, Any], None]

ReceiverCallback = Callable[[Any, Any, Any], None]

_SIGNATURE = numba.void(numba.from_dtype(FLOW), numba.from_dtype(EVENT))
_RECEIVER_SIGNATURE = numba.void(*(numba.from_dtype(kind) for kind in (MESSAGE, INBOX, ARRIVAL)))

SHORTEST_TICK_S, LONGEST_TICK_S = 100e-9, 3600.0

_EXTRA_GROUPS = ("delivered_", "delivery_", "app_limited", "in_flight_at_", "lost_", "int_")

EXTRA_FIELDS = frozenset(
    {"pacing_rate_bps", "pacing_burst_packets", "endpoint_delay_ns", "cnp", "hops"}
) | frozenset(name for name in EVENT.names or () if name.startswith(_EXTRA_GROUPS))
"""Fields of flow and event that the plain event loop neither reads nor writes."""

_parameter_at = record_accessor(np.dtype([("value", np.float64)]))

_RECOVERIES = {"new_reno": NEW_RENO, "sack": SACK, "told": TOLD}
_FOR_ALL_LAWS = {"rack": RACK, "linux": RACK, "go_back_n": GO_BACK_N, "selective_repeat": SACK}
"""Kinds of loss detection that replace the law's own recovery, unless receivers report losses."""


def do_nothing(flow: Any, event: Any) -> None:
    """Do nothing: the default of callbacks that a transport does not need."""


def receive_nothing(message: Any, host: Any, event: Any) -> None:
    """Do nothing: the default of a receiver's callback."""


@dataclass(frozen=True)
class Receiver:
    """Law of the receiving hosts of a receiver-driven transport, which decides which packets may be sent.

    Its callbacks read the records ``message``
    (:data:`~sysgym.emulator.packets.memory.message_records.MESSAGE`), ``host`` and ``event``, and act through
    the functions of :mod:`sysgym.emulator.packets.transports.receiving`.

    Attributes:
        on_data: Runs on every arrival for a message that was not complete before: a data packet, a trimmed
            packet (``event.trimmed``), or a request (``event.seq`` is -1).
        on_tick: Runs for every message that has begun and is incomplete, at all multiples of the transport's
            ``tick_s``.
        pull_spacing: Time between two pulls of a host, over the transmission time of a full packet at its
            line rate.
    """

    on_data: ReceiverCallback
    on_tick: ReceiverCallback = receive_nothing
    pull_spacing: float = 1.0


@dataclass(frozen=True)
class Transport:
    """Congestion control algorithm of a sender.

    Attributes:
        name: Name in scenarios and commands.
        summary: One line for lists and reports.
        reference: Paper and section, or RFC.
        on_ack: Runs on every ACK, after ``una``, ``nxt`` and the RTT estimate have been updated.
        on_loss: Runs once per window that lost packets, when fast recovery begins; sets ``ssthresh`` and
            ``cwnd``.
        on_timeout: Runs on a retransmission time-out; sets ``ssthresh`` and ``cwnd``.
        on_start: Runs when a flow starts. ``cwnd`` is then the scenario's initial window, ``ssthresh``
            infinite.
        on_tick: Runs for every active flow at all multiples of ``tick_s``, for transports with timers.
        on_restart: Runs when a flow continues an idle connection, instead of ``on_start``; ``flow`` is in the
            state in which the previous flow left it, but the packet numbers continue and the scenario's rule
            for idle windows has been applied. ``flow.idle_since_ns`` is the time at which that flow sent its
            last packet.
        tick_s: Period of ``on_tick``, s; 0: never.
        needs_int: Whether switches stamp its packets with in-band telemetry (``event.int_...``).
        cnp_interval_ns: Least interval between the notifications (``event.cnp``) with which the receiver
            answers CE marks, as in DCQCN; 0: no notifications.
        ecn_capable: Whether its packets may be marked (ECT).
        rate_driven: Whether its rate is set externally, so that a host always has a cap.
        overwrites_window: Whether it derives ``cwnd`` from its own state at every ACK, so that a window that
            an agent sets lasts until the next ACK only.
        recovery: Loss recovery: ``"new_reno"`` (duplicate and partial ACKs) or ``"sack"``, if the scenario's
            ``transport.loss_detection`` is ``"dupack"``; its other values take precedence. ``"told"``: the
            receiver reports trimmed packets to the sender, or requests missing ones (:class:`Receiver`).
        sets_window_in_recovery: Whether its callbacks also set the window during recovery, as BBR's do. For
            other transports, where losses are detected by time, the sender applies proportional rate
            reduction (PRR).
        receiver: Law of the receiving hosts; None: the sender's callbacks alone determine which packets may
            leave. With a receiver, packets leave as it grants them, after the first ``flow.credit_packets``,
            which ``on_start`` may set, and the window does not limit them.
        needs_classes: Least number of classes (``queue.classes``) that the network must have.
        needs_trimming: Whether the network must trim packets that find no room (``queue.trim``).
        on_grant: Runs when a receiver has granted more packets; ``event.granted_packets`` is their number.
        linux: The Linux form of the transport, if it differs; used on hosts with ``transport.loss_detection =
            "linux"``. None: the same.
        parameters: Numbers that its callbacks read with :func:`parameter`; changing them requires no new
            compilation.
        constants: Names, default values and bounds of the parameters, in their order, so that commands can
            set them; ``parameters``, if given, replace the defaults. Empty: the parameters have no names.
    """

    name: str
    summary: str
    on_ack: Callback = do_nothing
    on_loss: Callback = do_nothing
    on_timeout: Callback = do_nothing
    on_start: Callback = do_nothing
    on_tick: Callback = do_nothing
    on_restart: Callback = do_nothing
    tick_s: float = 0.0
    needs_int: bool = False
    cnp_interval_ns: int = 0
    reference: str = ""
    ecn_capable: bool = False
    rate_driven: bool = False
    overwrites_window: bool = False
    recovery: Literal["new_reno", "sack", "told"] = "sack"
    sets_window_in_recovery: bool = False
    receiver: Receiver | None = None
    on_grant: Callback = do_nothing
    needs_classes: int = 1
    needs_trimming: bool = False
    linux: Transport | None = None
    parameters: tuple[float, ...] = ()
    constants: tuple[Constant, ...] = ()

    def __post_init__(self) -> None:
        """Check the attributes, so that mistakes are reported early."""
        if not self.name.replace("_", "").replace("-", "").isalnum():
            raise SysgymError(f"transport name {self.name!r}: letters, digits, '-' and '_' only")
        if self.constants:
            values = self.parameters or [constant.value for constant in self.constants]
            object.__setattr__(self, "parameters", checked_values(self.name, self.constants, values))
        if self.recovery not in _RECOVERIES:
            raise SysgymError(
                f"transport {self.name!r}: recovery is {self.recovery!r}, expected one of {list(_RECOVERIES)}"
            )
        if self.receiver is None:
            self._check_sender_alone()
        elif not 0.0 < self.receiver.pull_spacing < math.inf:
            raise SysgymError(
                f"transport {self.name!r}: pull_spacing is {self.receiver.pull_spacing!r}, expected a"
                " positive number, 1 for pulls at line rate"
            )
        if not 0.0 <= self.tick_s <= LONGEST_TICK_S or 0.0 < self.tick_s < SHORTEST_TICK_S:
            raise SysgymError(
                f"transport {self.name!r}: tick_s is {self.tick_s!r}, expected 0 (no ticks) or"
                f" {SHORTEST_TICK_S:g} to {LONGEST_TICK_S:g} seconds"
            )
        ticks = self.on_tick is not do_nothing
        if self.receiver is not None:
            ticks = ticks or self.receiver.on_tick is not receive_nothing
        if self.tick_s > 0.0 and not ticks:
            raise SysgymError(f"transport {self.name!r}: tick_s is {self.tick_s!r}, but there is no on_tick")
        if self.cnp_interval_ns < 0:
            raise SysgymError(
                f"transport {self.name!r}: cnp_interval_ns is {self.cnp_interval_ns!r}, expected 0 or more"
            )

    def _check_sender_alone(self) -> None:
        if self.recovery == "told":
            raise SysgymError(
                f'transport {self.name!r}: recovery is "told", but there is no receiver to tell'
            )
        if self.on_grant is not do_nothing:
            raise SysgymError(f"transport {self.name!r}: there is an on_grant, but no receiver to grant")

    def with_constants(self, values: Mapping[str, float]) -> Transport:
        """Return the transport with other values of some constants.

        Raises:
            UnknownName: If the transport has no such constant.
            SysgymError: If a value is no number, or outside its bounds.
        """
        if not values:
            return self
        names = [constant.name for constant in self.constants]
        known = dict(zip(names, self.parameters if names else (), strict=True))
        for name, value in values.items():
            if name not in known:
                hint = "" if known else "Declare them: Transport(constants=(Constant(name, value), ...))"
                raise UnknownName(f"constant of {self.name}", name, known, hint=hint)
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise SysgymError(f"{self.name}: {name} is {value!r}, expected a number")
        linux = self.linux.with_constants(values) if self.linux is not None else None
        return replace(self, parameters=tuple((known | dict(values)).values()), linux=linux)

    def on_hosts(self, loss_detection: str) -> Transport:
        """Return the form of the transport for hosts with this ``transport.loss_detection``."""
        return self.linux if self.linux is not None and loss_detection == "linux" else self

    @property
    def reduces_by_prr(self) -> bool:
        """Whether its senders apply proportional rate reduction (PRR) during recovery."""
        return not self.sets_window_in_recovery and self.receiver is None

    @property
    def needs_extras(self) -> bool:
        """Whether it needs the extended event loop: pacing, delivery-rate samples, telemetry or timers.

        The code of its callbacks and of the functions that they call determines this: the extended loop
        maintains the fields named there.
        """
        callbacks = (self.on_start, self.on_ack, self.on_loss, self.on_timeout, self.on_restart)
        return (
            self.receiver is not None
            or self.needs_int
            or self.cnp_interval_ns > 0
            or self.tick_s > 0.0
            or any(_named_fields(callback) & EXTRA_FIELDS for callback in callbacks)
        )

    @cached_property
    def parameter_array(self) -> NDArray[np.float64]:
        """Array of the parameters, which callbacks read by address; it lives as long as the transport."""
        return np.array(self.parameters, np.float64)

    def recovery_code(self, loss_detection: str) -> int:
        """Return the number of the loss recovery in the compiled loop.

        Args:
            loss_detection: The scenario's ``transport.loss_detection``.
        """
        if self.recovery == "told":
            return TOLD
        return _FOR_ALL_LAWS.get(loss_detection, _RECOVERIES[self.recovery])

    def callbacks(self) -> tuple[int, ...]:
        """Return the addresses of the compiled callbacks, in the order of the event loop's table.

        The compiled code is cached on disk. Without a receiver, the addresses of its callbacks are 0.

        Raises:
            SysgymError: If numba cannot compile one of them; the message names the callback and the reason.
        """
        senders = (
            self.on_start,
            self.on_ack,
            self.on_loss,
            self.on_timeout,
            self.on_tick,
            self.on_restart,
            self.on_grant,
        )
        addresses = [address_of(_compiled(one, _SIGNATURE), _SIGNATURE) for one in senders]
        if self.receiver is None:
            return (*addresses, 0, 0)
        for one in (self.receiver.on_data, self.receiver.on_tick):
            addresses.append(address_of(_compiled(one, _RECEIVER_SIGNATURE), _RECEIVER_SIGNATURE))
        return tuple(addresses)


@cache
def _named_fields(function: Callback) -> frozenset[str]:
    """Return the names used in the code of a function and of the functions that it calls."""
    names: set[str] = set()
    seen: set[CodeType] = set()
    pending: list[Any] = [function]
    while pending:
        known = pending.pop()
        known = getattr(known, "py_func", known)  # a function compiled by numba
        if not isinstance(known, FunctionType) or known.__code__ in seen:
            continue
        code = known.__code__
        seen.add(code)
        names.update(code.co_names, (text for text in code.co_consts if isinstance(text, str)))
        pending += [known.__globals__[name] for name in code.co_names if name in known.__globals__]
        pending += inspect.getclosurevars(known).nonlocals.values()
    return frozenset(names)


@cache
def _compiled(function: Callable[..., None], signature: Any) -> Any:
    """Compile one callback to its common type; cache it on disk unless it has no file (a notebook's cell)."""
    # A division by zero is an error, as in Python; otherwise its infinity could vanish unnoticed in a min().
    # Bounds checks cost nothing for constant indices, as in flow.state[ALPHA].
    function = getattr(function, "py_func", function)
    where = f"{function.__qualname__} ({function.__code__.co_filename}:{function.__code__.co_firstlineno})"
    taken, given = function.__code__.co_argcount, len(signature.args)
    if taken != given:
        words = "(flow, event)" if signature is _SIGNATURE else f"({given} arguments)"
        raise SysgymError(
            f"transport callback {where} takes {taken} arguments; expected {function.__name__}{words}"
        )
    try:
        return compile_for(
            signature,
            function,
            packages=["sysgym.emulator.packets"],  # shared helpers are compiled into a user's transport
            error_model="python",
            boundscheck=True,
            no_cfunc_wrapper=True,
        )
    except (numba.core.errors.NumbaError, KeyError) as error:
        # numba raises a bare KeyError for an assignment to a field that a record lacks.
        reason = f"there is no field {error}" if isinstance(error, KeyError) else error
        raise SysgymError(f"transport callback {where} cannot be compiled: {reason}") from error


def callback_addresses(transports: tuple[Transport, ...]) -> NDArray[np.int64]:
    """Return the table of transports for the event loop: addresses of callbacks and parameters of each."""
    entries: list[int] = []
    for transport in transports:
        entries += transport.callbacks()
        entries += [transport.parameter_array.ctypes.data, len(transport.parameters)]
    return np.array(entries, np.int64)


@njit(forceinline=True)
def parameter(event: Any, index: int) -> float:
    """Return one of the transport's parameters.

    Raises:
        IndexError: If the transport has fewer parameters.
    """
    if not 0 <= index < event.n_parameters:
        raise IndexError("a parameter that the transport does not have")
    return float(_parameter_at(event.parameters, index).value)


@njit(forceinline=True)
def reno_increase(flow: Any, event: Any) -> None:
    """Grow as in slow start, then by one packet a round trip (RFC 5681, 3.1), if the flow is window-limited.

    Duplicate ACKs do not change the window (RFC 5681, 3.2, step 1).
    """
    if flow.in_recovery or event.duplicate or not event.window_limited:
        return
    if flow.cwnd < flow.ssthresh:
        slow_start(flow, event)
    else:
        flow.cwnd += min(event.acked_packets / flow.cwnd, 1.0)


@njit(forceinline=True)
def multiplicative_decrease(flow: Any, event: Any, factor: float) -> None:
    """Set threshold and window to a fraction of the packets in flight, at least 2 (RFC 5681, equation 4)."""
    flow.ssthresh = max(factor * min(float(event.in_flight_packets), flow.cwnd), 2.0)
    flow.cwnd = flow.ssthresh


@njit(forceinline=True)
def restart_from_one(flow: Any, event: Any, factor: float) -> None:
    """Set the threshold as for a loss and the window to one packet, after a time-out (RFC 5681, 3.1)."""
    multiplicative_decrease(flow, event, factor)
    flow.cwnd = 1.0


@njit(forceinline=True)
def reduce_whole_packets(flow: Any, factor: float) -> None:
    """Set threshold and window to a fraction of the window, in whole packets, at least 2, as Linux does."""
    flow.ssthresh = max(float(int(int(flow.cwnd) * factor)), 2.0)
    flow.cwnd = flow.ssthresh


@njit(forceinline=True)
def restart_in_whole_packets(flow: Any, factor: float) -> None:
    """Set the threshold as for a loss and the window to one packet, after a time-out, as Linux does."""
    reduce_whole_packets(flow, factor)
    flow.cwnd = 1.0


_REFERENCE_RATE_BPS = 10e9


@njit(forceinline=True)
def slow_line_stretch(flow: Any) -> float:
    """Return the transmission time of a packet on the flow's line relative to 10 Gb/s; 1 on faster lines.

    Published constants in microseconds come from networks of 10 Gb/s and more. Multiplied by this factor they
    allow the same number of packets on a slow line, where they could otherwise be shorter than one packet.
    """
    return max(_REFERENCE_RATE_BPS / flow.line_rate_bps, 1.0)


@njit(forceinline=True)
def round_trip_packets(flow: Any) -> int:
    """Return the number of packets that the line sends in a base round-trip time, rounded up."""
    return math.ceil(flow.line_rate_bps * flow.base_rtt_ns * 1e-9 / (8.0 * flow.packet_bytes))
