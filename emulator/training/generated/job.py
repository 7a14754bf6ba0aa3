"""Jobs to be generated: a model, how it is divided over ranks, a schedule, and a system."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

import numpy as np

from sysgym.emulator.accelerators.hierarchy import Hierarchy
from sysgym.emulator.training.collective_costs import DEFAULT_SYSTEM, system_of
from sysgym.emulator.training.generated.models import MODELS, Layer
from sysgym.emulator.training.generated.passes import INTERLEAVED, SCHEDULES
from sysgym.scenarios.errors import Problem, ScenarioError, UnknownName

HALF_BYTES = 2.0
"""Bytes of a value, of a gradient or of an activation."""

BACKWARD_FACTOR = 2.0
"""Operations of a backward pass over those of a forward pass."""

STATE_BYTES = 16.0
"""Bytes of a parameter, its gradient and the states of Adam (Rajbhandari et al., ZeRO, SC 2020)."""


@dataclass(frozen=True)
class ParallelJob:
    """A training job.

    Ranks are numbered with the tensor-parallel rank first, then the data-parallel rank, then the stage, as
    in Megatron-LM, and placed on the system's devices in this order.

    Attributes:
        model: One of :data:`~sysgym.emulator.training.generated.models.MODELS`.
        data_ranks: Data-parallel ranks.
        tensor_ranks: Tensor-parallel ranks; more than one needs a transformer.
        stages: Pipeline stages.
        schedule: One of :data:`~sysgym.emulator.training.generated.passes.SCHEDULES`.
        virtual_stages: Parts of the model on each rank; more than one if interleaved, else 1.
        microbatches: Microbatches of each data-parallel rank in a step.
        batch: Samples of a microbatch.
        system: One of :func:`~sysgym.emulator.accelerators.presets.list_presets`.
        flops_per_s: Operations a second that an accelerator reaches, assumed.
        memory_bytes_per_s: Bytes a second of its memory, with which the optimizer runs, assumed.
        bucket_bytes: Gradients are reduced when so many bytes, or the last ones, are ready.
        length_log_sd: Standard deviation of the logarithm of the microbatches' lengths, which times and
            bytes are in proportion to.
        arrangement: ``"drawn"``: microbatches are where they are drawn; ``"sorted"``: the longest ones of
            all data-parallel ranks come first, like lengths at the same time.
        bandwidth_factor: Factor of the bandwidth of the system's links.
        latency_factor: Factor of their latency.
        slow_ranks: Ranks with the factors of their computations' times.
        layers: Layers instead of the model's.

    Raises:
        UnknownName: There is no such model, schedule or system.
        ScenarioError: A value is out of range, or two do not fit together.
    """

    model: str = "decoder"
    data_ranks: int = 2
    tensor_ranks: int = 2
    stages: int = 2
    schedule: str = "1f1b"
    virtual_stages: int = 1
    microbatches: int = 4
    batch: int = 1
    system: str = DEFAULT_SYSTEM
    flops_per_s: float = 2e14
    memory_bytes_per_s: float = 2e12
    bucket_bytes: float = 25e6
    length_log_sd: float = 0.0
    arrangement: str = "drawn"
    bandwidth_factor: float = 1.0
    latency_factor: float = 1.0
    slow_ranks: tuple[tuple[int, float], ...] = ()
    layers: tuple[Layer, ...] = ()

    def __post_init__(self) -> None:
        if self.model not in MODELS:
            raise UnknownName("model", self.model, MODELS)
        if self.schedule not in SCHEDULES:
            raise UnknownName("pipeline schedule", self.schedule, SCHEDULES)
        if not self.layers:
            object.__setattr__(self, "layers", MODELS[self.model])
        if problems := tuple(self._problems()):
            raise ScenarioError(f"<job {self.name}>", problems=problems)
        self.hierarchy  # noqa: B018 - raises an error if the ranks do not fill the system's nodes

    @property
    def name(self) -> str:
        """Name for messages and files, such as ``decoder-dp2-tp2-pp2-1f1b``."""
        virtual = f"-v{self.virtual_stages}" if self.virtual_stages > 1 else ""
        sizes = f"dp{self.data_ranks}-tp{self.tensor_ranks}-pp{self.stages}"
        return f"{self.model}-{sizes}-{self.schedule}{virtual}"

    @property
    def n_ranks(self) -> int:
        """Number of ranks."""
        return self.data_ranks * self.tensor_ranks * self.stages

    def rank(self, stage: int, data_rank: int, tensor_rank: int) -> int:
        """Return the rank with a stage, a data-parallel and a tensor-parallel rank."""
        return (stage * self.data_ranks + data_rank) * self.tensor_ranks + tensor_rank

    @cached_property
    def hierarchy(self) -> Hierarchy:
        """The system, with as many devices as ranks."""
        system = system_of(self.system, self.n_ranks)
        levels = tuple(
            dataclasses.replace(
                level,
                bandwidth_bytes_per_s=level.bandwidth_bytes_per_s * self.bandwidth_factor,
                latency_s=level.latency_s * self.latency_factor,
            )
            for level in system.levels
        )
        return dataclasses.replace(system, levels=levels)

    def parts(self) -> list[range]:
        """Return the layers of each part of the model, in the order of the forward pass.

        Parts are cut behind blocks, where the sum of the operations comes nearest to equal shares.

        Raises:
            ScenarioError: The model has fewer blocks than parts are wanted.
        """
        n_parts = self.stages * self.virtual_stages
        done = np.cumsum([layer.forward_flops for layer in self.layers])
        places = [place for place, layer in enumerate(self.layers, 1) if layer.last_of_block]
        if len(places) < n_parts:
            raise ScenarioError(
                f"<job {self.name}>",
                "stages",
                self.stages,
                f"at most {len(places)} parts, the blocks of {self.model}; "
                f"{self.stages} stages of {self.virtual_stages} parts are {n_parts}",
            )
        ends = [0]
        for part in range(1, n_parts):
            # Later parts need a block each.
            allowed = [place for place in places[: len(places) - (n_parts - part)] if place > ends[-1]]
            target = done[-1] * part / n_parts
            ends.append(min(allowed, key=lambda place: (abs(done[place - 1] - target), place)))
        ends.append(len(self.layers))
        return [range(first, stop) for first, stop in pairwise(ends)]

    def _problems(self) -> Iterator[Problem]:
        for key in ("data_ranks", "tensor_ranks", "stages", "virtual_stages", "microbatches", "batch"):
            if getattr(self, key) < 1:
                yield Problem(key, getattr(self, key), "at least 1")
        for key in ("flops_per_s", "memory_bytes_per_s", "bucket_bytes", "bandwidth_factor"):
            if not (np.isfinite(getattr(self, key)) and getattr(self, key) > 0.0):
                yield Problem(key, getattr(self, key), "a finite number, more than 0")
        for key in ("length_log_sd", "latency_factor"):
            if not (np.isfinite(getattr(self, key)) and getattr(self, key) >= 0.0):
                yield Problem(key, getattr(self, key), "a finite number, at least 0")
        if self.arrangement not in ("drawn", "sorted"):
            yield Problem("arrangement", self.arrangement, '"drawn" or "sorted"')
        if self.schedule == INTERLEAVED and self.stages > 0:
            if self.virtual_stages == 1 or self.stages == 1:
                yield Problem("virtual_stages", self.virtual_stages, "at least 2, with at least 2 stages")
            if self.microbatches % self.stages:
                yield Problem("microbatches", self.microbatches, f"a multiple of the {self.stages} stages")
        elif self.virtual_stages > 1:
            yield Problem("virtual_stages", self.virtual_stages, '1, unless schedule is "interleaved"')
        if self.tensor_ranks > 1 and not any(layer.divisible for layer in self.layers):
            yield Problem("tensor_ranks", self.tensor_ranks, f"1: the layers of {self.model} are not divided")
        for rank, factor in self.slow_ranks:
            if not 0 <= rank < self.n_ranks or not factor > 0.0:
                expected = f"a rank from 0 to {self.n_ranks - 1} and a factor of more than 0"
                yield Problem("slow_ranks", (rank, factor), expected)
