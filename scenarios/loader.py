"""Find, read and check scenario and suite files.

A file is named by its stem (``dumbbell-10g``) or by its path. Names are looked up in the package and in the
folders of the environment variable ``SYSGYM_SCENARIO_PATH`` (separated like ``PATH``), each laid out like
this one: ``FAMILY/NAME.toml`` and ``suites/NAME.toml``; scenarios may also lie in the folder itself.
"""

from __future__ import annotations

import dataclasses
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple, overload

from sysgym.scenarios.errors import NOTHING, Problem, ScenarioError, UnknownName, closest_name
from sysgym.scenarios.families import FAMILIES, scenario_model
from sysgym.scenarios.reading import check_dots, check_shape, parse_toml, read_text
from sysgym.scenarios.schema.common import Scenario, ScenarioT, overridden
from sysgym.scenarios.schema.problems import KeyPath, dotted_key, validated
from sysgym.scenarios.schema.suite import (
    MOST_ENTRIES,
    Suite,
    TaskSpec,
    TrainingSpec,
    with_entry_for_each_seed,
    with_matrix_entries,
)
from sysgym.scenarios.toml_lines import key_lines

PATH_VARIABLE = "SYSGYM_SCENARIO_PATH"
PACKAGE_FOLDER = Path(__file__).resolve().parent
SUITES_FOLDER = "suites"


class ScenarioInfo(NamedTuple):
    """A line of ``list_scenarios``."""

    name: str
    family: str
    title: str
    env_id: str
    path: Path


class SuiteInfo(NamedTuple):
    """A line of ``list_suites``."""

    name: str
    title: str
    path: Path


@overload
def load_scenario(
    scenario: str | os.PathLike[str],
    *,
    overrides: Mapping[str, Any] | None = None,
) -> Scenario: ...
@overload
def load_scenario(
    scenario: str | os.PathLike[str],
    *,
    overrides: Mapping[str, Any] | None = None,
    expect: type[ScenarioT],
) -> ScenarioT: ...
def load_scenario(
    scenario: str | os.PathLike[str],
    *,
    overrides: Mapping[str, Any] | None = None,
    expect: type[Scenario] = Scenario,
) -> Scenario:
    """Read a scenario and check it.

    Args:
        scenario: A name from :func:`list_scenarios`, or a path to a TOML file.
        overrides: Dotted key -> value, such as ``{"workload.load": 0.6}``, checked like values of the file.
            A key that is overridden no longer varies between episodes.
        expect: The schema that the caller can use, such as ``CongestionScenario``; the type checker follows.

    Returns:
        The scenario, frozen.

    Raises:
        UnknownName: No scenario has this name.
        ScenarioError: The file cannot be read or is wrong, an override is wrong, or the family is another.
    """
    path = find_scenario(scenario)
    data, text = _read_toml(path)
    shown, lines = _shown(path), key_lines(text)
    model = _model_of(data, shown, expect, lines)
    problems = _stem_problems(data.get("name"), path.stem, lines)
    try:
        loaded = overridden(model, data, shown, overrides or {}, lines)
    except ScenarioError as error:
        raise _with_more_problems(error, problems) from None
    if problems:
        raise ScenarioError(shown, problems=problems)
    return loaded


@overload
def scenario_from_resolved(resolved: Mapping[str, Any]) -> Scenario: ...
@overload
def scenario_from_resolved(resolved: Mapping[str, Any], *, expect: type[ScenarioT]) -> ScenarioT: ...
def scenario_from_resolved(resolved: Mapping[str, Any], *, expect: type[Scenario] = Scenario) -> Scenario:
    """Return the scenario that ``Scenario.resolved()`` described.

    Args:
        resolved: Data from ``resolved()``, also after a way through JSON.
        expect: As in :func:`load_scenario`.

    Raises:
        ScenarioError: The data do not describe a scenario.
    """
    shown = "<resolved scenario>"
    check_shape(resolved, shown)
    return validated(_model_of(resolved, shown, expect, {}), resolved, shown)


def load_suite(suite: str | os.PathLike[str]) -> Suite:
    """Read a benchmark suite and check it, with all scenarios that it names.

    Args:
        suite: A name from :func:`list_suites`, or a path to a TOML file. Scenario paths in it are relative to
            its folder.

    Raises:
        UnknownName: No suite has this name.
        ScenarioError: The suite, or a scenario that it names, cannot be read or is wrong.
    """
    path = _find("suite", suite, _suite_files())
    data, text = _read_toml(path)
    with_entry_for_each_seed(data)
    matrix = data.get("matrix")
    if isinstance(matrix, dict):
        matrix["scenarios"] = [
            str((path.parent / name).resolve()) if _is_path(name) else name
            for name in _list(matrix.get("scenarios"))
        ]
        with_matrix_entries(data, _first_seed)
    for entry in [*_list(data.get("tasks")), *_list(data.get("training"))]:
        for key in ("scenario", "trained_on"):
            if isinstance(entry, dict) and _is_path(entry.get(key)):
                entry[key] = str((path.parent / entry[key]).resolve())
    shown, lines = _shown(path), key_lines(text)
    problems = _stem_problems(data.get("name"), path.stem, lines)
    scenarios = _Scenarios()
    try:
        loaded = validated(Suite, data, shown, lines=lines)
    except ScenarioError as error:
        # What can be said of the scenarios is said at once: who writes a suite often writes them too.
        raise _with_more_problems(error, [*problems, *scenarios.problems_of(data, lines)]) from None
    problems += [*scenarios.problems_of(data, lines), *_misfits(loaded, scenarios, lines)]
    if problems:
        raise ScenarioError(shown, problems=problems)
    return loaded


def _first_seed(scenario: str, split: str) -> int | None:
    """Return the first seed of a split; None where the scenario cannot be loaded, which is said elsewhere."""
    try:
        return load_scenario(scenario).splits[split].first_seed
    except (ScenarioError, UnknownName, KeyError, AttributeError):
        return None


def list_scenarios(family: str | None = None) -> list[ScenarioInfo]:
    """Return the scenarios that can be loaded by name, sorted by family and name.

    Files are read but not checked, so that one broken file does not hide the others.

    Args:
        family: Only this family.

    Raises:
        UnknownName: There is no such family.
    """
    if family is not None:
        scenario_model(family)
    found = []
    for path in _scenario_files():
        data = _peek(path)
        family_of, title, env_id = (str(data.get(key, "?")) for key in ("family", "title", "env_id"))
        info = ScenarioInfo(path.stem, family_of, title, env_id, path)
        if family is None or info.family == family:
            found.append(info)
    return sorted(found, key=lambda info: (info.family, info.name))


def list_suites() -> list[SuiteInfo]:
    """Return the suites that can be loaded by name, sorted by name."""
    return sorted(SuiteInfo(path.stem, str(_peek(path).get("title", "?")), path) for path in _suite_files())


def scenario_names() -> list[str]:
    """Return the names by which scenarios can be loaded; no file is read."""
    return [path.stem for path in _scenario_files()]


def suite_names() -> list[str]:
    """Return the names by which suites can be loaded; no file is read."""
    return [path.stem for path in _suite_files()]


def find_scenario(scenario: str | os.PathLike[str]) -> Path:
    """Return the file of a scenario.

    Args:
        scenario: A name or a path.

    Raises:
        UnknownName: No scenario has this name.
        ScenarioError: There is no such file, or two files have the name.
    """
    return _find("scenario", scenario, _scenario_files())


def parse_overrides(assignments: Iterable[str]) -> dict[str, Any]:
    """Return dotted key -> value from texts such as ``workload.load=0.6``, as a command line has them.

    The value is read as TOML; what is not TOML is a text, so that ``workload.pairs=stride`` needs no quotes.

    Args:
        assignments: ``KEY=VALUE`` texts.

    Raises:
        ScenarioError: A text has no ``=``, or is beyond the limits of :mod:`sysgym.scenarios.reading`.
    """
    overrides: dict[str, Any] = {}
    for assignment in assignments:
        check_shape(assignment, "<overrides>", origin="overrides")
        check_dots(assignment, "<overrides>", origin="overrides")
        key, equals, value = assignment.partition("=")
        if not equals or not key.strip():
            raise ScenarioError("<overrides>", assignment, assignment, "KEY=VALUE, such as workload.load=0.6")
        try:
            overrides[key.strip()] = tomllib.loads(f"value = {value}")["value"]
        except (tomllib.TOMLDecodeError, KeyError):
            overrides[key.strip()] = value.strip()
        except (RecursionError, ValueError):  # nested a thousand times; a number of thousands of digits
            expected = "a value that a scenario can hold"
            raise ScenarioError("<overrides>", key.strip(), value.strip(), expected) from None
    return overrides


def _model_of(
    data: Mapping[str, Any], shown: str, expect: type[ScenarioT], lines: Mapping[KeyPath, int]
) -> type[ScenarioT]:
    wanted = {name: model for name in FAMILIES if issubclass(model := scenario_model(name), expect)}
    family = data.get("family", NOTHING)
    if isinstance(family, str) and family in wanted:
        return wanted[family]
    suggestion = closest_name(family, wanted) if isinstance(family, str) else None
    problem = Problem(
        "family",
        family,
        " or ".join(f'"{name}"' for name in wanted),
        f'did you mean "{suggestion}"?' if suggestion else "the family decides which keys a scenario has",
        lines.get(("family",)),
    )
    raise ScenarioError(shown, problems=[problem])


def _with_more_problems(error: ScenarioError, more: Iterable[Problem]) -> ScenarioError:
    return ScenarioError(error.path, problems=[*error.problems, *more], n_unlisted=error.n_unlisted)


def _stem_problems(name: object, stem: str, lines: Mapping[KeyPath, int]) -> list[Problem]:
    if name == stem or not isinstance(name, str):  # a name that is missing or none is the schema's to say
        return []
    expected = f'"{stem}", the name of the file without .toml'
    return [Problem("name", name, expected, "rename the file or change the name", lines.get(("name",)))]


class _Scenarios:
    """The scenarios that a suite names, each read once."""

    def __init__(self) -> None:
        self._read: dict[str, Scenario | ScenarioError | UnknownName] = {}

    def get(self, scenario: str) -> Scenario | ScenarioError | UnknownName:
        """Return a scenario, or why it cannot be used."""
        if scenario not in self._read:
            try:
                self._read[scenario] = load_scenario(scenario)
            except (ScenarioError, UnknownName) as error:
                self._read[scenario] = error
        return self._read[scenario]

    def problems_of(self, data: Mapping[str, Any], lines: Mapping[KeyPath, int]) -> Iterator[Problem]:
        """Yield what is wrong with the scenarios of a suite, which need not be right itself.

        Args:
            data: The suite's tables, paths resolved.
            lines: Key path -> line of the suite.
        """
        told: set[str] = set()
        for table in ("tasks", "training"):
            for index, entry in enumerate(_list(data.get(table))[:MOST_ENTRIES]):
                for key in ("scenario", "trained_on"):
                    name = entry.get(key) if isinstance(entry, dict) else None
                    if not isinstance(name, str) or not name:
                        continue
                    found = self.get(name)
                    if isinstance(found, UnknownName):
                        suggestions = " or ".join(f'"{one}"' for one in found.suggestions)
                        yield Problem(
                            dotted_key((table, index, key)),
                            name,
                            f"a scenario (sysgym list scenarios lists all {len(found.known)})"
                            " or a path to one",
                            f"did you mean {suggestions}?" if suggestions else "",
                            lines.get((table, index, key)),
                        )
                    elif isinstance(found, ScenarioError) and name not in told:
                        told.add(name)
                        for problem in found.problems:
                            where = f"{found.path}: {problem.key}" if problem.key else found.path
                            yield dataclasses.replace(problem, key=where)


def _misfits(suite: Suite, scenarios: _Scenarios, lines: Mapping[KeyPath, int]) -> Iterator[Problem]:
    """Yield what does not fit between a suite's entries and scenarios that are right in themselves."""
    entries: list[tuple[KeyPath, TaskSpec | TrainingSpec]] = [
        *((("tasks", index), task) for index, task in enumerate(suite.tasks)),
        *((("training", index), training) for index, training in enumerate(suite.training)),
    ]
    for path, entry in entries:
        scenario = scenarios.get(entry.scenario)
        if isinstance(scenario, Scenario):
            for problem in entry.problems_with(scenario):
                key = (*path, problem.key)
                yield dataclasses.replace(problem, key=dotted_key(key), line=lines.get(key))


def _read_toml(path: Path) -> tuple[dict[str, Any], str]:
    shown = _shown(path)
    text = read_text(path, "TOML file", shown=shown)
    return parse_toml(text, shown), text


def _find(kind: str, wanted: str | os.PathLike[str], files: list[Path]) -> Path:
    if _is_path(wanted):
        return _existing_file(kind, wanted)
    found = [path for path in files if path.stem == wanted]
    if not found:
        raise UnknownName(kind, str(wanted), {path.stem for path in files})
    if len(found) > 1:
        places = ", ".join(_shown(path) for path in found)
        expected = f"one {kind} of this name; there are {places}"
        raise ScenarioError(
            _shown(found[1]), "name", str(wanted), expected, advice="rename one, or give the path"
        )
    return found[0]


def _existing_file(kind: str, wanted: str | os.PathLike[str]) -> Path:
    try:
        path = Path(wanted).expanduser()
        found = path.is_file()
    except (OSError, ValueError, RuntimeError):  # a name too long, a NUL in it, the home folder of nobody
        found = False
    if not found:
        got = "a folder, a pipe or a device" if os.path.exists(wanted) else NOTHING
        expected = f"a {kind} file"
        raise ScenarioError(
            os.fspath(wanted), "", got, expected, advice="check the path; names have no .toml"
        )
    return path


def _is_path(scenario: object) -> bool:
    if isinstance(scenario, os.PathLike):
        return True
    return isinstance(scenario, str) and (scenario.endswith(".toml") or "/" in scenario or os.sep in scenario)


def _folders() -> list[Path]:
    users = [Path(part).expanduser() for part in os.environ.get(PATH_VARIABLE, "").split(os.pathsep) if part]
    for folder in users:
        if not folder.is_dir():
            raise ScenarioError(
                folder, expected="a folder of scenario files", advice=f"it is named in {PATH_VARIABLE}"
            )
    return [PACKAGE_FOLDER, *users]


def _scenario_files() -> list[Path]:
    patterns = ["*.toml", *(f"{family}/*.toml" for family in FAMILIES)]
    return [path for folder in _folders() for pattern in patterns for path in sorted(folder.glob(pattern))]


def _suite_files() -> list[Path]:
    return [path for folder in _folders() for path in sorted(folder.glob(f"{SUITES_FOLDER}/*.toml"))]


def _peek(path: Path) -> dict[str, Any]:
    try:
        return _read_toml(path)[0]
    except ScenarioError:
        return {"title": "(this file cannot be read; load it for the reason)"}


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _shown(path: Path) -> str:
    """Return the path as a reader knows it: relative to where they stand if it lies there."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except (OSError, ValueError):
        return str(path)
