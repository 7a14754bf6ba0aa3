"""Networks with absent and slow cables, drawn by a seed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sysgym.emulator.collectives.network import Network
from sysgym.scenarios.schema.collectives import Faults


def with_faults(network: Network, faults: Faults, rng: np.random.Generator) -> Network:
    """Return the network without some cables, and with less bandwidth on some of the others.

    Cables are tried in a random order, and one without which a device could not reach another is kept.
    Switches that lose all their cables stay as vertices.

    Args:
        network: The sound network.
        faults: Numbers of absent and slow cables.
        rng: Generator of the draws.
    """
    order = rng.permutation(len(network.cables)).tolist()
    absent: set[int] = set()
    n_failed = 0
    for cable in order:
        if n_failed == faults.failed_cables:
            break
        tried = absent | set(network.cables[cable])
        if network.is_connected(index for index in range(network.n_links) if index not in tried):
            absent, n_failed = tried, n_failed + 1
    sound = [cable for cable in order if not absent & set(network.cables[cable])]
    slow = {index for cable in sound[: faults.slow_cables] for index in network.cables[cable]}
    links = [
        link._replace(bandwidth_bytes_per_s=link.bandwidth_bytes_per_s * faults.slow_ratio)
        if index in slow
        else link
        for index, link in enumerate(network.links)
        if index not in absent
    ]
    return replace(network, links=tuple(links))
