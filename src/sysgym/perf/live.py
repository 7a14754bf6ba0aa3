"""Cost of the live view: processor time of a packet-hop with and without it, and of a frame."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator

SCENARIOS = ("incast-32", "fattree-k4-websearch")
CONTENDER = "dctcp"
FRAMES_A_SECOND = 25.0
LEAST_FRAMES = 4


def episode_cost(name: str, n_frames: int) -> tuple[float, int]:
    """Return the processor time of an episode, s, and its packet-hops.

    Args:
        name: Name of the scenario.
        n_frames: Number of frames that are taken and serialised as for the server; 0: none.
    """
    from sysgym.bench.contenders import parse_contender
    from sysgym.live.pacing import Mailbox
    from sysgym.live.run import Run
    from sysgym.scenarios import load_scenario

    scenario = load_scenario(name)
    contender = parse_contender(CONTENDER, family=scenario.family, env_id=scenario.env_id)
    run = Run(scenario, "test", scenario.splits["test"].first_seed, [contender])
    lane, mailbox = run.lanes[0], Mailbox()
    lane.view.set_interval(run.end / n_frames if n_frames else 10.0 * run.end)
    network = lane.env.unwrapped.network  # type: ignore[attr-defined]
    hops, began_s = network.packet_hops, time.process_time()
    while (frame := run.next_frame()) is not None:
        mailbox.put_frame(frame)
        json.dumps(mailbox.take(), separators=(",", ":"))
    elapsed_s, done = time.process_time() - began_s, network.packet_hops - hops
    run.close()
    return elapsed_s, done


def unwatched_hop_ns(name: str) -> float:
    """Return the processor time of a packet-hop in an episode without the live view, ns."""
    elapsed_s, hops = episode_cost(name, 0)
    return 1e9 * elapsed_s / hops


def watched_hop_ns(name: str) -> float:
    """Return the processor time of a packet-hop with 25 frames per second of processor time, ns."""
    alone_s, _ = episode_cost(name, 0)
    elapsed_s, hops = episode_cost(name, max(round(FRAMES_A_SECOND * alone_s), LEAST_FRAMES))
    return 1e9 * elapsed_s / hops


def frame_s(name: str) -> float:
    """Return the processor time of a frame, s, measured in an episode with 750 frames."""
    alone_s, _ = episode_cost(name, 0)
    elapsed_s, _ = episode_cost(name, 750)
    return max(elapsed_s - alone_s, 0.0) / 750


def measurements() -> Iterator[tuple[str, str, Callable[[], float], str]]:
    """Yield figure, workload, function and unit of every measurement."""
    kinds: tuple[tuple[str, Callable[[str], float], str], ...] = (
        ("unwatched_hop_ns", unwatched_hop_ns, "ns"),
        ("watched_hop_ns", watched_hop_ns, "ns"),
        ("frame_s", frame_s, "s"),
    )
    for name in SCENARIOS:
        for figure, measure, unit in kinds:
            yield figure, name, _of(measure, name), unit


def _of(measure: Callable[[str], float], name: str) -> Callable[[], float]:
    return lambda: measure(name)
