"""C headers: compiled code agrees with the reference, within the requested number of bytes."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sysgym.agents.learned.deploy.agreement import check_header
from sysgym.agents.learned.deploy.c_header import (
    _number,
    choose_weights,
    mlp_header,
    policy_header,
    table_bytes,
)
from sysgym.agents.learned.deploy.compiled import FLAGS, CompiledRunner, find_compiler
from sysgym.agents.learned.deploy.graph import Choice, PolicyGraph
from sysgym.agents.learned.deploy.quantize import int8_twin
from sysgym.agents.learned.policy import Mlp
from sysgym.agents.learned.sets.network import SetNet
from sysgym.scenarios.errors import SysgymError, UnknownName

needs_compiler = pytest.mark.skipif(find_compiler() is None, reason="no C compiler here")
CHECKED = ("-std=c99", "-O1", "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsanitize=address,undefined")


@needs_compiler
def test_it_answers_as_the_reference(graph: PolicyGraph, batch: Any) -> None:
    observations, masks = batch(graph)
    expected = graph(observations, masks)
    with CompiledRunner(graph) as compiled:
        got = compiled(observations, masks)
        assert compiled.decision_s(observations, masks, 10) >= 0.0
    assert got.values == pytest.approx(expected.values, rel=1e-5, abs=1e-6)
    if isinstance(graph.outputs, Choice):
        assert np.array_equal(got.action, expected.action)


@needs_compiler
def test_eight_bits_answer_as_their_twin_and_stay_in_their_arrays(graph: PolicyGraph, batch: Any) -> None:
    observations, masks = batch(graph)
    twin = PolicyGraph(int8_twin(graph.network), graph.inputs, graph.outputs)
    # What differs between kinds is mostly around the network; the two that differ most are checked.
    checked = isinstance(graph.network, SetNet) or graph.inputs.select is not None
    with CompiledRunner(graph, "int8", flags=CHECKED if checked else FLAGS) as compiled:
        got = compiled(observations, masks)
    assert got.values == pytest.approx(twin(observations, masks).values, rel=1e-5, abs=1e-5)


@needs_compiler
def test_a_plain_network_is_a_function(mlp: Any, tmp_path: Path) -> None:
    network = mlp(5, 7, 2)
    text = mlp_header(network.weights, network.biases, network.activations, name="law")
    (tmp_path / "law.h").write_text(text)
    (tmp_path / "law.c").write_text(
        '#include "law.h"\nvoid call(const float *i, float *o);\n'
        "void call(const float *i, float *o) { law(i, o); }\n"
    )
    library = tmp_path / "law.so"
    compiler = find_compiler()
    command = [compiler, *FLAGS, "-shared", "-fPIC", tmp_path / "law.c", "-o", library, "-lm"]
    subprocess.run([str(part) for part in command], check=True)
    given, found = np.linspace(-1.0, 1.0, 5, dtype=np.float32), np.zeros(2, np.float32)
    pointers = [array.ctypes.data_as(ctypes.POINTER(ctypes.c_float)) for array in (given, found)]
    ctypes.CDLL(str(library)).call(*pointers)
    assert found == pytest.approx(network(given), rel=1e-5)
    assert "#define LAW_INPUTS 5" in text


def test_bytes_are_those_of_the_tables(graph: PolicyGraph) -> None:
    for weights, sizes in (("float32", {"float": 4}), ("int8", {"int8_t": 1, "float": 4})):
        text = policy_header(graph, weights=weights)
        tables = re.findall(r"static const (\w+) policy_network\w*\[(\d+)\]", text)
        assert sum(sizes[kind] * int(length) for kind, length in tables) == table_bytes(
            graph.network, weights
        )


def test_the_form_is_the_largest_that_fits(mlp: Any) -> None:
    small, large = mlp(10, 16, 4), mlp(100, 64, 4)
    assert (table_bytes(small, "float32"), table_bytes(small, "int8")) == (976, 384)
    assert choose_weights(small, None, None) == "float32"
    assert choose_weights(small, None, 500) == "int8"
    assert choose_weights(small, "int8", None) == "int8"
    with pytest.raises(SysgymError, match="7200 bytes as int8, the limit is 4096"):
        choose_weights(large, "int8", None)
    with pytest.raises(SysgymError, match="976 bytes as float32 and 384 bytes as int8, the limit is 100"):
        choose_weights(small, None, 100)
    with pytest.raises(UnknownName, match='did you mean "int8"'):
        table_bytes(small, "int")


def test_what_is_no_c_is_refused(mlp: Any) -> None:
    network = mlp(2, 2)
    with pytest.raises(SysgymError, match='"1st" is not a valid name of a C function'):
        mlp_header(network.weights, network.biases, network.activations, name="1st")
    with pytest.raises(SysgymError, match="layer 0 has a weight that is not finite"):
        mlp_header([network.weights[0] * np.inf], network.biases, network.activations)


@needs_compiler
@pytest.mark.parametrize(
    "end", ["*/", "*\\\n/", "*??/\n/", "\n*/", "\r*/", "*\\\r\n/", "*\\ \n/", "\u2028*/"]
)
def test_no_comment_ends_where_a_checkpoint_says(mlp: Any, tmp_path: Path, end: str) -> None:
    network = mlp(2, 2)
    about = [f"x {end}", "int planted;", f"y {end} int planted_too; /*", "rate \\"]
    text = mlp_header(network.weights, network.biases, network.activations, about=about)
    (tmp_path / "law.h").write_text(text, newline="")
    command = [str(find_compiler()), "-std=c99", "-E", "-P", str(tmp_path / "law.h")]  # has trigraphs
    seen = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    assert "planted" not in seen
    assert "network" in seen


@needs_compiler
def test_what_is_exported_is_checked(graph: PolicyGraph) -> None:
    text = policy_header(graph, name="mine", weights="int8")
    assert check_header(graph, text, "int8", "mine")
    if not isinstance(graph.network, Mlp):
        return
    other = replace(
        graph, network=replace(graph.network, biases=tuple(b + 1.0 for b in graph.network.biases))
    )
    with pytest.raises(SysgymError, match="the compiled header does not give the same results as the policy"):
        check_header(other, text, "int8", "mine")


@needs_compiler
def test_what_does_not_compile_is_shown(graph: PolicyGraph) -> None:
    with pytest.raises(SysgymError, match="does not compile the header"):
        CompiledRunner(graph, header="static int policy(void) { return 1 }")


def test_numbers_read_back_to_the_last_bit() -> None:
    drawn = np.random.default_rng(0).normal(size=200) * 10.0 ** np.arange(-20, 20).repeat(5)
    for value in [*drawn.astype(np.float32).tolist(), 0.0, 1.0, -3.0, 1e10]:
        text = _number(value)
        assert text.endswith("f")
        assert re.search(r"[.e]", text)
        assert np.float32(text[:-1]) == np.float32(value)


@pytest.mark.skipif(shutil.which("g++") is None, reason="no C++ compiler here")
def test_it_is_c_plus_plus_too(graph: PolicyGraph, tmp_path: Path) -> None:
    (tmp_path / "policy.h").write_text(policy_header(graph, weights="int8"))
    source = tmp_path / "main.cpp"
    source.write_text('#include "policy.h"\n')
    flags = ["-std=c++11", "-Wall", "-Wextra", "-pedantic", "-Werror", "-fsyntax-only"]
    subprocess.run(["g++", *flags, str(source)], check=True)
