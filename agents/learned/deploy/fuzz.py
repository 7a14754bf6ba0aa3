"""Differential testing of policies in torch, NumPy, ONNX Runtime and compiled C.

Requires the extras ``train`` and ``export``.
"""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
from hypothesis import HealthCheck, Phase, Verbosity, given, seed, settings
from numpy.typing import NDArray

from sysgym.agents.learned.arrays import read_arrays
from sysgym.agents.learned.deploy.agreement import difference
from sysgym.agents.learned.deploy.compiled import CompiledRunner, find_compiler
from sysgym.agents.learned.deploy.fuzz_cases import KINDS, Case, Made, cases, make
from sysgym.agents.learned.deploy.graph import Choice, Decided, PolicyGraph
from sysgym.agents.learned.deploy.onnx_file import OnnxRunner, onnx_model
from sysgym.agents.learned.deploy.quantize import int8_twin
from sysgym.scenarios.errors import SysgymError
from sysgym.scenarios.files import read_limited, write_atomically

LARGEST_FAILURE_BYTES = 64_000_000
"""Limit of the size of a stored failure."""

Decide = Callable[..., Decided]


@dataclass(frozen=True)
class Runner:
    """Implementation that plays policies.

    Attributes:
        name: Name for tables and files.
        open: Function from a policy to a context manager of a function from observations to decisions.
        int8: Whether weights have 8 bits; the reference is then the dequantised network in NumPy.
    """

    name: str
    open: Callable[[PolicyGraph], AbstractContextManager[Decide]]
    int8: bool = False


@contextmanager
def _onnx(graph: PolicyGraph) -> Iterator[Decide]:
    yield OnnxRunner(onnx_model(graph).SerializeToString())


NUMPY = Runner("numpy", nullcontext)
ONNX_RUNTIME = Runner("onnxruntime", _onnx)
C = Runner("c", lambda graph: CompiledRunner(graph))
C_INT8 = Runner("c-int8", lambda graph: CompiledRunner(graph, "int8"), int8=True)


def runners_here() -> tuple[Runner, ...]:
    """Return all runners available on this machine; those in C need a compiler."""
    return (NUMPY, ONNX_RUNTIME, *((C, C_INT8) if find_compiler() else ()))


class Disagreement(Exception):
    """Output of a runner that differs from the reference.

    Attributes:
        made: The case.
        runner: The runner.
        expected: Output of the reference; None if there is no network to run.
        got: Output of the runner; None if there is no network to run.
        reason: Description of the difference.
    """

    def __init__(
        self, made: Made, runner: Runner, expected: Decided | None, got: Decided | None, reason: str
    ) -> None:
        super().__init__(f"{runner.name}: {reason}")
        self.made, self.runner, self.expected, self.got, self.reason = made, runner, expected, got, reason


@dataclass
class Tally:
    """Statistics of a comparison.

    Attributes:
        cases: Number of valid cases by kind.
        discarded: Number of cases whose reference contains NaN.
        largest: Largest difference of each runner, as a multiple of the tolerance.
        near_ties: Number of outputs of each runner with another action whose score is within the tolerance.
    """

    cases: Counter[str] = field(default_factory=Counter)
    discarded: int = 0
    largest: dict[str, float] = field(default_factory=dict)
    near_ties: Counter[str] = field(default_factory=Counter)


@dataclass(frozen=True)
class Failure:
    """Minimised disagreement, stored on disk.

    Attributes:
        runner: Name of the runner.
        reason: Description of the difference.
        case: Case that reproduces the disagreement.
        files: Files of the arrays and of the model, if there is one; empty if they are not stored.
    """

    runner: str
    reason: str
    case: Case
    files: tuple[Path, ...]


def fuzz(
    n_examples: int,
    seed_: int,
    *,
    runners: Sequence[Runner] | None = None,
    kinds: tuple[str, ...] = KINDS,
    folder: Path | None = None,
    progress: Callable[[int], None] | None = None,
) -> tuple[Tally, list[Failure]]:
    """Draw cases and compare every runner with torch; disagreements are minimised and stored.

    Args:
        n_examples: Number of cases to draw.
        seed_: Seed of the draws.
        runners: Runners to compare; None: :func:`runners_here`.
        kinds: Kinds of policies.
        folder: Folder for failures; None: failures are not stored.
        progress: Callback with the number of cases so far, including those of shrinking.

    Returns:
        The statistics, and the failures, at most one per runner.
    """
    remaining = list(runners_here() if runners is None else runners)
    tally = Tally(largest={runner.name: 0.0 for runner in remaining})
    failures: list[Failure] = []
    # Hypothesis stops soon after the first failure, so the search continues without the runner that failed.
    while remaining and (found := _first_failure(n_examples, seed_, remaining, kinds, tally, progress)):
        failures.append(_store(found, folder))
        remaining = [runner for runner in remaining if runner is not found.runner]
    return tally, failures


def _first_failure(
    n_examples: int,
    seed_: int,
    runners: Sequence[Runner],
    kinds: tuple[str, ...],
    tally: Tally,
    progress: Callable[[int], None] | None,
) -> Disagreement | None:
    """Return the first disagreement, minimised, or None if all runners agree."""
    done = 0

    @seed(seed_)
    @settings(
        max_examples=n_examples,
        database=None,
        deadline=None,
        phases=(Phase.generate, Phase.shrink),
        report_multiple_bugs=False,
        suppress_health_check=list(HealthCheck),
        verbosity=Verbosity.quiet,
    )
    @given(cases(kinds))
    def compare_all(case: Case) -> None:
        nonlocal done
        done += 1
        if progress is not None:
            progress(done)
        for finding in check(case, runners, tally):
            raise finding

    try:
        compare_all()
    except Disagreement as found:
        return found
    return None


def check(case: Case, runners: Sequence[Runner], tally: Tally) -> Iterator[Disagreement]:
    """Compare all runners on one case; yield the disagreements."""
    made = make(case)
    if made.reference is not None and np.isnan(made.reference.values).any():
        tally.discarded += 1
        return
    if made.graph is None or made.reference is None:
        reason = "the network in torch is not taken over: NumPy finds its answers to be others"
        yield Disagreement(made, runners[0], None, None, reason)
        return
    tally.cases[case.kind] += 1
    twin = replace(made.graph, network=int8_twin(made.graph.network))
    for runner in runners:
        expected = twin(made.observations, made.masks) if runner.int8 else made.reference
        with runner.open(made.graph) as decide:
            got = decide(made.observations, made.masks)
        wrong, ratio, ties = difference(expected, got, isinstance(made.graph.outputs, Choice))
        if wrong is not None:
            yield Disagreement(made, runner, expected, got, wrong)
            continue
        tally.largest[runner.name] = max(tally.largest[runner.name], ratio)
        tally.near_ties[runner.name] += ties


def replay(path: Path, runners: Sequence[Runner] | None = None) -> tuple[Case, Mapping[str, str]]:
    """Run a stored failure again.

    Args:
        path: Path of the failure's ``.npz`` file.
        runners: Runners to compare; None: :func:`runners_here`.

    Returns:
        The case, and the errors by runner, which are empty if all runners agree now.

    Raises:
        SysgymError: If the file is not a stored failure.
    """
    try:
        case = Case.from_json(str(read_arrays(read_limited(path, LARGEST_FAILURE_BYTES))["case"]))
    except (SysgymError, OSError, KeyError, ValueError, TypeError, RecursionError, BadZipFile) as error:
        raise SysgymError(f"{path}: not a failure that sysgym fuzz stored ({error})") from error
    chosen = runners_here() if runners is None else tuple(runners)
    tally = Tally(largest={runner.name: 0.0 for runner in chosen})
    return case, {found.runner.name: found.reason for found in check(case, chosen, tally)}


def _store(found: Disagreement, folder: Path | None) -> Failure:
    made = found.made
    if folder is None:
        return Failure(found.runner.name, found.reason, made.case, ())
    folder.mkdir(parents=True, exist_ok=True)
    number = 0
    while (arrays := folder / f"{found.runner.name}-{number}.npz").exists():
        number += 1
    held: dict[str, NDArray[Any]] = {
        "case": np.array(made.case.to_json()),
        "reason": np.array(found.reason),
        "observations": made.observations,
    }
    held |= {} if made.masks is None else {"masks": made.masks}
    held |= {} if found.expected is None else {"expected": found.expected.values}
    held |= {} if found.got is None else {"got": found.got.values}
    data = io.BytesIO()
    np.savez(data, **held)  # type: ignore[arg-type]
    write_atomically(arrays, data.getvalue())
    files = [arrays]
    if made.graph is not None:
        model = arrays.with_suffix(".onnx")
        properties = {"case": made.case.to_json(), "reason": found.reason}
        write_atomically(model, onnx_model(made.graph, properties).SerializeToString())
        files.append(model)
    return Failure(found.runner.name, found.reason, made.case, tuple(files))
