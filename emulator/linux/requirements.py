"""Requirements of the Linux backend: whether each is met, its purpose, and how to install it."""

from __future__ import annotations

import ctypes
import importlib.metadata
import importlib.util
import os
import platform
import secrets
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path

from sysgym.scenarios.errors import SysgymError

BTF = Path("/sys/kernel/btf/vmlinux")
_STRUCT_OPS = b"bpf_struct_ops_tcp_congestion_ops"
_HEADERS = Path("/usr/include/bpf/bpf_helpers.h")
_EXTRA = 'pip install "sysgym[emulator]"'
_KERNEL = "a kernel with {}, as Debian's and Ubuntu's are"


@dataclass(frozen=True)
class Requirement:
    """A requirement of the backend.

    Attributes:
        name: Name of the requirement.
        present: Whether it is met; None where this user cannot find out.
        found: What was found, in a word or two; may be empty.
        needed_for: What does not work without it.
        remedy: How to install it.
        essential: Whether the whole backend depends on it.
    """

    name: str
    present: bool | None
    found: str
    needed_for: str
    remedy: str
    essential: bool = False


def requirements(*, try_programs: bool = True) -> list[Requirement]:
    """Check the requirements on this machine.

    Args:
        try_programs: Also compile and load the eBPF programs, if this process is root.
    """
    if sys.platform != "linux":
        return [
            Requirement(
                "Linux",
                False,
                platform.system(),
                "everything",
                "a Linux machine, VM or container",
                essential=True,
            )
        ]
    found = [
        Requirement("Linux", True, platform.release(), "everything", "", essential=True),
        *_privilege(),
        *_packages(),
        *_programs_installed(),
        *_kernel(),
    ]
    if try_programs and all(one.present for one in found if one.needed_for == _EBPF):
        found.append(_programs_load())
    return found


_LAWS = "neural, adaptive_target, adaptive_swift, learned"
_EBPF = f"dctcp, newvegas, {_LAWS}; ECN marks; queue counters"
_SERVICE = "the service"


def _privilege() -> list[Requirement]:
    is_root = os.geteuid() == 0
    return [
        Requirement(
            "root",
            is_root,
            f"user {os.geteuid()}",
            f"{_SERVICE}; environments need no privilege",
            "sudo sysgym emulator serve",
        ),
        Requirement(
            "network namespaces",
            Path("/proc/self/ns/net").exists(),
            "",
            "hosts and switches",
            _KERNEL.format("CONFIG_NET_NS"),
            essential=True,
        ),
    ]


def _packages() -> list[Requirement]:
    uses = {
        "mininet": "building networks",
        "pyzmq": "talking to the service",
        "msgpack": "talking to the service",
    }
    rows = []
    for package, use in uses.items():
        try:
            version = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            version = ""
        rows.append(Requirement(package, bool(version), version, use, _EXTRA, essential=True))
    if sys.version_info >= (3, 12):
        has_it = importlib.util.find_spec("distutils") is not None
        use = "distutils, which mininet imports"
        rows.append(Requirement("setuptools", has_it, "", use, _EXTRA, essential=True))
    return rows


def _programs_installed() -> list[Requirement]:
    clang, mnexec = shutil.which("clang"), shutil.which("mnexec")
    try:
        libbpf = bool(ctypes.CDLL("libbpf.so.1"))
    except OSError:
        libbpf = False
    apt = "apt-get install {}"
    return [
        Requirement(
            "mnexec", bool(mnexec), mnexec or "", "building networks", apt.format("mininet"), essential=True
        ),
        Requirement("clang", bool(clang), clang or "", _EBPF, apt.format("clang"), essential=True),
        Requirement(
            "libbpf headers",
            _HEADERS.exists(),
            str(_HEADERS) if _HEADERS.exists() else "",
            _EBPF,
            apt.format("libbpf-dev"),
            essential=True,
        ),
        Requirement(
            "libbpf", libbpf, "libbpf.so.1" if libbpf else "", _EBPF, apt.format("libbpf1"), essential=True
        ),
    ]


def _kernel() -> list[Requirement]:
    from sysgym.emulator.linux.kernel import probe

    has = probe.ask()
    rows = [
        Requirement(
            "BTF",
            BTF.exists(),
            str(BTF) if BTF.exists() else "",
            _EBPF,
            _KERNEL.format("CONFIG_DEBUG_INFO_BTF"),
            essential=True,
        ),
        Requirement(
            "struct_ops for TCP",
            _btf_has_struct_ops(),
            "",
            f"dctcp and newvegas where the kernel lacks them; {_LAWS}",
            _KERNEL.format("CONFIG_BPF_JIT and BTF, 6.0 or later"),
        ),
    ]
    queues = {
        "htb": ("rates of ports, caps of hosts", "CONFIG_NET_SCH_HTB", True),
        "bfifo": ("buffers of ports, in bytes", "CONFIG_NET_SCH_FIFO", True),
        "clsact": ("ECN marks, counters of ports", "CONFIG_NET_SCH_INGRESS, CONFIG_NET_CLS_BPF", True),
        "netem": (
            "delays of links above 50 us; scenarios that have such are refused without it",
            "CONFIG_NET_SCH_NETEM",
            False,
        ),
    }
    for kind, (use, option, essential) in queues.items():
        rows.append(
            Requirement(
                f"queue {kind}",
                has.get(f"queue {kind}"),
                "",
                use,
                _KERNEL.format(option),
                essential=essential,
            )
        )
    controls = {
        "cubic": ("the transport cubic", "CONFIG_TCP_CONG_CUBIC"),
        "bbr": ("the transport bbr", "CONFIG_TCP_CONG_BBR"),
        "dctcp": ("the kernel's own dctcp; else sysgym's eBPF program is used", "CONFIG_TCP_CONG_DCTCP"),
        "nv": ("the kernel's own newvegas; else sysgym's eBPF program is used", "CONFIG_TCP_CONG_NV"),
    }
    for name, (use, option) in controls.items():
        rows.append(Requirement(f"tcp_{name}", has.get(f"control {name}"), "", use, _KERNEL.format(option)))
    return rows


def _btf_has_struct_ops() -> bool:
    try:
        return _STRUCT_OPS in BTF.read_bytes()
    except OSError:
        return False


def _programs_load() -> Requirement:
    """Return whether the programs can be compiled and loaded into this kernel, by doing so once."""
    name = "eBPF programs load"
    if os.geteuid() != 0:
        return Requirement(name, None, "not tried", _EBPF, "sudo sysgym emulator check")
    from sysgym.emulator.linux.kernel.bpf_programs import Programs

    try:
        programs = Programs(secrets.token_hex(2))
        programs.load()
        programs.unload()
    except SysgymError as error:
        return Requirement(name, False, "", _EBPF, " ".join(str(error).split()), essential=True)
    return Requirement(name, True, "tried", _EBPF, "", essential=True)
