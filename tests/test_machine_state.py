"""Inventory of scripts/machine_state.py: everything that tests could leave is found."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.scripts import load_script

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "machine_state.py"


@pytest.fixture(scope="module")
def script() -> Any:
    return load_script("machine_state")


@pytest.fixture
def left_behind() -> Iterator[list[str]]:
    """A link with a queue, a named namespace, a process in it, a service's folder; what each shows as."""
    name = f"sgt{os.getpid() % 100_000}"
    folder = Path("/run/sysgym") / name
    folder.mkdir(parents=True)
    for command in (
        f"ip netns add {name}",
        f"ip link add {name} type veth peer other netns {name}",
        f"tc qdisc add dev {name} root handle 1: htb",
    ):
        subprocess.run(command.split(), check=True)
    with subprocess.Popen(["ip", "netns", "exec", name, "sleep", "100"]) as process:
        yield [
            f"link: + {name}",
            f"namespace: + {name}",
            f"dev {name} root",
            f"+ {process.pid} ",
            str(folder),
        ]
        process.kill()
    subprocess.run(["ip", "link", "delete", name], check=True)
    subprocess.run(["ip", "netns", "delete", name], check=True)
    folder.rmdir()


def compare(before: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(SCRIPT), "--compare", str(before), "--within", "0"]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_what_came_and_went_is_a_line_each(script: Any) -> None:
    before = {"link": ["a", "b"], "file": ["x"], "eBPF": ["program p"]}
    after = {"link": ["b", "c"], "file": ["x"], "process": ["1 sleep"]}
    assert script.differences(before, after) == ["link: + c", "link: - a"]
    assert script.differences(before, before) == []


def test_where_nobody_can_look_it_is_said(tmp_path: Path) -> None:
    (tmp_path / "before").write_text("{}")
    done = compare(tmp_path / "before")
    assert done.returncode == 0
    assert "not looked at, that needs root on Linux" in done.stdout


@pytest.mark.linux
@pytest.mark.usefixtures("linux_backend")
def test_what_is_left_behind_is_named(script: Any, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    state = script.machine_state()
    assert set(state) == {"link", "namespace", "queue", "eBPF", "process", "cgroup", "setting", "file"}
    (tmp_path / "before").write_text(json.dumps(state))
    signs = request.getfixturevalue("left_behind")
    done = compare(tmp_path / "before")
    assert done.returncode == 1
    assert "not as before" in done.stdout
    for sign in signs:
        assert sign in done.stdout, sign


@pytest.mark.linux
def test_ebpf_programs_and_controls_of_a_service_are_seen(script: Any, linux_backend: None) -> None:
    from sysgym.emulator.linux.kernel.bpf_programs import Programs

    with Programs("0bad"):
        seen = script.machine_state()["eBPF"]
    assert {"program sgport_0bad", "map sgports_0bad", "map sgflows_0bad"} <= set(seen)
    assert any(one.startswith("congestion control sg") and one.endswith("_0bad") for one in seen)


@pytest.mark.linux
def test_networks_of_the_kernel_take_turns(request: pytest.FixtureRequest) -> None:
    """All tests marked so go to one worker; what distributes them reads it off their names."""
    if not request.config.getoption("loadgroup", False):
        pytest.skip("only where tests are distributed by group")
    assert request.node.nodeid.endswith("@linux")
