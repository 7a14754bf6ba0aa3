"""Detection of names that may have no value where a law reads them.

Unlike Python, a compiled law does not stop at such a name, but continues with arbitrary contents of memory.
Therefore, all paths through the branches and loops of a law are checked.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping

Names = frozenset[str] | None
"""Names that have a value; None at unreachable places, such as after a return."""


def unassigned(function: ast.FunctionDef, constants: Mapping[str, float]) -> ast.Name | None:
    """Return a name that a function may read before it has a value, or None.

    Conditions are not compared with each other: a name that is assigned under a condition does not count as
    assigned under the same condition later. A loop may have no iteration, unless it is ``while True`` or the
    arguments of its ``range`` are known.

    Args:
        function: Function of a law.
        constants: Constants of the law.
    """
    arguments = {one.arg for one in function.args.args}
    stored = {
        node.id
        for statement in function.body
        for node in ast.walk(statement)
        if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store)
    }
    walk = _Walk(frozenset(stored - arguments), constants)
    walk.block(function.body, frozenset())
    return walk.found


class _Walk:
    def __init__(self, own: frozenset[str], constants: Mapping[str, float]) -> None:
        self.found: ast.Name | None = None
        self._own, self._constants = own, constants
        self._breaks: list[Names] = []
        self._continues: list[Names] = []

    def block(self, statements: Iterable[ast.stmt], names: Names) -> Names:
        """Return the names that have a value after some statements."""
        for statement in statements:
            if names is None:  # unreachable
                return None
            names = self._statement(statement, names)
        return names

    def _statement(self, node: ast.stmt, names: frozenset[str]) -> Names:
        match node:
            case ast.If():
                self._read(node.test, names)
                return _both(self.block(node.body, names), self.block(node.orelse, names))
            case ast.While() | ast.For():
                return self._loop(node, names)
            case ast.Break():
                self._breaks.append(names)
                return None
            case ast.Continue():
                self._continues.append(names)
                return None
            case ast.Return():
                self._read(node, names)
                return None
            case ast.AugAssign(target=ast.Name(id=name) as target) if name in self._own - names:
                self.found = self.found or target
        self._read(node, names)
        return names | _assigned(node)

    def _loop(self, node: ast.While | ast.For, names: frozenset[str]) -> Names:
        outer, self._breaks, self._continues = (self._breaks, self._continues), [], []
        if isinstance(node, ast.While):
            self._read(node.test, names)
            turn = self.block(node.body, names)
            for_ever = isinstance(node.test, ast.Constant) and bool(node.test.value)
            end = None if for_ever else names
        else:
            self._read(node.iter, names)
            inside = names | {one.id for one in ast.walk(node.target) if isinstance(one, ast.Name)}
            turn = self.block(node.body, inside)
            for one in self._continues:
                turn = _both(turn, one)
            end = turn if self._has_a_turn(node.iter) else names
        end = self.block(node.orelse, end)
        for one in self._breaks:
            end = _both(end, one)
        self._breaks, self._continues = outer
        return end

    def _has_a_turn(self, call: ast.expr) -> bool:
        """Return whether a ``range`` has known arguments and at least one element."""
        values: list[int] = []
        for one in call.args if isinstance(call, ast.Call) else []:
            value: object = self._constants.get(one.id) if isinstance(one, ast.Name) else None
            value = one.value if isinstance(one, ast.Constant) else value
            if not isinstance(value, int):
                return False
            values.append(value)
        try:
            return len(range(*values)) > 0
        except (TypeError, ValueError, OverflowError):
            return False

    def _read(self, node: ast.AST, names: frozenset[str]) -> None:
        """Record the first name without a value that a statement or an expression reads."""
        for one in ast.walk(node):
            if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load) and one.id in self._own - names:
                self.found = self.found or one


def _both(first: Names, second: Names) -> Names:
    """Return the names that have a value after either of two paths."""
    if first is None or second is None:
        return first if second is None else second
    return first & second


def _assigned(node: ast.stmt) -> set[str]:
    if isinstance(node, ast.AnnAssign) and node.value is None:  # an annotation without a value
        return set()
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Store)}
