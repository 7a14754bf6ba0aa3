"""Interface between a service and its worlds, and the world on the kernel.

:class:`Kind` stands for the worlds of a service and is named as ``module:attribute``. There are two: the
kernel's (:data:`KERNEL`), and in the tests the packet simulator's, which needs no privilege.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sysgym.scenarios.errors import SysgymError

if TYPE_CHECKING:  # the simulator's imports take as long as all others together
    from sysgym.emulator.packets.workloads.schedule import FlowSchedule

FloatArray = NDArray[np.float64]
Pairs = tuple[NDArray[np.int64], FloatArray]

MAX_SESSIONS = 16
"""Most simultaneous sessions of a service, among which flow slots and port numbers are divided."""

KERNEL = "sysgym.emulator.linux.service.worlds:kernel"
"""The kind of worlds that a service has unless a test selects another."""


class WorldOfSession(Protocol):
    """A scenario's network, in the process of its session."""

    @property
    def warnings(self) -> Sequence[str]:
        """Warnings so far: differences from the scenario, or that the CPU is the bottleneck."""

    @property
    def packet_processor(self) -> int | None:
        """Processor that moves the packets and nothing else of this world; None for none."""

    def reset(self, seed: int, schedule: FlowSchedule | None) -> None:
        """Begin an episode: queues empty, sockets closed, counters zero."""

    def apply(
        self,
        host_caps_bps: FloatArray | None,
        flow_rates: Pairs | None,
        windows: Pairs | None,
        window_factors: Pairs | None,
    ) -> None:
        """Set caps, rates (bit/s), windows (packets) and their factors; None leaves a control unchanged."""

    def advance(self, duration_s: float) -> float:
        """Let time pass; return the delay of the interval's end, in seconds."""

    def wait(self, fds: Sequence[int], timeout_s: float) -> None:
        """Move traffic until one of the files can be read or the time is over."""

    def readings(self) -> dict[str, Any]:
        """Return ``ports`` (11, n_links), ``hosts`` (11, n_hosts) and ``now_s``."""

    def flows(self) -> dict[str, NDArray[Any]]:
        """Return the columns of a FlowTable."""

    def flow_counters(self, flow_ids: NDArray[np.int64]) -> FloatArray:
        """Return counters of shape (n, 13).

        Columns are as in :mod:`sysgym.emulator.packets.counters.single_flows`.
        """

    def queue_quantiles(self, quantile: float) -> FloatArray:
        """Return the time-weighted quantile of every port's queue in bytes, shape (n_links,)."""

    def oracle_rates_bps(self) -> FloatArray:
        """Return the max-min fair send rate of every host, shape (n_hosts,)."""

    def clear_maxima(self) -> None:
        """Begin a new interval for the maxima of the queues."""

    def close(self) -> None:
        """Remove the network; closing twice is harmless."""


class Kind(Protocol):
    """A kind of worlds, in one service or one world process."""

    def prepare(self, sid: str) -> None:
        """Load the objects that all worlds share; called in the service before the first session."""

    def release(self) -> None:
        """Release them; called in the service after the last session."""

    def preload(self) -> None:
        """Import what :meth:`build` needs; called in a session's process while it waits for its order."""

    def build(
        self,
        sid: str,
        session: int,
        scenario: dict[str, Any],
        transport: str,
        flow_transports: dict[int, str],
        parameters: Mapping[str, Sequence[float]] | None = None,
    ) -> WorldOfSession:
        """Build a session's world in its process; ``session`` is below MAX_SESSIONS and unique."""


class _Kernel:
    """Worlds of network namespaces, eBPF programs and real TCP."""

    def __init__(self) -> None:
        self._programs: Any = None

    def prepare(self, sid: str) -> None:
        from sysgym.emulator.linux.kernel.bpf_programs import Programs

        self._programs = Programs(sid)
        self._programs.load()

    def release(self) -> None:
        if self._programs is not None:
            self._programs.unload()
            self._programs = None

    def preload(self) -> None:
        importlib.import_module("sysgym.emulator.linux.kernel.bpf_programs")
        importlib.import_module("sysgym.emulator.linux.world")

    def build(
        self,
        sid: str,
        session: int,
        scenario: dict[str, Any],
        transport: str,
        flow_transports: dict[int, str],
        parameters: Mapping[str, Sequence[float]] | None = None,
    ) -> WorldOfSession:
        from sysgym.emulator.linux.kernel.bpf_programs import Programs
        from sysgym.emulator.linux.world import World

        programs = Programs(sid)
        programs.open()
        world: WorldOfSession = World(
            sid, scenario, transport, flow_transports, programs, session=session, parameters=parameters
        )
        return world


def kernel() -> Kind:
    """Return the kind of worlds on the kernel."""
    return _Kernel()


def get_kind(name: str) -> Kind:
    """Return the kind that ``module:function`` or ``/path/of/file.py:function`` makes.

    Only the command line and the tests choose it; it is never taken from a message.

    Raises:
        SysgymError: If it does not exist.
    """
    where, _, function = name.rpartition(":")
    try:
        if where.endswith(".py"):
            spec = importlib.util.spec_from_file_location(Path(where).stem, where)
            if spec is None or spec.loader is None:
                raise ImportError(where)
            module = importlib.util.module_from_spec(spec)
            sys.modules[spec.name] = module
            spec.loader.exec_module(module)
        else:
            module = importlib.import_module(where)
        made: Kind = getattr(module, function)()
    except (ImportError, OSError, AttributeError, ValueError) as error:
        raise SysgymError(f"no kind of worlds is named {name}: {error}") from error
    return made
