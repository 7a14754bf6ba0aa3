"""Compilation of a policy's C header, and its execution as a separate program."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sysgym.agents.learned.deploy.c_header import policy_header
from sysgym.agents.learned.deploy.graph import Choice, Decided, PolicyGraph
from sysgym.scenarios.errors import SysgymError

FLAGS = ("-std=c99", "-O3", "-Wall", "-Wextra", "-Wconversion", "-pedantic", "-Werror")

# Reads observations from standard input; writes values and actions to standard output, and the processor
# time to standard error.
_MAIN = """\
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include "policy.h"

#define MASK_SIZE {mask_size}

int main(int argc, char **argv) {{
    if (argc != 3)
        return 1;
    const size_t n = (size_t)atol(argv[1]);
    const long repeats = atol(argv[2]);
    float *observations = malloc(n * {upper}_INPUTS * sizeof(float));
    float *values = malloc(n * {upper}_OUTPUTS * sizeof(float));
    unsigned char *masks = malloc(n * MASK_SIZE + 1);
    int *actions = calloc(n, sizeof(int));
    if (!observations || !values || !masks || !actions)
        return 2;
    if (fread(observations, sizeof(float), n * {upper}_INPUTS, stdin) != n * {upper}_INPUTS)
        return 3;
    if (fread(masks, 1, n * MASK_SIZE, stdin) != n * MASK_SIZE)
        return 4;
    const clock_t began = clock();
    for (long repeat = 0; repeat < repeats; repeat++)
        for (size_t i = 0; i < n; i++)
            {call};
    fprintf(stderr, "%.9g", (double)(clock() - began) / CLOCKS_PER_SEC);
    fwrite(values, sizeof(float), n * {upper}_OUTPUTS, stdout);
    fwrite(actions, sizeof(int), n, stdout);
    free(observations);
    free(values);
    free(masks);
    free(actions);
    return 0;
}}
"""


class _Ran(NamedTuple):
    decided: Decided
    cpu_s: float


def find_compiler() -> str | None:
    """Return the path of a C compiler, or None if there is none."""
    return next((found for name in ("cc", "gcc", "clang") if (found := shutil.which(name))), None)


class CompiledRunner:
    """Policy as a compiled program; use as a context manager, or call :meth:`close`.

    Args:
        graph: The policy.
        weights: ``"float32"`` or ``"int8"``.
        header: Text of the header; None: the output of :func:`.c_header.policy_header`.
        name: Name of the header's function.
        flags: Flags of the compiler.

    Raises:
        SysgymError: If there is no compiler, or the compiler rejects the header.
    """

    def __init__(
        self,
        graph: PolicyGraph,
        weights: str = "float32",
        *,
        header: str | None = None,
        name: str = "policy",
        flags: Sequence[str] = FLAGS,
    ) -> None:
        compiler = find_compiler()
        if compiler is None:
            raise SysgymError("no C compiler was found; install cc, gcc or clang")
        self._graph = graph
        self._folder = tempfile.TemporaryDirectory(prefix="sysgym-policy-")
        folder = Path(self._folder.name)
        text = policy_header(graph, name=name, weights=weights) if header is None else header
        (folder / "policy.h").write_text(text, encoding="utf-8")
        upper = name.upper()
        at = f"observations + i * {upper}_INPUTS"
        if isinstance(graph.outputs, Choice):
            mask = ", masks + i * MASK_SIZE" if graph.masked else ""
            call = f"actions[i] = {name}({at}{mask}, values + i * {upper}_OUTPUTS)"
        else:
            call = f"{name}({at}, values + i * {upper}_OUTPUTS)"
        mask_size = f"{upper}_OUTPUTS" if graph.masked else "0"
        program = _MAIN.format(call=call, mask_size=mask_size, upper=upper)
        (folder / "main.c").write_text(program, encoding="utf-8")
        self._program = folder / "policy"
        command = [compiler, *flags, str(folder / "main.c"), "-o", str(self._program), "-lm"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            self.close()
            raise SysgymError(f"{compiler} does not compile the header:\n{done.stderr[-4000:]}")

    def __call__(self, observations: NDArray[Any], masks: NDArray[Any] | None = None) -> Decided:
        """Return the decisions for a batch; arguments as for :class:`.graph.PolicyGraph`."""
        return self._run(observations, masks, 1).decided

    def decision_s(self, observations: NDArray[Any], masks: NDArray[Any] | None, repeats: int) -> float:
        """Return the processor time per decision, s."""
        return self._run(observations, masks, repeats).cpu_s / (repeats * len(observations))

    def _run(self, observations: NDArray[Any], masks: NDArray[Any] | None, repeats: int) -> _Ran:
        n, n_outputs = len(observations), self._graph.n_outputs
        data = np.ascontiguousarray(observations, np.float32).tobytes()
        data += b"" if masks is None else np.ascontiguousarray(masks, np.uint8).tobytes()
        command = [str(self._program), str(n), str(repeats)]
        done = subprocess.run(command, input=data, capture_output=True, check=False)
        if done.returncode != 0:
            raise SysgymError(
                f"the compiled policy ended with {done.returncode}: {done.stderr.decode(errors='replace')}"
            )
        cut = 4 * n * n_outputs
        values = np.frombuffer(done.stdout[:cut], np.float32).reshape(n, n_outputs)
        actions = np.frombuffer(done.stdout[cut:], np.int32).astype(np.int64)
        chosen = isinstance(self._graph.outputs, Choice)
        return _Ran(Decided(actions if chosen else values, values), float(done.stderr))

    def close(self) -> None:
        """Delete the program and its folder."""
        self._folder.cleanup()

    def __enter__(self) -> CompiledRunner:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
