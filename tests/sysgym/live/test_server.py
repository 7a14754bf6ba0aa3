"""The server answers its own page only, says when a port is in use, and ends cleanly."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect
from websockets.typing import Origin

from sysgym.errors import MissingExtra, SysgymError
from sysgym.live.recording import read_recording
from sysgym.live.server import Server, app_of_page, app_of_session, bound_socket, refusal
from sysgym.live.session import Session
from tests.sysgym.live.conftest import MakeRun

K = "queue.ecn_threshold_bytes"


@pytest.mark.parametrize(
    ("host", "origin", "own", "refused"),
    [
        ("127.0.0.1:8642", None, "127.0.0.1", False),
        ("localhost:8642", "http://localhost:8642", "127.0.0.1", False),
        ("127.0.0.1:8642", "http://127.0.0.1:8642", "127.0.0.1", False),
        ("[::1]:8642", "http://[::1]:8642", "::1", False),
        ("evil.example:8642", None, "127.0.0.1", True),  # DNS rebinding
        ("evil.example:8642", "http://evil.example:8642", "127.0.0.1", True),
        ("127.0.0.1:8642", "http://evil.example", "127.0.0.1", True),
        ("127.0.0.1:8642", "null", "127.0.0.1", True),  # a file, a frame in a sandbox
        ("127.0.0.1:8642", "https://127.0.0.1:8642", "127.0.0.1", True),
        ("127.0.0.1:8642", "http://127.0.0.1:9999", "127.0.0.1", True),
        ("127.0.0.1", None, "127.0.0.1", True),
        ("192.168.1.7:8642", None, "127.0.0.1", True),
        (None, None, "127.0.0.1", True),
        ("192.168.1.7:8642", "http://192.168.1.7:8642", "0.0.0.0", False),
        ("evil.example:8642", "http://evil.example:8642", "0.0.0.0", True),
        ("lab.example:8642", "http://lab.example:8642", "lab.example", False),
        ("127.0.0.1:port", None, "127.0.0.1", True),
    ],
)
def test_only_the_own_page_is_answered(host: str | None, origin: str | None, own: str, refused: bool) -> None:
    assert bool(refusal(host, origin, own, 8642)) is refused


@contextmanager
def served(app_of: Any) -> Iterator[int]:
    """Serve an application on any free port, in a thread."""
    listening = bound_socket("127.0.0.1", 0)
    port = listening.getsockname()[1]
    server = Server(app_of(port), listening)
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    try:
        yield port
    finally:
        server.stop()
        thread.join(10.0)
        assert not thread.is_alive()


@pytest.fixture
def session(make_run: MakeRun) -> Iterator[Session]:
    made = Session(make_run("dctcp", "cubic"), speed=2.0)
    made.start()
    yield made
    made.stop()


def fetch(port: int, path: str, **headers: str) -> tuple[int, str]:
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def receive(viewer: Any, kind: str) -> Any:
    """Return the next message of a kind."""
    while True:
        message = json.loads(viewer.recv(timeout=20))
        if kind in message:
            return message[kind]


def test_pages_files_and_refusals(session: Session) -> None:
    with served(lambda port: app_of_session(session, "127.0.0.1", port)) as port:
        status, page = fetch(port, "/")
        assert (status, "static/page.js" in page) == (200, True)
        assert fetch(port, "/static/vendor/uPlot.iife.min.js")[0] == 200
        assert fetch(port, "/static/../server.py")[0] == 404
        assert fetch(port, "/static/vendor%2f..%2f..%2f..%2fserver.py")[0] == 404
        assert fetch(port, "/", Host="evil.example")[0] == 403
        assert (
            "Origin 'http://evil.example' is another page"
            in fetch(port, "/", Origin="http://evil.example")[1]
        )
        with pytest.raises(InvalidStatus, match="403"):
            connect(f"ws://127.0.0.1:{port}/live", origin=Origin("http://evil.example"))
        with connect(f"ws://127.0.0.1:{port}/live") as viewer:
            receive(viewer, "frame")
        status, saved = fetch(port, "/saved.html")
        assert (status, 'id="recording"' in saved) == (200, True)


def test_commands_act_and_wrong_ones_are_answered(session: Session) -> None:
    with (
        served(lambda port: app_of_session(session, "127.0.0.1", port)) as port,
        connect(f"ws://127.0.0.1:{port}/live") as viewer,
    ):
        header = receive(viewer, "header")
        assert [lane["name"] for lane in header["lanes"]] == ["dctcp", "cubic"]
        assert "resolved" not in header
        viewer.send(json.dumps({"do": "pause"}))
        while not receive(viewer, "status")["paused"]:
            pass
        viewer.send(json.dumps({"do": "change", "lane": None, "key": K, "value": 30_000}))
        viewer.send(json.dumps({"do": "step"}))
        frame = receive(viewer, "frame")
        while not frame["changes"]:
            viewer.send(json.dumps({"do": "step"}))
            frame = receive(viewer, "frame")
        assert frame["changes"] == [[None, K, 30_000]]
        for wrong, words in (
            ("no json", "JSON object"),
            ("[1]", "JSON object"),
            ('{"do": "' + "x" * 5_000 + '"}', "4 kB"),
            ('{"do": "import os"}', "expected pause, play"),
            ('{"do": "speed", "value": "fast"}', "expected a number"),
            ('{"do": "change", "lane": 0, "key": "interval", "value": 1}', "expected a lane, a key"),
            ('{"do": "change", "lane": null, "key": "queue.ecn_threshold_bytes", "value": 1}', "from 3000"),
            ('{"do": "change", "lane": 9, "key": "law", "value": "dctcp"}', "no lane 9"),
        ):
            viewer.send(wrong)
            assert words in receive(viewer, "error")


def test_a_viewer_that_does_not_read_slows_nobody(session: Session) -> None:
    with served(lambda port: app_of_session(session, "127.0.0.1", port)) as port:
        sleeper = socket.create_connection(("127.0.0.1", port))
        sleeper.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4_096)
        sleeper.sendall(
            f"GET /live HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n".encode()
        )
        session.command({"do": "run_to", "time": 1.0})
        with connect(f"ws://127.0.0.1:{port}/live") as viewer:
            while not receive(viewer, "status")["over"]:
                pass
        sleeper.close()


def test_a_later_viewer_gets_the_history_and_a_restart_begins_anew(session: Session) -> None:
    with served(lambda port: app_of_session(session, "127.0.0.1", port)) as port:
        session.command({"do": "run_to", "time": 1.0})
        with connect(f"ws://127.0.0.1:{port}/live") as viewer:
            while not receive(viewer, "status")["over"]:
                pass
        with connect(f"ws://127.0.0.1:{port}/live") as viewer:
            history = receive(viewer, "history")
            assert history[-1]["t"] == pytest.approx(0.008)
            viewer.send(json.dumps({"do": "restart"}))
            receive(viewer, "header")
            assert receive(viewer, "frame")["t"] < 0.002


def test_one_page_is_served_alone() -> None:
    with served(lambda port: app_of_page("<p>a run</p>", "127.0.0.1", port)) as port:
        assert fetch(port, "/") == (200, "<p>a run</p>")
        assert fetch(port, "/live")[0] == 404


def test_a_port_in_use_is_said() -> None:
    with bound_socket("127.0.0.1", 0) as taken:
        port = taken.getsockname()[1]
        with pytest.raises(SysgymError, match=rf"--port {port}: .*in use; choose another port, or --port 0"):
            bound_socket("127.0.0.1", port)
    with pytest.raises(SysgymError, match="leave it out"):
        bound_socket("no.such.host.invalid", 0)


def test_the_missing_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['starlette'] = None\n"
        "from sysgym.cli import main\n"
        "sys.exit(main(['live', 'incast-32', '--no-browser']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120)
    assert done.returncode == 2
    assert 'pip install "sysgym[live]"' in done.stderr
    assert issubclass(MissingExtra, SysgymError)


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for other processes")
def test_ctrl_c_leaves_a_whole_recording(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    command = [sys.executable, "-m", "sysgym", "live", "incast-32", "-c", "dctcp", "--port", "0"]
    with subprocess.Popen(
        [*command, "--no-browser", "--record", str(path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    ) as process:
        deadline_s = time.monotonic() + 120.0
        while time.monotonic() < deadline_s and not (path.exists() and path.read_text().count("\n") > 20):
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert f"recording: {path}" in out.replace("\n", "")
    assert "Traceback" not in err
    recorded = read_recording(path)
    assert not recorded.incomplete
    assert len(recorded.frames) >= 19
