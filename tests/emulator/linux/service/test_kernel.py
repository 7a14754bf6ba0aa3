"""The service with worlds of the kernel: its functions, and cleaning up after kills."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from sysgym.emulator.linux.client import LinuxNetwork
from sysgym.emulator.linux.service.cleaning import clean, leftovers
from sysgym.emulator.linux.service.discovery import PrivateService
from sysgym.emulator.network import Controls
from sysgym.scenarios import CongestionScenario, load_scenario
from sysgym.scenarios.errors import BackendError, BackendUnavailable, ScenarioError, UnknownName
from tests.emulator.linux.service.helpers import alive, children, forked, n_sessions, wait_until, world_pid
from tests.emulator.linux.service.on_kernel import scenario, sid_of, tagged, traces

pytestmark = [pytest.mark.linux, pytest.mark.usefixtures("linux_backend")]

ROUNDS = int(os.environ.get("SYSGYM_KILL_ROUNDS", "2"))


@pytest.mark.parametrize("transport", ["cubic", "dctcp"])
def test_a_network_of_the_kernel(kernel_service: PrivateService, transport: str) -> None:
    with LinuxNetwork(scenario(), transport=transport, service=kernel_service.endpoint) as network:
        assert f"process of session {network._opened.session}" in traces(sid_of(kernel_service))  # type: ignore[union-attr]
        network.reset(1)
        network.advance(0.3)
        assert 0.3 <= network.now_s < 0.4
        assert network.hosts().delivered_bytes.sum() > 100_000
        before = network.hosts().delivered_bytes.sum()
        read = network.step(
            Controls(host_caps_bps=np.full(network.n_hosts, 1e6)), 0.3, read_flows=np.arange(2)
        )
        assert read.flow_counters is not None
        assert 0 < read.hosts.delivered_bytes.sum() - before < 0.3 * network.n_hosts * 1e6 / 8 * 4
        flows = network.flows()
        assert flows.started.any()
        assert flows.rtt_min_s[flows.started].min() > 0
        assert network.queue_quantile_bytes(0.99).shape == (network.n_links,)
        assert (network.oracle_rates_bps() >= 0).all()
        network.reset(1)
        assert network.hosts().delivered_bytes.sum() == 0


@pytest.mark.skipif(len(os.sched_getaffinity(0)) < 2, reason="this process may use one processor only")
def test_fast_links_have_a_processor_for_their_packets(kernel_service: PrivateService) -> None:
    if not Path("/proc/sys/net/core/rps_default_mask").exists():
        pytest.skip("this kernel has no setting net/core/rps_default_mask (Linux 6.4 and later)")
    before = os.sched_getaffinity(0)
    fast = load_scenario("linux-dumbbell-1g", expect=CongestionScenario)
    with LinuxNetwork(fast, transport="dctcp", service=kernel_service.endpoint) as network:
        (processor,) = before - os.sched_getaffinity(0)
        world_threads = list(map(int, os.listdir(f"/proc/{world_pid(network)}/task")))
        assert all(processor not in os.sched_getaffinity(thread) for thread in world_threads)
        before_it = handled_packets()
        network.reset(0)
        network.advance(0.3)
        handled = {number: count - before_it[number] for number, count in handled_packets().items()}
        assert handled[processor] > 1000
        assert handled[processor] > 0.9 * sum(handled.values())
    assert os.sched_getaffinity(0) == before


def handled_packets() -> dict[int, int]:
    """Packets that each processor has received, at all interfaces, by its number.

    ``/proc/net/softnet_stat`` has a line for each, with the count in column 1 and the number in column 13.
    """
    lines = [line.split() for line in Path("/proc/net/softnet_stat").read_text().splitlines()]
    return {int(columns[12], 16): int(columns[0], 16) for columns in lines}


def test_two_networks_of_one_service(kernel_service: PrivateService) -> None:
    one = LinuxNetwork(scenario(), transport="dctcp", service=kernel_service.endpoint)
    other = LinuxNetwork(scenario(), transport="dctcp", service=kernel_service.endpoint)
    for network in (one, other):
        network.reset(1)
    one.advance(0.2)
    assert one.hosts().delivered_bytes.sum() > 0
    assert other.refresh().hosts.delivered_bytes.sum() == 0
    other.close()
    one.advance(0.1)
    one.close()
    wait_until(lambda: n_sessions(kernel_service.endpoint) == 0)


def test_what_the_kernel_cannot_express(kernel_service: PrivateService) -> None:
    with pytest.raises(ScenarioError, match=r"topology\.link_delay_s"):
        LinuxNetwork(scenario({"topology.link_delay_s": 1e-3}), service=kernel_service.endpoint)
    with pytest.raises((UnknownName, BackendUnavailable, ScenarioError)):
        LinuxNetwork(scenario(), transport="hpcc", service=kernel_service.endpoint)
    odd = scenario().model_copy(update={"title": "$(touch /tmp/sysgym-was-here); `id`"})
    with LinuxNetwork(odd, transport="cubic", service=kernel_service.endpoint) as network:
        network.advance(0.01)
    assert not Path("/tmp/sysgym-was-here").exists()


def client_of(endpoint: str) -> Callable[[int], object]:
    """A client in the middle of an episode, and the numbers of its world and that one's children."""

    def act(fd: int) -> object:
        network = LinuxNetwork(scenario(), transport="dctcp", service=endpoint)
        pid = world_pid(network)
        os.write(fd, f"{pid} {' '.join(map(str, children(pid)))}\n".encode())
        os.close(fd)
        network.reset(1)
        network.advance(100.0)
        return network

    return act


def test_a_killed_client_leaves_nothing(kernel_service: PrivateService) -> None:
    wait_until(lambda: len(tagged(sid_of(kernel_service))) == 1)
    for _ in range(ROUNDS):
        pid, processes = forked(client_of(kernel_service.endpoint))
        assert len(processes) > 4
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        wait_until(lambda processes=processes: not any(map(alive, processes)))  # type: ignore[misc]
        wait_until(lambda: n_sessions(kernel_service.endpoint) == 0)
        assert len(tagged(sid_of(kernel_service))) == 1  # the process that waits for the next session


def test_a_killed_service_leaves_nothing_that_cleaning_does_not_find(short_path: Path) -> None:
    for _ in range(ROUNDS):
        service = PrivateService(short_path)
        sid = sid_of(service)
        network = LinuxNetwork(scenario(), transport="dctcp", service=service.endpoint)
        network.advance(0.05)
        world = world_pid(network)
        processes = [world, *children(world)]
        os.kill(service.pid, signal.SIGKILL)
        service._process.wait()
        with pytest.raises(BackendError):
            network.advance(10.0)
        network.close()
        wait_until(lambda processes=processes: not any(map(alive, processes)))  # type: ignore[misc]
        wait_until(lambda: [found.kind for found in leftovers([short_path])] == ["folder"])
        clean([short_path])
        wait_until(lambda sid=sid: traces(sid) == [])  # type: ignore[misc]
        assert list(short_path.iterdir()) == []


def test_a_killed_process_takes_its_private_service_along(kernel_service: PrivateService) -> None:
    for _ in range(ROUNDS):

        def act(fd: int) -> object:
            network = LinuxNetwork(scenario(), transport="dctcp")  # root: a service of its own
            assert network._private is not None
            endpoint = network._private.endpoint
            os.write(fd, f"{network._private.pid} {int(endpoint.split('/')[-2], 16)}\n".encode())
            os.close(fd)
            return network.advance(100.0)  # type: ignore[func-returns-value]

        pid, (service, number) = forked(act)
        sid = f"{number:04x}"
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        wait_until(lambda service=service: not alive(service))  # type: ignore[misc]
        wait_until(lambda sid=sid: traces(sid) == [])  # type: ignore[misc]
        assert not Path("/run/sysgym", sid).exists()


def test_networks_of_a_process_share_a_private_service() -> None:
    one = LinuxNetwork(scenario(), transport="cubic")
    other = LinuxNetwork(scenario(), transport="cubic")
    assert one._private is not None
    assert one._private is other._private
    service = one._private.pid
    one.close()
    one.close()
    other.advance(0.01)
    other.close()
    assert not alive(service)
    with LinuxNetwork(scenario(), transport="cubic") as another:
        assert another._private is not None
        assert another._private.pid != service


def test_without_root_a_service_has_to_run(kernel_service: PrivateService, short_path: Path) -> None:
    del kernel_service

    def act(fd: int) -> object:
        os.environ.pop("SYSGYM_EMULATOR", None)
        os.environ["XDG_RUNTIME_DIR"] = str(short_path / "nowhere")
        os.setuid(65534)
        try:
            LinuxNetwork(scenario())
        except BackendUnavailable as error:
            found = "sudo sysgym emulator serve" in str(error)
            os.write(fd, f"{int(found)}\n".encode())
            os.close(fd)
        os._exit(0)

    pid, (found,) = forked(act)
    os.waitpid(pid, 0)
    assert found == 1
