"""Flows written by hand, and invariants of every simulation."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from sysgym.emulator.accelerators.flows.simulation import Flows, Timeline
from sysgym.emulator.accelerators.flows.tables import Paths

MakeFlows = Callable[..., Flows]
CheckRun = Callable[[Flows, NDArray[np.float64], Timeline], None]


@pytest.fixture
def make_flows() -> MakeFlows:
    """Makes flows of lists: sizes, links of each, and optionally shares, what each waits for and follows."""

    def make(
        sizes: Sequence[float],
        links: Sequence[Sequence[int]],
        *,
        shares: Sequence[Sequence[float]] | None = None,
        waits: Sequence[Sequence[int]] | None = None,
        follows: Sequence[int] | None = None,
        latency_s: float | Sequence[float] = 0.0,
    ) -> Flows:
        waits = waits or [[] for _ in sizes]
        shares = shares or [[1.0] * len(path) for path in links]
        return Flows(
            size_bytes=np.array(sizes, np.float64),
            latency_s=np.array(np.broadcast_to(latency_s, len(sizes)), np.float64),
            path=np.arange(len(sizes), dtype=np.int32),
            paths=Paths(
                np.cumsum([0, *map(len, links)]).astype(np.int64),
                np.array([link for path in links for link in path], np.int32),
                np.array([share for path in shares for share in path], np.float64),
            ),
            wait_first=np.cumsum([0, *map(len, waits)]).astype(np.int64),
            wait_on=np.array([other for one in waits for other in one], np.int32),
            follows=np.array(follows or [-1] * len(sizes), np.int32),
        )

    return make


@pytest.fixture
def check_run() -> CheckRun:
    """Checks a run whose rates were recorded: bytes, capacities, order."""

    def check(flows: Flows, bandwidth: NDArray[np.float64], run: Timeline) -> None:
        assert run.rates is not None
        assert np.isfinite(run.finish_s).all()
        assert np.all(run.start_s <= run.sent_s)
        np.testing.assert_allclose(run.finish_s, run.sent_s + flows.latency_s, rtol=1e-11, atol=1e-300)
        for flow in range(flows.n_flows):
            for other in flows.wait_on[flows.wait_first[flow] : flows.wait_first[flow + 1]]:
                assert run.finish_s[other] <= run.start_s[flow]
            if flows.follows[flow] >= 0:
                assert run.sent_s[flows.follows[flow]] <= run.start_s[flow]
        # Between two changes of rates all links carry what their flows send.
        load = np.zeros(len(bandwidth))
        rate, delivered = np.zeros(flows.n_flows), np.zeros(flows.n_flows)
        carried = np.zeros(len(bandwidth))
        times, changes, rates = run.rates
        now_s = 0.0
        for index in range(len(times)):
            assert times[index] >= now_s
            delivered += rate * (times[index] - now_s)
            carried += load * (times[index] - now_s)
            now_s = times[index]
            flow = changes[index]
            path = flows.path[flow]
            load[flows.paths.links_of(path)] += flows.paths.shares_of(path) * (rates[index] - rate[flow])
            rate[flow] = rates[index]
            last_of_batch = index + 1 == len(times) or times[index + 1] > now_s
            if last_of_batch:
                assert np.all(load <= bandwidth * (1 + 1e-9))
        assert not rate.any()
        # What a rounded time is worth in bytes: a tiny flow late in a long run is not better known.
        rounding = 1e-11 * run.time_s * bandwidth.max() / flows.paths.share.min(initial=1.0)
        np.testing.assert_allclose(delivered, flows.size_bytes, rtol=1e-9, atol=rounding)
        asked = np.zeros(len(bandwidth))
        for flow in range(flows.n_flows):
            path = flows.path[flow]
            np.add.at(asked, flows.paths.links_of(path), flows.paths.shares_of(path) * flows.size_bytes[flow])
        np.testing.assert_allclose(carried, asked, rtol=1e-9, atol=flows.n_flows * rounding)

    return check
