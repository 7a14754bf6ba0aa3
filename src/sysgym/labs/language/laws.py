"""Language of submitted congestion control laws, and transports made from them.

A law runs inside the simulator, so it cannot be called over a pipe. Its source is therefore parsed and
checked, not imported: only functions that use arithmetic, ``if`` and loops on the records ``flow`` and
``event`` are accepted, and only ``cwnd``, ``ssthresh``, ``pacing_rate_bps`` and ``state`` of a flow can be
written. Such a law cannot access files, modules or the rest of the simulator; an endless loop ends with its
process.
"""

from __future__ import annotations

import ast
import hashlib
import inspect
import linecache
import math
import re
from collections.abc import Iterator
from typing import Any

import numba

from sysgym.emulator.packets.memory.flow_record import FLOW
from sysgym.emulator.packets.memory.records import EVENT
from sysgym.emulator.packets.transports import (
    Transport,
    multiplicative_decrease,
    reno_increase,
    restart_from_one,
    slow_start,
)
from sysgym.errors import SysgymError
from sysgym.labs.intake.content import LawError
from sysgym.labs.intake.notebooks import Source
from sysgym.labs.language.assignments import unassigned
from sysgym.labs.sources import definitions, parse

CALLBACKS = ("on_ack", "on_loss", "on_timeout")
"""Functions that every law must have; ``on_start`` is optional."""

LARGEST_INTEGER = 2**63 - 1

WRITABLE = ("cwnd", "ssthresh", "pacing_rate_bps")

READABLE = frozenset(
    {*WRITABLE, "srtt_ns", "min_rtt_ns", "una", "nxt", "high", "in_recovery", "state", "rttvar_ns"}
)
"""Fields of a flow that a law may read: measurements, counters and decisions of the sender.

The other fields belong to loss recovery, to the receiver and to the simulator. ``line_rate_bps`` and
``base_rtt_ns``, which other laws use, would reveal the hidden links: the core has half the rate of the hosts'
links, and the product of rate and round trip is the window.
"""

UNREADABLE_EVENTS = frozenset({"parameters", "n_parameters", "hops"})
"""Fields of an event that a law may not read: a memory address and its length, and the length of the path."""

HELPERS = {
    "multiplicative_decrease": multiplicative_decrease,
    "reno_increase": reno_increase,
    "restart_from_one": restart_from_one,
    "slow_start": slow_start,
}
BUILTINS = {one.__name__: one for one in (abs, bool, float, int, max, min, range, round)}
_RECORDS = {
    "flow": READABLE & frozenset(FLOW.names or ()),
    "event": frozenset(EVENT.names or ()) - UNREADABLE_EVENTS,
}
_MATH = frozenset(name for name in dir(math) if not name.startswith("_"))

_STATEMENTS = (
    ast.FunctionDef,
    ast.Assign,
    ast.AugAssign,
    ast.AnnAssign,
    ast.If,
    ast.While,
    ast.For,
    ast.Expr,
    ast.Return,
    ast.Pass,
    ast.Break,
    ast.Continue,
)
_EXPRESSIONS = (
    ast.BoolOp,
    ast.BinOp,
    ast.UnaryOp,
    ast.Compare,
    ast.IfExp,
    ast.Constant,
    ast.Name,
    ast.Attribute,
    ast.Subscript,
    ast.Call,
    ast.expr_context,
    ast.operator,
    ast.boolop,
    ast.unaryop,
    ast.cmpop,
    ast.arguments,
    ast.arg,
)


FEWEST_AND_MOST = {"max": (2, 99), "min": (2, 99), "range": (1, 3), "round": (1, 2), "bool": (1, 1)}
"""Minimum and maximum numbers of arguments of functions whose signature does not state them."""

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_PLACE = re.compile(r'File "<law \w+>", line (\d+)|<law \w+> \((\d+)\)|\(<law \w+>:(\d+)\)')
_NO_FUNCTION = re.compile(r"No implementation of function .*? found for signature:\s*>>> ([^\n]+)")


def law_of(source: Source | str) -> Transport:
    """Return the law that a submission defines.

    Args:
        source: Python source of the submission.

    Raises:
        SubmissionError: A callback is missing, or the source is not valid Python.
        LawError: The law uses a construct that is not part of the language.
    """
    source = Source(source) if isinstance(source, str) else source
    names = [*CALLBACKS, *(["on_start"] if _defines(source.text, "on_start") else [])]
    text = definitions(source, names)
    tree = parse(text)
    for part in ast.walk(tree):  # removes docstrings; other strings are not part of the language
        if isinstance(part, ast.Expr) and isinstance(part.value, ast.Constant):
            part.value = ast.copy_location(ast.Constant(None), part.value)
    functions = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    body = [node for node in tree.body if not _harmless_import(node)]
    constants: dict[str, float] = {}
    for node in body:
        if not isinstance(node, ast.FunctionDef):
            constants |= _constant(node, constants)
    counts = {node.name: len(node.args.args) for node in body if isinstance(node, ast.FunctionDef)}
    for node in body:
        if isinstance(node, ast.FunctionDef):
            _check_function(node, functions, frozenset(constants))
            _check_counts(node, counts)
            _check_values(node, constants)
    tree.body = [node for node in body if isinstance(node, ast.FunctionDef)]
    for part in ast.walk(tree):  # annotations would be evaluated
        if isinstance(part, ast.arg):
            part.annotation = None
        elif isinstance(part, ast.FunctionDef):
            part.returns = None
    space: dict[str, Any] = {
        "__name__": __name__,
        "__builtins__": BUILTINS,
        "math": math,
        **HELPERS,
        **constants,
    }
    file = f"<law {hashlib.sha256(text.encode()).hexdigest()[:8]}>"  # the same in every run, for messages
    linecache.cache[file] = (len(text), None, text.splitlines(keepends=True), file)
    exec(compile(tree, file, "exec"), space)
    for name in functions - set(names):
        # Compiled functions can call only compiled ones; indices are checked here as in callbacks.
        space[name] = numba.njit(boundscheck=True, error_model="python")(space[name])
    return Transport(
        "submission",
        "law of a submission",
        **{name: space[name] for name in names},
        ecn_capable=True,
    )


def compiled(law: Transport) -> Transport:
    """Compile a law, and return it.

    Raises:
        LawError: The law cannot be compiled; the message states the line and the reason in a sentence.
    """
    try:
        law.callbacks()
    except SysgymError as error:
        raise LawError(_in_short(str(error))) from error
    return law


def _in_short(words: str) -> str:
    """Return the reason why numba does not compile a law, without numba's long descriptions of types."""
    words = _without_records(_COLOURS.sub("", words))
    places = [next(filter(None, found)) for found in _PLACE.findall(words)]
    no_function = _NO_FUNCTION.search(words)
    if no_function:
        reason = f"no function has these types: {no_function[1].strip()}"
    else:
        lines = words.partition("cannot be compiled:")[2] or words
        lines = lines.removeprefix(" Failed in nopython mode pipeline (step: nopython frontend)")
        reason = next((one.strip() for one in lines.splitlines() if one.strip()), words)
    reason = re.sub(r",? ?(defined )?at <law \w+> \(\d+\)", "", reason)
    line = f"line {places[-1]}: " if places else ""
    return f"{line}the law cannot be compiled: {reason[:200]}"


def _without_records(words: str) -> str:
    """Return a text in which ``Record(...)``, which lists all fields, is ``a record``."""
    while (start := words.find("Record(")) >= 0:
        depth, end = 0, len(words)
        for place in range(start + len("Record"), len(words)):
            depth += {"(": 1, ")": -1}.get(words[place], 0)
            if depth == 0:
                end = place + 1
                break
        words = f"{words[:start]}a record (flow or event){words[end:]}"
    return words


def _defines(source: str, name: str) -> bool:
    return any(isinstance(node, ast.FunctionDef) and node.name == name for node in parse(source).body)


def _harmless_import(node: ast.stmt) -> bool:
    """Return whether a statement only imports names that laws have anyway."""
    if isinstance(node, ast.Import):
        return all(alias.name == "math" and alias.asname is None for alias in node.names)
    if isinstance(node, ast.ImportFrom):
        known = node.module == "sysgym.emulator.packets.transports"
        names = {*HELPERS, Transport.__name__}  # Transport: students test their law with it
        return known and all(alias.name in names and alias.asname is None for alias in node.names)
    return False


def _wrong(node: ast.AST, words: str) -> LawError:
    return LawError(f"line {getattr(node, 'lineno', '?')}: {words}")


def _constant(node: ast.stmt, known: dict[str, float]) -> dict[str, float]:
    if not isinstance(node, ast.Assign | ast.AnnAssign) or node.value is None:
        raise _wrong(
            node,
            "a law may use functions, numbers in CAPITALS, and imports of math and of"
            f" {', '.join(HELPERS)} from sysgym.emulator.packets.transports",
        )
    value = _number(node.value, known)
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    return {one.id: value for one in targets if isinstance(one, ast.Name)}


def _number(node: ast.expr, known: dict[str, float]) -> float:
    value = _evaluated(node, known)
    if isinstance(value, int) and abs(value) > LARGEST_INTEGER:  # repeated squaring would exhaust memory
        raise _wrong(node, "a whole number of a law has 64 bits at most")
    return value


def _evaluated(node: ast.expr, known: dict[str, float]) -> float:
    match node:
        case ast.Constant(value=int() | float() as value):
            return value
        case ast.Name(id=name) if name in known:
            return known[name]
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return -_number(operand, known)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() | ast.Div() as kind, right=right):
            a, b = _number(left, known), _number(right, known)
            if isinstance(kind, ast.Div) and b == 0:
                raise _wrong(node, "division by zero")
            results = {ast.Add: a + b, ast.Sub: a - b, ast.Mult: a * b}
            return a / b if isinstance(kind, ast.Div) else results[type(kind)]
    raise _wrong(node, "a constant of a law is a number, such as 0.5 or 1 / 16")


def _check_function(function: ast.FunctionDef, functions: set[str], constants: frozenset[str]) -> None:
    arguments = function.args
    names = [one.arg for one in arguments.args]
    if function.decorator_list or arguments.vararg or arguments.kwarg or arguments.defaults:
        raise _wrong(function, f"{function.name}: no decorators, defaults or *arguments")
    if arguments.kwonlyargs or arguments.posonlyargs:
        raise _wrong(function, f"{function.name}: only plain arguments")
    if function.name in (*CALLBACKS, "on_start") and names != ["flow", "event"]:
        raise _wrong(function, f"{function.name} must have the arguments (flow, event)")
    if function.name in {*BUILTINS, *HELPERS, "math"}:
        raise _wrong(function, f"{function.name} is the name of a function that laws have already")
    stored = {
        node.id
        for node in _inside(function)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    known = {*names, *stored, *functions, *constants, *BUILTINS, *HELPERS, "math"}
    for node in _inside(function):
        _check(node, functions)
        if isinstance(node, ast.Name) and node.id not in known:
            raise _wrong(
                node, f"{node.id} is not defined; numbers in CAPITALS are, one on a line, such as G = 0.1"
            )


def _check_counts(function: ast.FunctionDef, counts: dict[str, int]) -> None:
    """Raise LawError if a function is called with a wrong number of arguments."""
    for node in _inside(function):
        match node:
            case ast.Call(func=ast.Name(id=name)) if name in counts:
                fewest, most = counts[name], counts[name]
            case ast.Call(func=ast.Name(id=name)):
                fewest, most = _taken(name, HELPERS.get(name) or BUILTINS[name])
            case ast.Call(func=ast.Attribute(attr=attribute)):
                name = f"math.{attribute}"
                fewest, most = _taken(name, getattr(math, attribute))
            case _:
                continue
        if not fewest <= len(node.args) <= most:
            example = f", as in {name}(flow, event)" if name in ("reno_increase", "slow_start") else ""
            takes = str(fewest) if fewest == most else f"at least {fewest}"
            raise _wrong(
                node, f"{name} takes {takes} argument{'s' * (takes != '1')}, not {len(node.args)}{example}"
            )


def _taken(name: str, function: Any) -> tuple[int, int]:
    """Return the minimum and maximum number of arguments of a function that laws can call."""
    if name in FEWEST_AND_MOST:
        return FEWEST_AND_MOST[name]
    try:
        parameters = inspect.signature(getattr(function, "py_func", function)).parameters.values()
    except (TypeError, ValueError):  # some functions of math have no signature, and math.pi is no function
        return 0, 99
    fewest = sum(one.default is one.empty and one.kind is not one.VAR_POSITIONAL for one in parameters)
    several = any(one.kind is one.VAR_POSITIONAL for one in parameters)
    return fewest, 99 if several else len(parameters)


def _check_values(function: ast.FunctionDef, constants: dict[str, float]) -> None:
    """Raise LawError if a name may have no value where it is read; see :func:`unassigned`."""
    name = unassigned(function, constants)
    if name is not None:
        raise _wrong(
            name,
            f"{name.id} may have no value here, as not every path to this line assigns one; begin"
            f" {function.name} with a value, such as {name.id} = 0.0",
        )


def _inside(function: ast.FunctionDef) -> Iterator[ast.AST]:
    for statement in function.body:
        yield from ast.walk(statement)


def _names(record: str) -> str:
    return ", ".join(sorted(_RECORDS[record]))


def _check(node: ast.AST, functions: set[str]) -> None:
    """Raise LawError if a node is not part of the language."""
    if not isinstance(node, (*_STATEMENTS, *_EXPRESSIONS)) or isinstance(node, ast.FunctionDef):
        raise _wrong(
            node,
            f"{type(node).__name__} is not part of the language of laws: use arithmetic,"
            " if, while, for ... in range(...) and calls of plain functions",
        )
    match node:
        case ast.Constant(value=value) if not isinstance(value, int | float | None):
            raise _wrong(node, "only numbers")
        case ast.Name(id=name, ctx=ast.Store()) if name in {
            *_RECORDS,
            *BUILTINS,
            *HELPERS,
            *functions,
            "math",
        }:
            raise _wrong(node, f"{name} cannot be assigned to")
        case ast.Name(id=name) if name.startswith("_"):
            raise _wrong(node, f"{name}: names may not begin with _")
        case ast.Attribute(value=ast.Name(id="math"), attr=name, ctx=ast.Load()) if name in _MATH:
            return
        case ast.Attribute(value=ast.Name(id="flow"), attr=name, ctx=ast.Store()) if name not in WRITABLE:
            raise _wrong(
                node, f"flow.{name} cannot be set; a law sets {', '.join(WRITABLE)} and flow.state[i]"
            )
        case ast.Attribute(value=ast.Name(id=record), attr=name) if record in _RECORDS:
            if name not in _RECORDS[record]:
                raise _wrong(node, f"{record} has no field {name!r} for laws; these are {_names(record)}")
            if record == "event" and isinstance(node.ctx, ast.Store):
                raise _wrong(node, "fields of event cannot be set")
        case ast.Attribute():
            raise _wrong(node, "attributes are only those of flow, event and math")
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id="flow"), attr="state")):
            return
        case ast.Subscript(value=ast.Attribute(value=ast.Name(id="event")), ctx=ast.Load()):
            return
        case ast.Subscript():
            raise _wrong(node, "only flow.state[i] and the lists of event can be indexed")
        case ast.Call(keywords=[_, *_]):
            raise _wrong(node, "calls have no keyword arguments")
        case ast.Call(func=ast.Name(id=name)) if name in {*BUILTINS, *HELPERS, *functions}:
            return
        case ast.Call(func=ast.Attribute(value=ast.Name(id="math"))):
            return
        case ast.Call():
            raise _wrong(node, "a law calls math, its own functions, and " + ", ".join([*BUILTINS, *HELPERS]))
        case ast.For(iter=ast.Call(func=ast.Name(id="range"))):
            return
        case ast.For():
            raise _wrong(node, "loops are while, or for ... in range(...)")
