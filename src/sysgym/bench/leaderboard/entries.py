"""Entries of the leaderboard: folders of rows that anyone can replay.

An entry is a folder ``results/entries/SUITE/NAME/`` with ``results.jsonl.gz``, ``run.json``, ``entry.toml``
(title, authors, contenders), ``README.md``, the checkpoints and files that its rows name, and, for a law of
single flows, ``neighbours.jsonl.gz``.
"""

from __future__ import annotations

import gzip
import json
import re
import shlex
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from pydantic import Field

from sysgym.agents.learned.arrays import read_tree, write_tree
from sysgym.agents.learned.checkpoint import Checkpoint, read_checkpoint, write_checkpoint
from sysgym.bench.contenders import SHIPPED, file_sha256
from sysgym.bench.leaderboard.neighbours import add_rows
from sysgym.bench.report.data.benchmark import BenchmarkResult, read_benchmark
from sysgym.bench.report.data.curves import PROGRESS
from sysgym.bench.report.folders import check_records
from sysgym.bench.results.code import file_inside
from sysgym.bench.results.records import RUN, read_run
from sysgym.bench.results.row_format import PlayerName, Strict, Text, checked
from sysgym.bench.results.rows import COMPRESSED, Row
from sysgym.bench.run.milestones import VALIDATION
from sysgym.bench.run.training import FINISHED, STARTED
from sysgym.bench.run.training_energy import ENERGY
from sysgym.errors import ResultMismatch, StorageError, SysgymError
from sysgym.scenarios.files import read_limited
from sysgym.scenarios.reading import parse_toml

ENTRY = "entry.toml"
README = "README.md"

RECORDS = (STARTED, FINISHED, ENERGY, VALIDATION, PROGRESS)
"""Files copied together with a checkpoint that was trained in the benchmark: learning curve and costs."""

LARGEST_ENTRY_BYTES = 5_000_000
"""Maximum size of an entry, since entries are stored in the repository."""


LARGEST_TEXT_BYTES = 1_000_000
"""Maximum size of ``entry.toml`` and of ``README.md``."""

PROGRAM = "sysgym bench"
PLUGIN_OPTIONS = ("--plugin", "--transport-file")
_FOLDERS = re.compile(r"(?<![^=@])(?:~[^\\/]*|[A-Za-z]:)?[\\/].*[\\/]")
"""Pattern of the folders in an absolute path that is a word, or that follows ``=`` or ``@`` in a word."""


class _EntryFields(Strict):
    """Content of ``entry.toml``."""

    title: Text
    by: Text
    contenders: Annotated[list[PlayerName], Field(min_length=1)]


@dataclass(frozen=True)
class Entry:
    """Entry of the leaderboard.

    Attributes:
        folder: Folder of the entry.
        suite: Name of the suite.
        title: Title, one line.
        by: Authors.
        contenders: Contenders to rank; other contenders in the rows are for comparison.
        benchmark: Results.
    """

    folder: Path
    suite: str
    title: str
    by: str
    contenders: tuple[str, ...]
    benchmark: BenchmarkResult


def read_entries(folder: Path) -> list[Entry]:
    """Return all entries below a folder, sorted by suite and name.

    Raises:
        SysgymError: If an entry is incomplete or invalid.
    """
    return [read_entry(path.parent) for path in sorted(folder.glob(f"*/*/{ENTRY}"))]


def read_entry(folder: Path) -> Entry:
    """Read one entry.

    Raises:
        SysgymError: If the entry has no README, its ``entry.toml`` is invalid, or a contender has no rows.
    """
    path = folder / ENTRY
    try:
        text = read_limited(path, LARGEST_TEXT_BYTES).decode("utf-8-sig")
        fields = checked(_EntryFields, parse_toml(text, str(path)))
    except ValueError as error:
        raise SysgymError(f"{path}: {error}") from error
    if not (folder / README).is_file() or not read_limited(folder / README, LARGEST_TEXT_BYTES).strip():
        raise SysgymError(f"{folder}: {README} is missing; it must describe the contender and its training")
    check_records(folder)
    benchmark = read_benchmark(folder)
    played = {player.name for player in benchmark.players}
    if unknown := [name for name in fields.contenders if name not in played]:
        raise SysgymError(
            f"{path}: no rows of {', '.join(unknown)}; the contenders are: {', '.join(sorted(played))}"
        )
    return Entry(folder, folder.parent.name, fields.title, fields.by, tuple(fields.contenders), benchmark)


def pack(
    results: Path,
    entry: Path,
    *,
    title: str,
    by: str,
    contenders: Sequence[str],
    plugins: Sequence[Path] = (),
) -> Path:
    """Pack a results folder as an entry.

    If possible, a checkpoint is reduced to the data needed to run the policy, without the data for resuming
    training, which are several times larger. The rows then contain the digest of the smaller file. Neighbour
    rows in the results folder are packed too.

    Rows may name any file on this machine. Therefore, only files that are in the results folder or were given
    explicitly, and that have the digest in the rows, are copied.

    Args:
        results: Results folder of a benchmark.
        entry: Folder of the new entry, ``results/entries/SUITE/NAME``.
        title: Title, one line.
        by: Authors.
        contenders: Contenders to rank.
        plugins: The user's own files that the rows need and the results folder lacks.

    Returns:
        Path of the README, whose text the user has to complete.

    Raises:
        ResultMismatch: If a file differs from the one that the rows were made with.
        SysgymError: If the folder exists, a file that rows name is missing or outside the results folder, or
            the entry is too large.
        StorageError: If the entry cannot be written.
    """
    if entry.exists():
        raise SysgymError(f"{entry}: exists already; choose another --out or delete the folder")
    check_records(results)
    benchmark = read_benchmark(results)
    played = [player.name for player in benchmark.players]
    if unknown := [name for name in contenders if name not in played]:
        raise SysgymError(
            f"{results}: no rows of {', '.join(unknown)}; the contenders are: {', '.join(played)}"
        )
    try:
        checked(_EntryFields, {"title": title, "by": by, "contenders": list(contenders)})
    except ValueError as error:
        raise SysgymError(f"{entry}: {error}") from error
    temporary = entry.with_name(f".{entry.name}.part")
    shutil.rmtree(temporary, ignore_errors=True)
    try:
        temporary.mkdir(parents=True)
        if (results / RUN).is_file():
            _check_inside(results, RUN)
            run = read_run(results)
            for sitting in run["sittings"]:
                sitting["command"] = _without_places(sitting["command"])
            (temporary / RUN).write_text(json.dumps(run, indent=1) + "\n", encoding="utf-8")
        digests = {}
        for source, target in _files_of(benchmark, results, plugins):
            (temporary / target).parent.mkdir(parents=True, exist_ok=True)
            if _write_for_playing(source, temporary / target):
                digests[str(target)] = file_sha256(temporary / target)
            else:
                shutil.copyfile(source, temporary / target)
        rows = [_with_digest(row, digests) for row in benchmark.rows]
        lines = b"".join(row.to_line() for row in rows)
        # The header has no time, so that equal rows give equal files.
        (temporary / COMPRESSED).write_bytes(gzip.compress(lines, mtime=0))
        add_rows(results, temporary, [row.contender for row in rows if row.contender.name in contenders])
        text = [f"title = {_toml(title)}", f"by = {_toml(by)}"]
        text.append(f"contenders = [{', '.join(map(_toml, contenders))}]")
        (temporary / ENTRY).write_text("\n".join(text) + "\n", encoding="utf-8")
        (temporary / README).write_text(_readme(title, benchmark, contenders), encoding="utf-8")
        size = sum(path.stat().st_size for path in temporary.rglob("*") if path.is_file())
        if size > LARGEST_ENTRY_BYTES:
            raise SysgymError(
                f"{results}: the entry would have {size / 1e6:.1f} MB, more than "
                f"{LARGEST_ENTRY_BYTES / 1e6:.0f} MB; check the sizes of the checkpoints"
            )
        temporary.rename(entry)
    except BaseException as error:
        shutil.rmtree(temporary, ignore_errors=True)
        if isinstance(error, OSError):
            raise StorageError(entry, error) from error
        raise
    return entry / README


def _files_of(
    benchmark: BenchmarkResult, results: Path, plugins: Sequence[Path]
) -> Iterator[tuple[Path, Path]]:
    """Yield the checkpoints and the user's files that rows name, with their paths in the entry."""
    checkpoints = ((row.contender.checkpoint, row.contender.checkpoint_sha256) for row in benchmark.rows)
    for name, digest in dict.fromkeys(checkpoints):
        if name is not None and not name.startswith(SHIPPED):
            _check_inside(results, name)
            if file_sha256(results / name) != digest:
                raise ResultMismatch(
                    f"{results / name}: differs from the checkpoint that the rows were made with"
                )
            yield results / name, Path(name)
            for record in (Path(name).with_name(record) for record in RECORDS):
                if (results / record).is_file():
                    _check_inside(results, str(record))
                    yield results / record, record
    given = {file_sha256(path): path for path in plugins}
    for path, digest in dict.fromkeys(plugin for row in benchmark.rows for plugin in row.contender.plugins):
        yield given.get(digest) or file_inside(results, path, digest), Path(Path(path).name)


def _check_inside(results: Path, name: str) -> None:
    """Check that a file is in the results folder after resolving links."""
    named = Path(name)
    inside = (results / name).resolve().is_relative_to(results.resolve())
    if named.is_absolute() or ".." in named.parts or not inside or not (results / name).is_file():
        raise SysgymError(f"{name}: a file of an entry must be in {results}")


def _write_for_playing(source: Path, target: Path) -> bool:
    """Write a checkpoint without the data for resuming training; return False if the file is not suitable."""
    try:
        found = read_checkpoint(source)
    except SysgymError:
        return False
    if found.policy is None and not found.learner:
        return False
    state = b"" if found.policy is not None else _policy_of(found)
    write_checkpoint(target, found.meta, found.policy, state)
    return True


def _policy_of(checkpoint: Checkpoint) -> bytes:
    """Return the policy of a learner that NumPy cannot run."""
    policy = read_tree(checkpoint.learner)["parameters"]["policy"]
    return write_tree({"parameters": {"policy": policy}})


def _with_digest(row: Row, digests: Mapping[str, str]) -> Row:
    """Return the row with the digest of the entry's checkpoint."""
    digest = digests.get(row.contender.checkpoint or "")
    if digest is None:
        return row
    return replace(row, contender=replace(row.contender, checkpoint_sha256=digest))


def _without_places(command: str) -> str:
    """Return a command without paths that are specific to a machine.

    The option ``--out`` is removed. Plugins and files with absolute paths are reduced to their file names,
    under which plugins are stored in the entry. A command that is not valid shell syntax is reduced to the
    program.
    """
    try:
        words = iter(shlex.split(command))
    except ValueError:
        return PROGRAM
    kept = []
    for word in words:
        option, equals, value = word.partition("=")
        if word == "--out":
            next(words, "")
        elif word in PLUGIN_OPTIONS:
            kept += [word, Path(next(words, "")).name]
        elif option in PLUGIN_OPTIONS:
            kept.append(option + equals + Path(value).name)
        elif option != "--out":
            kept.append(_FOLDERS.sub("", word))
    return shlex.join(kept)


def _toml(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)  # a JSON string is a valid TOML string


def _readme(title: str, benchmark: BenchmarkResult, contenders: Sequence[str]) -> str:
    commands = [_without_places(sitting.command) for sitting in benchmark.sittings if sitting.played]
    lines = [
        f"# {title}",
        "",
        f"Contenders: {', '.join(contenders)}. Made by `{commands[-1] if commands else PROGRAM}`.",
        "",
        "To be written: what the contender does; what it was trained on (never the test split) and for how",
        "long; how many runs were looked at before this one; which machine.",
    ]
    return "\n".join(lines) + "\n"
