"""Run the same worlds on ns-3 and on sysgym, and print both as one table: against_ns3.py --ns3 PREFIX.

PREFIX holds ns-3's include/ and lib64/ (or lib/): the folder ``ns3`` that ``pip install ns3`` makes, or /usr
with Debian's libns3-dev. The driver, against_ns3.cc, is compiled with g++. docs/against-ns3.md explains the
table.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import sysgym
from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.topology import Topology
from sysgym.emulator.packets.transports import Transport, get_transport
from sysgym.emulator.packets.workloads.flow_sizes import get_flow_sizes
from sysgym.emulator.packets.workloads.schedule import LONG_LIVED, FlowSchedule, make_schedule
from sysgym.scenarios import CongestionScenario, load_scenario

DRIVER = Path(__file__).with_suffix(".cc")
MODULES = ("core", "network", "internet", "point-to-point", "traffic-control")

# New Reno twice: sysgym's own recovers without SACK, and the same law with SACK shows what recovery does.
LAWS = {"dctcp": "TcpDctcp", "cubic": "TcpCubic", "reno+sack": "TcpNewReno", "reno": "TcpNewReno"}
WITHOUT_SACK = ("reno",)

RATE_BPS = 1e9
DELAY_S = 10e-6
PACKET_BYTES = 1502  # IP's 1500 and the two of ns-3's PPP header
SEGMENT_BYTES = 1460
ACK_BYTES = 42
BUFFER_BYTES = 250 * PACKET_BYTES
MARK_BYTES = 65 * PACKET_BYTES
HOST_BUFFER_BYTES = 20_000_000  # a host never drops
WINDOW_PACKETS = 512  # more than the bottleneck's buffer and the path hold
INITIAL_WINDOW = 10
MIN_RTO_S = 0.01
# ns-3's queue disc counts neither the packet on the wire (half of it is left on average) nor the device's.
BELOW_DISC_BYTES = round(1.5 * PACKET_BYTES)

WARMUP_S = 0.3
MEASURED_S = 0.9
N_FINITE_FLOWS = 200
LOAD = 0.6
LONGEST_S = 30.0
NEVER_ENDING_BYTES = 2_000_000_000


@dataclass(frozen=True)
class Measured:
    """What one run of one simulator gave."""

    goodput_bps: float
    queue_bytes: float
    """Time average, summed over the observed ports."""
    signalled: float
    """Share of the packets that arrived at these ports and were marked, or dropped."""
    fct_s: NDArray[np.float64]
    simulated_s: float
    wall_s: float


def world(hosts_per_side: int, law: str) -> CongestionScenario:
    """The dumbbell in sysgym's terms."""
    base = load_scenario("dumbbell-10g", expect=CongestionScenario)
    resolved: dict[str, Any] = base.resolved()
    shape = {"kind": "dumbbell", "hosts_per_side": hosts_per_side}
    resolved["topology"] = shape | {"link_rate_bps": RATE_BPS, "link_delay_s": DELAY_S}
    resolved["queue"] = {"buffer_bytes": BUFFER_BYTES} | (
        {"ecn_threshold_bytes": MARK_BYTES} if law == "dctcp" else {}
    )
    resolved["transport"] = {
        "mtu_bytes": PACKET_BYTES,
        "header_bytes": PACKET_BYTES - SEGMENT_BYTES,
        "ack_bytes": ACK_BYTES,
        "initial_window_packets": INITIAL_WINDOW,
        "min_rto_s": MIN_RTO_S,
        "max_window_packets": WINDOW_PACKETS,
    }
    resolved["workload"] = {
        "kind": "long_lived",
        "pairs": "one_to_one",
        "start_jitter_s": 1e-3,
    }
    for split in ("train", "validation", "test"):
        resolved["splits"][split]["vary"] = {}
    return CongestionScenario.model_validate(resolved)


def transport_of(law: str) -> Transport:
    """Sysgym's transport of one of ``LAWS``."""
    if law == "reno+sack":
        return replace(get_transport("reno"), recovery="sack")
    return get_transport(law)


def finite_flows(hosts_per_side: int) -> FlowSchedule:
    """The fixed set of flows that end: web-search sizes, Poisson arrivals, sender and receiver drawn."""
    rng = np.random.default_rng(2026)
    sizes = get_flow_sizes("websearch").sample(rng, N_FINITE_FLOWS)
    gap_s = get_flow_sizes("websearch").mean_bytes() * PACKET_BYTES / SEGMENT_BYTES * 8 / (LOAD * RATE_BPS)
    starts_s = np.cumsum(rng.exponential(gap_s, N_FINITE_FLOWS))
    return make_schedule(
        rng,
        rng.integers(0, hosts_per_side, N_FINITE_FLOWS),
        hosts_per_side + rng.integers(0, hosts_per_side, N_FINITE_FLOWS),
        size_bytes=sizes,
        start_ns=np.round(starts_s * 1e9),
    )


def observed_links(topology: Topology) -> NDArray[np.int64]:
    """The bottleneck."""
    return topology.links_named("west->east")


def run_sysgym(network: PacketNetwork, schedule: FlowSchedule) -> Measured:
    """Runs the flows on sysgym; what is compiled on first use is compiled before the clock starts."""
    links = observed_links(network.topology)
    ends = bool(np.all(schedule.size_bytes != LONG_LIVED))
    network.reset(1, schedule)
    network.advance(1e-3)
    network.reset(1, schedule)
    began = time.perf_counter()
    if not ends:
        network.advance(WARMUP_S)
    ports, hosts, from_s = network.ports(), network.hosts(), network.now_s
    if ends:
        while np.isnan(network.flows().finish_s).any() and network.now_s < LONGEST_S:
            network.advance(50e-3)
    else:
        network.advance(MEASURED_S)
    wall_s = time.perf_counter() - began
    after, hosts_after, flows = network.ports(), network.hosts(), network.flows()
    span_s = network.now_s - from_s
    dropped = (after.dropped_packets - ports.dropped_packets)[links].sum()
    arrived = (after.accepted_packets - ports.accepted_packets)[links].sum() + dropped
    marked = (after.marked_packets - ports.marked_packets)[links].sum()
    return Measured(
        goodput_bps=8 * float((hosts_after.received_bytes - hosts.received_bytes).sum()) / span_s,
        queue_bytes=float((after.queue_byte_s - ports.queue_byte_s)[links].sum()) / span_s,
        signalled=float(marked + dropped) / float(arrived),
        fct_s=flows.finish_s - flows.start_s,
        simulated_s=network.now_s,
        wall_s=wall_s,
    )


def routes_of(network: PacketNetwork) -> Iterator[tuple[int, int, int]]:
    """Node, destination host, next node: the ways that sysgym's flows and their ACKs take."""
    topology, schedule = network.topology, network.schedule
    for acks, destinations in ((False, schedule.dst), (True, schedule.src)):
        for links, destination in zip(network.routes(acks=acks), destinations, strict=True):
            for link in links[links >= 0]:
                yield int(topology.link_source[link]), int(destination), int(topology.link_target[link])


def description(network: PacketNetwork, law: str) -> str:
    """What against_ns3.cc reads: the same world, with the ways that sysgym's flows take."""
    topology, schedule = network.topology, network.schedule
    ends = bool(np.all(schedule.size_bytes != LONG_LIVED))
    lines = [
        f"law {LAWS[law]} sack {int(law not in WITHOUT_SACK)} segment_bytes {SEGMENT_BYTES}",
        f"window_bytes {WINDOW_PACKETS * SEGMENT_BYTES} initial_window {INITIAL_WINDOW}",
        f"delayed_ack 1 min_rto_s {MIN_RTO_S}",
        f"disc_bytes {BUFFER_BYTES - BELOW_DISC_BYTES}",
        f"mark_bytes {MARK_BYTES - BELOW_DISC_BYTES if law == 'dctcp' else 0}",
        f"host_disc_bytes {HOST_BUFFER_BYTES} warmup_ns {0 if ends else round(WARMUP_S * 1e9)}",
        f"end_ns {round((LONGEST_S if ends else WARMUP_S + MEASURED_S) * 1e9)} stop_when_done {int(ends)}",
        f"nodes {topology.n_hosts + topology.n_switches} hosts {topology.n_hosts}",
        f"cables {topology.n_links // 2}",
    ]
    for link in range(0, topology.n_links, 2):
        lines.append(
            f"{topology.link_source[link]} {topology.link_target[link]} "
            f"{topology.link_rate_bps[link]:.0f} {topology.link_delay_s[link]}"
        )
    links = observed_links(topology)
    lines.append(f"observed {len(links)}")
    lines += [f"{topology.link_source[link]} {topology.link_target[link]}" for link in links]
    ways = sorted(set(routes_of(network)))
    lines.append(f"routes {len(ways)}")
    lines += [f"{node} {destination} {next_node}" for node, destination, next_node in ways]
    lines.append(f"flows {len(schedule.src)}")
    for src, dst, start_ns, size in zip(
        schedule.src, schedule.dst, schedule.start_ns, schedule.size_bytes, strict=True
    ):
        lines.append(f"{src} {dst} {start_ns} {NEVER_ENDING_BYTES if size == LONG_LIVED else size}")
    return "\n".join(lines) + "\n"


def run_ns3(driver: Path, network: PacketNetwork, law: str) -> Measured:
    """Runs the flows that the network has now on ns-3."""
    done = subprocess.run(
        [driver], input=description(network, law), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"{driver} failed with {done.returncode}:\n{done.stderr}")
    rows = [line.split() for line in done.stdout.splitlines()]
    one = {key: float(values[0]) for key, *values in rows if key != "flow"}
    finish_ns = np.array([int(row[2]) for row in rows if row[0] == "flow"], dtype=np.float64)
    ends = bool(np.all(network.schedule.size_bytes != LONG_LIVED))
    span_s = one["stopped_ns"] * 1e-9 - (0.0 if ends else WARMUP_S)
    fct_s = np.where(finish_ns < 0, np.nan, finish_ns - network.schedule.start_ns) * 1e-9
    return Measured(
        goodput_bps=8 * one["delivered_bytes"] / span_s,
        queue_bytes=one["queue_byte_ns"] * 1e-9 / span_s,
        signalled=(one["marked"] + one["dropped"]) / one["arrived"],
        fct_s=fct_s,
        simulated_s=one["stopped_ns"] * 1e-9,
        wall_s=one["wall_s"],
    )


def compiled_driver(prefix: Path, folder: Path) -> tuple[Path, str]:
    """Compiles against_ns3.cc; returns the program and ns-3's version."""
    libraries = next(
        (
            found[0].parent
            for name in ("lib64", "lib", f"lib/{platform.machine()}-linux-gnu")
            if (found := sorted((prefix / name).glob("libns3*-core*.so")))
        ),
        None,
    )
    if libraries is None:
        raise SystemExit(
            f"{prefix}: no lib64/libns3*-core*.so; PREFIX is what holds ns-3's include/ and lib64/"
        )
    include = next(iter(sorted(prefix.glob("include/**/core-module.h")))).parent.parent
    names = [
        min((path.name for path in libraries.glob(f"libns3*-{module}*.so")), key=len) for module in MODULES
    ]
    folder.mkdir(parents=True, exist_ok=True)
    program = folder / "against_ns3"
    flags = ["-O2", "-std=c++20", f"-I{include}", str(DRIVER), "-o", str(program), f"-L{libraries}"]
    flags += [f"-Wl,-rpath,{libraries}", "-Wl,--no-as-needed", *(f"-l:{name}" for name in names)]
    subprocess.run([os.environ.get("CXX", "g++"), *flags], check=True)
    return program, names[0].removeprefix("libns").split("-")[0]


def rows_of(label: str, law: str, ns3: Measured, ours: Measured) -> str:
    """A row of the table; differences are sysgym's to ns-3."""

    def both(theirs: float, own: float, unit: float, digits: int) -> str:
        return f"{theirs / unit:.{digits}f} / {own / unit:.{digits}f} ({own / theirs - 1:+.1%})"

    ends = bool(np.isfinite(ns3.fct_s).all() and np.isfinite(ours.fct_s).all())
    fct = ""
    if ends:
        fct = " | ".join(
            both(float(np.quantile(ns3.fct_s, q)), float(np.quantile(ours.fct_s, q)), 1e-3, 2)
            for q in (0.5, 0.9, 0.99)
        )
    else:
        fct = "– | – | –"
    ns3_speed, our_speed = ns3.simulated_s / ns3.wall_s, ours.simulated_s / ours.wall_s
    return (
        f"| {label} | {law} | {both(ns3.goodput_bps, ours.goodput_bps, 1e6, 1)} "
        f"| {both(ns3.queue_bytes, ours.queue_bytes, 1e3, 1)} "
        f"| {ns3.signalled:.3%} / {ours.signalled:.3%} | {fct} "
        f"| {ns3.wall_s:.2f} / {ours.wall_s:.3f} | {ns3_speed:.3f} / {our_speed:.1f} "
        f"| {our_speed / ns3_speed:.0f} × |"
    )


def main() -> None:
    """Compile the driver, run every world on both, print the table and write it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--ns3", type=Path, required=True, metavar="PREFIX", help="ns-3's include/ and lib64/"
    )
    parser.add_argument("--laws", nargs="+", choices=sorted(LAWS), default=list(LAWS))
    parser.add_argument("--out", type=Path, default=Path("results/against-ns3.md"))
    arguments = parser.parse_args()
    driver, version = compiled_driver(arguments.ns3.resolve(), Path("build/against_ns3"))
    lines = [
        f"ns-{version} against sysgym {sysgym.__version__}, "
        f"{platform.machine()}, Python {platform.python_version()}; every cell: ns-3 / sysgym",
        "",
        "| world | law | goodput, Mb/s | mean queue, kB | marked or dropped | FCT p50, ms | FCT p90, ms "
        "| FCT p99, ms | wall, s | simulated s per s | speed |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | --- | ---: |",
    ]
    print("\n".join(lines), flush=True)
    for label, hosts_per_side, finite in (
        ("dumbbell, N = 4", 4, False),
        ("dumbbell, N = 16", 16, False),
        ("dumbbell, 200 flows", 16, True),
    ):
        for law in arguments.laws:
            network = PacketNetwork(world(hosts_per_side, law), transport=transport_of(law))
            schedule = finite_flows(hosts_per_side) if finite else network.draw_schedule(1)
            ours = run_sysgym(network, schedule)
            lines.append(rows_of(label, law, run_ns3(driver, network, law), ours))
            print(lines[-1], flush=True)
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
