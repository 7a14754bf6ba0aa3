"""Interface between a service and its worlds, and the kernel's world.

A service is told which kind it serves by :class:`Kind`, named as ``module:attribute``. There are two: the
kernel's (:data:`KERNEL`), and in the tests the packet simulator's, which needs no privilege.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets.workloads.schedule import FlowSchedule
from sysgym.scenarios.errors import SysgymError

FloatArray = NDArray[np.float64]
Pairs = tuple[NDArray[np.int64], FloatArray]

MAX_SESSIONS = 16
"""Most sessions of a service at a time: flow slots and port numbers are shared out among so many."""

KERNEL = "sysgym.emulator.linux.service.worlds:kernel"
"""The kind that is served unless a test says otherwise."""


class WorldOfSession(Protocol):
    """A scenario's network, in the process of its session."""

    @property
    def warnings(self) -> Sequence[str]:
        """What it has noticed so far: what differs from the scenario, that the CPU is the bottleneck."""

    def reset(self, seed: int, schedule: FlowSchedule | None) -> None:
        """Begins an episode: queues empty, sockets gone, counters zero."""

    def apply(
        self,
        host_caps_bps: FloatArray | None,
        flow_rates: Pairs | None,
        windows: Pairs | None,
        window_factors: Pairs | None,
    ) -> None:
        """Sets caps, rates (bit/s) and windows (packets), multiplies windows; None leaves as it is."""

    def advance(self, duration_s: float) -> float:
        """Lets time pass; returns by how much the end came late, in seconds."""

    def wait(self, fds: Sequence[int], timeout_s: float) -> None:
        """Keeps traffic going until one of the files can be read or the time is over."""

    def readings(self) -> dict[str, Any]:
        """``ports`` (11, n_links), ``hosts`` (11, n_hosts), ``now_s``."""

    def flows(self) -> dict[str, NDArray[Any]]:
        """Columns of a FlowTable."""

    def flow_counters(self, flow_ids: NDArray[np.int64]) -> FloatArray:
        """Shape (n, 13), columns as in :mod:`sysgym.emulator.packets.counters.single_flows`."""

    def queue_quantiles(self, quantile: float) -> FloatArray:
        """Shape (n_links,), bytes."""

    def oracle_rates_bps(self) -> FloatArray:
        """Shape (n_hosts,)."""

    def clear_maxima(self) -> None:
        """Begins a new interval for the largest queues."""

    def close(self) -> None:
        """Takes everything down; more than once is harmless."""


class Kind(Protocol):
    """A kind of worlds, in one service or one world process."""

    def prepare(self, sid: str) -> None:
        """In the service, before the first session: what all its worlds share."""

    def release(self) -> None:
        """In the service, after the last."""

    def preload(self) -> None:
        """In a session's process, before there is anything to do: imports what :meth:`build` needs."""

    def build(
        self,
        sid: str,
        session: int,
        scenario: dict[str, Any],
        transport: str,
        flow_transports: dict[int, str],
        parameters: Sequence[float] = (),
    ) -> WorldOfSession:
        """In a session's process: its world. ``session`` is below MAX_SESSIONS, one of the living only."""


class _Kernel:
    """Network namespaces, eBPF programs, real TCP."""

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
        parameters: Sequence[float] = (),
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
    """The kernel's kind."""
    return _Kernel()


def get_kind(name: str) -> Kind:
    """The kind that ``module:function`` or ``/path/of/file.py:function`` makes.

    Only the command line and the tests name it; it never comes out of a message.

    Raises:
        SysgymError: If there is no such thing.
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
