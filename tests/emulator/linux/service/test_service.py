"""A service with correct and misbehaving clients, without the kernel."""

from __future__ import annotations

import os
import pwd
import signal
import stat
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgpack
import numpy as np
import pytest
import zmq

from sysgym.emulator.linux.client import LinuxNetwork
from sysgym.emulator.linux.service import messages as m
from sysgym.emulator.linux.service import protocol as p
from sysgym.emulator.linux.service.connection import Connection
from sysgym.emulator.linux.service.discovery import PrivateService, running_service
from sysgym.emulator.linux.service.runtime import pid_namespace, start_ticks
from sysgym.emulator.linux.service.wire_errors import from_wire
from sysgym.emulator.linux.service.worlds import MAX_SESSIONS, get_kind
from sysgym.emulator.network import Controls
from sysgym.emulator.packets.network import PacketNetwork
from sysgym.scenarios import CongestionScenario, load_scenario
from sysgym.scenarios.errors import BackendError, BackendUnavailable, SysgymError, UnknownName
from tests.emulator.linux.service.helpers import (
    KIND,
    LACKING,
    in_child,
    n_sessions,
    small,
    wait_until,
    world_pid,
)


def raw(endpoint: str) -> zmq.Socket[bytes]:
    """A client that does not know the protocol."""
    socket: zmq.Socket[bytes] = zmq.Context.instance().socket(zmq.DEALER)
    socket.linger = 0
    socket.rcvtimeo = 10_000
    socket.connect(endpoint)
    return socket


def error_to(endpoint: str, *frames: bytes) -> SysgymError:
    """What is answered to a message of these frames."""
    with raw(endpoint) as socket:
        socket.send_multipart(frames)
        return from_wire(msgpack.unpackb(socket.recv())["error"])


def endpoints(network: LinuxNetwork) -> tuple[str, str]:
    """Where its service and its world are reached."""
    assert network._service is not None
    assert network._world is not None
    return network._service.endpoint, network._world.endpoint


@pytest.mark.parametrize("name", ["dumbbell-10g", "incast-32"])
def test_the_network_behind_a_service_is_the_network(packet_service: PrivateService, name: str) -> None:
    scenario = load_scenario(name, expect=CongestionScenario)
    here = PacketNetwork(scenario, transport="dctcp")
    caps_bps = np.linspace(0.2, 1.0, here.n_hosts) * here.line_rate_bps
    with LinuxNetwork(scenario, transport="dctcp", service=packet_service.endpoint) as there:
        assert (there.n_hosts, there.n_links) == (here.n_hosts, here.n_links)
        assert there.warnings == ("time is simulated",)
        for network in (here, there):
            network.reset(5, here.draw_schedule(5))
            network.set_host_rate_caps(caps_bps)
            network.advance(2e-3)
            network.clear_maxima()
            network.advance(1e-3)
        assert there.now_s == here.now_s == 3e-3
        tables: list[tuple[Any, Any]] = [
            (there.ports(), here.ports()),
            (there.hosts(), here.hosts()),
            (there.flows(), here.flows()),
            (there.schedule, here.schedule),
        ]
        for mine, theirs in tables:
            for column, one, other in zip(mine._fields, mine, theirs, strict=True):
                np.testing.assert_array_equal(one, other, err_msg=column)
                assert one.dtype == other.dtype, column
        np.testing.assert_array_equal(there.queue_quantile_bytes(0.99), here.queue_quantile_bytes(0.99))
        np.testing.assert_array_equal(there.oracle_rates_bps(), here.oracle_rates_bps())
        assert there.hosts().sent_bytes.sum() > 100_000


def test_a_step_is_setting_advancing_and_reading(packet_service: PrivateService) -> None:
    with LinuxNetwork(small(), transport="reno", service=packet_service.endpoint) as network:
        network.reset(1)
        read = network.step(
            Controls(host_caps_bps=np.full(network.n_hosts, 5e8)), 4e-3, read_flows=np.arange(2)
        )
        assert read.flow_counters is not None
        assert read.flow_counters.shape == (2,)
        assert read.flow_counters["sent_packets"][0] > 50
        assert read.hosts is network.hosts()
        assert 0.5 < read.hosts.sent_bytes[0] * 8 / (5e8 * 4e-3) < 1.02
        network.set_windows(np.array([0]), 7.0)
        assert network.flow_counters(np.array([0, 1]))["cwnd_packets"][0] == pytest.approx(7.0)
        network.scale_windows(np.array([0]), 2.0)
        assert network.flow_counters(np.array([0]))["cwnd_packets"][0] == pytest.approx(14.0)


@pytest.mark.parametrize(
    ("frames", "words"),
    [
        ([b"garbage"], "no msgpack|without a version"),
        ([b""], "no msgpack"),
        ([b"a", b"b"], "2 frames"),
        ([msgpack.packb({"v": 99, "id": 1, "body": {"op": "hello"}})], "version 99 .* version 1"),
        ([msgpack.packb({"v": 1, "id": 1, "body": {"op": "step"}})], "a request that cannot be"),
        ([bytes(5_000_000)], "5000000 bytes; the largest is 4000000"),
    ],
    ids=["garbage", "empty", "frames", "version", "request", "oversized"],
)
def test_nonsense_is_answered_and_the_service_lives_on(
    network: LinuxNetwork, frames: list[bytes], words: str
) -> None:
    service, world = endpoints(network)
    for endpoint in (service, world):
        error = error_to(endpoint, *frames)
        assert type(error) is p.ProtocolError
        with pytest.raises(p.ProtocolError, match=words):
            raise error
    network.advance(1e-4)
    assert n_sessions(service) == 1


def test_a_frame_beyond_all_measure_ends_that_connection_only(network: LinuxNetwork) -> None:
    for endpoint in endpoints(network):
        with raw(endpoint) as socket:
            socket.rcvtimeo = 300
            socket.send(bytes(20_000_000))
            with pytest.raises(zmq.Again):
                socket.recv()
    network.advance(1e-4)


def test_a_second_client_is_told_that_the_session_is_busy(network: LinuxNetwork) -> None:
    service, world = endpoints(network)
    assert network._opened is not None
    other = Connection(world)
    with pytest.raises(BackendError, match="busy"):
        other.ask(m.Attach(token=network._opened.token), m.World, 5.0)
    with pytest.raises(BackendError, match="another client"):
        other.ask(m.Attach(token="0" * 32), m.World, 5.0)
    with pytest.raises(BackendError, match="another client"):
        other.ask(m.Bye(), m.Ok, 5.0)
    at_service = Connection(service)
    with pytest.raises(BackendError, match="another client"):
        at_service.ask(m.End(session=network._opened.session, token="0" * 32), m.Ok, 5.0)
    with pytest.raises(BackendError, match="no session 999"):
        at_service.ask(m.End(session=999, token=""), m.Ok, 5.0)
    other.close()
    at_service.close()
    network.advance(1e-4)


def test_several_networks_at_once(packet_service: PrivateService) -> None:
    networks = [LinuxNetwork(small(), service=packet_service.endpoint) for _ in range(3)]
    assert len({world_pid(one) for one in networks}) == 3
    assert n_sessions(packet_service.endpoint) == 3
    for seed, one in enumerate(networks):
        one.reset(seed)
        one.advance(1e-3)
    sent = [tuple(one.hosts().sent_bytes) for one in networks]
    assert len(set(sent)) == 3
    for one in networks:
        one.close()
    wait_until(lambda: n_sessions(packet_service.endpoint) == 0)


def test_a_service_that_is_full_says_so(service: PrivateService) -> None:
    child = subprocess.Popen(["sleep", "100"])
    asker = m.Client(pid=child.pid, start_ticks=start_ticks(child.pid), pid_namespace=pid_namespace())
    request = m.Open(scenario=small().resolved(), transport="dctcp", client=asker)
    connection = Connection(service.endpoint)
    for number in range(MAX_SESSIONS):
        connection._socket.send(p.encode(1000 + number, request))
    with pytest.raises(BackendError, match="all 16 sessions of this service are taken"):
        connection.ask(request, m.Opened, 30.0)
    assert n_sessions(service.endpoint) == MAX_SESSIONS
    child.kill()
    child.wait()
    wait_until(lambda: n_sessions(service.endpoint) == 0, within_s=20.0)
    connection.close()


def test_what_cannot_be_asked_for(packet_service: PrivateService) -> None:
    with LinuxNetwork(small(), service=packet_service.endpoint) as network:
        with pytest.raises(SysgymError, match="positive"):
            network.set_host_rate_caps(np.zeros(network.n_hosts))
        with pytest.raises(SysgymError, match="expected 8 positive"):
            network.set_host_rate_caps(np.ones(3))
        with pytest.raises(SysgymError, match="flow 99: there are 4"):
            network.flow_counters(np.array([99]))
        with pytest.raises(SysgymError, match="flow 99"):
            network.set_windows(np.array([99]), 1.0)
        with pytest.raises(SysgymError, match="finite"):
            network.set_flow_rates(np.array([0]), np.inf)
        with pytest.raises(SysgymError, match="no flow of this network is paced"):
            network.set_flow_rates(np.array([0]), 1e9)
        with pytest.raises(SysgymError, match="duration_s"):
            network.advance(0.0)
        with pytest.raises(SysgymError, match="quantile"):
            network.queue_quantile_bytes(2.0)
        schedule = network.schedule
        with pytest.raises(SysgymError, match="flow of host 77: there are 8"):
            network.reset(1, schedule._replace(src=np.full_like(schedule.src, 77)))
        network.reset(2)
        network.advance(1e-4)
    with pytest.raises(BackendError, match="closed"):
        network.advance(1e-4)
    network.close()


def test_errors_of_a_world_that_cannot_be_built_are_the_clients(packet_service: PrivateService) -> None:
    with pytest.raises(UnknownName, match='did you mean "dctcp"'):
        LinuxNetwork(small(), transport="dctpc", service=packet_service.endpoint)
    odd = small('$(touch /tmp/sysgym-was-here); "`id`" \n')
    with pytest.raises(SysgymError):
        LinuxNetwork(odd.model_copy(update={"env_id": "; reboot"}), service=packet_service.endpoint)
    assert not Path("/tmp/sysgym-was-here").exists()
    wait_until(lambda: n_sessions(packet_service.endpoint) == 0)


def test_what_the_machine_lacks_is_told_to_every_client(short_path: Path) -> None:
    lacking = PrivateService(short_path, LACKING)
    for _ in range(2):
        with pytest.raises(BackendUnavailable, match="no BTF\nto do: boot another"):
            LinuxNetwork(small(), service=lacking.endpoint)
    lacking.stop()


def test_sockets_are_their_users_alone(network: LinuxNetwork) -> None:
    for endpoint in endpoints(network):
        mode = Path(endpoint.removeprefix("ipc://")).stat().st_mode
        assert stat.S_ISSOCK(mode)
        assert stat.S_IMODE(mode) == 0o600


def test_a_forked_process_is_told_that_it_cannot(network: LinuxNetwork) -> None:
    def act() -> int:
        with pytest.raises(BackendError, match="forked"):
            network.advance(1e-4)
        return 17

    assert in_child(act) == 17
    network.advance(1e-4)


def test_where_nobody_listens(short_path: Path) -> None:
    with pytest.raises(BackendUnavailable, match="nobody listens"):
        LinuxNetwork(small(), service=f"ipc://{short_path}/nothing.sock")
    with pytest.raises(BackendUnavailable, match="no address"):
        LinuxNetwork(small(), service="carrier pigeon")
    with pytest.raises(BackendUnavailable, match="wants a key"):
        LinuxNetwork(small(), service="tcp://127.0.0.1:1")
    with pytest.raises(BackendUnavailable, match="no service runs here"):
        running_service([short_path])


def test_a_stale_socket_is_not_taken_for_a_service(short_path: Path) -> None:
    folder = short_path / "0bad"
    folder.mkdir()
    context: zmq.Context[zmq.Socket[bytes]] = zmq.Context()
    path = folder / "service.sock"
    in_child(lambda: zmq.Context().socket(zmq.ROUTER).bind(f"ipc://{path}"))
    context.destroy()
    (folder / "lock").write_text(f'{{"pid": {os.getpid()}, "endpoint": "ipc://{path}"}}')
    with pytest.raises(BackendUnavailable, match="no service runs here"):
        running_service([short_path])
    with pytest.raises(BackendUnavailable, match="nobody listens"):
        LinuxNetwork(small(), service=f"ipc://{path}")


def test_two_services_are_asked_which(short_path: Path) -> None:
    one, other = PrivateService(short_path, KIND), PrivateService(short_path, KIND)
    assert one.endpoint != other.endpoint
    with pytest.raises(BackendUnavailable, match="2 services run here"):
        running_service([short_path])
    with LinuxNetwork(small(), service=one.endpoint), LinuxNetwork(small(), service=other.endpoint):
        assert (n_sessions(one.endpoint), n_sessions(other.endpoint)) == (1, 1)
    other.stop()
    assert running_service([short_path]) == one.endpoint
    one.stop()


def test_a_service_ends_whole(own_service: PrivateService, short_path: Path) -> None:
    network = LinuxNetwork(small(), service=own_service.endpoint)
    pid = world_pid(network)
    own_service.stop()
    assert not Path(f"/proc/{pid}").exists()
    assert list(short_path.iterdir()) == []
    with pytest.raises(BackendError, match="the world has gone"):
        network.advance(1e-3)
    with pytest.raises(BackendUnavailable, match="nobody listens"):
        n_sessions(own_service.endpoint)
    network.close()


def test_a_private_service_that_cannot_start_says_why(short_path: Path) -> None:
    (short_path / "file").touch()
    with pytest.raises(BackendUnavailable, match=r"did not start \(exit code 1\) no folder for a service in"):
        PrivateService(short_path / "file", KIND)
    with pytest.raises(BackendUnavailable, match="no kind of worlds is named nothing:x"):
        PrivateService(short_path, "nothing:x")
    assert sorted(path.name for path in short_path.iterdir()) == ["file"]


def test_only_kinds_that_exist_are_served() -> None:
    for name in ("no.such.module:x", "/no/such/file.py:x", f"{KIND}x", "os"):
        with pytest.raises(SysgymError, match="no kind of worlds"):
            get_kind(name)


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to be somebody else")
def test_a_service_of_root_lets_its_user_in_and_nobody_else(short_path: Path) -> None:
    short_path.chmod(0o755)
    command = [str(Path(sys.executable).with_name("sysgym")), "emulator", "serve", "--user", "nobody"]
    command += ["--root", str(short_path), "--kind", KIND]
    served = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    assert served.stderr is not None
    line = served.stderr.readline()
    endpoint = next(word for word in line.split() if word.startswith("ipc://")).rstrip(";")
    with LinuxNetwork(small(), service=endpoint):
        pass  # whatever is imported late has been imported: others may not read this folder

    def as_user(number: int, found: Callable[[], bool]) -> Callable[[], int]:
        def act() -> int:
            os.setgroups([])
            os.setuid(number)
            return 17 if found() else 18

        return act

    def gets_in() -> bool:
        with LinuxNetwork(small(), service=running_service([short_path])) as network:
            network.advance(1e-3)
            return network.now_s == 1e-3

    def is_kept_out() -> bool:
        with pytest.raises(BackendUnavailable, match="another user's"):
            LinuxNetwork(small(), service=endpoint)
        with pytest.raises(BackendUnavailable, match="no service runs here for this user"):
            running_service([short_path])
        return True

    assert in_child(as_user(pwd.getpwnam("nobody").pw_uid, gets_in)) == 17
    assert in_child(as_user(12345, is_kept_out)) == 17
    served.send_signal(signal.SIGTERM)
    assert served.wait(timeout=20) == 0
    served.stderr.close()


@pytest.mark.parametrize("package", ["zmq", "msgpack"])
def test_a_missing_package_names_the_extra(package: str) -> None:
    code = (
        f"import sys; sys.modules['{package}'] = None\n"
        "from sysgym.errors import MissingExtra\n"
        "try:\n    from sysgym.emulator.linux.client import LinuxNetwork\n"
        "except MissingExtra as error:\n    print(error)\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert 'pip install "sysgym[emulator]"' in said
