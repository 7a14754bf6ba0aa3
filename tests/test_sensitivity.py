"""Table of scripts/laws/sensitivity.py: slopes with their errors, halves of the laws, errors of options."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from sysgym.emulator.packets.transports import Transport
from sysgym.emulator.packets.transports.searched.adaptive_swift import CONSTANTS
from sysgym.scenarios.errors import SysgymError
from tests.scripts import load_script


@pytest.fixture(scope="module")
def sensitivity() -> ModuleType:
    return load_script("laws/sensitivity")


def test_slopes_are_those_of_the_line_and_errors_those_of_the_noise(sensitivity: ModuleType) -> None:
    rng = np.random.default_rng(1)
    doublings = rng.normal(0.0, 0.5, (4000, 2))
    exact, error = sensitivity.slopes(doublings, 3.0 + doublings @ [2.0, -1.0])
    np.testing.assert_allclose(exact, [2.0, -1.0])
    np.testing.assert_allclose(error, 0.0, atol=1e-6)
    noisy, error = sensitivity.slopes(doublings, doublings @ [2.0, -1.0] + rng.normal(0.0, 0.3, 4000))
    np.testing.assert_allclose(error, 0.3 / 0.5 / np.sqrt(4000), rtol=0.1)
    assert (np.abs(noisy - [2.0, -1.0]) < 4.0 * error).all()


def test_a_row_has_changes_in_per_cent_and_crowds_of_both_halves(sensitivity: ModuleType) -> None:
    doublings = np.array([[-1.0], [-0.5], [0.5], [1.0]])
    found = {"power": 2.0 * doublings[:, 0], sensitivity.CROWDS: np.array([1.0, 0.5, 0.25, 0.0])}
    last = sensitivity.table(["growth"], doublings, found).splitlines()[-1]
    assert last == "| `growth` | +300.0 ± 0.0 | 75.0 ± 25.0 / 12.5 ± 12.5 |"


def test_only_the_named_constants_change_and_what_was_played_counts(
    sensitivity: ModuleType, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Also where constants are cut at their bounds, as many paces are."""
    values = np.array([constant.value for constant in CONSTANTS])
    names = [constant.name for constant in CONSTANTS]

    def play(laws: list[Transport]) -> dict[str, Any]:
        played = np.array([law.parameters for law in laws])
        changed = {name for name, column in zip(names, (played != values).any(axis=0), strict=True) if column}
        assert changed == {"pace", "growth"}
        pace = played[:, names.index("pace")]
        assert pace.min() == 1.0
        return {"power": np.log2(pace), sensitivity.CROWDS: np.zeros(len(laws))}

    monkeypatch.setattr(sensitivity, "play", play)
    words = ["adaptive_swift", "--laws", "40", "--constants", "pace", "growth", "pace"]
    monkeypatch.setattr(sys, "argv", ["sensitivity.py", *words])
    sensitivity.main()
    rows = capsys.readouterr().out.splitlines()[-2:]
    assert rows[0].startswith("| `growth` | ")
    assert float(rows[0].split()[3]) == pytest.approx(0.0, abs=0.1)
    assert rows[1] == "| `pace` | +100.0 ± 0.0 | 0.0 ± 0.0 / 0.0 ± 0.0 |"


def test_every_law_plays_the_same_episodes(sensitivity: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        sensitivity, "episodes", lambda: [lambda law: {"a": law}, lambda law: {"a": 3, "b": 1}]
    )
    found = sensitivity.play([1, 5])
    assert {column: values.tolist() for column, values in found.items()} == {"a": [2.0, 4.0], "b": [1.0, 1.0]}


def test_what_only_some_laws_show_is_refused(
    sensitivity: ModuleType, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sensitivity, "episodes", lambda: [lambda law: {"a": 1.0} if law else {}])
    with pytest.raises(SysgymError, match="with some laws only"):
        sensitivity.play([0, 1])


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (
            ["adaptive_swift", "--constants", "grwth"],
            'error: no constant is named "grwth"; did you mean "growth"',
        ),
        (["adaptive_swift", "--laws", "5"], "error: --laws 5: expected at least 8"),
        (["no-such.json"], 'error: no law or checkpoint is named "no-such.json"'),
        (["adaptive_swift", "--spread", "nan"], "--spread: expected a number above 0"),
        (["adaptive_swift", "--seed", "-1"], "--seed: expected 0 or more"),
    ],
)
def test_errors_of_options(
    sensitivity: ModuleType,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: list[str],
    message: str,
) -> None:
    monkeypatch.setattr(sys, "argv", ["sensitivity.py", *words])
    with pytest.raises(SystemExit) as ended:
        sensitivity.main()
    assert message in f"{ended.value} {capsys.readouterr().err}"
