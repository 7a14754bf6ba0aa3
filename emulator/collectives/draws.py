"""Tasks of episodes: networks, faults and groups drawn by a seed."""

from __future__ import annotations

import numpy as np

from sysgym.emulator.collectives.collective import Collective, Kind
from sysgym.emulator.collectives.faults import with_faults
from sysgym.emulator.collectives.generators import named_network
from sysgym.emulator.collectives.hops import hops_of
from sysgym.emulator.collectives.imports import read_astra_sim, read_taccl
from sysgym.emulator.collectives.network import Network
from sysgym.emulator.collectives.task import SynthesisTask
from sysgym.scenarios.schema.collectives import (
    FILE_TOPOLOGY,
    CollectivesScenario,
    CollectiveTable,
    SystemLinks,
)

_FAULTS, _GROUP = 0xFA17, 0x960B
"""Random streams: settings of the faults do not affect the group."""


def draw_task(scenario: CollectivesScenario, split: str, episode_seed: int) -> SynthesisTask:
    """Return the task of an episode.

    Args:
        scenario: Scenario before draws for the episode: variations of the split are applied here.
        split: ``train``, ``validation`` or ``test``.
        episode_seed: Seed of the episode.

    Raises:
        UnknownName: There is no such split.
        ScenarioError: The system's file cannot be read.
    """
    drawn = scenario.draw(split, episode_seed)
    sound = read_network(drawn.system)
    network = with_faults(sound, drawn.faults, np.random.default_rng([_FAULTS, episode_seed]))
    group_rng = np.random.default_rng([_GROUP, episode_seed])
    return SynthesisTask(hops_of(network), draw_collective(drawn.collective, network.n_devices, group_rng))


def read_network(system: SystemLinks) -> Network:
    """Return the network of a system without faults.

    Raises:
        ScenarioError: The file cannot be read.
    """
    if system.topology != FILE_TOPOLOGY:
        return named_network(system)
    if system.format == "astra-sim":
        return read_astra_sim(system.file)
    return read_taccl(system.file, system.nodes)


def draw_collective(table: CollectiveTable, n_devices: int, rng: np.random.Generator) -> Collective:
    """Return a collective over a drawn group; all devices if the group's fraction is 1."""
    n_members = min(max(2, round(table.group_fraction * n_devices)), n_devices)
    drawn = rng.permutation(n_devices)[:n_members].tolist()
    members = tuple(range(n_devices)) if n_members == n_devices else tuple(sorted(drawn))
    return Collective(Kind(table.operation), members, n_devices, table.size_bytes, table.chunks)
