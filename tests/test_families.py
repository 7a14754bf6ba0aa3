"""Families are folders: no other file names one, and a family of another package works in the same way."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import gymnasium
import pytest

from sysgym.agents import agent_info
from sysgym.agents.learned.learning import learning_of
from sysgym.errors import SysgymError, UnknownName
from sysgym.registration import ENVIRONMENTS
from sysgym.scenarios import list_scenarios
from sysgym.scenarios.families import families, get_family, scenario_model
from sysgym.scenarios.family import load_entry
from tests.commands import Commands
from tests.pages import files_of, programs_of, succeeded, type_commands

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "adding-a-family.md"
LAYERS = ("scenarios", "emulator", "envs", "agents", "src/sysgym")

# The folders of a family beside those that have its name: its world, and the tables of its scenario files.
WORLDS = {
    "bursts": ("emulator/bursts",),
    "collectives": ("emulator/collectives",),
    "compression": ("emulator/compression",),
    "congestion": (
        "emulator/network.py",
        "emulator/packets",
        "emulator/linux",
        *(f"scenarios/schema/{table}.py" for table in ("flow", "network", "offered", "topology", "traffic")),
    ),
    "placement": ("emulator/accelerators",),
    "stragglers": ("emulator/cluster",),
    "tuning": ("emulator/tuning",),
    "failslow": ("emulator/failslow",),
    "diagnosis": ("emulator/diagnosis",),
    "pipelines": ("emulator/pipelines",),
}

# Speed figures, and the studies and labs that are each about one family.
STUDIES = (
    "src/sysgym/labs",
    "src/sysgym/perf",
    "src/sysgym/cli/study/links.py",
    "src/sysgym/cli/study/neighbours.py",
    "src/sysgym/cli/study/networks.py",
    "src/sysgym/studies/kernel_episodes.py",
    "src/sysgym/studies/laws.py",
    "src/sysgym/studies/neighbours.py",
    "src/sysgym/studies/nurd_release.py",
    "src/sysgym/studies/p2_survey.py",
    "src/sysgym/studies/random_links",
    "src/sysgym/studies/random_networks",
    "src/sysgym/studies/sim_vs_linux.py",
)

# Other files that may name a family. The first exports every schema by name; the others are about one:
# the example of the package, the score of laws, the commands for calibration and speed, time series of
# networks, a world that simulates its messages as packets, and a reader of files whose extra is named after a
# family.
OF_ONE_FAMILY = (
    "scenarios/__init__.py",
    "emulator/accelerators/flows/packets.py",
    "emulator/network_files.py",
    "src/sysgym/__init__.py",
    "src/sysgym/bench/leaderboard/power.py",
    "src/sysgym/cli/commands/calibrate.py",
    "src/sysgym/cli/commands/perf.py",
    "src/sysgym/series_picture.py",
)


def own_places(family: str) -> tuple[str, ...]:
    """Return the folders and files of a family."""
    return (
        f"agents/{family}",
        f"agents/learned/{family}",
        f"envs/{family}",
        f"scenarios/schema/{family}.py",
        f"scenarios/schema/{family}",
        *WORLDS[family],
    )


def own_modules(family: str) -> tuple[str, ...]:
    """Return the modules that nobody but the family imports; anyone may use a world."""
    places = (place for place in own_places(family) if not place.startswith("emulator/"))
    return tuple(f"sysgym.{place.removesuffix('.py').replace('/', '.')}" for place in places)


def names_of(family: str, source: str) -> list[str]:
    """Return where a source names a family: its folders, its schema, its name, its environments."""
    declared = get_family(family)
    schema = declared.scenario.partition(":")[2]
    classes = [one.env_id.partition("/")[2].partition("-")[0] for one in declared.environments]
    if not any(word in source for word in (family, schema, *classes)):  # most files; parsing takes long
        return []
    phrases = re.compile(
        rf"\b({'|'.join(map(re.escape, [schema, *classes, *own_modules(family)]))})\b"
        rf"|\bfamily {family}\b|\b{family} family\b|^{family}(/|$)"
    )
    modules = own_modules(family)
    found = []
    for node in ast.walk(ast.parse(source)):
        names: list[str] = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and phrases.search(node.value):
            found.append(f"line {node.lineno}: {node.value:.60}")
        elif (isinstance(node, ast.Name) and node.id == schema) or (
            isinstance(node, ast.Attribute) and node.attr == schema
        ):
            found.append(f"line {node.lineno}: {schema}")
        found += [
            f"line {getattr(node, 'lineno', 0)}: {name}"
            for name in names
            if name.endswith(f".{schema}")
            or any(name == module or name.startswith(f"{module}.") for module in modules)
        ]
    return found


def _sources() -> Iterator[str]:
    for layer in LAYERS:
        for path in sorted((ROOT / layer).rglob("*.py")):
            yield path.relative_to(ROOT).as_posix()


@pytest.mark.parametrize("family", sorted(WORLDS))
def test_no_file_outside_its_folders_names_a_family(family: str) -> None:
    places = (*own_places(family), *STUDIES)
    others = [
        path
        for path in _sources()
        if path not in OF_ONE_FAMILY and not any(path == own or path.startswith(f"{own}/") for own in places)
    ]
    found = {path: names for path in others if (names := names_of(family, (ROOT / path).read_text()))}
    assert found == {}


@pytest.mark.parametrize("path", OF_ONE_FAMILY)
def test_an_exception_is_one(path: str) -> None:
    """A file that has stopped to name a family leaves the list."""
    source = (ROOT / path).read_text()
    assert any(names_of(family, source) for family in WORLDS)


@pytest.mark.parametrize(
    "source",
    [
        "if family == 'congestion': pass",
        "from sysgym.scenarios import CongestionScenario",
        "from sysgym.envs.congestion.actions import NATIVE",
        "import sysgym.agents.learned.congestion.learning",
        "KIND = 'sysgym/FlowCC-v0'",
        '"""Plays the congestion family."""',
        "ENTRY = 'sysgym.envs.congestion.metrics:EPISODE_METRICS'",
        "isinstance(scenario, schema.CongestionScenario)",
    ],
)
def test_a_name_is_found(source: str) -> None:
    assert names_of("congestion", source)


def test_ordinary_words_are_no_names() -> None:
    source = '"Stragglers of a placement; congestion control, of all families."\nplacement = "stragglers: 3"'
    assert [names_of(family, source) for family in WORLDS] == [[] for _ in WORLDS]


def test_the_families_of_the_package_are_the_folders_of_envs() -> None:
    own = {name for name, family in families().items() if family.scenario.startswith("sysgym.")}
    assert own == set(WORLDS)
    assert all((ROOT / "envs" / name / "__init__.py").is_file() for name in own)


@pytest.mark.parametrize("name", sorted(WORLDS))
def test_what_a_family_declares_is_there(name: str) -> None:
    family = get_family(name)
    assert family.name == name
    assert scenario_model(name).model_fields["family"].annotation is not str
    for environment in family.environments:
        assert ENVIRONMENTS[environment.env_id] == environment.entry_point
        assert isinstance(load_entry(environment.entry_point), type)
        if environment.vector_entry_point:
            assert isinstance(load_entry(environment.vector_entry_point), type)
        evaluation = family.evaluation_of(environment.env_id)
        assert agent_info(evaluation.reference, name) if family.transports is None else True
        meanings = evaluation.metric_meanings()
        assert {metric.name for metric in evaluation.metrics} <= set(meanings)
        # Metrics are read singly, so that no meaning refers to the one above it.
        referring = re.compile("^(the same|its) |of the same$")
        assert not any(referring.search(meaning) for meaning in meanings.values())
    assert [info.name for info in load_entry(family.agents)]
    assert all(agent_info(info.short_name, name).family == name for info in load_entry(family.agents))
    assert learning_of(name) is load_entry(family.learning)
    for entry in (family.describe, family.draw, family.estimate, family.compile, family.prepare):
        assert not entry or callable(load_entry(entry))
    assert not family.disturbances.link_failure or callable(load_entry(family.disturbances.link_failure))
    for one in family.disturbances.own:
        assert bool(one.keys) != bool(one.wrapper), one.name
        assert not one.wrapper or callable(load_entry(one.wrapper))
        assert one.words.count("{}") == 1
        assert set(one.env_ids) <= {environment.env_id for environment in family.environments}
    assert {info.env_id for info in list_scenarios(name)} <= {one.env_id for one in family.environments}


def test_an_unknown_family_is_an_error_with_what_is_close() -> None:
    with pytest.raises(UnknownName, match='did you mean "congestion"'):
        get_family("congestoin")


# A package with a family, as docs/adding-a-family.md has it.


@pytest.mark.slow
def test_every_command_treats_a_foreign_family_like_any_other(tmp_path: Path) -> None:
    for name, text in files_of(PAGE).items():
        path = tmp_path / "source" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    site, folder = tmp_path / "site", tmp_path / "work"
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", "--no-deps"]
    subprocess.run(
        [*pip, "--no-build-isolation", "--target", str(site), str(tmp_path / "source")], check=True
    )
    folder.mkdir()
    ran = 0
    with Commands({"PYTHONPATH": str(site)}) as commands:
        for language, block in programs_of(PAGE):
            if language == "console":
                type_commands(block, folder, commands)
            else:
                succeeded(
                    commands.run_python(f"import warnings; warnings.simplefilter('error')\n{block}", folder)
                )
            ran += 1
    assert ran == 2


def test_the_page_shows_all_that_a_family_must_have() -> None:
    commands = re.findall(r"^\$ sysgym (\w+)", PAGE.read_text(), re.MULTILINE)
    wanted = {"list", "show", "run", "train", "bench", "report", "validate", "export", "study", "live"}
    assert set(commands) == wanted
    lines = sum(
        len([line for line in text.splitlines() if line.strip()])
        for name, text in files_of(PAGE).items()
        if name.endswith(".py")
    )
    assert lines <= 160, "a toy family is small"


def _in_a_process(code: str, folder: Path, variables: dict[str, str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        check=True,
        cwd=folder,
    )


def _package(folder: Path, entry: str, **modules: str) -> dict[str, str]:
    """Write a package `broken` with a family's entry point; return the variables that install it."""
    info = folder / "broken-1.0.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: broken\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(f"[sysgym.families]\nbroken = {entry}\n")
    for name, text in modules.items():
        (folder / f"{name}.py").write_text(text)
    return {"PYTHONPATH": str(folder)}


@pytest.mark.parametrize(
    ("entry", "source", "words"),
    [
        ("nowhere:FAMILY", "", "No module named 'nowhere'"),
        ("module_of_broken:FAMILY", "1 / 0", "division by zero"),
        ("module_of_broken:FAMILY", "", "has no attribute 'FAMILY'"),
        ("module_of_broken:FAMILY", "FAMILY = 3", "is a int, not a Family"),
        (
            "module_of_broken:FAMILY",
            "from dataclasses import replace\n"
            "from sysgym.envs.placement import FAMILY as other\n"
            "FAMILY = replace(other, agents='')\n",
            'the family "placement" exists already',
        ),
    ],
)
def test_a_family_that_cannot_be_used_is_a_warning_and_the_others_work(
    tmp_path: Path, entry: str, source: str, words: str
) -> None:
    variables = _package(tmp_path, entry, module_of_broken=source)
    code = "import sysgym; from sysgym.scenarios import list_scenarios; print(len(list_scenarios()))"
    done = _in_a_process(code, tmp_path, variables)
    assert int(done.stdout) == len(list_scenarios())
    (warning,) = [line for line in done.stderr.splitlines() if "FamilyWarning" in line]
    assert 'the family "broken" of the package broken cannot be used' in warning
    assert words in warning


def test_agents_of_a_family_that_cannot_be_imported_are_a_warning_too(tmp_path: Path) -> None:
    source = (
        "from dataclasses import replace\n"
        "from sysgym.envs.placement import FAMILY as other\n"
        "FAMILY = replace(other, name='broken', environments=(), agents='nowhere:AGENTS')\n"
    )
    # In processes of their own: other tests may have registered agents in this one.
    code = "from sysgym.agents import list_agents; print(*list_agents())"
    before = _in_a_process(code, tmp_path, {})
    variables = _package(tmp_path, "module_of_broken:FAMILY", module_of_broken=source)
    broken = _in_a_process(code, tmp_path, variables)
    assert broken.stdout == before.stdout
    assert 'the agents of the family "broken" of the package nowhere cannot be used' in broken.stderr
    assert not before.stderr


# A single environment from a user's file.

PLUGIN = '''
import gymnasium as gym
import numpy as np
from sysgym.envs.placement.placement import CollectivePlacement
from sysgym.registration import register_environment

@register_environment("mine/Quiet-v0", family="placement")
class Quiet(CollectivePlacement):
    """Places axes and says nothing."""
'''


@pytest.mark.slow
def test_an_environment_of_a_plugin_plays_its_scenario_and_rows_name_the_file(
    tmp_path: Path, commands: Commands
) -> None:
    (tmp_path / "quiet.py").write_text(PLUGIN)
    text = (ROOT / "scenarios" / "placement" / "placement-unseen.toml").read_text()
    text = text.replace("sysgym/CollectivePlacement-v0", "mine/Quiet-v0").replace(
        "placement-unseen", "mine", 1
    )
    (tmp_path / "mine.toml").write_text(text)
    (tmp_path / "mine-suite.toml").write_text(
        'schema = 1\nname = "mine-suite"\ntitle = "x"\ndescription = "x"\n'
        '[[tasks]]\nscenario = "./mine.toml"\ncontenders = ["default"]\nseeds = [20000]\n'
    )

    def sysgym(line: str) -> subprocess.CompletedProcess[str]:
        return commands.run(line.split(), tmp_path)

    listed = succeeded(sysgym("list envs --plugin quiet.py"))
    assert "mine/Quiet-v0\tPlaces axes and says nothing.\tenvironment" in listed
    assert "regret" in succeeded(sysgym("run mine.toml --plugin quiet.py --agent greedy"))
    succeeded(sysgym("bench ./mine-suite.toml --plugin quiet.py --jobs 1 --out rows"))
    assert "quiet.py" in (tmp_path / "rows" / "results.jsonl").read_text()
    succeeded(sysgym("report rows"))
    succeeded(sysgym("validate rows --plugin quiet.py"))
    without = sysgym("run mine.toml")
    assert without.returncode == 2, "a name that is not known"
    assert "mine/Quiet-v0" in without.stderr
    assert "Traceback" not in without.stderr


def test_an_id_is_taken_once() -> None:
    from sysgym.registration import register_environment

    class Other(gymnasium.Env[int, int]):
        """Another one."""

    with pytest.raises(SysgymError, match="exists already"):
        register_environment("sysgym/FlowCC-v0", family="congestion")(Other)
    with pytest.raises(UnknownName, match="no family is named"):
        register_environment("mine/Other-v0", family="congestoin")(Other)
