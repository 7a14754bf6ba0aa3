"""What the kernel refuses holds for code that has got around Python: here there is no guard at all."""

from __future__ import annotations

import ctypes
import os
import platform
import subprocess
import sys
from pathlib import Path

import pytest

from sysgym.labs.sandbox.linux import ALLOWED, ALLOWED_WITH, MACHINES, filter_of
from sysgym.labs.sandbox.process import CHILD, readable_folders


def able() -> bool:
    """Return whether this kernel has both Landlock and seccomp."""
    if sys.platform != "linux" or platform.machine() not in MACHINES:
        return False
    version = ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    return bool(version >= 1) and "Seccomp:" in Path("/proc/self/status").read_text()


LINUX = pytest.mark.skipif(not able(), reason="a kernel with Landlock and seccomp")

NATIVE = (
    "import ctypes\nlibc = ctypes.CDLL(None, use_errno=True)\n"
    "def native(*words):\n    result = libc.syscall(*words)\n"
    "    if result < 0: raise OSError(ctypes.get_errno(), 'refused')\n"
)

ATTEMPTS = {
    "read": "open(victim).read()",
    "write": "open(victim, 'w')",
    "rights": "os.chmod(victim, 0)",
    "times": "os.utime(victim, (1, 1))",
    "attributes": "os.setxattr(victim, 'user.x', b'1')",
    "remove": "os.unlink(victim)",
    "pipe": "os.mkfifo(victim + '2')",
    "signal": "os.kill(parent, 9)",
    "signal to a group": "os.killpg(parent, 9)",
    "signal by a descriptor": "signal.pidfd_send_signal(os.pidfd_open(parent), 9)",
    "signal of a file": "import fcntl; fcntl.fcntl(0, fcntl.F_SETOWN, parent)",
    "fork": "os.fork()",
    "spawn": "os.posix_spawn('/bin/true', ['true'], {})",
    "fork without audit": "import subprocess; subprocess.run(['/bin/true'])",
    "exec": "os.execv('/bin/true', ['true'])",
    "udp": "import socket; socket.socket(socket.AF_INET, socket.SOCK_DGRAM)",
    "local socket": "import socket; socket.socketpair()",
    "terminal": "import fcntl, termios; fcntl.ioctl(0, termios.TIOCSTI, b'x')",
    "limits of others": "import resource; resource.prlimit(parent, resource.RLIMIT_CPU)",
    "priority": "os.setpriority(os.PRIO_PROCESS, 0, 1)",
    "user": "os.setresuid(0, 0, 0)",
    "debugger": "native(101 if x86 else 117, 16, parent, 0, 0)",
    "memory of others": "native(311 if x86 else 271, parent, 0, 0, 0, 0, 0)",
    "ring of calls": "native(425, 1, 0)",
    "files by handle": "native(304 if x86 else 265, 0, 0, 0)",
    "calls of another machine": "native(0x40000000 + 62, parent, 0)",
}


def confined(program: str, victim: Path) -> subprocess.CompletedProcess[str]:
    """Run a program after its process was confined; it prints what holds first."""
    before = (
        "import os, runpy, signal\n"
        f"victim, parent, x86 = {str(victim)!r}, os.getppid(), os.uname().machine == 'x86_64'\n{NATIVE}"
        f"confine = runpy.run_path({str(CHILD.with_name('linux.py'))!r})['confine']\n"
        f"holds = confine({tuple(readable_folders())!r})\n"
        "print(holds['landlock'], holds['seccomp'], flush=True)\n"
    )
    words = [sys.executable, "-I", "-c", before + program]
    return subprocess.run(words, capture_output=True, text=True, check=False, start_new_session=True)


def of(victim: Path) -> tuple[object, ...]:
    """Return what could be changed of a file but its content."""
    known = victim.stat()
    return known.st_mode, known.st_mtime_ns, known.st_atime_ns, os.listxattr(victim)


@LINUX
@pytest.mark.parametrize("attempt", ATTEMPTS)
def test_the_kernel_refuses(attempt: str, tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    victim.write_text("kept")
    victim.chmod(0o666)
    before = of(victim)
    done = confined(ATTEMPTS[attempt], victim)
    assert done.stdout.split() == ["True", "True"]
    assert done.returncode == 1
    last = done.stderr.strip().rpartition("\n")[2]
    assert "PermissionError" in last or "OSError: [Errno 38]" in last, done.stderr
    assert of(victim) == before
    assert victim.read_text() == "kept"


@LINUX
@pytest.mark.skipif(not hasattr(os, "geteuid") or os.geteuid() != 0, reason="for root")
def test_root_becomes_nobody(tmp_path: Path) -> None:
    done = confined("print(os.getuid(), os.geteuid(), os.getgid())", tmp_path)
    assert done.stdout.split()[2:] == ["65534"] * 3, done.stderr


@LINUX
def test_computing_goes_on(tmp_path: Path) -> None:
    program = (
        "import dataclasses, decimal, json, random, re, statistics, tempfile, time\n"
        "time.sleep(0.01)\nprint(statistics.mean([random.random() * 0, 2]), time.time() > 0,"
        " os.getcwd() != '')"
    )
    done = confined(program, tmp_path)
    assert done.stdout.split()[2:] == ["1.0", "True", "True"], done.stderr


@pytest.mark.parametrize("machine", MACHINES)
def test_the_filter_is_a_program_that_ends(machine: str) -> None:
    program = filter_of(machine)
    for place, (code, if_true, if_false, _) in enumerate(program):
        jumps = code & 0x07 == 0x05
        assert not jumps or place + 1 + max(if_true, if_false) < len(program)
    assert program[-1][0] == 0x06
    assert len(program) < 4096
    assert run(program, machine, *number_of("write", machine)) == "allowed"
    assert run(program, machine, *number_of("fcntl", machine), 0, 4) == "allowed"
    assert run(program, machine, *number_of("fcntl", machine), 0, 8) == "refused"
    other = next(one for one in MACHINES if one != machine)
    assert run(program, other, *number_of("write", machine)) == "refused"


@pytest.mark.parametrize("machine", MACHINES)
def test_exactly_the_listed_calls_are_allowed(machine: str) -> None:
    column = list(MACHINES).index(machine)
    words = ALLOWED.split()
    listed = {int(pair[column]) for pair in zip(words[1::3], words[2::3], strict=True) if pair[column] != "-"}
    program = filter_of(machine)
    found = {number for number in range(600) if run(program, machine, number) == "allowed"}
    # With arguments of zero: fcntl duplicates, ioctl does nothing, limits are one's own.
    assert found == listed | {ALLOWED_WITH[name][0][column] for name in ("fcntl", "prlimit64")}


def number_of(name: str, machine: str) -> tuple[int]:
    column = list(MACHINES).index(machine)
    if name in ALLOWED_WITH:
        return (ALLOWED_WITH[name][0][column],)
    words = ALLOWED.split()
    return (int(words[words.index(name) + 1 + column]),)


def run(program: list[tuple[int, int, int, int]], machine: str, number: int, *arguments: int) -> str:
    """Run a filter as the kernel does, and return what it decides about a call."""
    place, loaded = 0, 0
    given = [*arguments, *[0] * 6]
    data = {0: number, 4: MACHINES[machine][0]} | {16 + 8 * index: one for index, one in enumerate(given)}
    while True:
        code, if_true, if_false, value = program[place]
        place += 1
        if code == 0x20:
            loaded = data[value]
        elif code == 0x06:
            return "allowed" if value == 0x7FFF0000 else "refused"
        else:
            holds = loaded == value if code == 0x15 else loaded >= value
            place += if_true if holds else if_false
