"""Any file or files of a training job, by the endings of their names."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from sysgym.emulator.trace_errors import TraceError
from sysgym.emulator.training.collective_costs import DEFAULT_SYSTEM
from sysgym.emulator.training.formats.aicb import read_aicb
from sysgym.emulator.training.formats.chakra import read_chakra
from sysgym.emulator.training.formats.kineto import read_kineto
from sysgym.emulator.training.job import Job
from sysgym.emulator.training.pipeline import Posting, graph_of
from sysgym.emulator.training.tables import read_trace

KINETO = (".json", ".json.gz")
CHAKRA = (".et", ".et.gz")
AICB = (".txt",)
_FOLDERS = (*KINETO, *CHAKRA)
_REMEDY = "see docs/training-jobs.md for the formats"


def read_job(
    paths: Sequence[Path],
    *,
    posting: Posting = "traced",
    system: str = DEFAULT_SYSTEM,
    n_ranks: int | None = None,
) -> Job:
    """Read a training job.

    Args:
        paths: One table of operations (``.parquet``, ``.csv``), one workload file of AICB (``.txt``), or a
            file a rank of PyTorch's profiler (``.json``, ``.json.gz``) or of Chakra (``.et``), or their
            folder.
        posting: When receives are posted, in a table of operations.
        system: Preset whose links say how long communications without a duration take.
        n_ranks: Number of ranks of a workload file that does not say it.

    Raises:
        TraceError: If a file cannot be read, or the files are no job.
        MissingExtra: If the library for a format is not installed.
    """
    files = _files(paths)
    name = files[0].name.split(".")[0] if len(files) == 1 else files[0].resolve().parent.name
    if _all(files, KINETO):
        return read_kineto(files, name)
    if _all(files, CHAKRA):
        return read_chakra(files, name, system)
    if len(files) == 1 and _all(files, AICB):
        return read_aicb(files[0], system, n_ranks)
    if len(files) == 1:
        trace = read_trace(files[0])
        return Job(trace, graph_of(trace, posting))
    raise TraceError(
        files[0].parent,
        f"{len(files)} files, among them {files[0].name} and {files[-1].name}",
        f"several files only of a job's ranks, all {' or all '.join(_FOLDERS)}",
        _REMEDY,
    )


def _files(paths: Sequence[Path]) -> list[Path]:
    """Return the files, those of a folder instead of it."""
    files: list[Path] = []
    for path in paths:
        if not path.is_dir():
            files.append(path)
            continue
        inside = sorted(one for one in path.iterdir() if one.name.endswith(_FOLDERS))
        if not inside:
            raise TraceError(path, "no file of a rank", f"files that end in {', '.join(_FOLDERS)}", _REMEDY)
        files += inside
    return files


def _all(files: Sequence[Path], endings: tuple[str, ...]) -> bool:
    return all(one.name.lower().endswith(endings) for one in files)
