"""Energy and carbon: formulas by hand, in rows and trainings, and compared within one method only."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sysgym.bench.energy import (
    DEFAULT,
    GRIDS_G_PER_KWH,
    EnergySettings,
    embodied_g,
    operational_g,
    start_meter,
    total_g,
)
from sysgym.bench.plan import make_plan
from sysgym.bench.report import write
from sysgym.bench.results.row_format import EnergyFields
from sysgym.bench.results.rows import ResultsFile, Row, read_rows
from sysgym.bench.run.milestones import VALIDATION, energy_at, reached
from sysgym.bench.run.replay import compare
from sysgym.bench.run.runner import Observer, run_plan
from sysgym.bench.run.training import FINISHED
from sysgym.bench.run.training_energy import ENERGY, EnergyRecord, read_energy
from sysgym.errors import MissingExtra, SysgymError, UnknownName
from sysgym.scenarios import load_suite

MakeRow = Callable[..., Row]
WriteSuite = Callable[..., Path]
CommandLine = Callable[..., subprocess.CompletedProcess[str]]

TRAINING = """\
validation_episodes = 2

[[training]]
agent = "ppo"
scenario = "./tiny.toml"
total_steps = 128
n_envs = 2
hyper_parameters = { n_steps = 64, batch_size = 64, n_epochs = 2 }

"""


def test_published_values() -> None:
    assert operational_g(0.065, 1.1, GRIDS_G_PER_KWH["world"]) == pytest.approx(21.5, abs=0.05)
    assert embodied_g(1.0, manufacture_g=2e6, life_years=4.0, utilisation=0.45) == pytest.approx(
        127.0, abs=0.5
    )


def test_an_account_by_hand() -> None:
    settings = EnergySettings.from_options(grid="500", pue=1.5, watts_per_core="10")
    account = settings.account(0.02, 2.0)  # two core-hours at 10 W
    assert tuple(account) == tuple(EnergyFields.model_fields)
    assert account["co2e_operational_g"] == pytest.approx(0.02 * 1.5 * 500.0)
    assert account["co2e_embodied_g"] == pytest.approx(2e6 * (2.0 / 64) / (4 * 8760 * 0.45))
    assert (account["method"], account["ci_g_per_kwh"], account["pue"]) == ("cpu-time-10W", 500.0, 1.5)
    assert total_g(account) == pytest.approx(account["co2e_operational_g"] + account["co2e_embodied_g"])


@given(st.floats(0.0, 1e3), st.floats(0.0, 1e3))
def test_emissions_add_up(first_kwh: float, second_kwh: float) -> None:
    one, other, both = (DEFAULT.account(x, x) for x in (first_kwh, second_kwh, first_kwh + second_kwh))
    assert total_g(one) + total_g(other) == pytest.approx(total_g(both))


def test_what_a_user_writes() -> None:
    assert EnergySettings.from_options() == DEFAULT
    assert EnergySettings.from_options(grid="Europe").ci_g_per_kwh == 295.0
    with pytest.raises(UnknownName, match='did you mean "europe"'):
        EnergySettings.from_options(grid="euorpe")
    with pytest.raises(UnknownName, match="cpu-time"):
        EnergySettings.from_options("cputime")
    with pytest.raises(SysgymError, match=r"PUE: got 0.9, expected a number of at least 1"):
        EnergySettings.from_options(pue=0.9)
    with pytest.raises(SysgymError, match="grid: got nan"):
        EnergySettings.from_options(grid="nan")


def test_the_meter_counts_cpu_time_and_not_waiting() -> None:
    meter = start_meter(EnergySettings.from_options(watts_per_core="3600"))  # 1 kWh a 1000 CPU seconds
    time.sleep(0.2)
    asleep = meter.read()["energy_kwh"]
    began_s = time.process_time()
    while time.process_time() - began_s < 0.2:
        pass
    busy = meter.read()["energy_kwh"] - asleep
    assert asleep < 1e-4
    assert 2e-4 <= busy < 4e-4


def test_codecarbon_is_an_extra(
    monkeypatch: pytest.MonkeyPatch, write_suite: WriteSuite, tmp_path: Path
) -> None:
    monkeypatch.setattr("sysgym.bench.energy.find_spec", lambda name: None)
    plan = make_plan(load_suite(write_suite()), tmp_path / "out")
    with pytest.raises(MissingExtra, match=r'pip install "sysgym\[energy\]"'):
        run_plan(plan, tmp_path / "out", n_workers=1, energy=EnergySettings.from_options("codecarbon"))
    assert not (tmp_path / "out").exists()


def test_every_row_says_what_it_cost(played: Path) -> None:
    for row in read_rows(played):
        assert row.energy is not None
        assert tuple(row.energy) == tuple(EnergyFields.model_fields)
        assert 0.0 < row.energy["energy_kwh"] < 1e-3
        assert row.energy["method"] == "cpu-time-4.19W"


def test_rows_of_before_are_read_and_broken_ones_are_not(played: Path) -> None:
    row = read_rows(played)[0]
    old = json.loads(row.to_line())
    del old["energy"], old["sha256"]
    assert Row.from_line(json.dumps(old).encode()).energy is None
    with pytest.raises(ValueError, match=r"energy\.co2e_operational_g is nothing; expected a number"):
        Row.from_line(json.dumps(old | {"energy": {"energy_kwh": 1.0}}).encode())


def test_energy_is_no_result(played: Path) -> None:
    row = read_rows(played)[0]
    assert row.energy is not None
    other = dataclasses.replace(row, energy=dict(row.energy) | {"energy_kwh": 1.0}, wall_s=99.0)
    assert compare(row, other).differences == {}


def _folder(make_row: MakeRow, out: Path, accounts: Mapping[str, Mapping[str, Any] | None]) -> Path:
    with ResultsFile(out) as results:
        for contender, account in accounts.items():
            for seed in range(200, 206):
                row = make_row(contender, seed, {"goodput_bps": 1e6 * seed})
                results.append(dataclasses.replace(row, energy=account, total_reward=50.0))
    return out


def test_the_report_has_the_return_per_gram(make_row: MakeRow, tmp_path: Path) -> None:
    account = DEFAULT.account(1e-3, 0.1)
    written = write(_folder(make_row, tmp_path / "out", {"dctcp": account, "reno": None}))
    text = written.markdown.read_text()
    assert "return per g CO2e (estimate)" in text
    lines = {line.split(" | ")[0]: line for line in text.splitlines() if line.startswith("| ")}
    assert f"| {50.0 / total_g(account):.1f}<br>529 mg per episode |" in lines["| dctcp"]
    assert lines["| reno"].endswith("| – |"), "a row of before"
    assert "Embodied emissions rest on assumptions" in text
    assert "per g CO2e<small>estimate</small>" in written.html.read_text()


def test_rows_measured_otherwise_are_not_compared(make_row: MakeRow, tmp_path: Path) -> None:
    other = EnergySettings.from_options(watts_per_core="8")
    out = _folder(
        make_row, tmp_path / "out", {"dctcp": DEFAULT.account(1.0, 1.0), "reno": other.account(1.0, 1.0)}
    )
    written = write(out)
    for text in (written.markdown.read_text(), written.html.read_text()):
        assert "Energy was measured in 2 ways (cpu-time-4.19W, 301 g/kWh, PUE 1.1; cpu-time-8W" in text
        assert "per g CO2e" not in text


def test_sittings_add_up_and_other_ways_do_not(tmp_path: Path) -> None:
    first = EnergyRecord(tmp_path, DEFAULT, 100)
    first.note(10)
    (point,) = read_energy(tmp_path)
    assert point[0] == 10
    second = EnergyRecord(tmp_path, DEFAULT, 100)
    whole = second.end(100)
    assert whole is not None
    assert whole["energy_kwh"] > point[1]["energy_kwh"]
    other = EnergyRecord(tmp_path, EnergySettings.from_options(watts_per_core="8"), 100)
    assert other.end(100) is None


def test_energy_to_a_checkpoint_is_between_points(tmp_path: Path) -> None:
    points = [(100, DEFAULT.account(1.0, 1.0)), (200, DEFAULT.account(3.0, 3.0))]
    (tmp_path / ENERGY).write_text(json.dumps(points))
    assert [energy_at(tmp_path, steps) for steps in (50, 100, 150, 200)] == [0.5, 1.0, 2.0, 3.0]
    found = {"heuristics": {"a": 5.0, "b": 7.0}, "checkpoints": [[50, 6.0], [150, 7.0], [200, 9.0]]}
    (tmp_path / VALIDATION).write_text(json.dumps(found))
    assert reached(tmp_path) == ("b", 7.0, 150, 2.0)
    (tmp_path / VALIDATION).write_text(json.dumps(found | {"checkpoints": [[50, 6.0], [180, 8.0]]}))
    assert reached(tmp_path) == ("b", 7.0, 180, 3.0), "the final checkpoint took the whole training"
    (tmp_path / VALIDATION).write_text(json.dumps(found | {"checkpoints": [[200, 6.9]]}))
    assert reached(tmp_path) == ("b", 7.0, None, None)


@pytest.mark.slow
def test_a_training_says_what_it_cost_and_when_it_was_good(write_suite: WriteSuite, tmp_path: Path) -> None:
    out = tmp_path / "out"
    plan = make_plan(load_suite(write_suite('"dctcp", "ppo", "oracle"', 1, TRAINING)), out)
    outcome = run_plan(plan, out, n_workers=1)
    assert outcome.complete
    assert outcome.failures == []
    (folder,) = (out / "training").iterdir()
    account = json.loads((folder / FINISHED).read_bytes())["energy"]
    assert tuple(account) == tuple(EnergyFields.model_fields)
    assert account["energy_kwh"] > 0.0
    found = json.loads((folder / VALIDATION).read_bytes())
    assert list(found["heuristics"]) == ["dctcp"], "neither the oracle nor what is learned"
    assert found["identity"]["seeds"] == [100, 101]
    assert found["checkpoints"][-1][0] == 128
    text = write(out).markdown.read_text()
    assert "training energy to reach the heuristic baseline" in text
    assert "(dctcp) |" in text

    class Ears(Observer):
        def begin(self, **_: Any) -> None:
            stamps.append((folder / VALIDATION).stat().st_mtime_ns)

    stamps: list[int] = []
    again = make_plan(load_suite(tmp_path / "small.toml"), out)
    run_plan(again, out, n_workers=1, observer=Ears())
    assert (folder / VALIDATION).stat().st_mtime_ns == stamps[0], "it is not played twice"


def test_the_command_takes_the_settings(
    write_suite: WriteSuite, tmp_path: Path, command_line: CommandLine
) -> None:
    options = ("--grid", "wind", "--pue", "1.2", "--watts-per-core", "epyc-2")
    done = command_line("bench", write_suite(n_seeds=1), "--out", tmp_path / "out", "--jobs", "1", *options)
    assert done.returncode == 0, done.stderr
    energy = read_rows(tmp_path / "out")[0].energy
    assert energy is not None
    assert (energy["method"], energy["ci_g_per_kwh"], energy["pue"]) == ("cpu-time-1.69W", 11.0, 1.2)
