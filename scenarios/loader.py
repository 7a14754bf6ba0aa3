"""Loading of scenario and suite files: search, reading and validation.

A file is named by its stem (``dumbbell-10g``) or by its path. Names are looked up in the package, in the
folders of families from other packages, and in the folders of the environment variable
``SYSGYM_SCENARIO_PATH`` (separated like ``PATH``). Each has the layout of this folder: ``FAMILY/NAME.toml``
and ``suites/NAME.toml``; scenarios may also be in the folder itself.
"""

from __future__ import annotations

import dataclasses
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, overload

from sysgym.scenarios.errors import NOTHING, Problem, ScenarioError, UnknownName, closest_name
from sysgym.scenarios.families import families, scenario_model
from sysgym.scenarios.names import environment_names
from sysgym.scenarios.reading import check_dots, check_shape, parse_toml, read_text
from sysgym.scenarios.schema.later_keys import as_written
from sysgym.scenarios.schema.problems import KeyPath, dotted_key, validated
from sysgym.scenarios.schema.scenario import Scenario, ScenarioT, overridden
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
_MOST_EXAMPLES = 5


class ScenarioInfo(NamedTuple):
    """Entry of ``list_scenarios``."""

    name: str
    family: str
    title: str
    env_id: str
    path: Path


class SuiteInfo(NamedTuple):
    """Entry of ``list_suites``."""

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
    """Load and validate a scenario.

    Args:
        scenario: A name from :func:`list_scenarios`, or a path to a TOML file.
        overrides: Values by dotted key, such as ``{"workload.load": 0.6}``, checked like values of the file.
            A key that is overridden no longer varies between episodes.
        expect: Schema of the family that the caller requires; also the static type of the result.

    Returns:
        The scenario, immutable.

    Raises:
        UnknownName: If no scenario has this name.
        ScenarioError: If the file cannot be read or is invalid, an override is invalid, or the scenario is of
            another family.
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
    """Return the scenario described by the result of ``Scenario.resolved()``.

    Args:
        resolved: Data from ``resolved()``, also after a round trip through JSON.
        expect: As in :func:`load_scenario`.

    Raises:
        ScenarioError: If the data do not describe a scenario.
    """
    shown = "<resolved scenario>"
    check_shape(resolved, shown)
    model = _model_of(resolved, shown, expect, {})
    return validated(model, as_written(model, resolved), shown)


def load_suite(suite: str | os.PathLike[str]) -> Suite:
    """Load and validate a benchmark suite, with all scenarios that it names.

    Args:
        suite: A name from :func:`list_suites`, or a path to a TOML file. Scenario paths in it are relative to
            its folder.

    Raises:
        UnknownName: If no suite has this name.
        ScenarioError: If the suite, or a scenario that it names, cannot be read or is invalid.
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
        # Problems of the scenarios are reported too, since the author of a suite often writes them as well.
        raise _with_more_problems(error, [*problems, *scenarios.problems_of(data, lines)]) from None
    problems += [*scenarios.problems_of(data, lines), *_misfits(loaded, scenarios, lines)]
    if problems:
        raise ScenarioError(shown, problems=problems)
    return loaded


def _first_seed(scenario: str, split: str) -> int | None:
    """Return the first seed of a split; None if loading fails, which is reported elsewhere."""
    try:
        return load_scenario(scenario).splits[split].first_seed
    except (ScenarioError, UnknownName, KeyError, AttributeError):
        return None


def list_scenarios(family: str | None = None) -> list[ScenarioInfo]:
    """Return the scenarios that can be loaded by name, sorted by family and name.

    Files are read but not validated, so that one invalid file does not hide the others.

    Args:
        family: Restrict the list to this family.

    Raises:
        UnknownName: If there is no such family.
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
    """Return the names by which scenarios can be loaded, without reading files."""
    return [path.stem for path in _scenario_files()]


def suite_names() -> list[str]:
    """Return the names by which suites can be loaded, without reading files."""
    return [path.stem for path in _suite_files()]


def find_scenario(scenario: str | os.PathLike[str]) -> Path:
    """Return the file of a scenario.

    Args:
        scenario: A name or a path.

    Raises:
        UnknownName: If no scenario has this name.
        ScenarioError: If there is no such file, or two files have the name.
    """
    return _find("scenario", scenario, _scenario_files())


def parse_overrides(assignments: Iterable[str]) -> dict[str, Any]:
    """Return values by dotted key from command-line texts such as ``workload.load=0.6``.

    A value is parsed as TOML; otherwise it is a string, so ``workload.pairs=stride`` needs no quotes.

    Args:
        assignments: ``KEY=VALUE`` texts.

    Raises:
        ScenarioError: If a text has no ``=``, or exceeds the limits of :mod:`sysgym.scenarios.reading`.
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
        except (RecursionError, ValueError):  # nested a thousand times; a number with thousands of digits
            expected = "a value that a scenario can hold"
            raise ScenarioError("<overrides>", key.strip(), value.strip(), expected) from None
    return overrides


def _model_of(
    data: Mapping[str, Any], shown: str, expect: type[ScenarioT], lines: Mapping[KeyPath, int]
) -> type[ScenarioT]:
    family = data.get("family", NOTHING)
    advice = "the family decides which keys a scenario has"
    if isinstance(family, str) and family in families():
        model = scenario_model(family)
        if issubclass(model, expect):
            return model
        advice = f"this scenario is for {data.get('env_id')}; give one of the family expected here"
    wanted = [name for name in families() if issubclass(scenario_model(name), expect)]
    suggestion = closest_name(family, wanted) if isinstance(family, str) else None
    problem = Problem(
        "family",
        family,
        " or ".join(f'"{name}"' for name in wanted),
        f'did you mean "{suggestion}"?' if suggestion else advice,
        lines.get(("family",)),
    )
    raise ScenarioError(shown, problems=[problem])


def _with_more_problems(error: ScenarioError, more: Iterable[Problem]) -> ScenarioError:
    return ScenarioError(error.path, problems=[*error.problems, *more], n_unlisted=error.n_unlisted)


def _stem_problems(name: object, stem: str, lines: Mapping[KeyPath, int]) -> list[Problem]:
    if name == stem or not isinstance(name, str):  # the schema reports a missing or invalid name
        return []
    expected = f'"{stem}", the name of the file without .toml'
    return [Problem("name", name, expected, "rename the file or change the name", lines.get(("name",)))]


class _Scenarios:
    """Cache of the scenarios that a suite names; each is read once."""

    def __init__(self) -> None:
        self._read: dict[str, Scenario | ScenarioError | UnknownName] = {}

    def get(self, scenario: str) -> Scenario | ScenarioError | UnknownName:
        """Return a scenario, or the error that prevents its use."""
        if scenario not in self._read:
            try:
                self._read[scenario] = load_scenario(scenario)
            except (ScenarioError, UnknownName) as error:
                self._read[scenario] = error
        return self._read[scenario]

    def problems_of(self, data: Mapping[str, Any], lines: Mapping[KeyPath, int]) -> Iterator[Problem]:
        """Yield the problems of a suite's scenarios; the suite itself may be invalid.

        Args:
            data: Tables of the suite, with resolved paths.
            lines: Lines of the suite by key path.
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
                            "a scenario (sysgym list scenarios lists all) or a path to one",
                            f"did you mean {suggestions}?" if suggestions else found.listing,
                            lines.get((table, index, key)),
                        )
                    elif isinstance(found, ScenarioError) and name not in told:
                        told.add(name)
                        for problem in found.problems:
                            where = f"{found.path}: {problem.key}" if problem.key else found.path
                            yield dataclasses.replace(problem, key=where)


def _misfits(suite: Suite, scenarios: _Scenarios, lines: Mapping[KeyPath, int]) -> Iterator[Problem]:
    """Yield the conflicts between a suite's entries and scenarios that are valid in themselves."""
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
    found = [path for path in files if path.stem == wanted]
    if not found and not os.path.exists(wanted) and (other := _what_else(kind, str(wanted))):
        raise UnknownName(kind, str(wanted), listing=other)
    if _is_path(wanted):
        return _existing_file(kind, wanted)
    if not found:
        raise UnknownName(kind, str(wanted), {path.stem for path in files})
    if len(found) > 1:
        places = ", ".join(_shown(path) for path in found)
        expected = f"one {kind} of this name; there are {places}"
        raise ScenarioError(
            _shown(found[1]), "name", str(wanted), expected, advice="rename one, or give the path"
        )
    return found[0]


def _what_else(kind: str, name: str) -> str:
    """Return what has a name that no scenario or suite has, and what to do; empty if nothing has it."""
    if kind == "suite":
        return f"it is a scenario: sysgym run {name}" if name in scenario_names() else ""
    if name in suite_names():
        return f"it is a suite: sysgym bench {name}"
    played = [info.name for info in list_scenarios() if name in environment_names(info.env_id)]
    more = f" and {len(played) - _MOST_EXAMPLES} more" if len(played) > _MOST_EXAMPLES else ""
    named = ", ".join(played[:_MOST_EXAMPLES])
    return f"it is an environment; name a scenario of it: {named}{more}" if played else ""


def _existing_file(kind: str, wanted: str | os.PathLike[str]) -> Path:
    try:
        path = Path(wanted).expanduser()
        found = path.is_file()
    except (OSError, ValueError, RuntimeError):  # too long a name, a NUL, an unknown home folder
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
    own = [family.scenario_folder for family in families().values() if family.scenario_folder is not None]
    return [PACKAGE_FOLDER, *dict.fromkeys(own), *users]


def _scenario_files() -> list[Path]:
    patterns = ["*.toml", *(f"{family}/*.toml" for family in families())]
    return [path for folder in _folders() for pattern in patterns for path in sorted(folder.glob(pattern))]


def _suite_files() -> list[Path]:
    return [path for folder in _folders() for path in sorted(folder.glob(f"{SUITES_FOLDER}/*.toml"))]


def _peek(path: Path) -> dict[str, Any]:
    """Return the unchecked tables of a file. They are kept while it is the same: do not change them."""
    try:
        status = path.stat()
        return _tables_of(path.absolute(), status.st_mtime_ns, status.st_size)
    except (OSError, ScenarioError):
        return {"title": "(this file cannot be read; load it for the reason)"}


@lru_cache(maxsize=1024)
def _tables_of(path: Path, _changed_ns: int, _size: int) -> dict[str, Any]:
    return _read_toml(path)[0]


def _list(value: object) -> list[Any]:
    return value if isinstance(value, list) else []


def _shown(path: Path) -> str:
    """Return a path for messages, relative to the current folder if it is inside it."""
    try:
        return str(path.resolve().relative_to(Path.cwd()))
    except (OSError, ValueError):
        return str(path)
