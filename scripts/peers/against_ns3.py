"""Compare ns-3 and sysgym on the same networks and flows, in one table: against_ns3.py --ns3 PREFIX.

PREFIX has ns-3's include/ and lib64/ (or lib/): the folder ``ns3`` that ``pip install ns3`` makes, or /usr
with Debian's libns3-dev. The driver, against_ns3.cc, is compiled with g++. Finished runs are kept in
build/against_ns3, so that an interrupted comparison is resumed. docs/against-ns3.md explains the table.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import math
import os
import platform
import subprocess
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from scipy.stats import t as student_t

import sysgym
from sysgym.emulator.packets.network import PacketNetwork
from sysgym.emulator.packets.transports import Transport, get_transport
from sysgym.emulator.packets.workloads.flow_sizes import get_flow_sizes
from sysgym.emulator.packets.workloads.schedule import LONG_LIVED, FlowSchedule, make_schedule
from sysgym.scenarios import CongestionScenario, load_scenario

DRIVER = Path(__file__).with_suffix(".cc")
MODULES = ("core", "network", "internet", "point-to-point", "traffic-control")
KEPT = Path("build/against_ns3")
PAGE = Path("docs/against-ns3.md")
BEGIN, END = "<!-- table: made by scripts/peers/against_ns3.py -->", "<!-- end of table -->"

# New Reno twice: sysgym's own recovers without SACK, and the same law with SACK shows what recovery does.
LAWS = {"dctcp": "TcpDctcp", "cubic": "TcpCubic", "reno+sack": "TcpNewReno", "reno": "TcpNewReno"}
WITHOUT_SACK = ("reno",)
# With PRR ns-3 would spread DCTCP's reductions over a round trip; RFC 8257 reduces at once.
CLASSIC_RECOVERY = ("dctcp", "reno")

DELAY_S = 10e-6
PACKET_BYTES = 1502  # IP's 1500 and the two of ns-3's PPP header
SEGMENT_BYTES = 1460
ACK_BYTES = 42
BUFFER_BYTES = 250 * PACKET_BYTES
HOST_BUFFER_BYTES = 20_000_000  # a host never drops
FIFO_HOST_PACKETS = 4096  # the flows wait in the card's queue, as in ns-3, not for their turns
WINDOW_PACKETS = 512  # more than the bottleneck's buffer and the path hold
INITIAL_WINDOW = 10
MIN_RTO_S = 0.01
# ns-3's queue disc counts neither the packet on the wire (half of it is left on average) nor the device's.
BELOW_DISC_BYTES = round(1.5 * PACKET_BYTES)

LONGEST_S = 30.0
NEVER_ENDING_BYTES = 2_000_000_000

BARS = {"goodput": 0.03, "queue": 0.15, "fct": 0.10}
PERCENTILES = (50, 90, 99)


@dataclass(frozen=True)
class World:
    """A network and its flows."""

    label: str
    topology: dict[str, Any]
    warmup_s: float = 0.3
    measured_s: float = 0.9
    pairs: str = "one_to_one"
    n_flows: int = 0
    """That end; 0: all are long-lived."""
    load: float = 0.0
    n_seeds: int = 1
    laws: tuple[str, ...] = ("dctcp", "cubic", "reno+sack")
    rate_bps: float = 1e9
    mark_packets: int = 65

    @property
    def mark_bytes(self) -> int:
        """Queue above which DCTCP's packets are marked, bytes."""
        return self.mark_packets * PACKET_BYTES


DUMBBELL = {"kind": "dumbbell", "hosts_per_side": 16}
FAT_TREE = {"kind": "fat_tree", "k": 4}
WORLDS = (
    World("dumbbell, N = 4", {"kind": "dumbbell", "hosts_per_side": 4}, laws=tuple(LAWS)),
    World("dumbbell, N = 16", DUMBBELL),
    # A share of less than two packets a round trip, which is as low as sysgym's window goes.
    World(
        "dumbbell, N = 24, 2.5 Gb/s, mark 20",
        {"kind": "dumbbell", "hosts_per_side": 24},
        laws=("dctcp",),
        rate_bps=2.5e9,
        mark_packets=20,
    ),
    World("fat-tree, permutation", FAT_TREE, 0.1, 0.3, pairs="random_bijective", n_seeds=5),
    World("dumbbell, 200 flows", DUMBBELL, n_flows=200, load=0.6, n_seeds=10),
    World("fat-tree, 200 flows", FAT_TREE, n_flows=200, load=0.3, n_seeds=5),
)


@dataclass(frozen=True)
class Measured:
    """What one run of one simulator gave."""

    goodput_bps: float
    queue_bytes: float
    """Time average, summed over the observed ports."""
    signalled: float
    """Share of the packets that arrived at these ports and were marked, or dropped."""
    fct_s: list[float]
    timeouts: int
    simulated_s: float
    cpu_s: float


def scenario_of(world: World, law: str, *, fifo_hosts: bool) -> CongestionScenario:
    """The world in sysgym's terms."""
    base = load_scenario("dumbbell-10g", expect=CongestionScenario)
    resolved: dict[str, Any] = base.resolved()
    resolved["topology"] = world.topology | {"link_rate_bps": world.rate_bps, "link_delay_s": DELAY_S}
    resolved["queue"] = {"buffer_bytes": BUFFER_BYTES} | (
        {"ecn_threshold_bytes": world.mark_bytes} if law == "dctcp" else {}
    )
    resolved["transport"] = {
        "mtu_bytes": PACKET_BYTES,
        "header_bytes": PACKET_BYTES - SEGMENT_BYTES,
        "ack_bytes": ACK_BYTES,
        "initial_window_packets": INITIAL_WINDOW,
        "min_rto_s": MIN_RTO_S,
        "max_window_packets": WINDOW_PACKETS,
        "loss_detection": "dupack",  # ns-3.44 has no RACK
    } | ({"host_queue_packets": FIFO_HOST_PACKETS} if fifo_hosts else {})
    resolved["workload"] = {"kind": "long_lived", "pairs": world.pairs, "start_jitter_s": 1e-3}
    for split in ("train", "validation", "test"):
        resolved["splits"][split]["vary"] = {}
    return CongestionScenario.model_validate(resolved)


def transport_of(law: str) -> Transport:
    """Sysgym's transport of one of ``LAWS``."""
    if law == "reno+sack":
        return replace(get_transport("reno"), recovery="sack")
    return get_transport(law)


def finite_flows(world: World, n_hosts: int, seed: int) -> FlowSchedule:
    """Flows that end: web-search sizes, Poisson arrivals, drawn senders and receivers (of a dumbbell: east).

    The load is that of the dumbbell's bottleneck, or of every host's line.
    """
    rng = np.random.default_rng([2026, seed])
    sizes = get_flow_sizes("websearch").sample(rng, world.n_flows)
    if world.topology["kind"] == "dumbbell":
        half, n_lines = n_hosts // 2, 1
        src = rng.integers(0, half, world.n_flows)
        dst = half + rng.integers(0, half, world.n_flows)
    else:
        n_lines = n_hosts
        src = rng.integers(0, n_hosts, world.n_flows)
        dst = (src + rng.integers(1, n_hosts, world.n_flows)) % n_hosts
    flow_bytes = get_flow_sizes("websearch").mean_bytes() * PACKET_BYTES / SEGMENT_BYTES
    gap_s = flow_bytes * 8 / (world.load * n_lines * world.rate_bps)
    starts_s = np.cumsum(rng.exponential(gap_s, world.n_flows))
    return make_schedule(rng, src, dst, size_bytes=sizes, start_ns=np.round(starts_s * 1e9))


def observed_links(network: PacketNetwork) -> NDArray[np.int64]:
    """The bottleneck, or every port of every switch."""
    bottleneck = network.topology.links_named("west->east")
    return bottleneck if len(bottleneck) else network.topology.switch_ports


def run_sysgym(network: PacketNetwork, world: World, schedule: FlowSchedule, seed: int) -> Measured:
    """Runs the flows on sysgym.

    Once before the clock starts, to compile what has to be compiled and, of flows that end, to learn when.
    """
    links = observed_links(network)
    warmup_s, end_s = 0.0, world.warmup_s + world.measured_s
    network.reset(seed, schedule)
    if world.n_flows:
        while np.isnan(network.flows().finish_s).any() and network.now_s < LONGEST_S:
            network.advance(50e-3)
        end_s = math.ceil(float(network.flows().finish_s.max()) * 1e3) * 1e-3
    else:
        warmup_s = world.warmup_s
        network.advance(end_s)
    network.reset(seed, schedule)
    began = time.process_time()
    network.advance(warmup_s)
    ports, hosts, from_s = network.ports(), network.hosts(), network.now_s
    network.advance(end_s - warmup_s)
    cpu_s = time.process_time() - began
    after, hosts_after, flows = network.ports(), network.hosts(), network.flows()
    span_s = network.now_s - from_s
    dropped = (after.dropped_packets - ports.dropped_packets)[links].sum()
    arrived = (after.accepted_packets - ports.accepted_packets)[links].sum() + dropped
    marked = (after.marked_packets - ports.marked_packets)[links].sum()
    return Measured(
        goodput_bps=8 * float((hosts_after.received_bytes - hosts.received_bytes).sum()) / span_s,
        queue_bytes=float((after.queue_byte_s - ports.queue_byte_s)[links].sum()) / span_s,
        signalled=float(marked + dropped) / float(arrived),
        fct_s=(flows.finish_s - flows.start_s).tolist() if world.n_flows else [],
        timeouts=int(hosts_after.timeouts.sum()),
        simulated_s=network.now_s,
        cpu_s=cpu_s,
    )


def ways_of(network: PacketNetwork) -> Iterator[str]:
    """For every flow the way of its data and that of its ACKs: how many nodes, and which."""
    topology = network.topology
    for links_of_both in zip(network.routes(), network.routes(acks=True), strict=True):
        ways = []
        for padded in links_of_both:
            links = padded[padded >= 0]
            nodes = [topology.link_source[links[0]], *topology.link_target[links]]
            ways.append(" ".join(str(number) for number in (len(nodes), *nodes)))
        yield " ".join(ways)


def description(network: PacketNetwork, world: World, law: str, seed: int) -> str:
    """What against_ns3.cc reads: the same world, with the ways that sysgym's flows take."""
    topology, schedule = network.topology, network.schedule
    ends = bool(world.n_flows)
    end_s = LONGEST_S if ends else world.warmup_s + world.measured_s
    lines = [
        f"law {LAWS[law]} sack {int(law not in WITHOUT_SACK)}",
        f"recovery {'TcpClassicRecovery' if law in CLASSIC_RECOVERY else 'TcpPrrRecovery'}",
        f"segment_bytes {SEGMENT_BYTES}",
        f"window_bytes {WINDOW_PACKETS * SEGMENT_BYTES} initial_window {INITIAL_WINDOW}",
        f"delayed_ack 1 min_rto_s {MIN_RTO_S}",
        f"disc_bytes {BUFFER_BYTES - BELOW_DISC_BYTES}",
        f"mark_bytes {world.mark_bytes - BELOW_DISC_BYTES if law == 'dctcp' else 0}",
        f"host_disc_bytes {HOST_BUFFER_BYTES}",
        f"host_jitter_ns {round(PACKET_BYTES * 8e9 / world.rate_bps)} seed {seed + 1}",
        f"warmup_ns {0 if ends else round(world.warmup_s * 1e9)}",
        f"end_ns {round(end_s * 1e9)} stop_when_done {int(ends)}",
        f"nodes {topology.n_hosts + topology.n_switches} hosts {topology.n_hosts}",
        f"cables {topology.n_links // 2}",
    ]
    for link in range(0, topology.n_links, 2):
        lines.append(
            f"{topology.link_source[link]} {topology.link_target[link]} "
            f"{topology.link_rate_bps[link]:.0f} {topology.link_delay_s[link]}"
        )
    links = observed_links(network)
    lines.append(f"observed {len(links)}")
    lines += [f"{topology.link_source[link]} {topology.link_target[link]}" for link in links]
    lines.append(f"flows {len(schedule.src)}")
    for start_ns, size, way in zip(schedule.start_ns, schedule.size_bytes, ways_of(network), strict=True):
        lines.append(f"{start_ns} {NEVER_ENDING_BYTES if size == LONG_LIVED else size} {way}")
    return "\n".join(lines) + "\n"


def run_ns3(driver: Path, network: PacketNetwork, world: World, law: str, seed: int) -> Measured:
    """Runs the flows that the network has now on ns-3."""
    done = subprocess.run(
        [driver], input=description(network, world, law, seed), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"{driver} failed with {done.returncode}:\n{done.stderr}")
    rows = [line.split() for line in done.stdout.splitlines()]
    one = {key: float(values[0]) for key, *values in rows if key != "flow"}
    finish_ns = np.array([int(row[2]) for row in rows if row[0] == "flow"], dtype=np.float64)
    span_s = one["stopped_ns"] * 1e-9 - (0.0 if world.n_flows else world.warmup_s)
    fct_s = np.where(finish_ns < 0, np.nan, finish_ns - network.schedule.start_ns) * 1e-9
    return Measured(
        goodput_bps=8 * one["delivered_bytes"] / span_s,
        queue_bytes=one["queue_byte_ns"] * 1e-9 / span_s,
        signalled=(one["marked"] + one["dropped"]) / one["arrived"],
        fct_s=fct_s.tolist() if world.n_flows else [],
        timeouts=int(one["timeouts"]),
        simulated_s=one["stopped_ns"] * 1e-9,
        cpu_s=one["cpu_s"],
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


def kept_or_run_ns3(driver: Path, network: PacketNetwork, world: World, law: str, seed: int) -> Measured:
    """What was kept of the same run of the same program, or a new run."""
    digest = hashlib.sha256(driver.read_bytes() + description(network, world, law, seed).encode())
    kept = KEPT / f"{digest.hexdigest()[:24]}.json"
    if kept.exists():
        return Measured(**json.loads(kept.read_text(encoding="utf-8")))
    measured = run_ns3(driver, network, world, law, seed)
    kept.write_text(json.dumps(asdict(measured)), encoding="utf-8")
    return measured


def compare(driver: Path, world: World, law: str, seed: int) -> dict[str, Measured]:
    """One run of each: ns-3, sysgym with ns-3's FIFO hosts, and, of flows that end, sysgym as it is."""
    network = PacketNetwork(scenario_of(world, law, fifo_hosts=True), transport=transport_of(law))
    schedule = finite_flows(world, network.n_hosts, seed) if world.n_flows else network.draw_schedule(seed)
    measured = {"sysgym": run_sysgym(network, world, schedule, seed)}
    measured["ns-3"] = kept_or_run_ns3(driver, network, world, law, seed)
    if world.n_flows:
        as_it_is = PacketNetwork(scenario_of(world, law, fifo_hosts=False), transport=transport_of(law))
        measured["in turns"] = run_sysgym(as_it_is, world, schedule, seed)
    return measured


Runs = list[dict[str, Measured]]


def difference(ours: NDArray[np.float64], theirs: NDArray[np.float64]) -> tuple[float, float]:
    """Mean relative difference over the seeds, and half its 95 % interval (Student's t; nan of one seed)."""
    logs = np.log(ours / theirs)
    if len(logs) < 2:
        return float(np.expm1(logs[0])), math.nan
    half = student_t.ppf(0.975, len(logs) - 1) * logs.std(ddof=1) / math.sqrt(len(logs))
    return float(np.expm1(logs.mean())), float(half)


def row(world: World, law: str, runs: Runs, name: str) -> str:
    """A row of the table: means over the seeds, ns-3's and sysgym's; what is outside its bar is bold."""

    def cell(bar: str, values: Any, unit: float, digits: int) -> str:
        ours = np.array([values(run[name]) for run in runs])
        theirs = np.array([values(run["ns-3"]) for run in runs])
        mean, half = difference(ours, theirs)
        interval = "" if math.isnan(half) else f" ± {100 * half:.0f}"
        text = f"{theirs.mean() / unit:.{digits}f} / {ours.mean() / unit:.{digits}f}"
        change = f"{100 * mean:+.1f}{interval} %"
        return f"{text} (**{change}**)" if abs(mean) > BARS[bar] else f"{text} ({change})"

    def total(name: str, key: str) -> float:
        return float(sum(getattr(run[name], key) for run in runs))

    signalled = " / ".join(f"{np.mean([run[who].signalled for run in runs]):.2%}" for who in ("ns-3", name))
    fct = ["–"] * len(PERCENTILES)
    if world.n_flows:
        fct = [cell("fct", lambda one, q=q: np.percentile(one.fct_s, q), 1e-3, 2) for q in PERCENTILES]
    speeds = [total(who, "simulated_s") / total(who, "cpu_s") for who in ("ns-3", name)]
    cells = [
        world.label + (", hosts in turns" if name == "in turns" else ""),
        law,
        cell("goodput", lambda one: one.goodput_bps, 1e6, 1),
        cell("queue", lambda one: one.queue_bytes, 1e3, 1),
        signalled.replace("%", " %"),
        *fct,
        f"{total('ns-3', 'cpu_s') / len(runs):.1f} / {total(name, 'cpu_s') / len(runs):.3f}",
        f"{speeds[1] / speeds[0]:.0f} ×",
    ]
    return f"| {' | '.join(cells)} |"


def table(finished: dict[tuple[int, str], Runs]) -> str:
    """All rows; those of sysgym's own hosts last."""
    lines = [
        "| world | law | goodput, Mb/s | mean queue, kB | marked or dropped | FCT p50, ms | FCT p90, ms "
        "| FCT p99, ms | CPU, s | speed |",
        "| --- | --- | --- | --- | --- | --- | --- | --- | --- | ---: |",
    ]
    for name in ("sysgym", "in turns"):
        lines += [
            row(WORLDS[number], law, runs, name)
            for (number, law), runs in finished.items()
            if name in runs[0]
        ]
    return "\n".join(lines)


def main() -> None:
    """Compile the driver, run every world on both, print the table and, if asked, write it into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--ns3", type=Path, required=True, metavar="PREFIX", help="ns-3's include/ and lib64/"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="runs at the same time")
    parser.add_argument("--only", default="", metavar="TEXT", help="worlds whose label contains this")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE}")
    arguments = parser.parse_args()
    driver, version = compiled_driver(arguments.ns3.resolve(), KEPT)
    jobs = [
        (number, law, seed)
        for number, world in enumerate(WORLDS)
        if arguments.only in world.label
        for law in world.laws
        for seed in range(world.n_seeds)
    ]
    done = {}
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns) as progress, ProcessPoolExecutor(arguments.jobs) as pool:
        task = progress.add_task("runs", total=len(jobs))
        pending = {pool.submit(compare, driver, WORLDS[job[0]], *job[1:]): job for job in jobs}
        for future in as_completed(pending):
            number, law, seed = pending[future]
            done[number, law, seed] = future.result()
            progress.update(task, advance=1)
            progress.console.print(f"{WORLDS[number].label}, {law}, seed {seed}", highlight=False)
    finished: dict[tuple[int, str], Runs] = {}
    for number, law, seed in jobs:
        finished.setdefault((number, law), []).append(done[number, law, seed])
    lines = [
        f"ns-{version}, sysgym {sysgym.__version__}, Python {platform.python_version()},"
        f" {os.cpu_count()} processors ({platform.machine()}).",
        "",
        table(finished),
    ]
    print("\n".join(lines))
    if arguments.write:
        page = PAGE.read_text(encoding="utf-8")
        before, rest = page.split(BEGIN)
        after = rest.split(END)[1]
        PAGE.write_text("\n".join([before + BEGIN, *lines, END + after]), encoding="utf-8")


if __name__ == "__main__":
    main()
