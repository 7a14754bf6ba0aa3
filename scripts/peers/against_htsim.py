"""Speed beside htsim on the same networks: python scripts/peers/against_htsim.py --htsim FOLDER.

FOLDER is a clone of https://github.com/Broadcom/csg-htsim, whose library is built there (``make -C FOLDER/sim
libhtsim.a``, with its own -O3) if it is not yet. The driver, against_htsim.cc, builds every network link by
link as the simulator here has it, with the routes of its flows, so that both forward the same packets. The
two take turns, and only the processor time after a warm-up counts. A packet-hop is one packet, data or ACK,
that crosses one link. The flows are long-lived and have DCTCP; here, statistics, loss recovery by time and
the law's callbacks are on, as they always are. htsim counts headers as goodput.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from rich.progress import track

from sysgym.emulator.packets.network import PacketNetwork
from sysgym.scenarios import CongestionScenario, load_scenario

DRIVER = Path(__file__).with_suffix(".cc")
BUILD = Path("build/against_htsim")
PAGE = Path("docs/speed.md")
BEGIN, END = "<!-- begin htsim -->", "<!-- end htsim -->"

RATE_BPS, DELAY_S = 10e9, 10e-6
HOPS = 20e6
"""Packet-hops of a measurement, about."""


@dataclass(frozen=True)
class World:
    """A network of long-lived flows, one from each host or, on a dumbbell, each sender."""

    label: str
    topology: dict[str, Any]
    hops_per_s: float  # of simulated time, about
    warmup_s: float = 10e-3


WORLDS = (
    *(
        World(f"dumbbell, {n} flows", {"kind": "dumbbell", "hosts_per_side": n}, 5e6)
        for n in (4, 16, 64, 512)
    ),
    *(
        World(f"fat tree, k = {k}, {k**3 // 4} flows", {"kind": "fat_tree", "k": k}, 7e6 * k**3 / 4, 4e-3)
        for k in (4, 8, 16)
    ),
)


class Speed(NamedTuple):
    """Result of one run after its warm-up."""

    hops: float
    cpu_s: float
    goodput_bps: float

    @property
    def hops_per_s(self) -> float:
        """Packet-hops per second of processor time."""
        return self.hops / self.cpu_s


def network_of(world: World) -> PacketNetwork:
    """Return the network of a world, with ports that both simulators have."""
    links = {"link_rate_bps": RATE_BPS, "link_delay_s": DELAY_S}
    overrides = {"topology": world.topology | links, "transport.ack_bytes": 64}
    scenario = load_scenario("dumbbell-10g", overrides=overrides, expect=CongestionScenario)
    return PacketNetwork(scenario, transport="dctcp")


def span_s(world: World) -> float:
    """Return the simulated time of a measurement."""
    return max(HOPS / world.hops_per_s, 2e-3)


def run_here(network: PacketNetwork, world: World) -> Speed:
    """Measure the simulator here."""
    network.reset(1)
    network.advance(world.warmup_s)
    hops, received_bytes = network.packet_hops, network.hosts().received_bytes.sum()
    began_s = time.process_time()
    network.advance(span_s(world))
    cpu_s = time.process_time() - began_s
    received_bytes = network.hosts().received_bytes.sum() - received_bytes
    return Speed(network.packet_hops - hops, cpu_s, 8 * float(received_bytes) / span_s(world))


def description(network: PacketNetwork, world: World) -> str:
    """Return what the driver reads: the network, and the routes that its flows take."""
    topology, queue = network.topology, network.scenario.queue
    mtu_bytes = network.scenario.transport.mtu_bytes
    times_ns = (round(world.warmup_s * 1e9), round((world.warmup_s + span_s(world)) * 1e9))
    lines = [f"{mtu_bytes} {queue.ecn_threshold_bytes} {queue.buffer_bytes} {times_ns[0]} {times_ns[1]}"]
    lines.append(str(topology.n_links))
    for rate_bps, delay_s in zip(topology.link_rate_bps, topology.link_delay_s, strict=True):
        lines.append(f"{rate_bps:.0f} {round(delay_s * 1e9)}")
    schedule = network.schedule
    lines.append(str(len(schedule.src)))
    routes = zip(schedule.start_ns, network.routes(), network.routes(acks=True), strict=True)
    for start_ns, *ways in routes:
        used = [way[way >= 0] for way in ways]
        lines.append(" ".join(str(n) for n in (start_ns, *(n for way in used for n in (len(way), *way)))))
    return "\n".join(lines) + "\n"


def run_htsim(driver: Path, network: PacketNetwork, world: World) -> Speed:
    """Measure htsim on the flows that the network has now."""
    done = subprocess.run(
        [driver], input=description(network, world), capture_output=True, text=True, check=False
    )
    if done.returncode != 0:
        raise SystemExit(f"{driver} failed with {done.returncode}:\n{done.stderr}")
    return Speed(*(float(word) for word in done.stdout.split()))


def compiled_driver(htsim: Path) -> Path:
    """Build htsim's library if needed, and the driver; return the program."""
    library = htsim / "sim" / "libhtsim.a"
    if not (htsim / "sim" / "dctcp.h").exists():
        raise SystemExit(f"{htsim}: no sim/dctcp.h; FOLDER is a clone of github.com/Broadcom/csg-htsim")
    if not library.exists():
        subprocess.run(["make", "-C", library.parent, f"-j{os.cpu_count()}", library.name], check=True)
    BUILD.mkdir(parents=True, exist_ok=True)
    program = (BUILD / "driver").resolve()
    flags = ["-O3", "-std=c++17", "-w", f"-I{library.parent}", str(DRIVER), str(library), "-o", str(program)]
    subprocess.run([os.environ.get("CXX", "g++"), *flags], check=True)
    return program


def processor() -> str:
    """Return the make of this machine's processor."""
    for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
        if line.startswith("model name"):
            return line.split(":", 1)[1].strip()
    return platform.processor() or platform.machine()


def row(world: World, here: list[Speed], theirs: list[Speed]) -> str:
    """Return a row of the table: medians over the turns."""
    ratios = sorted(a.hops_per_s / b.hops_per_s for a, b in zip(here, theirs, strict=True))
    ours, other = (median(one.hops_per_s for one in runs) for runs in (here, theirs))
    goodputs = " / ".join(f"{runs[0].goodput_bps / 1e9:.4g}" for runs in (here, theirs))
    return (
        f"| {world.label} | {ours / 1e6:.1f} | {other / 1e6:.2f} | {median(ratios):.1f} x |"
        f" {ratios[0]:.1f} to {ratios[-1]:.1f} | {goodputs} |"
    )


def main() -> None:
    """Measure all networks in turns, print the table and, if asked, write it into the page."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--htsim", type=Path, required=True, metavar="FOLDER", help="clone of htsim")
    parser.add_argument("--turns", type=int, default=5)
    parser.add_argument("--only", default="", metavar="TEXT", help="networks whose label contains this")
    parser.add_argument("--write", action="store_true", help=f"put the table into {PAGE}")
    arguments = parser.parse_args()
    driver = compiled_driver(arguments.htsim.resolve())
    lines = [
        f"On {processor()}, {arguments.turns} turns:",
        "",
        "| network | M packet-hops/s | htsim | ratio | in all turns | goodput, Gb/s, here / htsim |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for world in (world for world in WORLDS if arguments.only in world.label):
        network = network_of(world)
        run_here(network, world)  # compiles what has to be compiled
        here, theirs = [], []
        for _ in track(range(arguments.turns), world.label):
            theirs.append(run_htsim(driver, network, world))
            here.append(run_here(network, world))
        lines.append(row(world, here, theirs))
        print(lines[-1], flush=True)
    table = "\n".join(lines)
    print(table)
    if arguments.write:
        text = PAGE.read_text(encoding="utf-8")
        before, rest = text.split(BEGIN)
        PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{rest.split(END)[1]}", encoding="utf-8")


if __name__ == "__main__":
    main()
