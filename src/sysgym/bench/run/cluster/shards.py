"""Shards: the results of one task, in a file that is written atomically."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from sysgym.bench.results.rows import Row
from sysgym.errors import SysgymError
from sysgym.scenarios.files import make_folder, parse_json, read_limited, storing, write_atomically

SHARDS = "shards"
"""Name of the folder of shards in the results folder."""

FORMAT = 1
LARGEST_SHARD_BYTES = 100_000_000
BROKEN = ".broken"


class Failure(NamedTuple):
    """Failed job of a task.

    Attributes:
        job: Number of the job in its task.
        reason: Type and message of the exception.
        trace: Traceback.
    """

    job: int
    reason: str
    trace: str


class Shard(NamedTuple):
    """Results of a task.

    Attributes:
        rows: Rows of its episodes, by number of the job in the task.
        failures: Jobs that failed.
    """

    rows: dict[int, Row]
    failures: list[Failure]


def key_of(identities: Sequence[Any]) -> str:
    """Return the name of a task's shard: a digest of its jobs, 16 hexadecimal digits.

    Args:
        identities: JSON data that identify the jobs, such as scenario, contender, seed and versions.
    """
    return hashlib.sha256(json.dumps(identities, sort_keys=True).encode()).hexdigest()[:16]


def path_of(folder: Path, key: str) -> Path:
    """Return the path of a shard.

    Args:
        folder: Results folder.
        key: Name of the shard.
    """
    return folder / SHARDS / f"{key}.json"


def write_shard(folder: Path, key: str, shard: Shard) -> None:
    """Write a shard atomically.

    Raises:
        StorageError: If the file cannot be written.
        SysgymError: If a row cannot be written.
    """
    data = {
        "format": FORMAT,
        "rows": {number: row.to_line().decode() for number, row in shard.rows.items()},
        "failures": [failure._asdict() for failure in shard.failures],
    }
    make_folder(folder / SHARDS)
    write_atomically(path_of(folder, key), json.dumps(data).encode())


def read_shard(path: Path) -> Shard:
    """Return the content of a shard.

    Raises:
        SysgymError: If the file is missing, too large, or not a shard of this format.
    """
    content = read_limited(path, LARGEST_SHARD_BYTES)
    try:
        data = parse_json(content)
        if data["format"] != FORMAT:
            raise ValueError(f"not of format {FORMAT}")
        rows = {int(number): Row.from_line(line.encode()) for number, line in data["rows"].items()}
        failures = [
            Failure(int(one["job"]), str(one["reason"]), str(one["trace"])) for one in data["failures"]
        ]
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise SysgymError(f"{path}: not a shard of a benchmark ({error}); remove it") from error
    return Shard(rows, failures)


def remove_shard(path: Path) -> None:
    """Remove a shard after its rows were stored in the results; a missing file is ignored.

    Raises:
        StorageError: If the file cannot be removed.
    """
    with storing(path):
        path.unlink(missing_ok=True)


def leftover_rows(folder: Path) -> Iterator[tuple[Path, list[Row]]]:
    """Yield the paths and rows of the shards in a folder; invalid files are renamed.

    Args:
        folder: Results folder.

    Raises:
        StorageError: If a file cannot be read or renamed.
    """
    for path in sorted((folder / SHARDS).glob("*.json")):
        try:
            shard = read_shard(path)
        except SysgymError:
            with storing(path):
                path.replace(path.with_name(path.name + BROKEN))
            continue
        yield path, list(shard.rows.values())
