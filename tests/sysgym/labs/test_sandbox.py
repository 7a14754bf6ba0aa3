"""Functions of strangers: asked over a pipe, limited, and stopped whatever they try."""

from __future__ import annotations

import os
import runpy
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from sysgym.labs.sandbox.process import CHILD, MOST_UNREAD, Limits, Refused, Sandbox, Stopped

QUICK = Limits(call_s=1.0, cpu_s=20)
LINUX = pytest.mark.skipif(sys.platform != "linux", reason="limits of Linux")


def ask(source: str, *arguments: object, limits: Limits = QUICK) -> object:
    """Return what function f of a source returns."""
    sandbox = Sandbox(source, limits)
    try:
        return sandbox.call("f", arguments)
    finally:
        sandbox.close()


def test_numbers_lists_dicts_and_arrays_go_both_ways() -> None:
    sandbox = Sandbox("import numpy as np\nA = {'x': (1, 2.5)}\ndef f(a, b):\n    return a * b['k']", QUICK)
    try:
        assert sandbox.constant("A") == {"x": [1, 2.5]}
        assert sandbox.call("f", [np.arange(3), {"k": np.float64(2.0)}]) == [0.0, 2.0, 4.0]
        assert sandbox.call("f", [2, {"k": True}]) == 2
    finally:
        sandbox.close()


def test_an_error_has_its_line_and_the_process_goes_on() -> None:
    sandbox = Sandbox("\n\ndef f(x):\n    return 1 / x", QUICK)
    try:
        with pytest.raises(Refused, match=r"ZeroDivisionError: .* \(line 4\)"):
            sandbox.call("f", [0])
        assert sandbox.call("f", [2]) == 0.5
    finally:
        sandbox.close()


HOSTILE = {
    "an endless loop": ("def f():\n    while True: pass", "took longer than 1 s"),
    "sys.exit": ("import sys\ndef f():\n    sys.exit(0)", "SystemExit"),
    "a false success": ("import os\ndef f():\n    os._exit(0)", r"ended its process \(exit code 0\)"),
    "much memory": ("def f():\n    return len(bytearray(10**12))", "MemoryError"),
    "a file of the system": ("def f():\n    return open('/etc/passwd').read()", "may not open /etc/passwd"),
    "an open of the system": ("import os\ndef f():\n    return os.open('/etc/passwd', 0)", "may not open"),
    "a file written": ("def f():\n    open('mine', 'w').write('x')", "may not open mine"),
    "a folder": ("import os\ndef f():\n    return os.listdir('/')", "may not list"),
    "a deleted file": ("import os\ndef f():\n    os.remove('/tmp/x')", "may not use os.remove"),
    "a process": ("import subprocess\ndef f():\n    subprocess.run(['ls'])", "may not use subprocess.Popen"),
    "a shell": ("import os\ndef f():\n    os.system('ls')", "may not use os.system"),
    "a fork": ("import os\ndef f():\n    os.fork()", "may not use os.fork"),
    "a signal": ("import os\ndef f():\n    os.kill(os.getppid(), 9)", "may not use os.kill"),
    "a socket": (
        "import socket\ndef f():\n    socket.create_connection(('127.0.0.1', 9))",
        "may not use socket",
    ),
    "native code": ("import ctypes\ndef f():\n    ctypes.CDLL(None)", "may not use ctypes"),
    "a flood of text": ("def f():\n    while True: print('x' * 999)", "printed more than"),
    "a flood of answers": ("def f():\n    return 'x' * 10**7", "something else than answers"),
    "deep nesting": (
        "def f():\n    a = []\n    for _ in range(10**5): a = [a]\n    return a",
        "RecursionError",
    ),
    "an object": ("def f():\n    return object()", "return numbers, lists or dicts"),
    "a closed pipe": ("import os\ndef f():\n    os.closerange(0, 99)", "ended|closed|OSError|Bad file"),
    "an endless import": ("while True: pass\ndef f(): return 1", "took longer"),
    "lines of its own": (
        "import os\ndef f():\n    for n in range(3, 20):\n        try: os.write(n, b'points: 100\\n')\n"
        "        except OSError: pass",
        "something else than answers",
    ),
    "the guard by the garbage collector": (
        "import gc\ndef f():\n    return len(gc.get_objects())",
        "may not use gc.get_objects",
    ),
    "the guard's tools replaced": (
        "import builtins\nimport os\ndef f():\n    os.path.realpath = lambda path: os.__file__\n"
        "    builtins.type = builtins.len = lambda one: str\n    return open('/etc/passwd').read()",
        "may not open /etc/passwd",
    ),
    "the guard's frame": (
        "import os\ndef f():\n    try: os.remove('/x')\n    except PermissionError as error:\n"
        "        trace = error.__traceback__\n        while trace.tb_next: trace = trace.tb_next\n"
        "        trace.tb_frame.f_locals['refused'] = ('nothing',)\n    os.remove('/x')",
        "may not use os.remove",
    ),
    "a way around": (
        "import os\ndef f():\n    return open(os.path.dirname(os.__file__) + '/../../etc/passwd').read()",
        "may not open",
    ),
    "a path that changes": (
        "import io\nclass P(str): pass\ndef f():\n    return io.open(P('/etc/passwd')).read()",
        "may not open",
    ),
    "rights": ("import os\ndef f():\n    os.chmod('/tmp', 0o777)", "may not use os.chmod"),
    "times": ("import os\ndef f():\n    os.utime('/tmp', (1, 1))", "may not use os.utime"),
    "attributes": ("import os\ndef f():\n    os.setxattr('/tmp', 'user.x', b'')", "may not use os.setxattr"),
    "what has no audit event": ("import os\ndef f():\n    os.pidfd_open(1)", "no attribute 'pidfd_open'"),
    "an answer to the next question": (
        "import os\ndef f():\n    for n in range(3, 20):\n"
        '        try: os.write(n, b\'{"number": 2, "result": 1}\\n\')\n        except OSError: pass',
        "something else than answers",
    ),
}


@LINUX
@pytest.mark.parametrize("attempt", HOSTILE)
def test_what_a_submission_may_not_do_is_stopped_and_said(attempt: str) -> None:
    source, words = HOSTILE[attempt]
    # A source whose loading loops has the time of a start as well; here it gets none.
    limits = Limits(call_s=1.0 if attempt != "an endless import" else -28.0, cpu_s=20)
    with pytest.raises((Stopped, Refused), match=words):
        ask(source, limits=limits)


IMPORTS = {
    "a statement": "from sysgym.emulator.accelerators.matrices import enumerate_matrices",
    "importlib": "import importlib; importlib.import_module('sys' + 'gym.labs.graders.placement')",
    "the package": "import sysgym",
    "without the first finder": "import sys; sys.meta_path.pop(0); import sysgym",
}


@pytest.mark.parametrize("attempt", IMPORTS)
def test_the_package_of_the_graders_cannot_be_imported(attempt: str) -> None:
    with pytest.raises(Refused) as caught:
        ask(f"def f():\n    {IMPORTS[attempt]}\n    return 1")
    words = "graded functions may use Python and NumPy, not sysgym"
    assert words in str(caught.value) or attempt == "without the first finder"


def test_the_package_of_the_graders_is_not_read_where_it_is_installed() -> None:
    program = runpy.run_path(str(CHILD))
    roots = ("/site-packages", "/home/ada/sysgym/lib")
    for path in (
        "/site-packages/numpy/core.py",
        "/home/ada/sysgym/lib/json.py",
        "/site-packages/sysgym2/a.py",
    ):
        program["guard"](roots)("open", (path, "r", 0))
    for path in ("sysgym/labs/kernel.csv", "./sysgym/a.py", "/sysgym/a.py", "sysgym"):
        with pytest.raises(PermissionError, match="may not open"):
            program["guard"](roots)("open", (f"/site-packages/{path}", "r", 0))


def test_no_process_is_left() -> None:
    sandbox = Sandbox("def f():\n    while True: pass", QUICK)
    with pytest.raises(Stopped):
        sandbox.call("f", [])
    assert sandbox._process.poll() is not None
    with pytest.raises(Stopped):
        sandbox.call("f", [])


def test_a_flood_of_lines_is_not_kept() -> None:
    source = (
        "import os\ndef f():\n    for _ in range(1000):\n        for n in range(3, 20):\n"
        "            try: os.write(n, b'1\\n' * 1000)\n            except OSError: pass"
    )
    sandbox = Sandbox(source, QUICK)
    try:
        with pytest.raises(Stopped, match="something else than answers"):
            sandbox.call("f", [])
        assert sandbox._lines.qsize() <= MOST_UNREAD
    finally:
        sandbox.close()


@LINUX
def test_the_end_is_not_waited_for_if_another_process_has_the_pipe() -> None:
    sandbox = Sandbox("def f():\n    return 1", QUICK)
    folder = Path(f"/proc/{sandbox._process.pid}/fd")
    pipes = [one for one in folder.iterdir() if os.readlink(one).startswith("pipe:") and one.name != "0"]
    kept = [os.open(one, os.O_WRONLY) for one in pipes if one.lstat().st_mode & 0o200]
    assert kept
    started = time.monotonic()
    sandbox.close()
    assert time.monotonic() - started < 5.0
    for one in kept:
        os.close(one)
    sandbox._reader.join(5.0)
    assert not sandbox._reader.is_alive()


def test_errors_are_printable() -> None:
    with pytest.raises(Refused) as caught:
        ask("def f():\n    raise ValueError('\\ud800 \\x1b[2J \\u202e')")
    assert str(caught.value) == "ValueError: \\ud800 \\x1b[2J \\u202e (line 2)"
