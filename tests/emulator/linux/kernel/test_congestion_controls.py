"""DCTCP and New Vegas as eBPF programs behave as in their papers."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from sysgym.emulator.linux.kernel.bpf_programs import Programs
from sysgym.emulator.linux.kernel.queues import PortSettings
from sysgym.errors import BackendError, BackendUnavailable

from ..conftest import ROUTER_PORT, Connection, Wire

pytestmark = [pytest.mark.linux, pytest.mark.xdist_group("linux")]

RATE_BPS = 50e6
FULL_BPS = RATE_BPS * 1448 / 1500  # payload of full packets at the line rate
PORTS = [ROUTER_PORT]
SO_MAX_PACING_RATE = 47


def available() -> list[str]:
    return Path("/proc/sys/net/ipv4/tcp_available_congestion_control").read_text().split()


def window(connection: Connection) -> int:
    information = connection.sender.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 104)
    return int(np.frombuffer(information, np.uint32, offset=8)[18])


def test_dctcp_holds_the_queue_at_the_threshold(wire: Wire) -> None:
    threshold = 30_000
    wire.bottleneck(PortSettings(RATE_BPS, buffer_bytes=300_000, ecn_threshold_bytes=threshold))
    first, second = wire.connect("dctcp"), wire.connect("dctcp")
    wire.transfer(0.5)
    wire.programs.clear_port(ROUTER_PORT)
    windows: list[int] = []
    goodput = wire.transfer(2.0, lambda: windows.append(window(first)))
    counters = wire.queues.readings(PORTS)[:, 0]
    assert goodput > 0.95 * FULL_BPS
    assert wire.queues.quantiles(PORTS, 0.5)[0] == pytest.approx(threshold, rel=0.25)
    assert wire.queues.quantiles(PORTS, 0.99)[0] < 2 * threshold
    assert counters[6] == 0
    # The marked fraction of a flow whose window is W goes as sqrt(2 / W) (Alizadeh et al., SIGCOMM 2010).
    mean = float(np.mean(windows))
    assert counters[5] / counters[4] == pytest.approx(np.sqrt(2 / mean), rel=0.5)
    assert np.std(windows) < 0.4 * mean
    share = first.received_bytes / (first.received_bytes + second.received_bytes)
    assert 0.2 < share < 0.8


def test_dctcp_cuts_by_the_fraction_of_marks(wire: Wire) -> None:
    """Alpha falls by a sixteenth a window without marks, so that after many of them a mark costs little."""
    wire.bottleneck(PortSettings(RATE_BPS, buffer_bytes=400_000, ecn_threshold_bytes=75_000))
    flow = wire.connect("dctcp")
    windows: list[int] = []
    wire.transfer(3.0, lambda: windows.append(window(flow)), 0.002)
    settled = np.array(windows[len(windows) // 2 :])
    peaks = settled[1:][np.diff(settled) < -1]
    assert settled.max() < 75
    assert settled.min() > 0.65 * settled.max()  # Reno would go down to half of it
    assert len(peaks) >= 1


def test_dctcp_answers_losses_as_reno_does(wire: Wire) -> None:
    wire.bottleneck(PortSettings(RATE_BPS, buffer_bytes=45_000))
    flow = wire.connect("dctcp")
    wire.transfer(0.5)
    windows: list[int] = []
    goodput = wire.transfer(1.5, lambda: windows.append(window(flow)), 0.002)
    assert goodput > 0.9 * FULL_BPS
    assert wire.queues.readings(PORTS)[6, 0] > 0
    assert 25 <= max(windows) <= 45
    assert np.percentile(windows, 5) <= 0.7 * max(windows)


@pytest.mark.parametrize("transport", ["dctcp", "newvegas", "learned"])
def test_window_stays_sound_with_many_flows(wire: Wire, transport: str) -> None:
    """The kernel sometimes sees a threshold that no program returned; windows must not follow it."""
    wire.bottleneck(PortSettings(RATE_BPS, buffer_bytes=200_000, ecn_threshold_bytes=15_000))
    flows = [wire.connect(transport) for _ in range(4)]
    windows: list[int] = []
    wire.transfer(2.5, lambda: windows.append(max(window(flow) for flow in flows)))
    assert max(windows) < 150


@pytest.mark.parametrize("transport", ["dctcp", "newvegas"])
def test_pacing_of_a_socket_holds(wire: Wire, transport: str) -> None:
    wire.bottleneck(PortSettings(RATE_BPS, buffer_bytes=200_000, ecn_threshold_bytes=30_000))
    flow = wire.connect(transport)
    rates = []
    for rate_bps in (5e6, 20e6):
        flow.sender.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, round(rate_bps / 8))
        wire.transfer(0.3)
        rates.append(wire.transfer(0.7))
    for rate, paced in zip(rates, (5e6, 20e6), strict=True):  # less where the processor is needed elsewhere
        assert 0.7 * paced < rate < 1.06 * paced * 1448 / 1514


def test_newvegas_keeps_the_queue_short_without_marks(wire: Wire) -> None:
    wire.bottleneck(PortSettings(RATE_BPS, buffer_bytes=300_000))
    for _ in range(2):
        wire.connect("newvegas")
    wire.transfer(0.7)
    wire.programs.clear_port(ROUTER_PORT)
    goodput = wire.transfer(2.0)
    packets = wire.queues.quantiles(PORTS, 0.9)[0] / 1500
    assert goodput > 0.95 * FULL_BPS
    assert wire.queues.readings(PORTS)[6, 0] == 0
    assert 5 < packets < 50  # about ten a flow, where cubic fills all 200


def test_names_are_the_services_own(programs: Programs) -> None:
    assert programs.congestion_control("cubic") == "cubic"
    assert programs.congestion_control("learned") == f"sglearn_{programs.sid}"
    with pytest.raises(BackendUnavailable, match=r'congestion control "swift".*cubic'):
        programs.congestion_control("swift")
    with pytest.raises(ValueError, match="four hex digits"):
        Programs("x; rm")


def test_controls_end_when_they_are_unloaded(programs: Programs) -> None:
    with Programs("0fee") as other:
        name = other.congestion_control("learned")
        assert name in available()
        other.flow_slots()[0]["cwnd_packets"][1] = 99
        assert programs.flow_slots()[0]["cwnd_packets"][1] != 99
    assert name not in available()
    with pytest.raises(BackendError, match="not loaded"):
        other.flow_slots()


@pytest.mark.usefixtures("programs")  # skips where they cannot be loaded
def test_controls_end_with_the_process_that_loaded_them() -> None:
    """Even when it is killed: nothing is pinned."""
    sid = "dead"
    code = (
        "import sys, time; from sysgym.emulator.linux.kernel.bpf_programs import Programs;"
        "p = Programs(sys.argv[1]);"
        "p.load(); print(p.congestion_control('learned'), flush=True); time.sleep(60)"
    )
    command = [sys.executable, "-c", code, sid]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline().strip() == f"sglearn_{sid}"
        assert f"sglearn_{sid}" in available()
        process.kill()
        process.wait()
    assert f"sglearn_{sid}" not in available()
