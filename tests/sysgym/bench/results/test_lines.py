"""Files of lines: only what is no complete line is removed."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from sysgym.bench.results.lines import LineFile
from sysgym.errors import StorageError


@pytest.mark.parametrize("rest", [b"", b"sec", b"\0\0\0", b"se\0\0\n"])
def test_a_line_that_was_cut_off_is_removed(tmp_path: Path, rest: bytes) -> None:
    path = tmp_path / "lines"
    path.write_bytes(b"first\n" + rest)
    with closing(LineFile(path, 6)) as lines:
        assert lines.torn_bytes == len(rest)
        lines.append(b"second\n")
    assert path.read_bytes() == b"first\nsecond\n"


@pytest.mark.parametrize("content", [b"first\nsecond\n", b"first\nsecond\nth", b"first\n\0\nthird\n", b"fi"])
def test_lines_of_another_process_are_kept(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "lines"
    path.write_bytes(content)
    with pytest.raises(StorageError, match=r"lines: cannot be written: another process has changed it"):
        LineFile(path, 6)
    assert path.read_bytes() == content
