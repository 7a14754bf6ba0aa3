"""Fuzzing of users' files: mutated by bytes and by structure, they may only raise SysgymError, and quickly.

    python scripts/robustness/fuzz_inputs.py --minutes 10
    python scripts/robustness/fuzz_inputs.py --kind suite --first 1234 --count 1     # one case again

Prints tried, passed, failed. The input of a failure is saved with its error; its number makes it again.
The same cases, a few of them, are in tests/scenarios/test_fuzz_inputs.py.
"""

from __future__ import annotations

import argparse
import copy
import json
import math
import random
import sys
import tempfile
import time
import tomllib
import traceback
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from sysgym.emulator.accelerators.imports import read_astra_sim, read_taccl
from sysgym.emulator.packets.sizing.estimate import estimate
from sysgym.errors import SysgymError
from sysgym.scenarios import load_scenario, load_suite, parse_overrides
from sysgym.scenarios.families import families
from sysgym.scenarios.loader import PACKAGE_FOLDER
from sysgym.scenarios.schema.congestion import CongestionScenario

MOST_CPU_S = 10.0
"""For one input; a whole file of the largest size that is read takes about a second."""

LONGEST_MESSAGE = 50_000
"""Characters of an error: fifty problems, each with all keys of a table."""

ASTRA_SIM = b"""topology: [ Ring, Switch ]
npus_count: [ 8, 16 ]
bandwidth: [ 200.0, 50.0 ]  # GB/s
latency: [ 500.0, 2000.0 ]  # ns
"""
TACCL = json.dumps(
    {
        "name": "DGX2_1MB",
        "gpus_per_node": 16,
        "alpha": 0.7,
        "node_betas_list": [8],
        "nics_per_node": 8,
        "remote_alpha": 1.7,
        "remote_beta": 106,
    }
).encode()
OVERRIDES = b"workload.flows_per_pair=3\ntopology.kind=dumbbell\ncontrol.episode_steps=7\nfaults.links=[]"

NASTY_TEXT = [
    b"[" * 1000,
    b"{a=" * 300,
    b'"" = 1\n',
    b"9" * 5000,
    b"0x" + b"f" * 5000,
    b"a" * 5000,
    b'"' + b"n" * 5000 + b'"',
    b"a." * 400 + b"b = 1\n",
    b"\0",
    b"\xff\xfe",
    b"\x1b[2J",
    b"&a [*a, *a]",
    b"x: &x [1]\ny: [*x, *x]\n",
    b"1e999",
    b"-1",
    b"nan",
    b"inf",
    b"1979-05-27T07:32:00Z",
    b"2001-99-99",
    b"\n[[tasks]]\n",
    b"\n[splits.test]\n",
    b"'''",
    b'"""',
    b"\r",
]
NASTY_VALUES: list[Any] = [
    None, True, -1, 0, 1, 2**31, 2**63 - 1, 2**63, -(2**63), 10**400, 0.0, -0.5, 1e-300, 1e300, math.inf,
    math.nan, "", "x" * 5000, "../../etc/passwd", "/dev/zero", "~nobody/x.toml", "a\0b", "\x1b[31m", "=", "*",
    [], [[]], [1] * 300, ["a", 1, {}], {}, {"": 1}, {"kind": "mix"}, {"low": 1, "high": 0}, {"a": {"b": {}}},
]  # fmt: skip


class Kind(NamedTuple):
    """One kind of input.

    Attributes:
        suffix: Of the file.
        seeds: Valid inputs, with the names of their files.
        parse: Bytes -> tables; None: the kind has no structure.
        write: Tables -> bytes.
        load: What is under test.
    """

    suffix: str
    seeds: list[tuple[str, bytes]]
    parse: Callable[[bytes], Any] | None
    write: Callable[[Any], bytes]
    load: Callable[[Path], object]


def to_toml(value: Any, *, top: bool = True) -> str:
    """Return tables as TOML, inline below the top; None and what TOML lacks become texts."""
    if isinstance(value, dict) and top:
        return "".join(
            f"{json.dumps(str(key))} = {to_toml(item, top=False)}\n" for key, item in value.items()
        )
    if isinstance(value, dict):
        pairs = (f"{json.dumps(str(key))} = {to_toml(item, top=False)}" for key, item in value.items())
        return "{ " + ", ".join(pairs) + " }"
    if isinstance(value, list):
        return "[" + ", ".join(to_toml(item, top=False) for item in value) + "]"
    if isinstance(value, bool):
        return "true" if value else "false"
    return repr(value) if isinstance(value, int | float) else json.dumps(str(value))


def _load_scenario(path: Path) -> object:
    scenario = load_scenario(path)
    if isinstance(scenario, CongestionScenario):
        assert all(math.isfinite(figure) for figure in estimate(scenario)), estimate(scenario)
    return scenario


def _load_overrides(path: Path) -> object:
    texts = path.read_bytes().decode("utf-8", "surrogateescape").split("\n")
    return load_scenario("dumbbell-10g", overrides=parse_overrides(texts))


def _shipped(pattern: str) -> list[tuple[str, bytes]]:
    return [(path.name, path.read_bytes()) for path in sorted(PACKAGE_FOLDER.glob(pattern))]


def _parse_toml(content: bytes) -> Any:
    return tomllib.loads(content.decode())


def _write_toml(tables: Any) -> bytes:
    return to_toml(tables).encode("utf-8", "replace")


def _write_json(tables: Any) -> bytes:
    return json.dumps(tables).encode()


KINDS = {
    "scenario": Kind(
        ".toml",
        [file for family in families() for file in _shipped(f"{family}/*.toml")],
        _parse_toml,
        _write_toml,
        _load_scenario,
    ),
    "suite": Kind(".toml", _shipped("suites/*.toml"), _parse_toml, _write_toml, load_suite),
    "astra-sim": Kind(
        ".yml",
        [("net.yml", ASTRA_SIM)],
        lambda content: {
            "topology": ["Ring", "Switch"],
            "npus_count": [8, 16],
            "bandwidth": [200.0, 50.0],
            "latency": [500.0, 2000.0],
        },
        _write_json,  # which is YAML too
        read_astra_sim,
    ),
    "taccl": Kind(
        ".json", [("topo.json", TACCL)], json.loads, _write_json, lambda path: read_taccl(path, nodes=2)
    ),
    "set": Kind(".txt", [("set.txt", OVERRIDES)], None, _write_json, _load_overrides),
}


def mutated(kind: str, number: int) -> tuple[str, bytes]:
    """Return the name and content of a case; the same for the same number."""
    rng = random.Random(f"{kind} {number}")
    spec = KINDS[kind]
    name, content = rng.choice(spec.seeds)
    if spec.parse is not None and rng.random() < 0.5:
        tables = spec.parse(content)
        for _ in range(rng.randint(1, 4)):
            _change_structure(rng, tables)
        try:
            return name, spec.write(tables)
        except ValueError:  # Python writes no number of more than 4300 digits
            return name, content
    for _ in range(rng.randint(1, 4)):
        content = _change_bytes(rng, content, rng.choice(spec.seeds)[1])
    return name, content


def _change_bytes(rng: random.Random, content: bytes, other: bytes) -> bytes:
    start = rng.randint(0, len(content))
    end = min(len(content), start + rng.choice([0, 1, 8, 64, 512]))
    match rng.randrange(6):
        case 0:
            new = rng.choice(NASTY_TEXT)
        case 1:
            new = rng.randbytes(rng.randint(1, 8))
        case 2:
            new = b""
        case 3:
            new = content[start:end] * rng.choice([2, 3, 100])
        case 4:
            cut = rng.randint(0, len(other))
            new = other[cut : cut + rng.choice([8, 64, 512])]
        case _:
            new = json.dumps(rng.choice(NASTY_VALUES[1:8])).encode()
    return content[:start] + new + content[end:]


def _change_structure(rng: random.Random, tables: Any) -> None:
    places = list(_places(tables))
    if not places:
        return
    holder, key = rng.choice(places)
    match rng.randrange(4):
        case 0 if isinstance(holder, dict):
            del holder[key]
        case 1 if isinstance(holder, dict):
            name = rng.choice(["", "x" * 300, "kind", "a.b", "\x1b", f"{key}x"])
            holder[name] = copy.deepcopy(rng.choice(NASTY_VALUES))
        case 2:
            other, of = rng.choice(places)
            holder[key] = copy.deepcopy(other[of])
        case _:
            holder[key] = copy.deepcopy(rng.choice(NASTY_VALUES))


def _places(value: Any) -> Iterator[tuple[Any, Any]]:
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in list(items):
        yield value, key
        yield from _places(item)


def attempt(kind: str, number: int, folder: Path) -> str:
    """Try a case.

    Returns:
        ``loaded`` or ``refused``.

    Raises:
        AssertionError: It took too long, or its message is too long.
        Exception: What is no SysgymError; a failure too.
    """
    name, content = mutated(kind, number)
    path = folder / name
    path.write_bytes(content)
    began_s = time.process_time()
    message = ""
    try:
        KINDS[kind].load(path)
    except SysgymError as error:
        message = str(error)
    took_s = time.process_time() - began_s
    assert len(message) <= LONGEST_MESSAGE, f"a message of {len(message)} characters"
    assert took_s <= MOST_CPU_S, f"took {took_s:.1f} s"
    return "refused" if message else "loaded"


def main() -> int:
    """Try cases until the time is over; 1 if one failed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--minutes", type=float, default=10.0)
    parser.add_argument(
        "--kind", choices=sorted(KINDS), action="append", help="may be repeated; all if left out"
    )
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--count", type=int, default=sys.maxsize, help="most cases of each kind")
    parser.add_argument("--out", type=Path, default=Path("fuzz-failures"), help="where failures are saved")
    arguments = parser.parse_args()
    kinds = arguments.kind or sorted(KINDS)
    outcomes: Counter[str] = Counter()
    end_s = time.monotonic() + 60.0 * arguments.minutes
    with tempfile.TemporaryDirectory() as folder:
        number = arguments.first
        while time.monotonic() < end_s and number - arguments.first < arguments.count:
            for kind in kinds:
                try:
                    outcomes[attempt(kind, number, Path(folder))] += 1
                except Exception:
                    outcomes["failed"] += 1
                    _save(arguments.out, kind, number, traceback.format_exc())
            number += 1
    passed = outcomes["loaded"] + outcomes["refused"]
    print(
        f"tried {outcomes.total()}, passed {passed} ({outcomes['loaded']} loaded, {outcomes['refused']}"
        f" refused), failed {outcomes['failed']}"
    )
    return 1 if outcomes["failed"] else 0


def _save(folder: Path, kind: str, number: int, error: str) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    name, content = mutated(kind, number)
    (folder / f"{kind}-{number}-{name}").write_bytes(content)
    (folder / f"{kind}-{number}.txt").write_text(error)
    print(f"failed: {kind} {number}, saved in {folder}", file=sys.stderr)


if __name__ == "__main__":
    sys.exit(main())
