"""Query of the kernel's queueing disciplines and congestion controls, in a namespace of its own.

``python -m sysgym.emulator.linux.kernel.probe`` prints the answer as JSON. It runs in a process of its own
because a process that has entered a namespace cannot return, and needs a user namespace too without root.
"""

from __future__ import annotations

import ctypes
import errno
import json
import os
import socket
import subprocess
import sys

from sysgym.emulator.linux.child import module_command, surroundings
from sysgym.emulator.linux.kernel import netlink
from sysgym.scenarios.errors import SysgymError

QUEUES = ("htb", "bfifo", "clsact", "netem", "red", "fq")
CONTROLS = ("reno", "cubic", "bbr", "dctcp", "nv")

_NEW_USER, _NEW_NET = 0x10000000, 0x40000000
_LOOPBACK = 1
_PARENTS = {"clsact": (netlink.CLSACT_HANDLE, netlink.CLSACT)}
_TIMEOUT_S = 20.0


def ask() -> dict[str, bool]:
    """Return whether the kernel has ``queue htb``, ``control dctcp`` etc.; no entry where it is unknown."""
    words = module_command("sysgym.emulator.linux.kernel.probe")
    try:
        done = subprocess.run(
            words, capture_output=True, text=True, check=True, timeout=_TIMEOUT_S, **surroundings()
        )
        return dict(json.loads(done.stdout))
    except (OSError, subprocess.SubprocessError, ValueError):
        return {}


def _queues() -> dict[str, bool]:
    """Request each without its options: an unknown kind is not found, a known one misses its options."""
    flags = _NEW_NET if os.geteuid() == 0 else _NEW_NET | _NEW_USER
    if ctypes.CDLL(None, use_errno=True).unshare(flags) != 0:
        return {}
    found = {}
    connection = netlink.Netlink(0)
    any_error = tuple(errno.errorcode)
    for number, kind in enumerate(QUEUES, start=1):
        handle, parent = _PARENTS.get(kind, (number << 16, netlink.ROOT))
        body = netlink.tc_message(_LOOPBACK, handle, parent) + netlink.attribute(netlink.TCA_KIND, kind)
        create = netlink.CREATE | netlink.REPLACE
        code = connection.request(netlink.RTM_NEWQDISC, create, body, f"make a {kind}", any_error)
        if code not in (errno.EPERM, errno.EACCES):
            found[f"queue {kind}"] = code != errno.ENOENT
    connection.close()
    return found


def _controls() -> dict[str, bool]:
    """Select each control, which for root loads its module; only root can be certain that one is missing."""
    found = {}
    for name in CONTROLS:
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as one:
            try:
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
                found[f"control {name}"] = True
            except PermissionError:
                found[f"control {name}"] = True
            except OSError:
                if os.geteuid() == 0:
                    found[f"control {name}"] = False
    return found


if __name__ == "__main__":
    answer = _controls()  # first, as a new namespace has fewer
    try:
        answer.update(_queues())
    except SysgymError as error:
        print(error, file=sys.stderr)
    print(json.dumps(answer))
