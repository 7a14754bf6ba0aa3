"""Entries of the leaderboard: folders of rows that anyone can replay.

An entry lies in ``results/entries/SUITE/NAME/``: ``results.jsonl.gz``, ``run.json``, ``entry.toml`` (title,
who, which contenders enter), ``README.md``, and the checkpoints and files that its rows name.
"""

from __future__ import annotations

import gzip
import json
import re
import shutil
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sysgym.agents.learned.checkpoint import read_checkpoint, write_checkpoint
from sysgym.bench.contenders import SHIPPED, file_sha256
from sysgym.bench.milestones import VALIDATION
from sysgym.bench.report.curves import PROGRESS
from sysgym.bench.report.study import Study, read_study
from sysgym.bench.rows import COMPRESSED, Row
from sysgym.bench.runner import RUN
from sysgym.bench.training import FINISHED, STARTED
from sysgym.bench.training_energy import ENERGY
from sysgym.errors import SysgymError

ENTRY = "entry.toml"
README = "README.md"
KEYS = ("title", "by", "contenders")

RECORDS = (STARTED, FINISHED, ENERGY, VALIDATION, PROGRESS)
"""What lies beside a checkpoint that the benchmark trained: how it went, and what it cost."""

LARGEST_ENTRY_BYTES = 5_000_000
"""Entries live in the repository: a larger one is refused."""


@dataclass(frozen=True)
class Entry:
    """One entry.

    Attributes:
        folder: Where it lies.
        suite: What was played.
        title: A line.
        by: Who made it.
        contenders: Who of its rows enters; others are there to be compared with.
        study: Its rows.
    """

    folder: Path
    suite: str
    title: str
    by: str
    contenders: tuple[str, ...]
    study: Study


def read_entries(folder: Path) -> list[Entry]:
    """Return all entries below a folder, by suite and name.

    Raises:
        SysgymError: One is not complete.
    """
    return [read_entry(path.parent) for path in sorted(folder.glob(f"*/*/{ENTRY}"))]


def read_entry(folder: Path) -> Entry:
    """Read one entry.

    Raises:
        SysgymError: It has no README, its ``entry.toml`` is wrong, or a contender has no rows.
    """
    path = folder / ENTRY
    try:
        data = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise SysgymError(f"{path}: cannot be read: {error}") from error
    if set(data) != set(KEYS) or not isinstance(data["contenders"], list) or not data["contenders"]:
        raise SysgymError(f"{path}: expected the keys {', '.join(KEYS)}; contenders is a list")
    if not (folder / README).is_file() or not (folder / README).read_text(encoding="utf-8").strip():
        raise SysgymError(f"{folder}: no {README}; it says what the contender does and how it was trained")
    study = read_study(folder)
    played = {player.name for player in study.players}
    if unknown := [name for name in data["contenders"] if name not in played]:
        raise SysgymError(f"{path}: no rows of {', '.join(unknown)}; there are: {', '.join(sorted(played))}")
    return Entry(
        folder, folder.parent.name, str(data["title"]), str(data["by"]), tuple(data["contenders"]), study
    )


def pack(results: Path, entry: Path, *, title: str, by: str, contenders: Sequence[str]) -> Path:
    """Make an entry of a results folder.

    Of a checkpoint whose policy is a plain network, the entry has what plays it and not what training would
    go on from, which is several times larger; the rows carry the digest of what is there.

    Args:
        results: What a benchmark wrote.
        entry: Where the entry goes, ``results/entries/SUITE/NAME``.
        title: A line.
        by: Who made it.
        contenders: Who enters.

    Returns:
        The README, which is left to be written.

    Raises:
        SysgymError: The folder is there, a file that rows name is missing, or the entry is too large.
    """
    if entry.exists():
        raise SysgymError(f"{entry}: is there already")
    study = read_study(results)
    played = [player.name for player in study.players]
    if unknown := [name for name in contenders if name not in played]:
        raise SysgymError(f"{results}: no rows of {', '.join(unknown)}; there are: {', '.join(played)}")
    temporary = entry.with_name(f".{entry.name}.part")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    try:
        if (results / RUN).is_file():
            run = json.loads((results / RUN).read_bytes())
            for sitting in run.get("sittings", []):
                sitting["command"] = _without_place(sitting["command"])
            (temporary / RUN).write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
        digests = {}
        for source, target in _files_of(study, results):
            (temporary / target).parent.mkdir(parents=True, exist_ok=True)
            if _write_for_playing(source, temporary / target):
                digests[str(target)] = file_sha256(temporary / target)
            else:
                shutil.copyfile(source, temporary / target)
        lines = b"".join(_with_digest(row, digests).to_line() for row in study.rows)
        # No time in the header: the same rows are the same file.
        (temporary / COMPRESSED).write_bytes(gzip.compress(lines, mtime=0))
        text = [f"title = {_toml(title)}", f"by = {_toml(by)}"]
        text.append(f"contenders = [{', '.join(map(_toml, contenders))}]")
        (temporary / ENTRY).write_text("\n".join(text) + "\n", encoding="utf-8")
        (temporary / README).write_text(_readme(title, study, contenders), encoding="utf-8")
        size = sum(path.stat().st_size for path in temporary.rglob("*") if path.is_file())
        if size > LARGEST_ENTRY_BYTES:
            raise SysgymError(
                f"{results}: the entry would have {size / 1e6:.1f} MB, more than "
                f"{LARGEST_ENTRY_BYTES / 1e6:.0f} MB; are the checkpoints so large?"
            )
        temporary.rename(entry)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return entry / README


def _files_of(study: Study, results: Path) -> Iterator[tuple[Path, Path]]:
    """Yield the checkpoints and the user's files that rows name, and where in the entry they go."""
    for name in dict.fromkeys(row.contender.checkpoint for row in study.rows):
        if name is not None and not name.startswith(SHIPPED):
            if Path(name).is_absolute() or ".." in Path(name).parts or not (results / name).is_file():
                raise SysgymError(f"{name}: a checkpoint of an entry has to lie in {results}")
            yield results / name, Path(name)
            for record in RECORDS:
                if (results / name).with_name(record).is_file():
                    yield (results / name).with_name(record), Path(name).with_name(record)
    for path, _ in dict.fromkeys(plugin for row in study.rows for plugin in row.contender.plugins):
        if not Path(path).is_file():
            raise SysgymError(f"{path}: rows need this file, and it is not there")
        yield Path(path), Path(Path(path).name)


def _write_for_playing(source: Path, target: Path) -> bool:
    """Write a checkpoint without the learner's state; return False for what has no plain network."""
    try:
        found = read_checkpoint(source)
    except SysgymError:
        return False
    if found.policy is None:
        return False
    write_checkpoint(target, found.meta, found.policy, b"")
    return True


def _with_digest(row: Row, digests: Mapping[str, str]) -> Row:
    """Return the row with the digest of the checkpoint as it lies in the entry."""
    digest = digests.get(row.contender.checkpoint or "")
    if digest is None:
        return row
    return replace(row, contender=replace(row.contender, checkpoint_sha256=digest))


def _without_place(command: str) -> str:
    """Return a command without the folder of the results, which is its machine's own."""
    return re.sub(r" --out(?: |=)(?:'[^']*'|\S+)", "", command)


def _toml(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _readme(title: str, study: Study, contenders: Sequence[str]) -> str:
    commands = [_without_place(sitting["command"]) for sitting in study.sittings if sitting.get("played")]
    lines = [
        f"# {title}",
        "",
        f"Enters with {', '.join(contenders)}. Made by `{commands[-1] if commands else 'sysgym bench'}`.",
        "",
        "To be written: what the contender does; what it was trained on (never the test split) and for how",
        "long; how many runs were looked at before this one; which machine.",
    ]
    return "\n".join(lines) + "\n"
