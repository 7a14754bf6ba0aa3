"""What the congestion environments share: their arguments, copies of them, and pictures."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.packets.transports import Transport
from sysgym.envs.congestion.backends import PACKETS
from sysgym.envs.lifecycle import Kinds, Lifecycle
from sysgym.scenarios.errors import SysgymError


class _Recorder(Protocol):
    def text(self) -> str: ...

    def picture(self) -> NDArray[np.uint8]: ...


class CongestionLifecycle(Lifecycle):
    """Base of the congestion environments.

    Attributes:
        backend: What moves the network.
        network: The network, or None before there is one.
        recorder: What draws it; None without a render mode.
    """

    ARGUMENTS: ClassVar[Kinds] = {
        "transport": ((str, Transport), "the name of a transport, or a Transport"),
        "features": ((list, tuple), 'a list of feature groups, such as ["queue_delay", "rate"]'),
        "history": ((int, np.integer, type(None)), "a whole number of intervals, at least 1"),
        "action_scale": ((str,), 'the name of a scale, such as "native"'),
        "backend": ((str,), "the name of a backend"),
        "preset": ((str, type(None)), "the name of a preset, or None for the scenario's own"),
        "agents": ((str,), '"flows" or "hosts"'),
        "sharing": ((str,), '"own" or "mean"'),
    }
    backend: str
    network: Any
    recorder: _Recorder | None

    def __getstate__(self) -> dict[str, Any]:
        """Return what a copy holds: everything.

        Raises:
            SysgymError: If the network is one of the kernel.
        """
        if self.backend != PACKETS:
            raise SysgymError(
                f"{type(self).__name__}: an environment on the kernel cannot be copied or pickled, for its"
                " network exists once; make another with the same arguments"
            )
        return self.__dict__

    def _text(self) -> str:
        assert self.recorder is not None
        return self.recorder.text()

    def _picture(self) -> NDArray[np.uint8]:
        assert self.recorder is not None
        return self.recorder.picture()

    def _release(self) -> None:
        """Give back what the network holds: on the kernel its interfaces and connections."""
        if self.backend != PACKETS and self.network is not None:
            self.network.close()
