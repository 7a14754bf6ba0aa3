"""eBPF programs of a service, and the memory that they share with Python.

A service loads one object of each program (:meth:`Programs.load`); its worlds find them by name
(:meth:`Programs.open`).
"""

from __future__ import annotations

import functools
import os
import re
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.linux.kernel.bpf_objects import LoadedObject, find_map, find_program, map_into_memory
from sysgym.emulator.linux.kernel.netlink import EGRESS, INGRESS, Sockets, attach_program, set_group
from sysgym.emulator.linux.kernel.parameters import PARAMETER_SETS, PARAMETERS
from sysgym.scenarios.errors import BackendError, BackendUnavailable

PORT_SLOTS = 4096
"""Number of ports of all worlds of a service; a port's number is the index of its record."""
FLOW_SLOTS = 65536
"""Number of connections of all worlds of a service that receive controls or report; slot 0 is unused."""
HISTOGRAM_BUCKETS = 512
_SUB_BUCKETS = 16

PORT_RECORD = np.dtype(
    [
        (name, np.int64)
        for name in (
            # written by user space
            "rate_bytes_per_s",
            "ecn_threshold_bytes",
            "buffer_bytes",
            "red_max_bytes",
            "red_min_bytes",
            "red_max_probability_q30",
            "red_weight_q30",
            "red_half_life_ns",
            "red_gentle",
            "red_drops",
            "loss_q32",
            "since_ns",
            # written by the program
            "packets",
            "bytes",
            "marked_packets",
            "dropped_packets",
            "dropped_bytes",
            "backlog_bytes",
            "backlog_max_bytes",
            "backlog_integral_byte_ns",
            "last_ns",
            "last_packet_bytes",
            "qdisc_drops",
            "red_average_q24",
        )
    ]
)
"""One port, as ``struct port`` in ``bpf/port.bpf.c``; times are of CLOCK_MONOTONIC."""

ACTION_RECORD = np.dtype(
    [
        ("cwnd_packets", np.int64),
        ("pacing_bytes_per_s", np.int64),
        ("base", np.int64),
        ("most_packets", np.int64),
        ("scaling", np.int64),
        ("parameters", np.int64),
        ("line_ns", np.int64),
        ("path_measured", np.int64),
    ]
)
"""Controls of a connection: its window (0: set by its base law), its pacing rate (0: none), its base law,
the largest window that multiplication may give, and the last multiplication order, see :func:`scaling`. For
laws with parameters also the index of their set, the time of a packet on its line, and whether the least
round trip may be longer than that of the empty path."""

FLOW_RECORD = np.dtype(
    [
        (name, np.int64)
        for name in (
            "delivered",
            "delivered_ce",
            "lost",
            "retransmitted",
            "sent",
            "delivered_bytes",
            "acks",
            "marked_acks",
            "timeouts",
            "rtt_sum_us",
            "rtt_samples",
            "rtt_us",
            "srtt_us",
            "min_rtt_us",
            "in_flight",
            "cwnd_packets",
            "ssthresh_packets",
            "pacing_bytes_per_s",
            "updated_ns",
            "phase",
            "scaled",
            "rtt_change_ns",
            "short_at_us",
            "acked_at_us",
            "drain_end_us",
            "least_before_us",
            "just_drained",
        )
    ]
)
"""Report of a connection since it was made, as ``struct flow`` in ``bpf/reports.h``."""

_KERNELS_OWN = {"dctcp": "dctcp", "newvegas": "nv"}
"""Transport -> name of the kernel's own module for it, where there is one."""
LEARNED, LEARNED_WITHOUT_ECN = "learned", "learned_without_ecn"
_OURS = {
    LEARNED: {LEARNED: "sglearn", LEARNED_WITHOUT_ECN: "sgplain"},
    "dctcp": {"dctcp": "sgdctcp"},
    "newvegas": {"newvegas": "sgnv"},
    **{law: {law: parameters.prefix} for law, parameters in PARAMETERS.items()},
}
"""Source in ``bpf/`` -> its transports, and the name prefix that each registers."""
_SHARED = {"dctcp": ("sgflows",), "newvegas": ("sgflows",)} | dict.fromkeys(PARAMETERS, ("sgflows", "sgacts"))
"""Source -> maps of ``learned`` that it shares."""
_MEMORY = {"sgports": "port", "sghisto": "port", "sgacts": LEARNED, "sgflows": LEARNED} | {
    parameters.map: law for law, parameters in PARAMETERS.items()
}
"""Map that Python shares -> the source that it is of."""
_PREFIXES = {name: prefix for registered in _OURS.values() for name, prefix in registered.items()}
_AVAILABLE = Path("/proc/sys/net/ipv4/tcp_available_congestion_control")

_N_SETTINGS = 11  # the first fields of a port are settings, which clearing leaves unchanged


class Programs:
    """The eBPF programs of one service.

    Args:
        sid: The service's own four hex digits, part of every name.

    Raises:
        BackendUnavailable: From :meth:`load` and :meth:`open`; names what this machine lacks and the remedy.
    """

    def __init__(self, sid: str) -> None:
        if not re.fullmatch("[0-9a-f]{4}", sid):
            raise ValueError(f"sid is four hex digits, got {sid!r}")
        self.sid = sid
        self._objects: list[LoadedObject] = []
        self._port_program = self._wire_program = -1
        self._ports: NDArray[Any] | None = None
        self._histograms: NDArray[Any] | None = None
        self._actions: NDArray[Any] | None = None
        self._flows: NDArray[Any] | None = None
        self._parameters: dict[str, NDArray[np.int32]] = {}
        self._reasons: dict[str, BackendUnavailable] = {}
        self.sockets = Sockets()
        """One netlink socket per namespace, for ports and queues."""

    def load(self) -> None:
        """Compile the programs that are not cached, and load all; the service does this once."""
        if os.geteuid() != 0:
            raise BackendUnavailable("linux", "the right to load eBPF programs", "run as root")
        found = {"port": self._load_object("port")}
        self._port_program = os.dup(found["port"].program_fd(self._name("sgport")))
        self._wire_program = os.dup(self._load_object("wire").program_fd(self._name("sgwire")))
        for source, registered in _OURS.items():
            if _kernel_has(_KERNELS_OWN.get(source, "")):
                continue
            names = tuple(map(self._name, registered.values()))
            if source in PARAMETERS and LEARNED not in found:  # its controls are in memory of that program
                self._reasons[source] = self._reasons[LEARNED]
                continue
            try:
                found[source] = self._load_object(source, registers=names, shares_with=found.get(LEARNED))
            except BackendUnavailable as reason:
                self._reasons |= dict.fromkeys(registered, reason)
            except BackendError as error:  # one program that does not compile must not prevent the others
                refused = BackendUnavailable("linux", str(error), "sysgym emulator check")
                self._reasons |= dict.fromkeys(registered, refused)
        for prefix, source in _MEMORY.items():
            if source in found:
                self._map_memory(prefix, found[source].map_fd(self._name(prefix)))

    def open(self) -> None:
        """Find the programs that the service of this sid has loaded; a world process does this."""
        self._port_program = find_program(self._name("sgport"))
        self._wire_program = find_program(self._name("sgwire"))
        remedy = "use a kernel 6.4 or later with BTF; sysgym emulator check"
        for transport, prefix in _PREFIXES.items():
            if self._name(prefix) not in _available():
                self._reasons[transport] = BackendUnavailable("linux", f"struct_ops for {transport}", remedy)
        for prefix, source in _MEMORY.items():
            if source not in self._reasons:
                descriptor = find_map(self._name(prefix))
                self._map_memory(prefix, descriptor)
                os.close(descriptor)

    def unload(self) -> None:
        """Release all programs; the kernel frees those that no other process and no interface uses."""
        self.sockets.close()
        for loaded in self._objects:
            loaded.close()
        self._objects.clear()
        for descriptor in (self._port_program, self._wire_program):
            if descriptor >= 0:
                os.close(descriptor)
        self._port_program = self._wire_program = -1
        # The memory is unmapped when its last array is freed.
        self._ports = self._histograms = self._actions = self._flows = None
        self._parameters = {}

    def __enter__(self) -> Programs:
        self.load()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.unload()

    def congestion_control(self, transport: str) -> str:
        """Return the kernel's name of a transport, for the socket option TCP_CONGESTION.

        The kernel's own module comes first, then the eBPF program of this service.

        Args:
            transport: Such as ``cubic``, ``dctcp``, ``newvegas``, ``learned`` or ``learned_without_ecn``.

        Raises:
            BackendUnavailable: Neither is available; names the remedy.
        """
        own = _KERNELS_OWN.get(transport, transport)
        if transport not in _OURS[LEARNED] and _kernel_has(own):
            return own
        if transport in self._reasons:
            raise self._reasons[transport]
        if transport in _PREFIXES and _kernel_has(self._name(_PREFIXES[transport])):
            return self._name(_PREFIXES[transport])
        raise BackendUnavailable(
            "linux",
            f'the congestion control "{transport}"; the kernel has {", ".join(_available())}',
            f"modprobe tcp_{own}",
        )

    def reports(self, transport: str) -> bool:
        """Return whether connections of a transport report their round trips, as those of our programs do."""
        if transport not in _PREFIXES or LEARNED in self._reasons:  # reports are in memory of that program
            return False
        return self.congestion_control(transport).endswith(f"_{self.sid}")

    def flow_slots(self) -> tuple[NDArray[Any], NDArray[Any]]:
        """Return the controls and reports of all connections with a slot, shape (FLOW_SLOTS,) each.

        A connection's slot is its socket's mark (SO_MARK). The arrays are memory shared with the kernel:
        controls take effect at the next ACK, and reports are as of the last ACK.

        Raises:
            BackendUnavailable: The kernel does not take the program.
        """
        if LEARNED in self._reasons:
            raise self._reasons[LEARNED]
        return _present(self._actions), _present(self._flows)

    def parameters(self, law: str) -> NDArray[np.int32]:
        """Return the sets of parameters of a law in 2^-16, shape (PARAMETER_SETS, their number).

        The array is memory shared with the kernel.

        Raises:
            BackendUnavailable: The kernel does not take the program.
        """
        if law in self._reasons:
            raise self._reasons[law]
        return _present(self._parameters.get(law))

    def clear_flow(self, slot: int) -> None:
        """Set a slot's controls and report to zero, for the next connection."""
        actions, flows = self.flow_slots()
        actions[slot] = 0
        flows[slot] = 0

    def ports(self) -> NDArray[Any]:
        """Return the records of all ports, of type :data:`PORT_RECORD`, shape (PORT_SLOTS,).

        The array is memory that the kernel writes.
        """
        return _present(self._ports)

    def port_histograms(self) -> NDArray[np.int64]:
        """Return the time at each backlog in ns, shape (PORT_SLOTS, HISTOGRAM_BUCKETS).

        See :func:`bucket_middles` for the backlogs.
        """
        return _present(self._histograms)

    def clear_port(self, port: int) -> None:
        """Set a port's counters to zero; its rate, buffer and thresholds are unchanged."""
        ports, histograms = self.ports(), self.port_histograms()
        ports[port : port + 1].view(np.int64)[_N_SETTINGS:] = 0
        ports["since_ns"][port] = time.monotonic_ns()
        histograms[port] = 0

    def attach_port(self, netns_pid: int, interface: str, port: int) -> None:
        """Attach the port program to an interface's egress, replacing a program that is there.

        Args:
            netns_pid: Process in whose network namespace the interface is; 0 for this one's.
            interface: Its name there.
            port: Index of the record that the program keeps for it.

        Raises:
            BackendError: The kernel refuses.
        """
        if not 0 <= port < PORT_SLOTS:
            raise ValueError(f"port is 0 .. {PORT_SLOTS - 1}, got {port}")
        socket = self.sockets.of(netns_pid)
        set_group(socket, interface, port)
        attach_program(socket, interface, self._port_program, EGRESS, "sysgym-port")

    def attach_wire(self, netns_pid: int, interface: str) -> None:
        """Forward the frames that an interface receives to its neighbour ``index ^ 1``, as a cable does.

        Args:
            netns_pid: Process in whose network namespace both are; 0 for this one's.
            interface: Its name there.

        Raises:
            BackendError: The kernel refuses.
        """
        attach_program(self.sockets.of(netns_pid), interface, self._wire_program, INGRESS, "sysgym-wire")

    def _name(self, prefix: str) -> str:
        return f"{prefix}_{self.sid}"

    def _load_object(
        self, name: str, registers: Sequence[str] = (), shares_with: LoadedObject | None = None
    ) -> LoadedObject:
        loaded = LoadedObject(name, self.sid)
        self._objects.append(loaded)
        for operations in registers:
            loaded.register_for_as_long_as_this_process(operations)
        if shares_with is not None:
            for prefix in _SHARED[name]:
                loaded.use_map_of(shares_with, self._name(prefix))
        loaded.load()
        for operations in registers:
            loaded.register(operations)
        return loaded

    def _map_memory(self, prefix: str, descriptor: int) -> None:
        if prefix == "sgports":
            self._ports = map_into_memory(descriptor, PORT_RECORD, PORT_SLOTS)
        elif prefix == "sghisto":
            flat = map_into_memory(descriptor, np.dtype(np.int64), PORT_SLOTS * HISTOGRAM_BUCKETS)
            self._histograms = flat.reshape(PORT_SLOTS, HISTOGRAM_BUCKETS)
        elif prefix == "sgacts":
            self._actions = map_into_memory(descriptor, ACTION_RECORD, FLOW_SLOTS)
        elif prefix == "sgflows":
            self._flows = map_into_memory(descriptor, FLOW_RECORD, FLOW_SLOTS)
        else:
            law = _MEMORY[prefix]
            record = np.dtype((np.int32, PARAMETERS[law].number))
            self._parameters[law] = map_into_memory(descriptor, record, PARAMETER_SETS)


def scaling(number: int, factor: float) -> int:
    """Return the order to multiply a window: a number different from the last order's, and the factor."""
    return (number % 2**31) << 32 | min(max(round(factor * 2.0**20), 0), 2**32 - 1)


def _available() -> list[str]:
    return _AVAILABLE.read_text().split()


def _kernel_has(name: str) -> bool:
    """Return whether the kernel has a congestion control; a module of it that is on disk is loaded."""
    if not name or name in _available():
        return bool(name)
    modules = Path("/lib/modules", os.uname().release)
    if not any(modules.glob(f"kernel/net/ipv4/tcp_{name}.ko*")):
        return False
    subprocess.run(["modprobe", "-q", f"tcp_{name}"], check=False)
    return name in _available()


def _present(array: NDArray[Any] | None) -> NDArray[Any]:
    if array is None:
        raise BackendError("the programs are not loaded")
    return array


@functools.cache
def bucket_middles() -> NDArray[np.float64]:
    """Return the middle of each bucket of a port's histogram in bytes, shape (HISTOGRAM_BUCKETS,)."""
    bucket = np.arange(HISTOGRAM_BUCKETS)
    octave = np.maximum(bucket // _SUB_BUCKETS - 1, 0)
    low = (bucket - octave * _SUB_BUCKETS).astype(np.float64) * 2.0**octave
    middle: NDArray[np.float64] = np.where(octave > 0, low + 0.5 * (2.0**octave - 1.0), low)
    return middle
