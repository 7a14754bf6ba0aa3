"""Rows of traces as texts."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path

import pytest

from sysgym.emulator.cluster.traces.reading import Tally, blocks


@pytest.mark.parametrize("pack", [bytes, gzip.compress])
def test_a_byte_order_mark_is_no_part_of_the_first_value(
    tmp_path: Path, pack: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "rows.csv"
    path.write_bytes(pack(b"\xef\xbb\xbf" + b"1,a\n2,b\n"))
    assert list(blocks(path, 2, Tally())) == [[("1", "2"), ("a", "b")]]
