"""Imports go one way, by full names and never in a circle; modules and folders stay small.

scenarios <- emulator <- envs <- agents <- src/sysgym: a module may import its own layer and those before it.
"""

from __future__ import annotations

import ast
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
LAYERS = ("scenarios", "emulator", "envs", "agents")  # lowest first; the face is above them all
FACE = len(LAYERS)
MAX_LINES = 450
MAX_MODULES = 16

SOURCES = sorted(
    path
    for folder in (*LAYERS, "src/sysgym")
    for path in (ROOT / folder).rglob("*.py")
    if "__pycache__" not in path.parts
)
TESTS = sorted((ROOT / "tests").rglob("*.py"))
SCRIPTS = sorted((ROOT / "scripts").rglob("*.py"))


def module_name(path: Path) -> str:
    """Import name of a source file: emulator/packets/x.py is sysgym.emulator.packets.x."""
    parts = list(path.relative_to(ROOT).with_suffix("").parts)
    parts = parts[1:] if parts[0] == "src" else ["sysgym", *parts]
    return ".".join(parts)


def imported_names(tree: ast.AST, module: str) -> Iterator[tuple[int, str]]:
    """Line and absolute dotted name of everything imported, at any depth, `import_module` calls included.

    `from a.b import c` counts as a.b.c, for c may be a module. `module` keeps the ending `.__init__`, so that
    relative imports resolve alike for packages and modules.
    """
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                yield node.lineno, alias.name
        elif isinstance(node, ast.ImportFrom):
            base = node.module or ""
            if node.level:
                base = ".".join([*module.split(".")[: -node.level], *([base] if base else [])])
            for alias in node.names:
                yield node.lineno, f"{base}.{alias.name}"
        elif isinstance(node, ast.Call) and node.args and isinstance(node.args[0], ast.Constant):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in {"import_module", "__import__"}:
                yield node.lineno, str(node.args[0].value)


def layer_of(name: str) -> int | None:
    """Layer that a dotted import name belongs to; None when it is not ours."""
    parts = name.split(".")
    if parts[0] != "sysgym":
        return None
    return LAYERS.index(parts[1]) if len(parts) > 1 and parts[1] in LAYERS else FACE


def violations(source: str, module: str) -> list[str]:
    """What is wrong with a module's imports, one sentence each."""
    own = layer_of(module)
    found = []
    for line, name in imported_names(ast.parse(source), module):
        target = layer_of(name)
        if name.split(".")[0] in LAYERS:
            found.append(f"line {line}: {name} is a folder's name; the import name is sysgym.{name}")
        elif own is not None and target is not None and target > own:
            found.append(f"line {line}: {module} imports {name}, which is above it")
    return found


def relative(path: Path) -> str:
    return str(path.relative_to(ROOT))


# One test for all files: reports of a thousand tests of a millisecond take longer than the tests.
def test_imports_go_down() -> None:
    found = {relative(path): violations(path.read_text(), module_name(path)) for path in SOURCES}
    assert {path: wrong for path, wrong in found.items() if wrong} == {}


def test_no_folder_name_is_imported() -> None:
    paths = [*TESTS, *SCRIPTS]
    found = {relative(path): violations(path.read_text(), f"outside.{path.stem}") for path in paths}
    assert {path: wrong for path, wrong in found.items() if wrong} == {}


def test_every_layer_has_sources() -> None:
    seen = {layer_of(module_name(path)) for path in SOURCES}
    assert seen == set(range(FACE + 1))


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("sysgym.emulator.packets.network", "import sysgym.envs"),
        ("sysgym.emulator.packets.network", "from sysgym import envs"),
        ("sysgym.emulator.packets.network", "def f():\n    from sysgym.agents.congestion import aimd"),
        ("sysgym.scenarios.errors", "from ..emulator import packets"),
        ("sysgym.scenarios.__init__", "from ..agents import make_agent"),
        ("sysgym.envs.congestion.env", "import sysgym"),
        ("sysgym.agents.learned.training.train", "from sysgym import __version__"),
        ("sysgym.envs.congestion.env", "import importlib\nimportlib.import_module('sysgym.bench.plan')"),
        ("sysgym.cli.main", "from emulator.packets import network"),
        ("outside.test_x", "import scenarios"),
    ],
)
def test_a_wrong_import_is_found(module: str, source: str) -> None:
    assert len(violations(source, module)) == 1


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("sysgym.emulator.packets.network", "from sysgym.scenarios import load_scenario"),
        ("sysgym.emulator.packets.network", "from . import topology\nfrom .topology import Topology"),
        ("sysgym.emulator.packets.__init__", "from .network import PacketNetwork"),
        ("sysgym.agents.learned.training.train", "from sysgym import envs, emulator, scenarios"),
        ("sysgym.cli.main", "from sysgym import __version__\nimport sysgym.agents"),
        ("sysgym.envs.congestion.env", "import gymnasium.envs\nfrom gymnasium import envs"),
    ],
)
def test_a_right_import_passes(module: str, source: str) -> None:
    assert violations(source, module) == []


def test_modules_stay_readable() -> None:
    lines = {relative(path): len(path.read_text().splitlines()) for path in SOURCES}
    too_long = {path: number for path, number in lines.items() if number > MAX_LINES}
    assert too_long == {}, "split them along what they do"


def import_graph(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """Return the modules that each module imports, at any depth and for type checkers alone included.

    Args:
        sources: Module name, ``.__init__`` included, to source.
    """
    known = {name.removesuffix(".__init__"): name for name in sources}
    graph: dict[str, set[str]] = {name: set() for name in sources}
    for name, source in sources.items():
        for _, imported in imported_names(ast.parse(source), name):
            # The last part may be a name in a module rather than a module.
            target = known.get(imported) or known.get(imported.rpartition(".")[0])
            if target not in {None, name}:
                graph[name].add(str(target))
    return graph


def cycles(graph: Mapping[str, set[str]]) -> list[list[str]]:
    """Return the modules that import each other, directly or not, sorted, a list for each circle."""
    left = {name: set(imported) for name, imported in graph.items()}
    while free := [name for name, imported in left.items() if not imported & left.keys()]:
        for name in free:  # imports nothing that is left, so that it is in no circle
            del left[name]
    importers = {name: {other for other in left if name in left[other]} for name in left}
    found = []
    while left:
        start = min(left)
        circle = reachable(start, left) & reachable(start, importers)
        if len(circle) > 1:
            found.append(sorted(circle))
        for name in circle:
            del left[name], importers[name]
    return found


def reachable(start: str, graph: Mapping[str, set[str]]) -> set[str]:
    """Return what can be reached in a graph, the start included."""
    seen, pending = {start}, [start]
    while pending:
        new = (graph[pending.pop()] & graph.keys()) - seen
        seen |= new
        pending += new
    return seen


def test_no_modules_import_each_other() -> None:
    assert cycles(import_graph({module_name(path): path.read_text() for path in SOURCES})) == []


@pytest.mark.parametrize(
    "source",
    [
        "from sysgym.a.two import x",
        "from .two import x",
        "from . import two",
        "import sysgym.a.two",
        "def f():\n    from sysgym.a.two import x",
        "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from sysgym.a.two import x",
        "from sysgym.a.three import x",
    ],
)
def test_a_circle_is_found(source: str) -> None:
    sources = {
        "sysgym.a.__init__": "",
        "sysgym.a.one": source,
        "sysgym.a.two": "import sysgym.a.one",
        "sysgym.a.three": "import sysgym.a.two",
        "sysgym.a.user": "import sysgym.a.one",
    }
    (circle,) = cycles(import_graph(sources))
    assert circle[0] == "sysgym.a.one"
    assert "sysgym.a.user" not in circle


def test_a_package_that_imports_its_modules_is_no_circle() -> None:
    sources = {
        "sysgym.a.__init__": "from sysgym.a.one import x",
        "sysgym.a.one": "from sysgym.a.two import x",
        "sysgym.a.two": "",
    }
    assert cycles(import_graph(sources)) == []


def test_folders_stay_small_enough_to_survey() -> None:
    sizes = Counter(path.parent.relative_to(ROOT).as_posix() for path in SOURCES if path.stem != "__init__")
    large = {folder for folder, size in sizes.items() if size > MAX_MODULES}
    assert large == set(), f"more than {MAX_MODULES} modules: divide it into rooms"


def test_every_folder_of_modules_is_a_package() -> None:
    folders = {path.parent for path in SOURCES}
    assert [
        str(folder.relative_to(ROOT)) for folder in folders if not (folder / "__init__.py").exists()
    ] == []
