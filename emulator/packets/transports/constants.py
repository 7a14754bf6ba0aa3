"""Constants of congestion control laws that commands and searches may set."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from sysgym.scenarios.errors import SysgymError


class Constant(NamedTuple):
    """Constant of a law.

    Attributes:
        name: Name.
        value: Default value.
        least: Smallest value.
        most: Largest value.
        meaning: Meaning of the constant.
        searched: Whether a search sets it.
    """

    name: str
    value: float
    least: float = -math.inf
    most: float = math.inf
    meaning: str = ""
    searched: bool = True


def checked_values(law: str, constants: Sequence[Constant], values: Iterable[float]) -> tuple[float, ...]:
    """Return the values of a law's constants as numbers.

    Raises:
        SysgymError: If the number of values is wrong, two constants have the same name, or a value is outside
            its bounds.
    """
    names = [constant.name for constant in constants]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise SysgymError(f"{law}: two constants are named {twice[0]}")
    try:
        given = tuple(float(value) for value in values)
    except OverflowError as error:
        raise SysgymError(f"{law}: a constant is too large for a number") from error
    if len(given) != len(constants):
        raise SysgymError(f"{law}: expected {len(constants)} constants, got {len(given)}")
    for value, constant in zip(given, constants, strict=True):
        if not constant.least <= value <= constant.most:
            raise SysgymError(
                f"{law}: {constant.name} is {value:g}, expected {constant.least:g} to {constant.most:g}"
            )
    return given
