"""The wheel has every module and data file, and works without the checkout."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tomllib
import zipfile
from pathlib import Path

import pytest

import sysgym

ROOT = Path(__file__).resolve().parent.parent
FOLDERS = {"src/sysgym": "sysgym"} | {
    name: f"sysgym/{name}" for name in ("agents", "emulator", "envs", "scenarios")
}
SUFFIXES = {".py", ".toml", ".csv", ".md", ".txt", ".typed", ".css", ".html", ".jinja", ".js"}
BUILT = shutil.ignore_patterns(".*", "__pycache__", "*.egg-info")
# Of the checkout alone: a package may have a folder of such a name.
NOT_SOURCE = {"build", "dist", "results", "runs", "tests", "docs"}

# One build and one installation serve the whole file, so one worker takes it.
pytestmark = pytest.mark.xdist_group("packaging")


def _not_source(folder: str, names: list[str]) -> set[str]:
    """Return the names in a folder that no wheel is built from, as `shutil.copytree` asks for them."""
    return BUILT(folder, names) | (NOT_SOURCE if Path(folder) == ROOT else set())


def _run(*command: str | Path, cwd: Path) -> str:
    # Without PYTHONPATH and friends; what is left of the environment is what a user's shell has.
    clean = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
    done = subprocess.run(
        [str(part) for part in command], cwd=cwd, env=clean, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, f"{command} failed:\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, built from a copy: an in-tree build would keep files that have since been deleted."""
    work = tmp_path_factory.mktemp("wheel")
    shutil.copytree(ROOT, work / "tree", ignore=_not_source)
    _run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", work, cwd=work / "tree")
    (built,) = work.glob("sysgym-*.whl")
    return built


@pytest.fixture(scope="module")
def elsewhere(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a fresh environment in `venv`: sysgym installed, dependencies seen through a path file.

    Path files are not read in folders that a path file adds, so the checkout's editable hook stays out.
    """
    folder = tmp_path_factory.mktemp("elsewhere")
    _run(sys.executable, "-m", "venv", "--without-pip", folder / "venv", cwd=folder)
    python = folder / "venv" / "bin" / "python"
    pip = (sys.executable, "-m", "pip", "--python", python)
    _run(*pip, "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=folder)
    (site,) = (folder / "venv" / "lib").glob("python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return folder


def test_wheel_holds_every_source_and_data_file(wheel: Path) -> None:
    wanted = {
        f"{target}/{path.relative_to(ROOT / folder).as_posix()}"
        for folder, target in FOLDERS.items()
        for path in (ROOT / folder).rglob("*")
        if path.suffix in SUFFIXES and "__pycache__" not in path.parts
    }
    packed = set(zipfile.ZipFile(wheel).namelist())
    assert wanted <= packed, sorted(wanted - packed)
    assert not [
        name
        for name in packed
        if name.split("/")[0] not in {"sysgym", wheel.name.split("-py3")[0] + ".dist-info"}
    ]


def test_wheel_says_the_version_and_the_licence(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as packed:
        (name,) = (name for name in packed.namelist() if name.endswith(".dist-info/METADATA"))
        metadata = packed.read(name).decode()
    assert f"\nVersion: {sysgym.__version__}\n" in metadata
    assert "\nLicense-Expression: Apache-2.0 AND MIT\n" in metadata


@pytest.mark.slow
def test_a_folder_of_the_packages_name_does_not_hide_an_editable_install(tmp_path: Path) -> None:
    """Such a folder is what Python sees beside a clone. Installed from a copy, as by ``pip install -e``."""
    tree, python = tmp_path / "sysgym", tmp_path / "venv" / "bin" / "python"
    shutil.copytree(ROOT, tree, ignore=_not_source)
    _run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "venv", cwd=tmp_path)
    (site,) = (tmp_path / "venv" / "lib").glob("python*/site-packages")
    (site / "dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    options = ("--quiet", "--no-deps", "--no-index", "--no-build-isolation")
    _run(
        sys.executable, "-m", "pip", "--python", python, "install", *options, "--editable", tree, cwd=tmp_path
    )
    code = (
        "import sysgym, sysgym.agents as agents; print(sysgym.__version__, sysgym.__file__, agents.__file__)"
    )
    version, face, agents = _run(python, "-c", code, cwd=tmp_path).split()
    assert version == sysgym.__version__
    assert (Path(face), Path(agents)) == (tree / "src/sysgym/__init__.py", tree / "agents/__init__.py")
    assert _run(python, "-m", "sysgym", "--version", cwd=tmp_path).split()[-1] == version


@pytest.mark.slow
def test_installed_package_runs_outside_the_checkout(elsewhere: Path) -> None:
    # Placements compile in seconds; the packet simulator takes most of a minute, by the same means.
    code = """
import json, sys
import gymnasium
import numpy as np
env = gymnasium.make("sysgym:sysgym/CollectivePlacement-v0")
_, info = env.reset(seed=1)
env.step(env.action_space.sample(mask=info["action_mask"]))
import sysgym
from sysgym.emulator.packets.topology import build_topology
from sysgym.emulator.packets.workloads import scenario_flows
from sysgym.scenarios import load_scenario
scenario = load_scenario("fattree-k4-websearch")
flows = scenario_flows(scenario, build_topology(scenario.topology), np.random.default_rng(1))
bare = {"agents", "emulator", "envs", "scenarios"} & set(sys.modules)
files = [sysgym.__file__, sys.modules[type(env.unwrapped).__module__].__file__]
print(json.dumps([*files, sorted(bare), int(flows.size_bytes.sum())]))
"""
    *files, bare, offered_bytes = json.loads(_run(elsewhere / "venv/bin/python", "-c", code, cwd=elsewhere))
    assert [file for file in files if not Path(file).is_relative_to(elsewhere)] == []
    assert bare == []
    assert offered_bytes > 0


@pytest.mark.slow
def test_installed_command_lists_the_scenarios(elsewhere: Path) -> None:
    listing = _run(elsewhere / "venv/bin/sysgym", "list", cwd=elsewhere)
    for name in ("dumbbell-10g", "incast-32", "sysgym/DatacenterCC-v0"):
        assert name in listing


@pytest.mark.slow
def test_a_client_is_type_checked_against_the_installed_package(elsewhere: Path) -> None:
    client = elsewhere / "client.py"
    client.write_text("import sysgym\n\nversion: str = sysgym.__version__\nreveal_type(sysgym.SysgymError)\n")
    # Only sysgym is followed: reading its dependencies' types anew would take a quarter of a minute.
    (elsewhere / "mypy.ini").write_text(
        "[mypy]\nstrict = true\nfollow_imports = skip\nwarn_unused_configs = false\n"
        "[mypy-sysgym.*]\nfollow_imports = silent\n"
    )
    told = _run(
        *(sys.executable, "-m", "mypy", "--python-executable", elsewhere / "venv/bin/python", client),
        cwd=elsewhere,
    )
    assert "sysgym.scenarios.errors.SysgymError" in told


def test_versions_agree() -> None:
    """The package, the changelog and the citation name the same release."""
    released = re.search(r"^## \[(\d[^\]]*)\]", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    cited = re.search(r"^version: \"?([^\"\n]+)", (ROOT / "CITATION.cff").read_text(), re.MULTILINE)
    assert released is not None
    assert cited is not None
    assert released[1] == cited[1] == sysgym.__version__


def test_the_wheel_has_starters_and_no_solutions_of_labs(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        texts = [archive.read(name) for name in names if "/labs/" in name]
    masters = sorted((ROOT / "labs").glob("*.py"))
    assert masters
    assert not [name for name in names if name.startswith("labs/") or name.endswith("-ppo.zip")]
    for master in masters:
        assert f"sysgym/labs/starters/{master.name}.txt" in names
        assert master.read_bytes() not in texts
    assert not [text for text in texts if b"\n    ### BEGIN SOLUTION\n    return" in text]


def test_every_dependency_is_pinned_in_the_constraints() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    declared = [
        *project["dependencies"],
        *(need for extra in project["optional-dependencies"].values() for need in extra),
    ]
    pinned = {
        line.split("==")[0] for line in (ROOT / "constraints.txt").read_text().splitlines() if "==" in line
    }

    def normal(name: str) -> str:
        return re.sub(r"[-_.]+", "-", name).lower()

    missing = {normal(re.split(r"[<>=!~\[; ]", need)[0]) for need in declared} - {
        normal(name) for name in pinned
    }
    assert not missing


def test_the_citation_has_what_its_format_demands() -> None:
    """Keys of the Citation File Format 1.2.0, and the same facts as the package's."""
    import datetime

    import yaml

    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert {"cff-version", "message", "title", "authors"} <= set(cited)
    assert cited["cff-version"] == "1.2.0"
    assert cited["type"] == "software"
    assert cited["authors"] == project["authors"] == [{"name": "The sysgym contributors"}], "an entity"
    assert project["license"] == f"{cited['license']} AND MIT"  # the work is ours, uPlot is in the wheel
    assert datetime.date.fromisoformat(cited["date-released"]) <= datetime.date.today()


def test_the_addresses_of_citation_and_package_are_filled_in_together() -> None:
    cited = (ROOT / "CITATION.cff").read_text()
    project = (ROOT / "pyproject.toml").read_text()
    filled = "\nrepository-code:" in cited, "\n[project.urls]" in project
    assert filled[0] == filled[1], "both or neither"
    assert filled[0] or ("# repository-code:" in cited and "# [project.urls]" in project), "a place to fill"


def test_the_readme_cites_the_same_release() -> None:
    entry = re.search(r"^@software\{.*?^\}", (ROOT / "README.md").read_text(), re.MULTILINE | re.DOTALL)
    assert entry is not None
    fields = dict(re.findall(r"^  (\w+)\s*= \{(.*)\},?$", entry[0], re.MULTILINE))
    cited = (ROOT / "CITATION.cff").read_text()
    assert fields["version"] == sysgym.__version__
    assert fields["author"] == "{The sysgym contributors}"
    assert f'title: "{fields["title"].replace("{", "").replace("}", "")}"' in cited
    assert f'date-released: "{fields["year"]}-' in cited
