"""Laws whose constants are searched, by name and by file."""

from __future__ import annotations

from pathlib import Path

import pytest

from sysgym.agents.learned.congestion.law import Law
from sysgym.agents.learned.congestion.law_search.laws import SEARCHED_LAWS, law_named, law_of_file
from sysgym.agents.learned.shipped import shipped_checkpoint
from sysgym.scenarios.errors import SysgymError, UnknownName


@pytest.mark.parametrize("name", SEARCHED_LAWS)
def test_a_file_tells_its_law(name: str, tmp_path: Path) -> None:
    law = SEARCHED_LAWS[name]
    path = tmp_path / "law.json"
    law.form.write(Law([one.value for one in law.constants], [], 0, 0, 0.0, {}, {}), path)
    assert law_of_file(path) is law
    assert law.form.transport(law.form.read(path).parameters).name == name


@pytest.mark.parametrize("name", SEARCHED_LAWS)
def test_a_name_has_the_first_constants_and_a_file_its_own(name: str, tmp_path: Path) -> None:
    law, first = law_named(name)
    assert law is SEARCHED_LAWS[name]
    assert list(first.parameters) == [one.value for one in law.constants]
    path = tmp_path / "law.json"
    other = [one.least for one in law.constants]
    law.form.write(Law(other, [], 0, 0, 0.0, {}, {}), path)
    again, found = law_named(str(path))
    assert again is law
    assert list(found.parameters) == other


def test_a_network_is_none_of_them() -> None:
    path = shipped_checkpoint("neural")
    assert path is not None
    with pytest.raises(SysgymError, match="agent is 'neural'; expected a checkpoint of adaptive_target"):
        law_of_file(path)


def test_a_name_that_is_none_is_corrected() -> None:
    with pytest.raises(UnknownName, match='did you mean "adaptive_swift"'):
        law_named("adaptve_swift")


@pytest.mark.parametrize("content", [b"", b"LAW", b"\xff\xfe"])
def test_what_is_no_json_is_said_to_be_none(content: bytes, tmp_path: Path) -> None:
    path = tmp_path / "law.json"
    path.write_bytes(content)
    with pytest.raises(SysgymError, match=r"law\.json: not a checkpoint of a law .*; expected a JSON file"):
        law_of_file(path)


@pytest.mark.parametrize("text", ["[]", "{}"])
def test_another_file_is_none_of_them(text: str, tmp_path: Path) -> None:
    path = tmp_path / "law.json"
    path.write_text(text)
    with pytest.raises(SysgymError, match="agent is None"):
        law_of_file(path)
