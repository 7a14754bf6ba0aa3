"""Machines without a requirement, and a slow machine, imitated on a complete machine."""

from __future__ import annotations

import contextlib
import importlib
import io
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from sysgym.cli import main
from sysgym.emulator.linux.client import LinuxNetwork
from sysgym.emulator.linux.service.discovery import PrivateService
from sysgym.scenarios.errors import BackendUnavailable
from tests.emulator.linux.service.helpers import in_child
from tests.emulator.linux.service.on_kernel import scenario

pytestmark = [pytest.mark.linux, pytest.mark.usefixtures("linux_backend")]

BTF = Path("/sys/kernel/btf/vmlinux")
_ASKS = """
import json, sys
from pathlib import Path
from sysgym.emulator.linux.client import LinuxNetwork
from sysgym.emulator.linux.service.discovery import PrivateService
from sysgym.emulator.linux.requirements import requirements
from sysgym.errors import SysgymError
from sysgym.scenarios import load_scenario

said = {row.name: row.present for row in requirements(try_programs=False) if row.present is False}
service = PrivateService(Path(sys.argv[1]))
for transport in sys.argv[2:]:
    try:
        with LinuxNetwork(
            load_scenario("linux-dumbbell-100m"), transport=transport, service=service.endpoint
        ) as network:
            network.reset(1)
            network.advance(0.2)
            said[transport] = int(network.hosts().delivered_bytes.sum())
    except SysgymError as error:
        said[transport] = f"{type(error).__name__}: {error}"
service.stop()
print(json.dumps(said))
"""


def with_types_from(folder: Path, root: Path, *transports: str) -> dict[str, Any]:
    """What a machine says whose kernel's types are those of a folder, mounted over them for one process."""
    mounts = 'mount --bind "$0" /sys/kernel/btf && exec "$@"'
    command = ["unshare", "--mount", "--propagation", "private", "sh", "-c", mounts, str(folder)]
    command += [sys.executable, "-c", _ASKS, str(root), *transports]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return dict(json.loads(done.stdout))


def test_a_kernel_without_types(tmp_path: Path, short_path: Path) -> None:
    said = with_types_from(tmp_path, short_path, "cubic")
    assert said["BTF"] is False
    assert said["struct_ops for TCP"] is False
    assert "BackendUnavailable" in said["cubic"]
    assert "CONFIG_DEBUG_INFO_BTF=y" in said["cubic"]
    assert list(short_path.iterdir()) == []


def test_a_kernel_without_struct_ops(tmp_path: Path, short_path: Path) -> None:
    """Types without those of struct_ops; what needs none of them works."""
    types = BTF.read_bytes()
    absent = types.replace(b"bpf_struct_ops_tcp_congestion_ops", b"bpf_struct_ops_tcp_congestion_xxx")
    assert absent != types
    assert len(absent) == len(types)
    (tmp_path / "vmlinux").write_bytes(absent)
    said = with_types_from(tmp_path, short_path, "cubic", "newvegas")
    assert "BTF" not in said
    assert said["struct_ops for TCP"] is False
    assert isinstance(said["cubic"], int), said["cubic"]
    assert said["cubic"] > 500_000
    if isinstance(said["newvegas"], str):  # else the kernel has its own
        assert "BackendUnavailable" in said["newvegas"]
        assert "struct_ops for newvegas" in said["newvegas"]
        assert "kernel 6.4 or later" in said["newvegas"]


def test_no_mnexec(tmp_path: Path, short_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for program in ("clang", "modprobe"):
        if found := shutil.which(program):
            (tmp_path / program).symlink_to(found)
    monkeypatch.setenv("PATH", str(tmp_path))
    service = PrivateService(short_path)
    for _ in range(2):  # the service lives on
        with pytest.raises(
            BackendUnavailable, match="mnexec is not installed\nto do: apt-get install mininet"
        ):
            LinuxNetwork(scenario(), transport="cubic", service=service.endpoint)
    service.stop()
    assert list(short_path.iterdir()) == []


def test_no_root(short_path: Path) -> None:
    short_path.chmod(0o777)
    modules = ("sysgym.cli.app", "sysgym.cli.commands.emulator", "sysgym.emulator.linux.service.daemon")
    for name in modules:
        importlib.import_module(name)  # others may not read this folder

    def act() -> int:
        os.setgroups([])
        os.setuid(65534)
        errors = io.StringIO()
        with contextlib.redirect_stderr(errors), pytest.raises(SystemExit) as left:
            main(["emulator", "serve", "--root", str(short_path)])
        said = " ".join(errors.getvalue().split())
        return 17 if left.value.code == 2 and "the service needs root" in said else 18

    assert in_child(act) == 17
    assert list(short_path.iterdir()) == []


def test_links_faster_than_any_machine(kernel_service: PrivateService) -> None:
    """The processors are what limits there, and the figures are worth nothing: it is said."""
    too_fast = scenario({"topology.link_rate_bps": 100e9, "topology.link_delay_s": 1e-6})
    with LinuxNetwork(too_fast, transport="cubic", service=kernel_service.endpoint) as network:
        network.reset(1)
        for _ in range(10):
            network.advance(0.2)
            if told := [words for words in network.warnings if "processors are the bottleneck" in words]:
                break
        assert told, network.warnings
        assert network.hosts().delivered_bytes.sum() > 0
