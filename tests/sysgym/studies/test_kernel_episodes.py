"""Episodes of the kernel that a study keeps."""

from __future__ import annotations

import gzip
from contextlib import closing
from pathlib import Path

import pytest

from sysgym.bench.contenders import parse_contender
from sysgym.errors import SysgymError
from sysgym.scenarios import CongestionScenario, load_scenario
from sysgym.studies import kernel_episodes, sim_vs_linux
from sysgym.studies.kept_rows import packed_name
from sysgym.studies.kernel_episodes import FILE, KernelEpisodes

DCTCP = parse_contender("dctcp", (), "congestion")
SCENARIO = load_scenario("linux-fattree-incast", expect=CongestionScenario)


def test_episodes_are_read_again(tmp_path: Path) -> None:
    with closing(KernelEpisodes(tmp_path)) as kept:
        kept.add(SCENARIO, DCTCP, 20_000, {"timeouts": 2.0})
    with closing(KernelEpisodes(tmp_path)) as kept:
        assert kept.get(SCENARIO, DCTCP, 20_000) == {"timeouts": 2.0}
        assert kept.get(SCENARIO, DCTCP, 20_001) is None
        assert kept.get(SCENARIO, parse_contender("reno", (), "congestion"), 20_000) is None
        other = load_scenario(
            "linux-fattree-incast", overrides={"queue.buffer_bytes": 90_000}, expect=CongestionScenario
        )
        assert kept.get(other, DCTCP, 20_000) is None


def test_a_line_cut_off_is_forgotten_and_another_one_refused(tmp_path: Path) -> None:
    with closing(KernelEpisodes(tmp_path)) as kept:
        kept.add(SCENARIO, DCTCP, 20_000, {"timeouts": 2.0})
    with (tmp_path / FILE).open("ab") as file:
        file.write(b'{"key": "ab')
    with closing(KernelEpisodes(tmp_path)) as kept:
        kept.add(SCENARIO, DCTCP, 20_001, {"timeouts": 3.0})
    with closing(KernelEpisodes(tmp_path)) as kept:
        assert kept.get(SCENARIO, DCTCP, 20_001) == {"timeouts": 3.0}
    (tmp_path / FILE).write_bytes(b'{"key": 1}\n')
    with pytest.raises(SysgymError, match="line 1: not an episode of the kernel"):
        KernelEpisodes(tmp_path)


def test_episodes_of_an_entry_are_unpacked_before_others_follow(tmp_path: Path) -> None:
    with closing(KernelEpisodes(tmp_path)) as kept:
        kept.add(SCENARIO, DCTCP, 20_000, {"timeouts": 2.0})
    plain = tmp_path / FILE
    packed_name(plain).write_bytes(gzip.compress(plain.read_bytes()))
    plain.unlink()
    with closing(KernelEpisodes(tmp_path)) as kept:
        kept.add(SCENARIO, DCTCP, 20_001, {"timeouts": 3.0})
    assert plain.read_bytes().count(b"\0") == 0
    with closing(KernelEpisodes(tmp_path)) as kept:
        assert kept.get(SCENARIO, DCTCP, 20_000) == {"timeouts": 2.0}
        assert kept.get(SCENARIO, DCTCP, 20_001) == {"timeouts": 3.0}


def test_a_second_process_does_not_write_to_the_same_file(tmp_path: Path) -> None:
    with closing(KernelEpisodes(tmp_path)) as kept:
        with pytest.raises(SysgymError, match="another process writes rows of a study to this folder"):
            KernelEpisodes(tmp_path)
        kept.add(SCENARIO, DCTCP, 20_000, {"timeouts": 2.0})
    KernelEpisodes(tmp_path).close()


def test_other_programs_mean_other_episodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(KernelEpisodes(tmp_path)) as kept:
        kept.add(SCENARIO, DCTCP, 20_000, {"timeouts": 2.0})
    monkeypatch.setattr(kernel_episodes, "SOURCES", tmp_path)
    with closing(KernelEpisodes(tmp_path)) as kept:
        assert kept.get(SCENARIO, DCTCP, 20_000) is None


def test_a_study_takes_the_episodes_that_it_has(tmp_path: Path) -> None:
    """Nothing is played: the kernel backend may be missing."""
    with closing(KernelEpisodes(tmp_path)) as kept:
        for seed in (1, 2):
            kept.add(SCENARIO, DCTCP, seed, {"timeouts": float(seed)})
        played = sim_vs_linux._episodes("linux-fattree-incast", DCTCP, kept, seeds=(1, 2))
        assert [one["timeouts"] for one in played] == [1.0, 2.0]
