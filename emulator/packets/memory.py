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
from numba.extending import intrinsic


def record_accessor(dtype: np.dtype[Any]) -> Any:
    """Makes the compiled function ``at(address, index)`` that gives a view of one record.

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
    """Makes the compiled function ``call(address, first, second)`` for callbacks of ``numba.cfunc``."""
    first_type = numba.from_dtype(first_dtype)
    second_type = numba.from_dtype(second_dtype)

    @intrinsic
    def call(typing_context: Any, address: Any, first: Any, second: Any) -> Any:
        signature = types.void(types.int64, first_type, second_type)

        def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
            argument_types = [context.get_argument_type(kind) for kind in (first_type, second_type)]
            function_type = ir.FunctionType(ir.VoidType(), argument_types)
            function = builder.inttoptr(arguments[0], function_type.as_pointer())
            builder.call(function, [arguments[1], arguments[2]])
            return context.get_dummy_value()

        return signature, generate

    return call


@intrinsic
def call_entry_point(typing_context: Any, address: Any, first: Any, second: Any) -> Any:
    """``call_entry_point(address, first, second)``: a C function of two int64 that returns one."""
    signature = types.int64(types.int64, types.int64, types.int64)

    def generate(context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        word = ir.IntType(64)
        function = builder.inttoptr(arguments[0], ir.FunctionType(word, [word, word]).as_pointer())
        return builder.call(function, [arguments[1], arguments[2]])

    return signature, generate
