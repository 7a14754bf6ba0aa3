"""The tree of errors: one root, readable messages, pickling."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from sysgym.scenarios.errors import (
    NOTHING,
    BackendError,
    BackendUnavailable,
    MissingExtra,
    Problem,
    ResultMismatch,
    ScenarioError,
    SysgymError,
    TransportError,
    UnknownName,
    closest_name,
)

EVERY_ERROR = [
    BackendError("the emulator died", "tail of stderr"),
    BackendUnavailable("linux", "no permission to make namespaces", "sudo sysgym emulator serve"),
    MissingExtra("train", "sysgym train"),
    ResultMismatch("goodput differs"),
    ScenarioError("a.toml", "queue.buffer_bytes", NOTHING, "a whole number", advice="add it"),
    ScenarioError("a.toml", problems=[Problem("x", 1, "2", line=3), Problem("y", None, "z")]),
    TransportError(
        "mine",
        flow=3,
        ends="h0 to h4",
        callback="on_ack (mine.py:7)",
        time_s=1e-3,
        got="flow.cwnd = nan",
        expected="a finite window of 0 packets or more",
    ),
    UnknownName("scenario", "dumbell", ["dumbbell", "incast"], hint="see the list"),
]


@pytest.mark.parametrize("error", EVERY_ERROR, ids=lambda error: type(error).__name__)
def test_every_error_is_a_sysgym_error_and_survives_pickling(error: SysgymError) -> None:
    assert isinstance(error, SysgymError)
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is type(error)
    assert str(copy) == str(error)
    assert copy.__dict__ == error.__dict__


def test_the_face_exports_the_same_classes() -> None:
    from sysgym import errors

    assert errors.ScenarioError is ScenarioError
    assert errors.SysgymError is SysgymError


def test_missing_extra_is_an_import_error_with_the_pip_line() -> None:
    error = MissingExtra("train", "sysgym train")
    assert isinstance(error, ImportError)
    assert 'pip install "sysgym[train]"' in str(error)
    assert error.extra == "train"


def test_backend_unavailable_says_what_to_do() -> None:
    error = BackendUnavailable("linux", "mininet is missing", "apt install mininet")
    assert "mininet is missing" in str(error)
    assert "apt install mininet" in str(error)
    assert (error.backend, error.missing) == ("linux", "mininet is missing")


def test_backend_error_carries_the_tail() -> None:
    assert str(BackendError("died", "segfault")) == "died\nsegfault"
    assert str(BackendError("died")) == "died"


def test_unknown_name_is_readable_although_a_key_error() -> None:
    error = UnknownName("transport", "dctpc", ["reno", "dctcp"])
    assert isinstance(error, KeyError)
    text = 'no transport is named "dctpc"; did you mean "dctcp"? (there is: dctcp, reno)'
    assert str(error) == text
    assert (error.kind, error.name, error.suggestion) == ("transport", "dctpc", "dctcp")


def test_many_names_are_counted_and_few_suggested() -> None:
    names = [f"world-{number}" for number in range(150)]
    error = UnknownName("scenario", "world-1x", names)
    assert error.suggestion == "world-1"
    assert 1 <= len(error.suggestions) <= 5
    assert str(error).endswith("(sysgym list scenarios lists all 150)")
    assert len(str(error)) < 250
    assert len(str(UnknownName("thing", "x" * 5000, names))) < 500


def test_unknown_name_without_anything_close_does_not_guess() -> None:
    error = UnknownName("transport", "zzz", ["reno"])
    assert error.suggestion is None
    assert "did you mean" not in str(error)
    assert "there is none" in str(UnknownName("suite", "quick"))


def test_initials_are_close_to_a_name_of_several_words() -> None:
    known = ["batch_size", "learning_rate", "least-recent", "lrx"]
    assert closest_name("lr", ["gamma", "learning_rate", "final_learning_rate"]) == "learning_rate"
    assert closest_name("LR", ["gamma", "learning_rate"]) == "learning_rate"
    assert closest_name("lr", known) == "lrx", "a similar name comes first"
    assert closest_name("l", ["learning"]) is None


def test_closest_name_ignores_case() -> None:
    assert closest_name("RENO", ["reno", "cubic"]) == "reno"
    assert closest_name("", ["reno"]) is None


def test_scenario_error_shows_one_block_for_each_problem() -> None:
    first = Problem("workload.laod", 0.5, "a key of [workload]", 'did you mean "load"?', line=19)
    error = ScenarioError("a.toml", problems=[first, Problem("", "(", "TOML")])
    assert str(error) == (
        "a.toml: 2 problems\n"
        "  workload.laod (line 19)\n"
        "    got       0.5\n"
        "    expected  a key of [workload]\n"
        '    to do     did you mean "load"?\n'
        "  the file\n"
        "    got       '('\n"
        "    expected  TOML"
    )
    assert (error.path, error.key, error.got, error.expected) == (
        "a.toml",
        "workload.laod",
        0.5,
        "a key of [workload]",
    )


def test_long_values_are_cut() -> None:
    problem = Problem("x", list(range(1000)), "one number")
    assert max(map(len, problem.describe().splitlines())) < 150


def test_errors_import_without_pydantic_or_numba() -> None:
    script = (
        "import sys, sysgym.errors, sysgym.scenarios\n"
        "heavy = {'pydantic', 'numba', 'torch', 'matplotlib', 'scipy'} & set(sys.modules)\n"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)
