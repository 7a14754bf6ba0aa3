"""Access of compiled code to the simulation's arrays by address.

The compiled functions share one argument, the world's record, which holds the address of every array. Passing
the arrays themselves would put some eighty words on the stack of each call; finding a record from an address
and an index takes one multiplication.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import types
from numba.core import callconv
from numba.extending import intrinsic

RAISED_UNKNOWN = -1
"""Return value of a callback that ended in an unknown exception."""


def aligned_dtype(fields: list[Any]) -> np.dtype[np.void]:
    """Return the aligned type of a record of these fields, in which every byte belongs to a field.

    NumPy does not copy the bytes between fields, so that equal worlds, and their pickles, would differ there.
    The bytes are therefore fields, which stay zero, such as ``unused_3`` at index 3.
    """
    aligned = np.dtype(fields, align=True)
    assert aligned.fields is not None
    whole: list[Any] = []
    end = 0
    for field in fields:
        dtype, start = aligned.fields[field[0]][:2]
        if start > end:
            whole.append((f"unused_{len(whole)}", np.uint8, (start - end,)))
        whole.append(field)
        end = start + dtype.itemsize
    if aligned.itemsize > end:
        whole.append((f"unused_{len(whole)}", np.uint8, (aligned.itemsize - end,)))
    return np.dtype(whole, align=True)


def record_dtype(described: type) -> np.dtype[np.void]:
    """Return the type of a record from a class that describes it.

    The class serves readers and type checkers. Its attributes are annotated ``float`` or ``int``, eight bytes
    each, in the order of the record.

    Raises:
        KeyError: If an attribute is annotated with another type.
    """
    kinds = {"float": np.float64, "int": np.int64}
    return aligned_dtype([(name, kinds[kind]) for name, kind in described.__annotations__.items()])


def record_accessor(dtype: np.dtype[Any]) -> Any:
    """Return the compiled function ``at(address, index)``, which returns a view of one record.

    There is no bounds check: indices are valid by construction, which tests of conservation laws confirm.
    """
    record_type = numba.from_dtype(dtype)

    @intrinsic
    def at(typing_context: Any, address: Any, index: Any) -> Any:
        signature = record_type(types.int64, types.int64)

        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            offset = builder.mul(arguments[1], ir.Constant(ir.IntType(64), dtype.itemsize))
            return builder.inttoptr(builder.add(arguments[0], offset), context.get_value_type(record_type))

        return signature, generate

    return at


def record_prefetcher(dtype: np.dtype[Any], first_line: int = 0, n_lines: int = 1) -> Any:
    """Return the compiled function ``prefetch(address, index)``, which requests a record's cache lines.

    The processor fetches them in the background. An index without a record is harmless.
    """

    @intrinsic
    def prefetch(typing_context: Any, address: Any, index: Any) -> Any:
        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            word, flag, byte_pointer = ir.IntType(64), ir.IntType(32), ir.IntType(8).as_pointer()
            record = builder.add(arguments[0], builder.mul(arguments[1], word(dtype.itemsize)))
            kind = ir.FunctionType(ir.VoidType(), [byte_pointer, flag, flag, flag])
            request = builder.module.declare_intrinsic("llvm.prefetch", [byte_pointer], kind)
            for line in range(first_line, first_line + n_lines):
                pointer = builder.inttoptr(builder.add(record, word(64 * line)), byte_pointer)
                builder.call(request, [pointer, flag(1), flag(3), flag(1)])  # to write, keep, data
            return context.get_dummy_value()

        return types.void(types.int64, types.int64), generate

    return prefetch


def callback_caller(*dtypes: np.dtype[Any]) -> Any:
    """Return the compiled function ``call(address, first, second, ...)`` for functions of ``numba.njit``.

    The functions have two or three records as arguments.

    It returns 0 or, if the callback has raised, the address of numba's description of the exception
    (RAISED_UNKNOWN if there is none). A C function could not report exceptions: numba prints them and
    continues.
    """
    kinds = tuple(numba.from_dtype(dtype) for dtype in dtypes)

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        function_type = context.call_conv.get_function_type(types.none, kinds)
        function = builder.inttoptr(arguments[0], function_type.as_pointer())
        status, _ = context.call_conv.call_function(builder, function, types.none, kinds, arguments[1:])
        word = ir.IntType(64)
        what = builder.select(
            status.is_user_exc, builder.ptrtoint(status.excinfoptr, word), word(RAISED_UNKNOWN)
        )
        return builder.select(status.is_error, what, word(0))

    def two(typing_context: Any, address: Any, first: Any, second: Any) -> Any:
        return types.int64(types.int64, *kinds), generate

    def three(typing_context: Any, address: Any, first: Any, second: Any, third: Any) -> Any:
        return types.int64(types.int64, *kinds), generate

    return intrinsic(two if len(kinds) == 2 else three)


def function_caller(signature: Any) -> Any:
    """Return the compiled function ``call(address, first, second, ...)`` for functions of a signature.

    The functions are compiled by ``numba.njit`` and have two or three arguments. Their exceptions propagate
    through the call.
    """
    kinds = signature.args

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        function_type = context.call_conv.get_function_type(signature.return_type, kinds)
        function = builder.inttoptr(arguments[0], function_type.as_pointer())
        status, result = context.call_conv.call_function(
            builder, function, signature.return_type, kinds, arguments[1:]
        )
        with builder.if_then(status.is_error, likely=False):
            context.call_conv.return_status_propagate(builder, status)
        return context.get_dummy_value() if signature.return_type == types.none else result

    def two(typing_context: Any, address: Any, first: Any, second: Any) -> Any:
        return signature.return_type(types.int64, *kinds), generate

    def three(typing_context: Any, address: Any, first: Any, second: Any, third: Any) -> Any:
        return signature.return_type(types.int64, *kinds), generate

    return intrinsic(two if len(kinds) == 2 else three)


@intrinsic
def _call_entry_point(typing_context: Any, address: Any, first: Any, second: Any) -> Any:
    """``call_entry_point(address, first, second)``: calls a C function of two int64 that returns an int64."""
    signature = types.int64(types.int64, types.int64, types.int64)

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        word = ir.IntType(64)
        function = builder.inttoptr(arguments[0], ir.FunctionType(word, [word, word]).as_pointer())
        return builder.call(function, [arguments[1], arguments[2]])

    return signature, generate


call_entry_point: Any = _call_entry_point


@intrinsic
def raise_known(typing_context: Any, address: Any) -> Any:
    """``raise_known(address)``: raises the exception that a ``callback_caller`` returned; only once."""
    signature = types.void(types.int64)

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        known = builder.inttoptr(arguments[0], callconv.excinfo_ptr_t)
        status = context.call_conv._get_return_status(builder, callconv.RETCODE_USEREXC, known)
        context.call_conv.return_status_propagate(builder, status)
        return context.get_dummy_value()

    return signature, generate
