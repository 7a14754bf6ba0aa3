"""Max-min fair rates, the allocation of an ideal controller.

An allocation is max-min fair if no flow's rate can grow without reducing that of a flow that is not faster.
Equivalently, every flow is at its demand or has a bottleneck: a full link on which no flow is faster
(Bertsekas and Gallager, Data Networks, 2nd ed., section 6.5.2).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sysgym.emulator.compiling import cached_kernel
from sysgym.scenarios.errors import SysgymError


def max_min_rates(
    routes: NDArray[np.int32],
    link_rate_bps: NDArray[np.float64],
    demand_bps: NDArray[np.float64] | None = None,
) -> NDArray[np.float64]:
    """Return the max-min fair rate of every flow, computed by progressive filling.

    All rates grow together. A flow stops when a link on its route is full or its demand is met. Rounding
    errors overfill a link by at most about 1e-12 of its rate.

    Args:
        routes: Links of each flow, shape (n_flows, longest route), padded with -1. A flow without links gets
            its demand.
        link_rate_bps: Rate of each link, bit/s, shape (n_links,), not negative; inf is allowed.
        demand_bps: Largest rate that each flow can use, bit/s, shape (n_flows,), not negative; None: no flow
            has a limit.

    Returns:
        Rates in bit/s, shape (n_flows,); inf for a flow that nothing limits.

    Raises:
        SysgymError: If a shape or value is invalid.
    """
    links = np.ascontiguousarray(routes, dtype=np.int32)
    capacity_bps = np.ascontiguousarray(link_rate_bps, dtype=np.float64)
    if links.ndim != 2 or capacity_bps.ndim != 1:
        raise SysgymError(
            f"max-min rates: routes of shape {links.shape}, link rates of shape {capacity_bps.shape}"
        )
    n_flows = len(links)
    demand = np.full(n_flows, np.inf) if demand_bps is None else np.asarray(demand_bps, dtype=np.float64)
    if demand.shape != (n_flows,):
        raise SysgymError(f"max-min rates: {n_flows} flows, but demands of shape {demand.shape}")
    # NaN fails these comparisons too.
    if not (np.all(capacity_bps >= 0.0) and np.all(demand >= 0.0)):
        raise SysgymError("max-min rates: a link's rate or a flow's demand is negative or not a number")
    if links.size and not -1 <= int(links.min()) <= int(links.max()) < len(capacity_bps):
        raise SysgymError(
            f"max-min rates: links from {links.min()} to {links.max()}, there are {len(capacity_bps)}"
        )
    return fill(links, capacity_bps, np.ascontiguousarray(demand), np.argsort(demand, kind="stable"))


@cached_kernel()
def _stop(
    route: NDArray[np.int32],
    rate_bps: float,
    growing: NDArray[np.int64],
    spare_bps: NDArray[np.float64],
) -> None:
    """Remove a flow that has reached its rate from its links."""
    for link in route:
        if link >= 0:
            growing[link] -= 1
            if spare_bps[link] < np.inf:
                spare_bps[link] -= rate_bps


@cached_kernel()
def fill(
    routes: NDArray[np.int32],
    capacity_bps: NDArray[np.float64],
    demand_bps: NDArray[np.float64],
    by_demand: NDArray[np.int64],
) -> NDArray[np.float64]:
    """Compute :func:`max_min_rates` for valid arguments, with the flows also given in order of demand."""
    n_flows, longest = routes.shape
    n_links = len(capacity_bps)
    # Flows of each link: those of link l are flow_of[first[l] : first[l + 1]].
    first = np.zeros(n_links + 1, dtype=np.int64)
    for flow in range(n_flows):
        for hop in range(longest):
            if routes[flow, hop] >= 0:
                first[routes[flow, hop] + 1] += 1
    for link in range(n_links):
        first[link + 1] += first[link]
    position = first[:-1].copy()
    flow_of = np.empty(first[n_links], dtype=np.int64)
    for flow in range(n_flows):
        for hop in range(longest):
            if routes[flow, hop] >= 0:
                flow_of[position[routes[flow, hop]]] = flow
                position[routes[flow, hop]] += 1

    growing = first[1:] - first[:-1]  # number of growing flows on each link
    spare_bps = capacity_bps.copy()  # capacity of each link not used by stopped flows
    rate_bps = np.full(n_flows, -1.0)  # negative: still grows
    in_use = np.flatnonzero(growing)
    level_bps = 0.0
    next_demand = 0
    left = n_flows
    while left > 0:
        fair_bps, fullest, n_in_use = np.inf, -1, 0
        for i in range(len(in_use)):
            link = in_use[i]
            if growing[link] > 0:
                in_use[n_in_use] = link
                n_in_use += 1
                share_bps = spare_bps[link] / growing[link]
                if share_bps < fair_bps:
                    fair_bps, fullest = share_bps, link
        in_use = in_use[:n_in_use]
        n_stopped = 0
        # Stopping flows whose demand is at most the fair share cannot lower any link's share, so all of them
        # stop at once. Where the share is infinite, demands may be too: nothing limits the remaining flows.
        while next_demand < n_flows and demand_bps[by_demand[next_demand]] <= fair_bps:
            flow = by_demand[next_demand]
            next_demand += 1
            if rate_bps[flow] < 0.0:
                rate_bps[flow] = demand_bps[flow]
                _stop(routes[flow], demand_bps[flow], growing, spare_bps)
                n_stopped += 1
        if n_stopped > 0:
            left -= n_stopped
            continue
        # Rounding must not lower the level: the order of flows would then differ between links.
        level_bps = max(level_bps, fair_bps)
        for i in range(first[fullest], first[fullest + 1]):
            flow = flow_of[i]
            if rate_bps[flow] < 0.0:
                rate_bps[flow] = level_bps
                _stop(routes[flow], level_bps, growing, spare_bps)
                left -= 1
    return rate_bps
