"""Confinement of a submission's process by the Linux kernel, whatever runs in it. Loaded by ``child.py``.

Python's audit hook is not a security boundary: NumPy alone can read and write any memory of its process.
Three mechanisms of the kernel are security boundaries, and each is sufficient against most attempts:

- Landlock (Linux 5.13): files can be opened only below some folders, and only for reading. From Linux 6.12
  on, signals to other processes are blocked as well.
- seccomp (x86-64 and ARM): only a list of system calls is allowed, enough for computations with Python and
  NumPy. All calls that create processes, threads or sockets, send signals, or change files or their
  permissions are refused.
- User: if the grader runs as root, the process continues as the user nobody.

The names are those of the manual pages: landlock(7), seccomp(2), capabilities(7), prctl(2).
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import sys
from typing import Any

NOBODY = 65534

PR_SET_PDEATHSIG, PR_SET_KEEPCAPS, PR_SET_NO_NEW_PRIVS = 1, 8, 38
SIGKILL = 9
CAPABILITY_VERSION_3, CAP_DAC_READ_SEARCH = 0x20080522, 1 << 2

LANDLOCK_CREATE, LANDLOCK_ADD, LANDLOCK_RESTRICT = 444, 445, 446
N_FILE_RIGHTS = {1: 13, 2: 14, 3: 15, 4: 15}
"""Number of file access rights by version of Landlock; 16 in later versions."""
EXECUTE, READ_FILE, READ_FOLDER = 1, 4, 8
BIND_AND_CONNECT_TCP = 3
SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS = 3

MACHINES = {"x86_64": (0xC000003E, 317), "aarch64": (0xC00000B7, 277)}
"""Audit number of each architecture, and its number of the system call ``seccomp``."""

ALLOWED = """
read 0 63            write 1 64           readv 19 65           writev 20 66         pread64 17 67
lseek 8 62           close 3 57           dup 32 23             dup2 33 -            dup3 292 24
open 2 -             openat 257 56        getdents64 217 61     getcwd 79 17         poll 7 -
stat 4 -             lstat 6 -            fstat 5 80            newfstatat 262 79    statx 332 291
access 21 -          faccessat 269 48     faccessat2 439 439    readlink 89 -        readlinkat 267 78
mmap 9 222           munmap 11 215        mprotect 10 226       mremap 25 216        madvise 28 233
brk 12 214           futex 202 98         membarrier 324 283    rseq 334 293         sched_yield 24 124
getpid 39 172        gettid 186 178       getuid 102 174        geteuid 107 175      getgid 104 176
getegid 108 177      uname 63 160         sysinfo 99 179        getrusage 98 165     getrlimit 97 163
times 100 153        time 201 -           gettimeofday 96 169   clock_gettime 228 113  getcpu 309 168
clock_getres 229 114 nanosleep 35 101     clock_nanosleep 230 115  restart_syscall 219 128
rt_sigaction 13 134  rt_sigprocmask 14 135  rt_sigreturn 15 139  sigaltstack 131 132
exit 60 93           exit_group 231 94    getrandom 318 278     sched_getaffinity 204 123
"""
"""Allowed system calls with their numbers on x86-64 and on ARM; their effects are limited to this process and
its open files."""

ALLOWED_WITH = {
    "fcntl": ((72, 25), 1, (0, 1, 2, 3, 4, 1030)),  # duplicate, close on exec, flags; not F_SETOWN (signals)
    "ioctl": ((16, 29), 1, (0x5401, 0x5450, 0x5451)),  # is it a terminal?, close on exec
    "prlimit64": ((302, 261), 0, (0,)),  # of this process
}
"""System calls with a restricted argument: numbers, index of the argument, allowed values."""

FIRST_UNKNOWN = 424
"""First system call added after Linux 5.0; from here on the error is ENOSYS, and the C library falls back."""


def confine(roots: tuple[str, ...]) -> dict[str, bool]:
    """Give up irrevocably all rights that a submission does not need; end with the grader's process.

    Args:
        roots: Folders that can be read.

    Returns:
        Whether each of ``landlock``, ``seccomp`` and ``nobody`` is in effect, as far as the kernel has it.
    """
    if not sys.platform.startswith("linux"):
        return {"landlock": False, "seccomp": False, "nobody": False}
    libc = ctypes.CDLL(None, use_errno=True)
    libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
    landlock = _landlock(libc, roots)
    nobody = _become_nobody(libc, roots, landlock)
    libc.prctl(PR_SET_PDEATHSIG, SIGKILL, 0, 0, 0)  # after the change of the user, which clears it
    return {"landlock": landlock, "seccomp": _seccomp(libc), "nobody": nobody}


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("folder", ctypes.c_int32))


def _landlock(libc: Any, roots: tuple[str, ...]) -> bool:
    zero = ctypes.c_uint32(0)
    version = libc.syscall(LANDLOCK_CREATE, None, ctypes.c_size_t(0), ctypes.c_uint32(1))
    if version < 1:
        return False
    handled = [(1 << N_FILE_RIGHTS.get(version, 16)) - 1]
    handled += [BIND_AND_CONNECT_TCP] if version >= 4 else []
    handled += [SCOPE_ABSTRACT_SOCKETS_AND_SIGNALS] if version >= 6 else []
    ruleset = (ctypes.c_uint64 * len(handled))(*handled)
    size = ctypes.c_size_t(ctypes.sizeof(ruleset))
    rules = libc.syscall(LANDLOCK_CREATE, ctypes.byref(ruleset), size, zero)
    if rules < 0:
        return False
    for root in roots:
        folder = os.open(root, os.O_PATH | os.O_CLOEXEC)
        rule = _Beneath(EXECUTE | READ_FILE | READ_FOLDER, folder)  # libraries are mapped as executable
        libc.syscall(LANDLOCK_ADD, rules, ctypes.c_uint32(1), ctypes.byref(rule), zero)
        os.close(folder)
    done = libc.syscall(LANDLOCK_RESTRICT, rules, zero)
    os.close(rules)
    return bool(done == 0)


def _become_nobody(libc: Any, roots: tuple[str, ...], landlock: bool) -> bool:
    """Switch to the user nobody if the process runs as root.

    If Python is in a folder that only root may enter, the capability to read is kept under Landlock only.
    """
    if os.geteuid() != 0:
        return False
    libc.prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0)
    try:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    except OSError:  # root of a container without this right
        return False
    readable = all(os.access(root, os.R_OK | os.X_OK) for root in roots)
    kept = CAP_DAC_READ_SEARCH if landlock and not readable else 0
    header = (ctypes.c_uint32 * 2)(CAPABILITY_VERSION_3, 0)
    sets = (ctypes.c_uint32 * 6)(kept, kept, 0, 0, 0, 0)
    return bool(libc.capset(ctypes.byref(header), ctypes.byref(sets)) == 0)


class _Instruction(ctypes.Structure):
    _fields_ = (
        ("code", ctypes.c_uint16),
        ("if_true", ctypes.c_uint8),
        ("if_false", ctypes.c_uint8),
        ("value", ctypes.c_uint32),
    )


class _Program(ctypes.Structure):
    _fields_ = (("length", ctypes.c_uint16), ("filter", ctypes.POINTER(_Instruction)))


def filter_of(machine: str) -> list[tuple[int, int, int, int]]:
    """Return the seccomp filter: code, jumps and value of each instruction.

    Every test is directly followed by its outcome, so that no jump is longer than the test of an argument.
    """
    load, equal, at_least, give = 0x20, 0x15, 0x35, 0x06
    number_at, machine_at, arguments_at = 0, 4, 16
    allow, refuse, absent = 0x7FFF0000, 0x00050000 | errno.EPERM, 0x00050000 | errno.ENOSYS
    column = list(MACHINES).index(machine)
    program = [(load, 0, 0, machine_at), (equal, 1, 0, MACHINES[machine][0]), (give, 0, 0, refuse)]
    program += [(load, 0, 0, number_at)]
    words = ALLOWED.split()
    for numbers in zip(words[1::3], words[2::3], strict=True):
        if numbers[column] != "-":
            program += [(equal, 0, 1, int(numbers[column])), (give, 0, 0, allow)]
    for places, argument, values in ALLOWED_WITH.values():
        program += [(equal, 0, 2 * len(values) + 2, places[column])]
        program += [(load, 0, 0, arguments_at + 8 * argument)]
        for value in values:
            program += [(equal, 0, 1, value), (give, 0, 0, allow)]
        program += [(give, 0, 0, refuse)]
    return [*program, (at_least, 0, 1, FIRST_UNKNOWN), (give, 0, 0, absent), (give, 0, 0, refuse)]


def _seccomp(libc: Any) -> bool:
    machine = platform.machine()
    if machine not in MACHINES or sys.maxsize < 2**32:
        return False
    instructions = filter_of(machine)
    array = (_Instruction * len(instructions))(*(_Instruction(*one) for one in instructions))
    program = _Program(len(instructions), array)
    set_filter, of_all_threads = ctypes.c_uint32(1), ctypes.c_uint32(1)
    return bool(libc.syscall(MACHINES[machine][1], set_filter, of_all_threads, ctypes.byref(program)) == 0)


if __name__ == "__main__":  # shows which mechanisms this machine supports
    print(confine(()))
