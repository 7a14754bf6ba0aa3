"""Files of others: packed, damaged, too large."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from sysgym.emulator.trace_errors import TraceError
from sysgym.emulator.training.formats.files import content


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(data=st.binary(max_size=200).filter(lambda data: not data.startswith(b"\x1f\x8b")), other=st.binary())
def test_contents_come_back_packed_or_not(tmp_path: Path, data: bytes, other: bytes) -> None:
    path = tmp_path / "file"
    path.write_bytes(data)
    assert content(path, "") == data
    path.write_bytes(gzip.compress(data) + gzip.compress(other))
    assert content(path, "") == data + other


def test_a_small_file_with_a_large_content_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(bytes(50_000_000)))
    assert path.stat().st_size < 100_000
    with pytest.raises(TraceError, match="more than 8 MiB of content"):
        content(path, "", 2**23)
    path.write_bytes(bytes(2**23 + 1))
    with pytest.raises(TraceError, match="more than 8 MiB of content"):
        content(path, "", 2**23)


def test_compressed_files_have_a_limit_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sysgym.emulator.training.formats.files.LARGEST_UNPACKED_BYTES", 2**20)
    path = tmp_path / "trace.json"
    path.write_bytes(bytes(2**21))
    assert len(content(path, "")) == 2**21
    path.write_bytes(gzip.compress(bytes(2**20)))
    assert len(content(path, "")) == 2**20
    path.write_bytes(gzip.compress(bytes(2**20 + 1)))
    with pytest.raises(TraceError, match=r"more than 1 MiB of content(.|\n)*unpack a compressed file"):
        content(path, "")


def test_damaged_and_missing_files_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "file.gz"
    with pytest.raises(TraceError, match="no such file"):
        content(path, "")
    with pytest.raises(TraceError, match="no such file"):
        content(tmp_path, "")
    packed = gzip.compress(b"text" * 100)
    path.write_bytes(packed[:-8])
    with pytest.raises(TraceError, match="ends too early"):
        content(path, "")
    path.write_bytes(packed[:12] + b"\xff" * 20)
    with pytest.raises(TraceError, match="damaged"):
        content(path, "")
