"""Checkpoints to and from a hub: huggingface-hub against a small hub of this machine, without a network."""

from __future__ import annotations

import base64
import hashlib
import json
import pickle
import zipfile
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, ClassVar
from urllib.parse import unquote

import numpy as np
import pytest

pytest.importorskip("huggingface_hub")

from sysgym.agents import make_agent
from sysgym.agents.learned.checkpoint import PICKLED_FORMAT, read_checkpoint
from sysgym.agents.learned.shipped import list_shipped, shipped_checkpoint
from sysgym.errors import SysgymError
from sysgym.hub import pull_checkpoint, push_checkpoint

REPOSITORY = "me/ppo-iroko"


class Hub(BaseHTTPRequestHandler):
    """What the client asks of a hub: repositories, files in commits, and their contents."""

    files: ClassVar[dict[tuple[str, str], bytes]]
    commits: ClassVar[list[str]]

    @property
    def address(self) -> str:
        """Address of the repository."""
        return f"http://{self.headers['Host']}/{REPOSITORY}"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.path.startswith("/api/repos/create"):
            self.answer({"url": self.address, "id": REPOSITORY, "name": REPOSITORY})
        elif "/preupload/" in self.path:
            wanted = [one["path"] for one in json.loads(body)["files"]]
            self.answer(
                {"files": [{"path": path, "uploadMode": "regular", "shouldIgnore": False} for path in wanted]}
            )
        elif "/commit/" in self.path:
            commit = hashlib.sha1(body).hexdigest()
            for line in map(json.loads, body.splitlines()):
                if line["key"] == "file":
                    self.files[commit, line["value"]["path"]] = base64.b64decode(line["value"]["content"])
            self.commits.append(commit)
            self.answer({"commitUrl": f"{self.address}/commit/{commit}", "commitOid": commit})
        else:
            self.answer({"warnings": [], "errors": []})

    def do_HEAD(self) -> None:
        self.send_file(with_content=False)

    def do_GET(self) -> None:
        self.send_file(with_content=True)

    def send_file(self, *, with_content: bool) -> None:
        # /me/ppo-iroko/resolve/REVISION/FILE
        *_, revision, name = unquote(self.path).split("/")
        commit = self.commits[-1] if revision == "main" else revision
        content = self.files.get((commit, name))
        if content is None:
            self.send_response(404)
            self.send_header("X-Error-Code", "EntryNotFound")
            self.send_header("Content-Length", "0")
            self.end_headers()
            return
        self.send_response(200)
        self.send_header("X-Repo-Commit", commit)
        self.send_header("ETag", f'"{hashlib.sha1(content).hexdigest()}"')
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if with_content:
            self.wfile.write(content)

    def answer(self, found: Any) -> None:
        content = json.dumps(found).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Say nothing."""


@pytest.fixture
def hub() -> Iterator[tuple[str, type[Hub]]]:
    """A hub with no files; its address and its contents."""

    class OneHub(Hub):
        files: ClassVar[dict[tuple[str, str], bytes]] = {}
        commits: ClassVar[list[str]] = []

    with ThreadingHTTPServer(("127.0.0.1", 0), OneHub) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", OneHub
        server.shutdown()


@pytest.fixture
def shipped() -> Path:
    name = next(one for one in list_shipped() if one.agent == "ppo")
    found = shipped_checkpoint("ppo", name.scenario)
    assert found is not None
    return found


def test_a_checkpoint_comes_back_as_it_went(
    hub: tuple[str, type[Hub]], shipped: Path, tmp_path: Path
) -> None:
    address, inside = hub
    commit = push_checkpoint(shipped, REPOSITORY, endpoint=address, token="hf_mine")
    assert {name for _, name in inside.files} == {shipped.name, "README.md"}
    card = inside.files[commit, "README.md"].decode()
    assert card.startswith("---\nlibrary_name: sysgym\n")
    assert f"pull_checkpoint('{REPOSITORY}', '{shipped.name}')" in card
    pulled = pull_checkpoint(REPOSITORY, shipped.name, revision=commit, endpoint=address, cache=tmp_path)
    assert pulled.read_bytes() == shipped.read_bytes()
    agents = [make_agent("ppo", checkpoint=path) for path in (shipped, pulled)]
    observation = np.linspace(0.0, 1.0, len(read_checkpoint(pulled).meta.observation_index))
    np.testing.assert_array_equal(*(agent.act(observation) for agent in agents))


def test_what_is_not_there_is_said(hub: tuple[str, type[Hub]], shipped: Path, tmp_path: Path) -> None:
    address, _ = hub
    push_checkpoint(shipped, REPOSITORY, endpoint=address, token="hf_mine")
    with pytest.raises(SysgymError, match=r"me/ppo-iroko, other.zip: error from the hub: .*404"):
        pull_checkpoint(REPOSITORY, "other.zip", endpoint=address, cache=tmp_path)


class Trap:
    """A pickle that would make a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return Path.touch, (self.path,)


def test_code_is_refused_both_ways_and_does_not_run(
    hub: tuple[str, type[Hub]], shipped: Path, tmp_path: Path
) -> None:
    address, inside = hub
    owned, trap = tmp_path / "owned", tmp_path / "trap.zip"
    with zipfile.ZipFile(shipped) as good, zipfile.ZipFile(trap, "w") as bad:
        meta = json.loads(good.read("meta.json"))
        bad.writestr("meta.json", json.dumps({**meta, "format": PICKLED_FORMAT}))
        bad.writestr("model.zip", pickle.dumps(Trap(owned)))
    with pytest.raises(SysgymError, match="is a pickle, which can run code"):
        push_checkpoint(trap, REPOSITORY, endpoint=address, token="hf_mine")
    assert not inside.files
    inside.files["c0", "trap.zip"], inside.files["c0", "x.zip"] = trap.read_bytes(), b"not a zip"
    inside.commits.append("c0")
    with pytest.raises(SysgymError, match="is a pickle, which can run code"):
        pull_checkpoint(REPOSITORY, "trap.zip", endpoint=address, cache=tmp_path)
    with pytest.raises(SysgymError, match="not a checkpoint of sysgym"):
        pull_checkpoint(REPOSITORY, "x.zip", endpoint=address, cache=tmp_path)
    assert not owned.exists()
