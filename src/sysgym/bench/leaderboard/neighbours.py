"""Neighbour rows in entries: rows of the neighbours study, stored with a law, replayed and summarised.

The rows show how a law shares a dumbbell with four common laws, and what the law requires of switches and
kernels. Both are determined when an episode is played, and again when it is replayed.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from sysgym.bench.contenders import SHIPPED, Contender, parse_contender
from sysgym.bench.results.code import code_of
from sysgym.bench.run.episodes import compile_for_workers
from sysgym.bench.run.pool import Done, Failed, TimedOut, run_jobs
from sysgym.bench.run.replay import Replay, check_checkpoint, other_versions
from sysgym.errors import ResultMismatch, SysgymError
from sysgym.scenarios import load_scenario
from sysgym.scenarios.files import write_atomically
from sysgym.studies.kept_rows import packed_name
from sysgym.studies.law_facts import LawFacts
from sysgym.studies.neighbours import FAIR_SHARES, ROWS, NeighboursJob, read_rows

SCENARIO, DURATION_S, SEEDS = "dumbbell-10g", 1.0, range(6)
NEIGHBOURS = ("dctcp", "cubic", "bbr", "swift")
"""Neighbours of every law: laws common in data centres or the Internet, each with a different signal."""

MEASURED = ("facts", "share", "jain_index", "converged_s", "queue_mean_bytes", "goodput_bps")
"""Fields of a row that a replay must reproduce bit by bit."""

COMMAND = f"sysgym study neighbours -c LAW {' '.join(f'--beside {law}' for law in NEIGHBOURS)}"


class Sharing(NamedTuple):
    """Sharing of the dumbbell between a law and its neighbours.

    If the law has several trainings, each value is that of the worst training.

    Attributes:
        facts: Facts about the law.
        least: Smallest mean share of the law beside a neighbour; 1 is fair, 2 is the whole goodput.
        least_episode: Smallest share of the law in one episode.
        left: Smallest mean share that the law leaves to a neighbour.
        left_episode: Smallest share that the law leaves to a neighbour in one episode.
    """

    facts: LawFacts
    least: float
    least_episode: float
    left: float
    left_episode: float

    @property
    def shares(self) -> bool:
        """Whether both sides have at least half of a fair share on average."""
        return min(self.least, self.left) >= FAIR_SHARES[0]


def add_rows(source: Path, entry: Path, contenders: Sequence[Contender]) -> bool:
    """Store the neighbour rows of an entry's contenders; return whether there are any.

    Args:
        source: Folder with the rows of the neighbours study.
        entry: Folder of the entry; earlier rows are replaced.
        contenders: Contenders of the entry's own rows, whose files are in the entry.

    Raises:
        SysgymError: If the file of rows is invalid.
    """
    own = {_law_of(one): one for one in contenders}
    kept = []
    for row in read_rows(source):
        if not _is_common(row):
            continue
        laws = [Contender.from_json(data) for data in row["contenders"]]
        first, second = ((_law_of(law) in own, _is_neighbour(law)) for law in laws)
        # In each pair, one law belongs to the entry and the other one is a neighbour.
        if laws[0] != laws[1] and ((first[0] and second[1]) or (first[1] and second[0])):
            # Paths are those of the entry, not of the machine on which the study ran.
            row["contenders"] = [own.get(_law_of(law), law).to_json() for law in laws]
            kept.append(row)
    if kept:
        lines = "".join(json.dumps(row, allow_nan=False, separators=(",", ":")) + "\n" for row in kept)
        write_atomically(packed_name(entry / ROWS), gzip.compress(lines.encode(), mtime=0))
    return bool(kept)


def sharing_of(rows: Sequence[Mapping[str, Any]], contenders: Sequence[Contender]) -> Sharing | None:
    """Return the sharing of a law; None unless each training played beside each neighbour in all episodes.

    Args:
        rows: Rows of the study.
        contenders: Contenders of the law, one for each training.
    """
    facts: list[LawFacts] = []
    means: list[float] = []
    episodes: list[float] = []
    for contender in contenders:
        found: dict[str, dict[int, float]] = {law: {} for law in NEIGHBOURS}
        for row in filter(_is_common, rows):
            laws = [Contender.from_json(data) for data in row["contenders"]]
            for place in (0, 1):
                other = laws[1 - place]
                if _law_of(laws[place]) == _law_of(contender) and _is_neighbour(other):
                    share = row["share"] if place == 0 else 2.0 - row["share"]
                    found[other.transport][row["seed"]] = share
                    facts.append(LawFacts(**row["facts"][place]))
        for law, by_seed in found.items():
            if law == contender.transport and _is_neighbour(contender):
                continue  # the law is this neighbour itself, and would have a fair share
            if set(by_seed) != set(SEEDS):
                return None
            means.append(float(np.mean(list(by_seed.values()))))
            episodes += by_seed.values()
    if not facts:
        return None
    worst = LawFacts(
        marks=any(one.marks for one in facts),
        switches=any(one.switches for one in facts),
        kernel=all(one.kernel for one in facts),
    )
    return Sharing(worst, min(means), min(episodes), 2.0 - max(means), 2.0 - max(episodes))


def replay(
    rows: Sequence[Mapping[str, Any]],
    folder: Path,
    *,
    n_workers: int = 1,
    plugins: Sequence[str] = (),
    trust: bool = False,
    episode_limit_s: float | None = None,
) -> Iterator[Replay]:
    """Replay rows of the study and yield their comparisons.

    Args:
        rows: Rows to replay.
        folder: Folder with the checkpoints that the rows name.
        n_workers: Number of processes.
        plugins: The user's own files, which need no trust.
        trust: Whether code in the folder may run.
        episode_limit_s: Time limit of an episode, s; an episode that exceeds the limit counts as different
            from its row. None: no limit.

    Raises:
        ResultMismatch: If the scenario or a file differs from the one that a row was made with.
        SysgymError: If a row cannot be replayed.
    """
    jobs = [_job(row, folder, trust) for row in rows]
    by_job = {id(job): row for job, row in zip(jobs, rows, strict=True)}
    laws = [law for job in jobs for law in job.laws]
    pending = iter(jobs)
    compile_for_workers(job.scenario["family"] for job in jobs)
    with (
        code_of(laws, folder, plugins, trust=trust) as needed,
        closing(
            run_jobs(lambda: next(pending, None), n_workers, needed, lambda job: episode_limit_s)
        ) as events,
    ):
        for event in events:
            if isinstance(event, TimedOut):
                recorded = by_job[id(event.job)]
                yield Replay(event.job.label, {"share": (recorded["share"], event.reason)}, {})
                continue
            if isinstance(event, Failed):
                raise SysgymError(f"{event.job.label}: cannot be replayed: {event.reason}")
            if isinstance(event, Done):
                yield _compared(event.job.label, by_job[id(event.job)], event.result)


def _compared(label: str, recorded: Mapping[str, Any], replayed: Mapping[str, Any]) -> Replay:
    pairs = {name: (recorded[name], replayed[name]) for name in MEASURED}
    differences = {name: pair for name, pair in pairs.items() if pair[0] != pair[1]}
    return Replay(label, differences, other_versions(recorded["versions"]))


def _job(row: Mapping[str, Any], folder: Path, trust: bool) -> NeighboursJob:
    laws = []
    for law in (Contender.from_json(data) for data in row["contenders"]):
        check_checkpoint(law, f"a row of {folder / ROWS}", folder)
        path = law.checkpoint
        if path is not None and not path.startswith(SHIPPED):
            path = str(folder / path)
        laws.append(replace(law, checkpoint=path, trusted=trust))
    scenario = load_scenario(row["scenario"])
    if scenario.sha256() != row["scenario_sha256"]:
        raise ResultMismatch(
            f"{folder / ROWS}: the scenario {scenario.name} has changed since these rows were made; make them"
            f" again with {COMMAND}"
        )
    first, second = laws
    digest, duration_s, seed = row["scenario_sha256"], row["duration_s"], row["seed"]
    return NeighboursJob(scenario.resolved(), digest, (first, second), duration_s, seed)


def _is_common(row: Mapping[str, Any]) -> bool:
    """Return whether a row belongs to one of the episodes that every law must play."""
    return (
        len(row.get("contenders", ())) == len(row.get("facts", ())) == 2
        and (row["scenario"], row["scenario_sha256"]) == (SCENARIO, _digest())
        and row["duration_s"] == DURATION_S
        and row["seed"] in SEEDS
    )


def _law_of(contender: Contender) -> tuple[Any, ...]:
    """Return the values that determine the actions of a contender; its name is not among them."""
    return contender.identity[1:]


def _is_neighbour(contender: Contender) -> bool:
    return _law_of(contender) in _neighbours()


@cache
def _digest() -> str:
    return load_scenario(SCENARIO).sha256()


@cache
def _neighbours() -> frozenset[tuple[Any, ...]]:
    return frozenset(_law_of(parse_contender(law)) for law in NEIGHBOURS)
