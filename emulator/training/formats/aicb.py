"""Jobs from workload files of AICB (aliyun/aicb), which SimAI simulates.

The first line has the policy and the sizes of the parallel axes, the second the number of layers. A layer's
line has a name, an unused number, and for the forward pass, for the gradient of the input and for that of
the weights: a time of computation in ns, a collective and its bytes; at last the time of the weights' update.
A collective is one of the tensor-parallel group in the first two, and of the data-parallel group in the last,
unless its name ends in ``_EP`` (expert-parallel group) or ``_DP_EP`` (data-parallel group of an expert).

The order is that of SimAI (astra-sim-alibabacloud, Workload.cc, iterate_hybrid_parallel_Transformer): the
forward pass layer by layer, its collectives blocking; then from the last layer to the first the gradient of
the input with a blocking collective and that of the weights with one that goes on beside the computation, all
of them one after another. All ranks do the same at the same time, so the job has one.
"""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np

from sysgym.emulator.trace_errors import TraceError
from sysgym.emulator.training.collective_costs import DEFAULT_SYSTEM, CollectiveCosts
from sysgym.emulator.training.formats.files import content
from sysgym.emulator.training.graph import Edge, Graph
from sysgym.emulator.training.job import Job
from sysgym.emulator.training.operations import COLLECTIVE, COMPUTATION, LeftOut, Operations
from sysgym.scenarios.errors import SysgymError

REMEDY = "see docs/training-jobs.md for the files of AICB that can be read"

TRANSFORMERS = ("HYBRID_TRANSFORMER_FWD_IN_BCKWD", "HYBRID_TRANSFORMER")
MICRO = "MICRO"
_MOST_BYTES = 2**26
_N_COLUMNS = 12
_LARGEST = 2**62
_NONE = "NONE"
_COLLECTIVES = {
    "ALLREDUCE": "all_reduce",
    "ALLGATHER": "all_gather",
    "REDUCESCATTER": "reduce_scatter",
    "ALLTOALL": "all_to_all",
    "BROADCAST": "broadcast",
}
_NS = 1e-9


class Communication(NamedTuple):
    """A collective of a layer.

    Attributes:
        collective: Its name, in the words of :mod:`~sysgym.emulator.training.collective_costs`; "" for none.
        group: ``tp``, ``dp``, ``ep`` or ``dp_ep``.
        size_bytes: Bytes of the whole vector.
    """

    collective: str
    group: str
    size_bytes: int


class Part(NamedTuple):
    """Forward pass, gradient of the input or gradient of the weights of a layer."""

    compute_s: float
    communication: Communication


class Layer(NamedTuple):
    """A layer."""

    name: str
    forward: Part
    input_gradient: Part
    weight_gradient: Part
    update_s: float


def read_aicb(path: Path, system: str = DEFAULT_SYSTEM, n_ranks: int | None = None) -> Job:
    """Read a workload file.

    Args:
        path: The file.
        system: Preset on which its collectives take place.
        n_ranks: Number of ranks; by default the file's ``all_gpus``.

    Raises:
        TraceError: If it cannot be read, or has no number of ranks and none is given.
    """
    lines = _lines(path)
    policy, header = _header(path, lines[0])
    n_ranks = n_ranks or header.get("all_gpus")
    if not n_ranks:
        raise TraceError(
            path, 'no "all_gpus:" in the first line', "the number of ranks", "give it with --ranks"
        )
    layers, malformed = _layers(path, lines)
    tensor, expert = header.get("model_parallel_NPU_group", 1), header.get("ep", 1)
    stages = header.get("pp", 1)
    try:
        shape = _group_shapes(n_ranks, 1 if policy == MICRO else tensor, expert, stages)
        costs = CollectiveCosts(system, n_ranks)
        steps = _Steps(costs, shape)
        steps.add(layers)
    except SysgymError as error:
        raise TraceError(path, str(error), "axes that fit the number of ranks", REMEDY) from error
    notes = [f"collectives take what the links of {n_ranks} devices of {system} allow; all ranks are alike"]
    if stages > 1:
        notes.append(
            f"the {stages} pipeline stages do not wait for each other here: no bubbles, no transfers"
        )
    if header.get("checkpoints"):
        notes.append("forward passes that are repeated in the backward pass are left out")
    return steps.job(path.stem, LeftOut(malformed), tuple(notes))


def _lines(path: Path) -> list[str]:
    try:
        lines = content(path, REMEDY, _MOST_BYTES).decode("utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise TraceError(path, f"cannot be read: {error}", "a text file in UTF-8", REMEDY) from error
    if len(lines) < 2:
        raise TraceError(path, "fewer than two lines", "a workload file of AICB", REMEDY)
    return lines


def _header(path: Path, line: str) -> tuple[str, dict[str, int]]:
    """Return the policy, and the numbers of the first line by their names."""
    words = line.split()
    policies = (*TRANSFORMERS, MICRO)
    if not words or words[0] not in policies:
        raise TraceError(path, f'a first line that begins with "{line[:40]}"', " or ".join(policies), REMEDY)
    numbers = {}
    for word, value in pairwise(words):
        if word.endswith(":") and (number := _whole(value)) is not None:
            numbers[word[:-1]] = number
    return words[0], numbers


def _layers(path: Path, lines: list[str]) -> tuple[list[Layer], int]:
    """Return the layers, and the number of malformed lines."""
    count = _whole(lines[1].strip())
    rows = [line.split() for line in lines[2:] if line.strip()]
    if count is None or count > len(rows):
        raise TraceError(
            path, f'a second line "{lines[1][:40]}" before {len(rows)} layers', "their number", REMEDY
        )
    layers = [layer for row in rows[:count] if (layer := _layer(row)) is not None]
    if not layers:
        raise TraceError(path, "no layer with valid values", "12 columns a layer", REMEDY)
    return layers, count - len(layers)


def _layer(row: list[str]) -> Layer | None:
    """Return a line's layer; None if the line is malformed."""
    if len(row) != _N_COLUMNS:
        return None
    parts = []
    for first, group in ((2, "tp"), (5, "tp"), (8, "dp")):
        time_ns, communication = _whole(row[first]), _communication(row[first + 1], row[first + 2], group)
        if time_ns is None or communication is None:
            return None
        parts.append(Part(time_ns * _NS, communication))
    update_ns = _whole(row[11])
    return None if update_ns is None else Layer(row[0], parts[0], parts[1], parts[2], update_ns * _NS)


def _communication(name: str, size: str, group: str) -> Communication | None:
    size_bytes = _whole(size)
    if size_bytes is None:
        return None
    if name == _NONE:
        return Communication("", group, 0)
    for ending, other in (("_DP_EP", "dp_ep"), ("_EP", "ep")):
        if name.endswith(ending):
            name, group = name.removesuffix(ending), other
            break
    return Communication(_COLLECTIVES[name], group, size_bytes) if name in _COLLECTIVES else None


def _whole(text: str) -> int | None:
    """Return a number that is not negative; AICB writes some whole numbers with a decimal point."""
    try:
        number = float(text)
    except ValueError:
        return None
    return int(number) if 0.0 <= number < _LARGEST else None


def _group_shapes(n_ranks: int, tensor: int, expert: int, stages: int) -> dict[str, tuple[int, int]]:
    """Return members and stride of the groups; neighbouring ranks differ in tp, then in ep, dp, pp."""
    if min(tensor, expert, stages) < 1 or n_ranks % (tensor * stages):
        raise SysgymError(f"{n_ranks} ranks with tensor axis {tensor}, {stages} stages")
    data = n_ranks // (tensor * stages)
    if data % expert:
        raise SysgymError(f"{data} data-parallel ranks with expert axis {expert}")
    return {
        "tp": (tensor, 1),
        "ep": (expert, tensor),
        "dp": (data, tensor),
        "dp_ep": (data // expert, tensor * expert),
    }


class _Steps:
    """Operations of a rank, in SimAI's order."""

    def __init__(self, costs: CollectiveCosts, shape: dict[str, tuple[int, int]]) -> None:
        self._costs, self._shape = costs, shape
        self._kind: list[str] = []
        self._computes: list[bool] = []
        self._stream: list[str] = []
        self._durations: list[float] = []
        self._edges: list[Edge] = []

    def add(self, layers: list[Layer]) -> None:
        """Add the forward and the backward pass."""
        last = last_weights = None
        for layer in layers:
            last = self._part("forward", layer.forward, last)
        for layer in reversed(layers):
            last = self._part("input gradient", layer.input_gradient, last)
            last = self._computation("weight gradient", layer.weight_gradient.compute_s, last)
            communication = layer.weight_gradient.communication
            if communication.collective:
                reduced = self._communication("weight gradient", communication, f"{COLLECTIVE} of weights")
                self._edges.append((last, reduced))
                if last_weights is not None:
                    self._edges.append((last_weights, reduced))
                last_weights = reduced
                self._edges.append((reduced, self._add("update", "update", True, layer.update_s)))

    def _part(self, name: str, part: Part, last: int | None) -> int:
        last = self._computation(name, part.compute_s, last)
        if not part.communication.collective:
            return last
        blocking = self._communication(name, part.communication, COLLECTIVE)
        self._edges.append((last, blocking))
        return blocking

    def _computation(self, name: str, compute_s: float, last: int | None) -> int:
        here = self._add(f"{name}-compute", COMPUTATION, True, compute_s)
        if last is not None:
            self._edges.append((last, here))
        return here

    def _communication(self, name: str, communication: Communication, stream: str) -> int:
        n_members, stride = self._shape[communication.group]
        time_s = self._costs.collective_time_s(
            communication.collective, n_members, stride, float(communication.size_bytes)
        )
        kind = f"{name}, {communication.collective} of {communication.group}"
        return self._add(kind, stream, False, time_s)

    def _add(self, kind: str, stream: str, computes: bool, time_s: float) -> int:
        self._kind.append(kind)
        self._stream.append(stream)
        self._computes.append(computes)
        self._durations.append(time_s)
        return len(self._kind) - 1

    def job(self, name: str, left_out: LeftOut, notes: tuple[str, ...]) -> Job:
        """Return the job."""
        n = len(self._kind)
        seen: dict[str, int] = {}
        index = []
        for kind in self._kind:
            seen[kind] = seen.get(kind, -1) + 1
            index.append(seen[kind])
        zeros = np.zeros(n, np.int64)
        operations = Operations(
            zeros,
            zeros,
            zeros,
            np.array(self._kind),
            np.array(index, np.int64),
            np.array(self._computes),
            np.array(self._stream),
            np.arange(n),
        )
        graph = Graph.of(n, self._edges, [])
        return Job.of_durations(name, operations, graph, np.array(self._durations), left_out, notes)
