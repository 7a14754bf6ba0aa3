"""Programs computed again in plain Python from the definitions: sets of rows, sets of contributors."""

from __future__ import annotations

import functools
import itertools
import math

import pytest

from sysgym.emulator.accelerators.programs import enumerate_programs, explore

Rows = tuple[frozenset[int], ...]
"""The contributors to each row that one device holds; empty where it does not hold the row."""
World = tuple[Rows, ...]
Groups = tuple[tuple[int, ...], ...]
Step = tuple[Groups, str]

CASES = [(2,), (3,), (4,), (2, 2), (2, 4), (4, 2), (3, 5), (2, 2, 2)]


def all_groupings(factors: tuple[int, ...]) -> list[Groups]:
    """Every slice and form, groups of one device left out, the same set of groups once."""
    k, found = math.prod(factors), set()
    for depth in range(len(factors) + 1):
        instances = math.prod(factors[:depth])
        n = k // instances
        found.add(tuple(tuple(range(u * n, (u + 1) * n)) for u in range(instances)))
        for ancestor in range(depth):
            above = math.prod(factors[:ancestor])
            m = instances // above
            for positions in (n, 1):
                found.add(
                    tuple(
                        sorted(
                            tuple((w * m + v) * n + p for v in range(m))
                            for w in range(above)
                            for p in range(positions)
                        )
                    )
                )
    return sorted(groups for groups in found if len(groups[0]) > 1)


def held(rows: Rows) -> set[int]:
    return {index for index, contributors in enumerate(rows) if contributors}


def run_group(collective: str, members: list[Rows]) -> list[Rows] | None:
    """What the members hold afterwards, or None where a precondition is broken."""
    k = len(members[0])
    shares = [held(rows) for rows in members]
    union = tuple(frozenset().union(*(rows[index] for rows in members)) for index in range(k))
    nothing: Rows = (frozenset(),) * k
    if collective in ("AR", "RS", "R"):
        if not shares[0] or any(share != shares[0] for share in shares):
            return None
        for one, other in itertools.combinations(members, 2):
            if any(one[index] & other[index] for index in shares[0]):
                return None
        if collective == "AR":
            return [union] * len(members)
        if collective == "R":
            return [union] + [nothing] * (len(members) - 1)
        run, rest = divmod(len(shares[0]), len(members))
        if rest:
            return None
        order = sorted(shares[0])
        kept = [set(order[j * run : (j + 1) * run]) for j in range(len(members))]
        return [tuple(union[i] if i in mine else frozenset() for i in range(k)) for mine in kept]
    if collective == "AG":
        if len({len(share) for share in shares}) != 1 or not shares[0]:
            return None
        if sum(map(len, shares)) != len(set().union(*shares)):
            return None
        return [union] * len(members)
    root = members[0]
    if not held(root) or all(rows == root for rows in members):
        return None
    if any(not rows[index] <= root[index] for rows in members for index in range(k)):
        return None
    return [root] * len(members)


def run_step(world: World, groups: Groups, collective: str) -> World | None:
    after = list(world)
    for group in groups:
        result = run_group(collective, [world[device] for device in group])
        if result is None:
            return None
        for device, rows in zip(group, result, strict=True):
            after[device] = rows
    return None if tuple(after) == world else tuple(after)


def all_programs(factors: tuple[int, ...], most_steps: int) -> set[tuple[Step, ...]]:
    k = math.prod(factors)
    groupings = all_groupings(factors)
    assert len(groupings) == len(factors) ** 2
    goal: World = ((frozenset(range(k)),) * k,) * k

    @functools.cache
    def following(world: World) -> list[tuple[Step, World]]:
        found = []
        for groups in groupings:
            for collective in ("AR", "RS", "AG", "R", "B"):
                after = run_step(world, groups, collective)
                if after is not None:
                    found.append(((groups, collective), after))
        return found

    @functools.cache
    def endings(world: World, steps: int) -> list[tuple[Step, ...]]:
        if world == goal:
            return [()]
        if steps == 0:
            return []
        return [(step, *rest) for step, after in following(world) for rest in endings(after, steps - 1)]

    return set(endings(tuple((frozenset([device]),) * k for device in range(k)), most_steps))


@pytest.mark.parametrize("factors", CASES)
def test_the_programs_are_those_of_brute_force(factors: tuple[int, ...]) -> None:
    found = {
        tuple(
            (tuple(map(tuple, step.pattern.groups(factors).tolist())), str(step.collective))
            for step in program
        )
        for program in enumerate_programs(explore(factors), 5)
    }
    expected = all_programs(factors, 5)
    assert found == expected
    assert len(expected) == {1: 3, 2: 93, 3: 1635}[len(factors)]
