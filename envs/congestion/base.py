"""Base of the congestion environments: arguments, copies and pictures."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.network import Network
from sysgym.emulator.packets.transports import Transport
from sysgym.envs.congestion.backends import PACKETS
from sysgym.envs.congestion.datacenter.rewards import Reward
from sysgym.envs.congestion.flow.presets.base import FlowReward, Preset
from sysgym.envs.lifecycle import Kinds, Lifecycle
from sysgym.scenarios.errors import SysgymError

Array = NDArray[np.float32]


class _Recorder(Protocol):
    def text(self) -> str: ...

    def picture(self) -> NDArray[np.uint8]: ...


class _Actions(Protocol):
    @property
    def native_bounds(self) -> tuple[float, float]: ...

    def action_for(self, native: NDArray[np.floating[Any]]) -> Array: ...


class CongestionLifecycle(Lifecycle):
    """Base of the congestion environments.

    Attributes:
        backend: What moves the network.
        recorder: What draws it; None without a render mode.
        actions: What the numbers of an action mean.
    """

    ARGUMENTS: ClassVar[Kinds] = {
        "transport": ((str, Transport), "the name of a transport, or a Transport"),
        "features": ((list, tuple), 'a list of feature groups, such as ["queue_delay", "rate"]'),
        "history": ((int, np.integer, type(None)), "a whole number of intervals, at least 1"),
        "action_scale": ((str,), 'the name of a scale, such as "native"'),
        "backend": ((str,), "the name of a backend"),
        "preset": (
            (str, Preset, type(None)),
            "the name of a preset, a Preset, or None for the scenario's own",
        ),
        "reward": (
            (str, Reward, FlowReward, type(None)),
            "the name of a reward, a reward, or None for the scenario's own",
        ),
        "agents": ((str,), '"flows" or "hosts"'),
        "sharing": ((str,), '"own" or "mean"'),
    }
    backend: str
    recorder: _Recorder | None
    actions: _Actions
    _network: Network | None = None

    @property
    def network(self) -> Network:
        """The network of this episode.

        Raises:
            NoEpisode: If there is none yet.
        """
        if self._network is None:
            self._check_began("network")
        assert self._network is not None
        return self._network

    @property
    def native_bounds(self) -> tuple[float, float]:
        """Least and largest native number of an action."""
        return self.actions.native_bounds

    def action_for(self, native: NDArray[np.floating[Any]]) -> Array:
        """Return the action that stands for native numbers, which are clipped."""
        return self.actions.action_for(native)

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
        if self._network is not None:
            self._network.close()
