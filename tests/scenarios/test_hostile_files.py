"""Hostile files and texts give one clear error each, quickly."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from sysgym.scenarios import (
    list_scenarios,
    load_scenario,
    load_suite,
    parse_overrides,
    scenario_from_resolved,
)
from sysgym.scenarios.errors import MOST_PROBLEMS, ScenarioError, SysgymError
from sysgym.scenarios.reading import LARGEST_FILE_BYTES, read_text

MOST_CPU_S = 5.0
"""Of processor time, so that a busy machine does not matter; it used to be 25 and 100 s."""


@pytest.fixture(autouse=True)
def _soon() -> Iterator[None]:
    began_s = time.process_time()
    yield
    assert time.process_time() - began_s < MOST_CPU_S


HEAD = "schema = 1\n"
CONTENTS: dict[str, tuple[bytes, str]] = {
    "nested lists": (b"x = " + b"[" * 1000 + b"]" * 1000, "nested deeper"),
    "nested tables": (b"x = " + b"{a=" * 1000 + b"1" + b"}" * 1000, "nested deeper"),
    "forty lists": (b"x = " + b"[" * 40 + b"]" * 40, "at most 32 tables and lists inside each other"),
    "deep dotted key": (b"a." * 5000 + b"b = 1", "inside each other"),
    "deep header": (b"[" + b"a." * 5000 + b"b]", "inside each other"),
    "dotted key of 100 kB": (b"a." * 50_000 + b"b = 1", "at most 64 dots on a line"),
    "header of 100 kB": (b"[" + b"a." * 50_000 + b"b]", "at most 64 dots on a line"),
    "dotted key in quotes": (b'"a b" . ' * 12_000 + b"b = 1", "at most 64 dots on a line"),
    "dotted key of digits": (b"1." * 30_000 + b"1 = 1", "at most 64 dots on a line"),
    "dotted key between texts": (
        b'x = ["""\n\' """, {' + b"a." * 30_000 + b"""b = 1}, \"\"\" ' \"\"\"]""",
        "at most 64 dots on a line",
    ),
    "empty key": (b'"" = 1', "keys that are texts of 1 to 200 characters"),
    "long key": (b"k" * 5000 + b" = 1", "a key of 5,000 characters"),
    "long number": (b"schema = " + b"9" * 5000, "whole numbers from -9223372036854775807"),
    "long hexadecimal number": (b"schema = 0x" + b"f" * 5000, "a whole number of 20000 bits"),
    "number beyond TOML": (b"schema = 9223372036854775808", "whole numbers from -9223372036854775807"),
    "long text": (b'name = "' + b"n" * 30_000 + b'"', "a text of at most 20,000 characters"),
    "many values": (b"x = [" + b"1," * 30_000 + b"]", "at most 20,000 values in all"),
    "many keys": (b"".join(b"k%d=1\n" % i for i in range(700_000)), "at most 1,048,576 bytes"),
    "NUL": (b"schema = 1\n\0", "a byte 0"),
    "not UTF-8": (b"title = '\xff'", "not UTF-8"),
    "empty": (b"", "family"),
}


@pytest.mark.parametrize("load", [load_scenario, load_suite])
@pytest.mark.parametrize("what", CONTENTS)
def test_a_hostile_file_is_refused_in_words(what: str, load: Callable[[Path], Any], tmp_path: Path) -> None:
    content, words = CONTENTS[what]
    path = tmp_path / "mine.toml"
    path.write_bytes(content)
    with pytest.raises(ScenarioError) as caught:
        load(path)
    text = str(caught.value)
    if what != "empty" or load is load_scenario:
        assert words in text
    assert str(path) in text
    assert len(text) < 20_000


@pytest.mark.parametrize(
    "what",
    ["folder", "pipe", "device", "missing", "long name", "NUL in the name", "home of nobody"],
)
@pytest.mark.parametrize("load", [load_scenario, load_suite])
def test_what_is_no_file_is_refused_in_words(what: str, load: Callable[[str], Any], tmp_path: Path) -> None:
    path = str(tmp_path / "mine.toml")
    if what == "folder":
        Path(path).mkdir()
    elif what == "pipe":
        os.mkfifo(path)  # reading it would wait for ever
    path = {
        "device": "/dev/zero",
        "long name": f"{'x' * 5000}.toml",
        "NUL in the name": "a\0b.toml",
        "home of nobody": "~nobody-of-this-name/x.toml",
    }.get(what, path)
    with pytest.raises(ScenarioError, match="file") as caught:
        load(path)
    assert len(str(caught.value)) < 1000
    assert "\0" not in str(caught.value)


def test_a_reader_of_files_never_waits(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero"), tmp_path):
        with pytest.raises(ScenarioError, match=r"pipe or a device|directory"):
            read_text(path, "TOML file")
    big = tmp_path / "big"
    with big.open("wb") as file:
        file.truncate(100 * LARGEST_FILE_BYTES)
    with pytest.raises(ScenarioError, match="a larger file"):
        read_text(big, "TOML file")


def test_lists_of_scenarios_pass_over_what_is_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    os.mkfifo(tmp_path / "pipe.toml")
    (tmp_path / "deep.toml").write_text("x = " + "[" * 1000)
    monkeypatch.setenv("SYSGYM_SCENARIO_PATH", str(tmp_path))
    found = {info.name: info.title for info in list_scenarios()}
    assert "cannot be read" in found["pipe"]
    assert "cannot be read" in found["deep"]


def test_an_unknown_name_of_any_length_is_short_in_the_message() -> None:
    with pytest.raises(SysgymError) as caught:
        load_scenario("x" * 5000)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(
    "text",
    [
        "workload.load=" + "[" * 1000,
        "workload.load=" + "9" * 5000,
        "workload.load=0x" + "f" * 5000,
        "workload.load=" + "x" * 30_000,
        "=1",
        '""=1',
        "a." * 5000 + "b=1",
        "." * 5000 + "=1",
        "workload.load={" + "a." * 5000 + "b=1}",
        "k" * 5000 + "=1",
        "workload.load=\0",
        "no equals sign",
    ],
)
def test_overrides_of_any_form_are_refused_in_words(text: str) -> None:
    with pytest.raises(ScenarioError) as caught:
        load_scenario("dumbbell-10g", overrides=parse_overrides([text]))
    assert len(str(caught.value)) < 2000


def test_overrides_and_resolved_forms_from_python_are_held_to_the_same(tables: dict[str, Any]) -> None:
    endless: list[Any] = []
    endless.append(endless)
    for value in (endless, 10**5000, {"": 1}, {1: 2}):
        with pytest.raises(ScenarioError):
            load_scenario("dumbbell-10g", overrides={"workload.load": value})
        with pytest.raises(ScenarioError):
            scenario_from_resolved({**tables, "workload": value})
    with pytest.raises(ScenarioError, match="dotted keys"):
        load_scenario("dumbbell-10g", overrides="workload.load=1")  # type: ignore[call-overload]


def test_many_unknown_keys_are_counted_and_the_first_shown(
    minimal: str, write_text: Callable[[str], Path]
) -> None:
    path = write_text("".join(f"k{i} = 1\n" for i in range(19_000)) + minimal)
    with pytest.raises(ScenarioError, match=f"19000 problems, the first {MOST_PROBLEMS} of them") as caught:
        load_scenario(path)
    assert len(caught.value.problems) == MOST_PROBLEMS
    assert caught.value.n_unlisted == 19_000 - MOST_PROBLEMS
    assert caught.value.problems[0].line == 1


def test_a_list_that_varies_is_limited(minimal: str, write_text: Callable[[str], Path]) -> None:
    values = ", ".join(f"0.{i:05}" for i in range(10_000, 20_000))
    path = write_text(minimal.replace("[0.3, 0.4]", f"[{values}]"))
    with pytest.raises(ScenarioError, match="at most 500 values in the lists of all splits") as caught:
        load_scenario(path)
    assert caught.value.key == "splits.train.vary"
    assert "ranges" in caught.value.problems[0].advice


def test_keys_with_control_characters_are_shown_escaped(
    minimal: str, write_text: Callable[[str], Path]
) -> None:
    path = write_text('"\\u001b[2J" = 1\n' + minimal)
    with pytest.raises(ScenarioError) as caught:
        load_scenario(path)
    assert "\x1b" not in str(caught.value)
    assert "\\x1b[2J" in str(caught.value)


@pytest.mark.parametrize("bad", ["\\u001b]0;planted", "\\u009b2J", "\\u202e", "\\u0000", "\\r"])
def test_texts_have_no_control_characters(bad: str, minimal: str, write_text: Callable[[str], Path]) -> None:
    for text, words in (
        (minimal.replace('"Mine"', f'"Mine {bad}"'), "one line without control characters"),
        (minimal.replace("for tests.", f"for {bad} tests."), "a text without control characters"),
        (minimal.replace("[topology]", f'references = ["{bad}"]\n[topology]'), "a text without control"),
    ):
        with pytest.raises(ScenarioError, match=words) as caught:
            load_scenario(write_text(text))
        assert len(caught.value.problems) == 1
    for text in (SUITE.replace("Mine", bad), SUITE.replace("A suite", bad)):
        with pytest.raises(ScenarioError, match="without control characters"):
            load_suite(write_text(text))


def test_a_title_is_one_line_and_a_description_may_be_several(
    minimal: str, write_text: Callable[[str], Path]
) -> None:
    several = minimal.replace("for tests.", "for\\n\\ttests: é, 漢, 🙂.")
    assert load_scenario(write_text(several)).description == "A scenario for\n\ttests: é, 漢, 🙂."
    with pytest.raises(ScenarioError, match="one line without control characters"):
        load_scenario(write_text(minimal.replace('"Mine"', '"Mine\\n# x"')))


SUITE = 'schema = 1\nname = "mine"\ntitle = "Mine"\ndescription = "A suite for tests."\n'


@pytest.mark.parametrize(
    ("tables", "words"),
    [
        ("[[tasks]]\nscenario = 'incast-32'\n" * 4000, "8000 problems, the first 50"),
        (
            "[[training]]\nagent = 'ppo'\nscenario = 'incast-32'\ntotal_steps = 1\n"
            f"seeds = {list(range(15_000))}\n",
            "seeds",
        ),
        (
            f"[matrix]\nagent = 'ppo'\nscenarios = {[f's{i}' for i in range(9000)]}\n"
            f"seeds = {list(range(9000))}\ntotal_steps = 1\n",
            "at most 32 entries",
        ),
    ],
    ids=["tasks", "seeds", "matrix"],
)
def test_a_suite_that_multiplies_is_limited(tables: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text(SUITE + tables)
    with pytest.raises(ScenarioError, match=words):
        load_suite(path)
