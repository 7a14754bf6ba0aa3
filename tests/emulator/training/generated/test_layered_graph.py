"""Every kind of edge and of group of a step by layers."""

from __future__ import annotations

from itertools import pairwise, product

import pytest

from sysgym.emulator.training.generated.structure import Structure, structure_of
from sysgym.emulator.training.operations import Operations
from tests.emulator.training.generated.conftest import equal_layers, small_job

N_DATA, N_TENSOR, N_STAGES = 2, 2, 2


@pytest.fixture(scope="module")
def plain() -> Structure:
    """1F1B: stage 0 has the layers 0 and 1, stage 1 the layers 2 and 3; a bucket for every two layers."""
    return structure_of(small_job(layers=equal_layers(4, outputs=8.0, parameters=10.0), microbatches=3))


@pytest.fixture(scope="module")
def interleaved() -> Structure:
    """Stage 0 has the layers 0 and 2, stage 1 the layers 1 and 3; no tensor parallelism, small buckets."""
    layers = equal_layers(4, outputs=8.0, parameters=10.0)
    return structure_of(
        small_job(
            layers=layers,
            schedule="interleaved",
            virtual_stages=2,
            microbatches=2,
            tensor_ranks=1,
            data_ranks=4,
            bucket_bytes=1.0,
        )
    )


SHORT = {
    "forward-compute": "F",
    "backward-compute": "B",
    "forward-tensor-all-reduce": "f-reduce",
    "backward-tensor-all-reduce": "b-reduce",
    "forward-send": "f-send",
    "forward-recv": "f-recv",
    "backward-send": "b-send",
    "backward-recv": "b-recv",
    "grads-all-reduce": "grads",
    "optimizer": "optimizer",
}


def name(operations: Operations, one: int) -> str:
    """Kind, microbatch and layer, such as ``F 0.1``."""
    parts = operations.parts
    assert parts is not None
    kind, microbatch = SHORT[str(operations.kind[one])], int(parts.microbatch[one])
    if kind == "optimizer":
        return kind
    return f"{kind} {'' if microbatch < 0 else f'{microbatch}.'}{parts.layer[one]}"


def edges_of(structure: Structure, rank: int) -> set[tuple[str, str]]:
    operations = structure.operations
    return {
        (name(operations, before), name(operations, after))
        for before, after in structure.graph.edges()
        if operations.rank[before] == operations.rank[after] == rank
    }


def reduced(way: str, layers: str) -> set[tuple[str, str]]:
    """A computation comes before its all-reduce."""
    return {(f"{way} {i}.{layer}", f"{way.lower()}-reduce {i}.{layer}") for i in range(3) for layer in layers}


def test_the_edges_of_the_first_stage(plain: Structure) -> None:
    expected = {
        *reduced("F", "01"),
        *reduced("B", "1"),  # the first layer has no gradients of inputs
        # One warm-up pass, then forward and backward in turns; the next computation waits for the all-reduce.
        *((f"f-reduce {i}.0", f"F {i}.1") for i in range(3)),
        *((f"b-reduce {i}.1", f"B {i}.0") for i in range(3)),
        ("f-reduce 0.1", "F 1.0"),
        ("f-reduce 1.1", "B 0.1"),
        ("B 0.0", "F 2.0"),
        ("f-reduce 2.1", "B 1.1"),
        ("B 1.0", "B 2.1"),
        # A pass comes before its send, a receive before its pass.
        *((f"f-reduce {i}.1", f"f-send {i}.1") for i in range(3)),
        *((f"b-recv {i}.1", f"B {i}.1") for i in range(3)),
        # A receive needs the buffer of the pass two before.
        ("f-reduce 0.1", "b-recv 0.1"),
        ("B 0.0", "b-recv 1.1"),
        ("f-reduce 2.1", "b-recv 2.1"),
        # The lowest layer of the bucket is complete with the last microbatch.
        ("B 2.0", "grads 0"),
        ("B 2.0", "optimizer"),
        ("grads 0", "optimizer"),
    }
    for rank in range(N_DATA * N_TENSOR):
        assert edges_of(plain, rank) == expected


def test_the_edges_of_the_last_stage(plain: Structure) -> None:
    expected = {
        *reduced("F", "23"),
        *reduced("B", "32"),
        *((f"f-reduce {i}.2", f"F {i}.3") for i in range(3)),
        *((f"f-reduce {i}.3", f"B {i}.3") for i in range(3)),
        *((f"b-reduce {i}.3", f"B {i}.2") for i in range(3)),
        *((f"b-reduce {i}.2", f"F {i + 1}.2") for i in range(2)),
        # Outputs of layer 1 come in, and gradients of the same values go back.
        *((f"f-recv {i}.1", f"F {i}.2") for i in range(3)),
        *((f"b-reduce {i}.2", f"b-send {i}.1") for i in range(3)),
        # The first receive is posted at once, the next ones when the last but one pass is done.
        ("f-reduce 0.3", "f-recv 1.1"),
        ("f-reduce 1.3", "f-recv 2.1"),
        # Gradients of parameters are there before those of the inputs have been reduced.
        ("B 2.2", "grads 2"),
        ("b-reduce 2.2", "optimizer"),
        ("grads 2", "optimizer"),
    }
    assert edges_of(plain, 4) == expected


def test_the_edges_of_a_rank_with_two_parts_of_the_model(interleaved: Structure) -> None:
    order = ["F 0.0", "F 1.0", "F 0.2", "F 1.2", "B 0.2", "B 1.2", "B 0.0", "B 1.0"]
    assert edges_of(interleaved, 0) == {
        *pairwise(order),
        *((f"F {i}.{layer}", f"f-send {i}.{layer}") for i in range(2) for layer in (0, 2)),
        *((f"f-recv {i}.1", f"F {i}.2") for i in range(2)),
        *((f"b-recv {i}.2", f"B {i}.2") for i in range(2)),
        *((f"B {i}.2", f"b-send {i}.1") for i in range(2)),
        *((f"b-recv {i}.0", f"B {i}.0") for i in range(2)),
        # Buffers: each receive is for the pass two after the one it waits for.
        ("F 0.0", "f-recv 0.1"),
        ("F 1.0", "f-recv 1.1"),
        ("F 0.2", "b-recv 0.2"),
        ("F 1.2", "b-recv 1.2"),
        ("B 0.2", "b-recv 0.0"),
        ("B 1.2", "b-recv 1.0"),
        # A bucket for each part, one after the other.
        ("B 1.2", "grads 2"),
        ("B 1.0", "grads 0"),
        ("grads 2", "grads 0"),
        ("B 1.0", "optimizer"),
        ("grads 0", "optimizer"),
    }


def groups_of(structure: Structure) -> dict[str, set[frozenset[tuple[int, str]]]]:
    """Groups by the names of their kinds; members by rank and name."""
    operations = structure.operations
    found: dict[str, set[frozenset[tuple[int, str]]]] = {}
    for group in structure.graph.groups():
        kinds = " ".join(sorted({SHORT[str(operations.kind[one])] for one in group}))
        members = frozenset((int(operations.rank[one]), name(operations, one)) for one in group)
        found.setdefault(kinds, set()).add(members)
    return found


def test_who_meets_whom(plain: Structure) -> None:
    """Ranks of stage 0: data-parallel 0 has the ranks 0 and 1, data-parallel 1 the ranks 2 and 3."""
    found = groups_of(plain)
    assert set(found) == {"f-reduce", "b-reduce", "f-recv f-send", "b-recv b-send", "grads"}
    pairs = [(0, 1), (2, 3), (4, 5), (6, 7)]
    for way, layers in (("f", {0: "01", 1: "23"}), ("b", {0: "1", 1: "23"})):
        assert found[f"{way}-reduce"] == {
            frozenset((rank, f"{way}-reduce {i}.{layer}") for rank in pair)
            for pair in pairs
            for i in range(3)
            for layer in layers[pair[0] // 4]
        }
    assert found["f-recv f-send"] == {
        frozenset({(rank, f"f-send {i}.1"), (rank + 4, f"f-recv {i}.1")})
        for rank, i in product(range(4), range(3))
    }
    assert found["b-recv b-send"] == {
        frozenset({(rank, f"b-recv {i}.1"), (rank + 4, f"b-send {i}.1")})
        for rank, i in product(range(4), range(3))
    }
    assert found["grads"] == {
        frozenset((rank + offset, f"grads {layer}") for offset in (0, 2))
        for layer, ranks in ((0, (0, 1)), (2, (4, 5)))
        for rank in ranks
    }


def test_the_last_stage_sends_to_the_first_for_the_next_part_of_the_model(interleaved: Structure) -> None:
    found = groups_of(interleaved)
    assert found["f-recv f-send"] == {
        frozenset({(sender + d, f"f-send {i}.{layer}"), (receiver + d, f"f-recv {i}.{layer}")})
        for layer, sender, receiver in ((0, 0, 4), (1, 4, 0), (2, 0, 4))
        for d in range(4)
        for i in range(2)
    }
    assert found["b-recv b-send"] == {
        frozenset({(sender + d, f"b-send {i}.{layer}"), (receiver + d, f"b-recv {i}.{layer}")})
        for layer, receiver, sender in ((0, 0, 4), (1, 4, 0), (2, 0, 4))
        for d in range(4)
        for i in range(2)
    }


def test_ranks_are_joined_by_groups_alone(plain: Structure, interleaved: Structure) -> None:
    for structure in (plain, interleaved):
        rank = structure.operations.rank
        assert all(rank[before] == rank[after] for before, after in structure.graph.edges())
