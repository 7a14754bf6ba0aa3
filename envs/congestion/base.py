"""Base of the congestion environments: arguments, copies and pictures."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, ClassVar, Protocol

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.network import Network
from sysgym.emulator.packets.transports import Transport
from sysgym.envs.congestion.backends import PACKETS, check_backend
from sysgym.envs.congestion.episodes import ScenarioLike, resolve_scenario
from sysgym.envs.congestion.flow.presets.base import FlowReward, Preset
from sysgym.envs.lifecycle import Kinds, Lifecycle, Phase
from sysgym.scenarios import CongestionScenario
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
        scenario: The scenario.
        split: Name of the split from which episode seeds are drawn.
        backend: Name of the network backend.
        episode_seed: Seed of this episode; None before the first.
        before_warmup: Called with the network of every episode at time 0; to record it, see
            ``PacketNetwork.record``.
        recorder: Recorder that draws the network; None without a render mode.
        actions: Action space, which converts between actions and native ones.
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
            (str, FlowReward, type(None)),
            "the name of a reward, a FlowReward, or None for the scenario's own",
        ),
        "agents": ((str,), '"flows" or "hosts"'),
        "sharing": ((str,), '"own" or "mean"'),
    }
    scenario: CongestionScenario
    split: str
    backend: str
    episode_seed: int | None = None
    before_warmup: Callable[[Network], object] | None = None
    recorder: _Recorder | None
    actions: _Actions
    _network: Network | None = None

    def _configure(
        self,
        scenario: ScenarioLike,
        split: str,
        backend: str,
        overrides: Mapping[str, Any] | None,
        render_mode: str | None,
    ) -> None:
        """Store the arguments common to all environments.

        Raises:
            ScenarioError: If the scenario cannot be used.
            UnknownName: If a split or backend does not exist.
        """
        check_backend(backend)
        self.scenario = resolve_scenario(scenario, overrides)
        self.split, self.backend, self.render_mode = split, backend, render_mode
        self._seeds = self.scenario.splits[split].seeds

    @property
    def network(self) -> Network:
        """The network of this episode.

        Raises:
            NoEpisode: If no episode has begun.
        """
        if self._network is None or self._phase is Phase.MADE:
            self._check_began("network")
        assert self._network is not None
        return self._network

    @property
    def native_bounds(self) -> tuple[float, float]:
        """Lowest and highest native action."""
        return self.actions.native_bounds

    def action_for(self, native: NDArray[np.floating[Any]]) -> Array:
        """Return the action for native values, which are clipped."""
        return self.actions.action_for(native)

    def __getstate__(self) -> dict[str, Any]:
        """Return the state of a copy: all attributes.

        Raises:
            SysgymError: If the network runs on the kernel, which cannot be copied.
        """
        if self.backend != PACKETS:
            raise SysgymError(
                f"{type(self).__name__}: an environment on the kernel cannot be copied or pickled, because"
                " its network exists only once; make another with the same arguments"
            )
        return self.__dict__

    def _text(self) -> str:
        assert self.recorder is not None
        return self.recorder.text()

    def _picture(self) -> NDArray[np.uint8]:
        assert self.recorder is not None
        return self.recorder.picture()

    def _release(self) -> None:
        """Release the resources of the network: on the kernel, its interfaces and connections."""
        if self._network is not None:
            self._network.close()
