"""Records by address: how compiled code reaches the simulation's arrays.

The compiled functions share one argument, the world's record, which holds the address of every array. Passing
the arrays themselves would put some eighty words on the stack of each call; an address and an index are one
multiplication.
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
"""What a callback returns that ended in an exception of which nothing is known."""


def record_dtype(described: type) -> np.dtype[np.void]:
    """Return the type of a record from a class that describes it.

    The class is for readers and type checkers: its attributes are annotated ``float`` or ``int``, eight bytes
    each, in the order of the record.

    Raises:
        KeyError: If an attribute is annotated with another type.
    """
    kinds = {"float": np.float64, "int": np.int64}
    return np.dtype([(name, kinds[kind]) for name, kind in described.__annotations__.items()], align=True)


def record_accessor(dtype: np.dtype[Any]) -> Any:
    """Make the compiled function ``at(address, index)`` that gives a view of one record.

    There is no bounds check: an index is valid by construction, which the tests hold through conservation
    laws.
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


def callback_caller(first_dtype: np.dtype[Any], second_dtype: np.dtype[Any]) -> Any:
    """Make the compiled function ``call(address, first, second)`` for functions compiled by ``numba.njit``.

    It returns 0, or where the callback has raised the address of what numba knows of the exception
    (RAISED_UNKNOWN if that is nothing). A C function could not say so: numba prints what is raised in one
    and goes on.
    """
    first_type = numba.from_dtype(first_dtype)
    second_type = numba.from_dtype(second_dtype)

    @intrinsic
    def call(typing_context: Any, address: Any, first: Any, second: Any) -> Any:
        signature = types.int64(types.int64, first_type, second_type)

        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            kinds = (first_type, second_type)
            function_type = context.call_conv.get_function_type(types.none, kinds)
            function = builder.inttoptr(arguments[0], function_type.as_pointer())
            status, _ = context.call_conv.call_function(
                builder, function, types.none, kinds, [arguments[1], arguments[2]]
            )
            word = ir.IntType(64)
            what = builder.select(
                status.is_user_exc, builder.ptrtoint(status.excinfoptr, word), word(RAISED_UNKNOWN)
            )
            return builder.select(status.is_error, what, word(0))

        return signature, generate

    return call


def function_caller(signature: Any) -> Any:
    """Make the compiled function ``call(address, first, second, ...)`` for functions of a signature.

    They are compiled by ``numba.njit``, and have two or three arguments. What they raise, the call raises.
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
    """``call_entry_point(address, first, second)``: a C function of two int64 that returns one."""
    signature = types.int64(types.int64, types.int64, types.int64)

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        word = ir.IntType(64)
        function = builder.inttoptr(arguments[0], ir.FunctionType(word, [word, word]).as_pointer())
        return builder.call(function, [arguments[1], arguments[2]])

    return signature, generate


call_entry_point: Any = _call_entry_point


@intrinsic
def raise_known(typing_context: Any, address: Any) -> Any:
    """``raise_known(address)`` raises what a ``callback_caller`` has returned the address of; once only."""
    signature = types.void(types.int64)

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        known = builder.inttoptr(arguments[0], callconv.excinfo_ptr_t)
        status = context.call_conv._get_return_status(builder, callconv.RETCODE_USEREXC, known)
        context.call_conv.return_status_propagate(builder, status)
        return context.get_dummy_value()

    return signature, generate
