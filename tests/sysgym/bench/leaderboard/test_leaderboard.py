"""The leaderboard: entries are complete for replay, and ranks respect the intervals."""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from sysgym.agents.learned.checkpoint import read_checkpoint, write_checkpoint
from sysgym.bench.contenders import file_sha256, parse_contender
from sysgym.bench.energy import DEFAULT, EnergySettings
from sysgym.bench.leaderboard.entries import ENTRY, README, Entry, pack, read_entries, read_entry
from sysgym.bench.leaderboard.ranking import rank, render, score_of
from sysgym.bench.report.data.benchmark import read_benchmark
from sysgym.bench.results.rows import COMPRESSED, RESULTS, ResultsFile, Row, read_rows
from sysgym.bench.run.episodes import EpisodeJob
from sysgym.bench.run.replay import replay
from sysgym.bench.run.runner import RUN
from sysgym.errors import ResultMismatch, SysgymError
from sysgym.scenarios import load_scenario
from tests.agents.learned.trust.policies import write_policy

MakeRow = Callable[..., Row]
CommandLine = Callable[..., subprocess.CompletedProcess[str]]
ROOT = Path(__file__).resolve().parents[4]
ORACLE = {"transport": "paced", "agent": "oracle", "privileged": True}


@pytest.fixture
def root(tmp_path: Path) -> Path:
    """A clone without entries."""
    root = tmp_path / "clone"
    (root / "docs").mkdir(parents=True)
    return root


def _pack(
    results: Path,
    root: Path,
    name: str,
    *contenders: str,
    suite: str = "small",
    plugins: Sequence[Path] = (),
) -> Entry:
    entry = root / "results" / "entries" / suite / name
    words = {"title": f"Entry {name}", "by": "A. Tester"}
    readme = pack(results, entry, **words, contenders=contenders, plugins=plugins)
    assert readme.is_file()
    return read_entry(entry)


def _results(
    make_row: MakeRow, out: Path, delays: dict[str, float], energy: EnergySettings = DEFAULT
) -> Path:
    """Goodput is everyone's 10; a delay is the oracle's 1 ms times a factor, with some noise."""
    rng = np.random.default_rng(len(delays))
    with ResultsFile(out) as results:
        for contender, factor in (delays | {"oracle": 1.0}).items():
            for seed in range(200, 212):
                noise = 1.0 + 0.05 * rng.random()
                metrics = {"goodput_bps": 1e7, "queue_delay_p99_s": 1e-3 * factor * noise}
                row = make_row(contender, seed, metrics, **(ORACLE if contender == "oracle" else {}))
                account = energy.account(1e-6, 1e-4)
                results.append(dataclasses.replace(row, energy=account, total_reward=5.0))
    return out


def test_an_entry_replays(played: Path, root: Path, command_line: CommandLine) -> None:
    entry = _pack(played, root, "mine", "dctcp")
    assert sorted(path.name for path in entry.folder.iterdir()) == [README, ENTRY, COMPRESSED, "run.json"]
    assert read_rows(entry.folder) == read_rows(played)
    assert (entry.folder / COMPRESSED).stat().st_size < (played / RESULTS).stat().st_size / 3
    done = command_line("validate", entry.folder, "--sample", "2", "--jobs", "1")
    assert done.returncode == 0, done.stderr
    assert "all 2 rows are equal, bit by bit" in done.stdout


HOME = "/home/me o'neil"


@pytest.mark.parametrize(
    ("given", "told"),
    [
        (["--out", "runs"], []),
        (["--out", f"{HOME}/my runs/x"], []),
        ([f"--out={HOME}/my runs/x"], []),
        (["--plugin", f"{HOME}/my law.py"], ["--plugin", "my law.py"]),
        (["--plugin=../mine/law.py"], ["--plugin=law.py"]),
        (["--transport-file", "examples/law.py"], ["--transport-file", "law.py"]),
        (["-c", f"mine=ppo@{HOME}/final.zip"], ["-c", "mine=ppo@final.zip"]),
        ([f"--scenario={HOME}/tiny.toml"], ["--scenario=tiny.toml"]),
        (["-c", "stragglers/oracle", "-c", "ppo@runs/a/final.zip"], None),
        (["--address", "ray://10.0.0.1:10001"], None),
    ],
)
def test_paths_of_the_machine_are_not_told(
    played: Path, root: Path, given: list[str], told: list[str] | None
) -> None:
    told = given if told is None else told
    run = json.loads((played / RUN).read_bytes())
    for sitting in run["sittings"]:
        sitting["command"] = shlex.join(["sysgym", "bench", "small", *given, "--jobs", "2"])
    (played / RUN).write_text(json.dumps(run))
    folder = _pack(played, root, "mine", "dctcp").folder
    command = shlex.join(["sysgym", "bench", "small", *told, "--jobs", "2"])
    assert f"Made by `{command}`." in (folder / README).read_text()
    sittings = json.loads((folder / RUN).read_bytes())["sittings"]
    assert {sitting["command"] for sitting in sittings} == {command}


def test_of_a_command_that_no_shell_takes_nothing_is_told(played: Path, root: Path) -> None:
    run = json.loads((played / RUN).read_bytes())
    run["sittings"][-1]["command"] = "sysgym bench small --out /home/me/o'neil/x"
    (played / RUN).write_text(json.dumps(run))
    folder = _pack(played, root, "mine", "dctcp").folder
    assert "Made by `sysgym bench`." in (folder / README).read_text()
    assert "neil" not in (folder / RUN).read_text()


def test_the_same_rows_are_the_same_file(played: Path, root: Path) -> None:
    one, other = (_pack(played, root, name, "dctcp").folder / COMPRESSED for name in ("one", "other"))
    assert one.read_bytes() == other.read_bytes()


def test_checkpoints_and_own_files_are_packed(make_row: MakeRow, tmp_path: Path, root: Path) -> None:
    out, own = tmp_path / "out", tmp_path / "own.py"
    own.write_text("x = 1\n")
    digests = [hashlib.sha256(content).hexdigest() for content in (b"zip", bytes(6_000_000))]
    who = {"agent": "ppo", "learned": True, "plugins": ((str(own), file_sha256(own)),)}
    with ResultsFile(out) as results:
        row = make_row("ppo", 200, checkpoint="training/a/final.zip", checkpoint_sha256=digests[0], **who)
        results.append(dataclasses.replace(row, energy=DEFAULT.account(1.0, 1.0)))
    with pytest.raises(SysgymError, match="must be in"):
        _pack(out, root, "mine", "ppo")
    assert not list((root / "results").rglob("*.gz")), "nothing is left of an entry that failed"
    (out / "training" / "a").mkdir(parents=True)
    (out / "training" / "a" / "final.zip").write_bytes(b"zip")
    records = {
        "started.json": {"total_steps": 100},
        "finished.json": {"energy": DEFAULT.account(2.0, 1.0)},
        "validation.json": {"heuristics": {"dctcp": 5.0}, "checkpoints": [[100, 4.0]]},
    }
    for name, content in records.items():
        (out / "training" / "a" / name).write_text(json.dumps(content))
    with pytest.raises(SysgymError, match=r"own\.py: rows need this file.*add --plugin FILE"):
        _pack(out, root, "mine", "ppo")
    folder = _pack(out, root, "mine", "ppo", plugins=[own]).folder
    assert (folder / "training" / "a" / "final.zip").read_bytes() == b"zip"
    assert (folder / "own.py").read_text() == "x = 1\n"
    assert "| 1 training, 2.00 kWh in total, heuristic baseline not reached in 1 |" in render(root)
    (out / "training" / "a" / "final.zip").write_bytes(bytes(6_000_000))
    with pytest.raises(ResultMismatch, match="differs from the checkpoint that the rows were made with"):
        _pack(out, root, "large", "ppo", plugins=[own])
    (out / RESULTS).unlink()
    with ResultsFile(out) as results:
        contender = dataclasses.replace(row.contender, checkpoint_sha256=digests[1])
        results.append(dataclasses.replace(row, contender=contender))
    with pytest.raises(SysgymError, match=r"6\.0 MB, more than 5 MB"):
        _pack(out, root, "large", "ppo", plugins=[own])


def test_no_file_from_elsewhere_is_packed(make_row: MakeRow, tmp_path: Path, root: Path) -> None:
    out, secret = tmp_path / "out", tmp_path / "id_rsa"
    (out / "training" / "a").mkdir(parents=True)
    secret.write_text("secret\n")
    (out / "own.py").write_text("x = 1\n")
    who = {"agent": "ppo", "learned": True, "checkpoint": "training/a/final.zip"}
    mine = ((str(tmp_path / "own.py"), file_sha256(out / "own.py")),)
    for checkpoint, named, words in (
        ("link", mine, "must be in"),
        ("file", ((str(secret), file_sha256(secret)),), "rows need this file"),
        ("file", ((str(tmp_path / "own.py"), "ab"),), "differs from the file that the rows were made with"),
        ("record", mine, "must be in"),
        ("run", mine, "must be in"),
        ("file", mine, ""),
    ):
        shutil.rmtree(out / "training")
        (out / "training" / "a").mkdir(parents=True)
        (out / RESULTS).unlink(missing_ok=True)
        (out / RUN).unlink(missing_ok=True)
        final = out / "training" / "a" / "final.zip"
        final.symlink_to(secret) if checkpoint == "link" else final.write_text("zip")
        if checkpoint in ("record", "run"):
            (tmp_path / "other.json").write_text('{"total_steps": 1, "auths": "secret"}')
            place = out / RUN if checkpoint == "run" else final.with_name("started.json")
            place.symlink_to(tmp_path / "other.json")
        with ResultsFile(out) as results:
            results.append(make_row("ppo", 200, checkpoint_sha256=file_sha256(final), plugins=named, **who))
        if words:
            with pytest.raises(SysgymError, match=words):
                _pack(out, root, "mine", "ppo")
            assert not list((root / "results").rglob("mine*"))
    # What lies in the folder under the name that rows have is the file that they mean.
    assert (_pack(out, root, "mine", "ppo").folder / "own.py").read_text() == "x = 1\n"


def test_texts_of_entries_are_no_markup(make_row: MakeRow, tmp_path: Path, root: Path) -> None:
    out = _results(make_row, tmp_path / "a", {"good": 2.0})
    label = "x|<b>y</b>"
    metrics = [{"name": "goodput_bps", "label": label, "direction": "higher"}]
    suite = {"name": "small", "title": "a\n# b <script>", "metrics": metrics}
    (out / RUN).write_text(json.dumps({"suite": suite}))
    entry = root / "results" / "entries" / "small" / "a"
    title = "x](https://evil.example) <img src=x> [y\n\n# Official\n\n| "
    pack(out, entry, title=title, by="<i>me</i>", contenders=["good"])
    pack(out, entry.with_name("b"), title="b", by="me", contenders=["good"])  # for a column of entries
    page = render(root)
    assert not any(line.startswith("# Official") or line.startswith("# b") for line in page.splitlines())
    for markup in ("<img", "<script", "<i>", "<b>", "](https://evil"):
        assert not re.search(rf"(?<!\\){re.escape(markup)}", page), markup
    (line,) = [line for line in page.splitlines() if "Official" in line]
    head = next(line for line in page.splitlines() if line.startswith("| rank"))
    assert len(re.findall(r"(?<!\\)\|", line)) == len(re.findall(r"(?<!\\)\|", head))


@pytest.mark.parametrize("name", [ENTRY, README])
def test_an_entry_of_pipes_is_refused(played: Path, root: Path, name: str) -> None:
    folder = _pack(played, root, "mine", "dctcp").folder
    (folder / name).unlink()
    os.mkfifo(folder / name)
    with pytest.raises(SysgymError):
        read_entry(folder)


def test_of_a_trained_policy_the_entry_has_what_plays_it(tiny: Path, tmp_path: Path, root: Path) -> None:
    scenario, out = load_scenario(tiny), tmp_path / "out"
    trained = write_policy(out / "training" / "a" / "final.zip", scenario, seed=1)
    found = read_checkpoint(trained)
    write_checkpoint(trained, found.meta, found.policy, bytes(6_000_000))  # what training would go on from
    who = parse_contender(f"ppo@{trained}").with_checkpoint(trained, relative_to=out)
    job = EpisodeJob(scenario.resolved(), scenario.sha256(), "test", who, 200, str(out))
    with ResultsFile(out) as results:
        results.append(job.run(lambda news: None))
    folder = _pack(out, root, "mine", "ppo").folder
    packed = folder / "training" / "a" / "final.zip"
    assert packed.stat().st_size < 10_000
    assert not read_checkpoint(packed).learner
    (again,) = replay(read_rows(folder), folder)
    again.raise_if_different()
    (row,) = read_rows(folder)
    assert row.contender.checkpoint_sha256 == file_sha256(packed)
    assert row.contender.checkpoint_sha256 != who.checkpoint_sha256
    assert row.metrics == read_rows(out)[0].metrics
    other = _pack(out, root, "other", "ppo").folder
    assert packed.read_bytes() == (other / "training" / "a" / "final.zip").read_bytes()


def test_ranks_are_ranges_where_intervals_overlap(make_row: MakeRow, tmp_path: Path, root: Path) -> None:
    delays = {"good": 2.0, "alike": 2.001, "bad": 10.0}
    _pack(_results(make_row, tmp_path / "a", delays), root, "a", "good", "alike", "bad")
    _pack(_results(make_row, tmp_path / "b", {"best": 1.2}), root, "b", "best")
    lines = rank(read_entries(root / "results" / "entries"))
    assert {line.contender: line.ranks for line in lines} == {
        "best": (1, 1),
        "good": (2, 3),
        "alike": (2, 3),
        "bad": (4, 4),
    }
    # Goodput has no gap; a tenth of the oracle's share of the delay is missing to nine tenths.
    assert lines[-1].score is not None
    assert lines[-1].score.value == pytest.approx((0.0 + 0.9) / 2, abs=0.01)


def test_no_episode_is_more_than_a_hundred_times_as_good(make_row: MakeRow, tmp_path: Path) -> None:
    with ResultsFile(tmp_path) as results:
        for contender, delay_s in (("dctcp", 1e-3), ("good", 1e-4), ("tiny", 1e-12), ("none", 0.0)):
            for seed in range(200, 204):
                metrics = {"goodput_bps": 1e7, "queue_delay_p99_s": delay_s}
                results.append(make_row(contender, seed, metrics))
    benchmark = read_benchmark(tmp_path)
    scores = {name: score_of(benchmark, name) for name in ("dctcp", "good", "tiny", "none")}
    values = {name: score.value for name, score in scores.items() if score is not None}
    assert values == pytest.approx({"dctcp": 0.0, "good": -9.0 / 2, "tiny": -99.0 / 2, "none": -99.0 / 2})


def test_the_page_says_where_from_and_how_sure(make_row: MakeRow, tmp_path: Path, root: Path) -> None:
    assert "There are no entries yet." in render(root)
    _pack(_results(make_row, tmp_path / "a", {"good": 2.0}), root, "a", "good", "oracle")
    text = render(root)
    assert "## small: " in text
    assert "Entry: [Entry a](../results/entries/small/a), A. Tester.\n" in text
    assert "| rank | contender | score | training |" in text
    assert "| 1 | oracle | 0" in text
    assert "| 2 | good | " in text
    assert text == render(root)
    _pack(_results(make_row, tmp_path / "b", {"best": 1.2}), root, "b", "best")
    text = render(root)
    assert "Entry: " not in text
    assert "| rank | contender | entry | score | training |" in text
    assert "| 1 | oracle | [Entry a](../results/entries/small/a), A. Tester | 0" in text


def test_who_misses_a_scenario_is_shown_without_a_rank(make_row: MakeRow, tmp_path: Path, root: Path) -> None:
    out = _results(make_row, tmp_path / "a", {"good": 2.0, "half": 1.1})
    with ResultsFile(out) as results:
        for contender in ("good", "oracle"):
            for seed in range(200, 206):
                who = ORACLE if contender == "oracle" else {}
                metrics = {"goodput_bps": 1e7 + seed, "queue_delay_p99_s": 1e-3}
                results.append(make_row(contender, seed, metrics, name="other", digest="1" * 64, **who))
    _pack(out, root, "a", "good", "half")
    text = render(root)
    assert "| 1 | good | " in text
    (line,) = [line for line in text.splitlines() if "| half |" in line]
    assert line.startswith("| – | half |")
    assert "| not all scenarios |" in line


def test_energy_of_other_ways_is_not_compared(make_row: MakeRow, tmp_path: Path, root: Path) -> None:
    _pack(_results(make_row, tmp_path / "a", {"good": 2.0}), root, "a", "good")
    other = EnergySettings.from_options(grid="wind")
    _pack(_results(make_row, tmp_path / "b", {"best": 1.2}, other), root, "b", "best")
    text = render(root)
    assert "| rank | contender | entry | score |\n" in text
    assert (
        "Energy was measured in different ways (cpu-time-4.19W, 11 g/kWh, PUE 1.1; cpu-time-4.19W, 301"
        in text
    )


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        (ENTRY, 'title = "x"\n', r"entry\.toml: by is nothing; expected a text"),
        (ENTRY, 'title = "x"\nby = "y"\ncontenders = ["nobody"]\n', "no rows of nobody"),
        (README, "  \n", "README.md is missing"),
        (COMPRESSED, "not gzip", "not compressed by gzip"),
    ],
)
def test_an_incomplete_entry_is_refused(
    played: Path, root: Path, name: str, content: str, message: str
) -> None:
    folder = _pack(played, root, "mine", "dctcp").folder
    (folder / name).write_text(content)
    with pytest.raises(SysgymError, match=message):
        read_entry(folder)


@pytest.mark.slow
def test_the_page_is_up_to_date() -> None:
    assert (ROOT / "docs" / "leaderboard.md").read_text() == render(ROOT), "run scripts/pages/leaderboard.py"
