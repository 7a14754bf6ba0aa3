"""Topologies as namespaces: all hosts reach each other, over the topology's paths."""

from __future__ import annotations

import collections
import os
import signal
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from sysgym.emulator.linux.kernel.bpf_programs import Programs
from sysgym.emulator.linux.kernel.fabric import Fabric
from sysgym.emulator.packets.topology import Topology, build_topology
from sysgym.errors import BackendError, BackendUnavailable
from sysgym.scenarios import CongestionScenario, load_scenario

pytestmark = pytest.mark.linux

TOPOLOGIES: dict[str, dict[str, Any]] = {
    "iroko-dumbbell-10m": {},
    "incast-32": {"topology.hosts": 6, "workload.senders": 4},
    "parking-lot-4": {},
    "leafspine-hadoop": {},
    "iroko-fattree-10m": {},
    "jellyfish-20": {  # a triangle with names too long for the kernel's interfaces
        "topology.switches": ["los-angeles-of-california", "denver", "kansas-city-of-missouri"],
        "topology.cables": [
            {"ends": ["los-angeles-of-california", "denver"]},
            {"ends": ["denver", "kansas-city-of-missouri"]},
            {"ends": ["los-angeles-of-california", "kansas-city-of-missouri"]},
        ],
    },
}


@pytest.fixture(autouse=True)
def _needs_programs(programs: Programs) -> None:
    """Skips, with the reason, where there is no root."""


def congestion(name: str, overrides: dict[str, Any]) -> CongestionScenario:
    scenario = load_scenario(name, overrides=overrides)
    assert isinstance(scenario, CongestionScenario)
    return scenario


@pytest.fixture(params=sorted(TOPOLOGIES))
def fabric(request: pytest.FixtureRequest) -> Iterator[Fabric]:
    scenario = congestion(request.param, TOPOLOGIES[request.param])
    made = Fabric(build_topology(scenario.topology), scenario.transport)
    yield made
    made.close()


def echo_works(fabric: Fabric, source: int, target: int) -> bool:
    """One ICMP echo request and its answer (RFC 792): a ping."""
    with fabric.namespace(source).entered():
        ping = socket.socket(socket.AF_INET, socket.SOCK_RAW, socket.IPPROTO_ICMP)
    with ping:
        ping.settimeout(1.0)
        body = struct.pack("!BBHHH", 8, 0, 0, os.getpid() & 0xFFFF, target)
        total = sum(struct.unpack("!4H", body))
        checksum = ~((total & 0xFFFF) + (total >> 16)) & 0xFFFF
        request = body[:2] + struct.pack("!H", checksum) + body[4:]
        ping.sendto(request, (str(fabric.addresses[target]), 0))
        while True:
            try:
                answer = ping.recv(1500)[20:]
            except TimeoutError:
                return False
            if answer[0] == 0 and answer[6:8] == request[6:8]:
                return True


def test_first_packets_between_all_hosts_arrive(fabric: Fabric) -> None:
    hosts = range(fabric.topology.n_hosts)
    assert [(a, b) for a in hosts for b in hosts if a != b and not echo_works(fabric, a, b)] == []


def test_routes_are_shortest_paths_over_links_of_the_topology(fabric: Fabric) -> None:
    topology = fabric.topology
    first, last = 0, topology.n_hosts - 1
    for port in range(50_000, 50_016):
        route = fabric.route(first, last, port, 5001)
        assert route[0] == topology.host_uplink[first]
        assert route[-1] == topology.host_downlink[last]
        assert np.array_equal(topology.link_target[route[:-1]], topology.link_source[route[1:]])


def fat_tree() -> tuple[Topology, Any]:
    scenario = congestion("iroko-fattree-10m", {})
    return build_topology(scenario.topology), scenario.transport


def test_flows_spread_over_all_paths_of_the_fat_tree_and_always_alike() -> None:
    topology, ends = fat_tree()
    routes = []
    for _ in range(2):
        fabric = Fabric(topology, ends)
        routes.append([tuple(fabric.route(0, 15, 50_000 + i, 5001).tolist()) for i in range(200)])
        fabric.close()
    assert routes[0] == routes[1]
    counts = collections.Counter(routes[0])
    assert len(counts) == 4  # one path over every core switch
    assert min(counts.values()) > 25


def test_packets_take_the_route_that_is_told(programs: Programs) -> None:
    """The kernel forwards a connection as it says that it would."""
    from sysgym.emulator.linux.kernel.queues import PortSettings, Queues
    from sysgym.emulator.linux.traffic.sockets import ConnectionMaker, Law, Wanted

    topology, ends = fat_tree()
    fabric = Fabric(topology, ends, first_port=1)
    try:
        queues = Queues(programs)
        for link, interface in enumerate(fabric.interfaces):
            queues.set_port(fabric.netns_pid(link), interface.name, PortSettings(1e9, 1_000_000), link + 1)
        maker = ConnectionMaker(fabric, [Law("cubic")], first_port=5001, window_bytes=1 << 20)
        ports = np.arange(1, topology.n_links + 1)
        for number in range(8):
            before = queues.readings(ports)[3]
            connection = maker.open([Wanted(0, 0, 15, 50_000 + number, 0, 0)])[0]
            connection.sender.send(bytes(5000))
            time.sleep(0.02)
            told = fabric.route(0, 15, 50_000 + number, 5001)
            sent_bytes = queues.readings(ports)[3] - before
            assert set(np.flatnonzero(sent_bytes > 4000)) == set(told.tolist())
            connection.close()
            time.sleep(0.01)
        maker.close()
    finally:
        programs.sockets.close()
        fabric.close()


def test_set_up_is_quick() -> None:
    """A guard against a process for each link: the limit is far above the 0.2 s that messages take."""
    topology = build_topology(congestion("iroko-dumbbell-1g", {}).topology)
    _, ends = fat_tree()
    took_s = []
    for _ in range(3):
        begun = time.perf_counter()
        fabric = Fabric(topology, ends)
        took_s.append(time.perf_counter() - begun)
        fabric.close()
    assert min(took_s) < 2.0


def test_node_has_no_shell() -> None:
    topology, ends = fat_tree()
    fabric = Fabric(topology, ends)
    try:
        with pytest.raises(BackendError, match="no shell"):
            fabric.nodes[0].cmd("true; touch /tmp/never")
    finally:
        fabric.close()


def test_missing_mnexec_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    topology, ends = fat_tree()
    real = subprocess.Popen

    def without_mnexec(arguments: list[str], **kwargs: Any) -> Any:
        return real(["no-such-program", *arguments[1:]], **kwargs)

    monkeypatch.setattr("sysgym.emulator.linux.kernel.nodes.subprocess.Popen", without_mnexec)
    with pytest.raises(BackendUnavailable, match="apt-get install mininet"):
        Fabric(topology, ends)


def test_missing_distutils_is_named_by_the_package_that_brings_it() -> None:
    """Python 3.12 and later have none of their own, and Mininet imports it."""
    without = "import sys; sys.modules['distutils'] = None; import sysgym.emulator.linux.kernel.nodes"
    done = subprocess.run([sys.executable, "-c", without], capture_output=True, text=True, check=False)
    assert "the Python package setuptools is not installed" in done.stderr


_OWNER = """
import sys, time
from sysgym.emulator.linux.kernel.fabric import Fabric
from sysgym.emulator.packets.topology import build_topology
from sysgym.scenarios import load_scenario
scenario = load_scenario("iroko-dumbbell-10m")
fabric = Fabric(build_topology(scenario.topology), scenario.transport)
print(*(node.pid for node in fabric.nodes), flush=True)
time.sleep(60)
"""


def test_nodes_go_when_their_process_is_killed() -> None:
    owner = subprocess.Popen([sys.executable, "-c", _OWNER], stdout=subprocess.PIPE)
    assert owner.stdout is not None
    pids = [int(pid) for pid in owner.stdout.readline().split()]
    assert len(pids) == 6
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    owner.stdout.close()
    deadline = time.monotonic() + 5
    while any(os.path.exists(f"/proc/{pid}/ns/net") for pid in pids) and time.monotonic() < deadline:
        time.sleep(0.01)
    assert [pid for pid in pids if os.path.exists(f"/proc/{pid}/ns/net")] == []
