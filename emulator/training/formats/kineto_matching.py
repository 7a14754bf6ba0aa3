"""Members of collectives, found in the traces of several ranks."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from sysgym.emulator.training.formats.kineto_steps import StepPieces

_SEND, _RECEIVE = "send", "recv"


def groups_of(
    ranks: Sequence[int], steps: Sequence[StepPieces], first_operations: Sequence[int]
) -> tuple[list[list[int]], int]:
    """Return the operations that meet, and how many communications have no partner.

    Collectives of a process group are matched by their sequence number (``Seq``) if they have one, and
    otherwise by their order among those of the same name; a send and its receive by their ranks and order.
    Where ranks have different numbers of a collective without sequence numbers, none of them is matched.

    Args:
        ranks: Rank of each of the steps.
        steps: Pieces of a step of each rank.
        first_operations: Number of each rank's first operation.
    """
    found: dict[tuple[object, ...], dict[int, int]] = defaultdict(dict)
    counts: dict[tuple[object, ...], dict[int, int]] = defaultdict(lambda: defaultdict(int))
    for rank, step, first in zip(ranks, steps, first_operations, strict=False):
        places = [place for place, piece in enumerate(step.pieces) if piece.communicates]
        places.sort(key=lambda place: step.pieces[place].start_s)
        for place in places:
            piece = step.pieces[place]
            key = _key(piece.kind, piece.event.args, rank)
            order = counts[key][rank]
            counts[key][rank] += 1
            number = piece.event.args.get("Seq")
            by_number = _is_whole(number) and key[0] == "collective"
            found[(*key, "Seq", number) if by_number else (*key, "order", order)][rank] = first + place
    uneven = {key for key, of_rank in counts.items() if len(set(of_rank.values())) > 1}
    groups, unmatched = [], 0
    for key, members in found.items():
        trusted = len(members) > 1 and (key[-2] == "Seq" or key[:-2] not in uneven)
        if trusted:
            groups.append(list(members.values()))
        elif len(ranks) > 1:
            unmatched += len(members)
    return groups, unmatched


def _key(kind: str, args: Mapping[str, Any], rank: int) -> tuple[object, ...]:
    """Return what the members of a communication have in common."""
    group = (str(args.get("Process Group Name", "")), str(args.get("Process Group Ranks", "")))
    name, to, sender = args.get("Collective name"), args.get("Dst Rank"), args.get("Src Rank")
    if name == _SEND and _is_whole(to):
        return ("transfer", group, rank, to)
    if name == _RECEIVE and _is_whole(sender):
        return ("transfer", group, sender, rank)
    return ("collective", group, kind)


def _is_whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
