"""Units for display: metrics are stored in SI units, and displayed in Mb/s, kB, us or %."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from dataclasses import dataclass

_PREFIXES = {
    "_bps": ((1e9, "Gb/s"), (1e6, "Mb/s"), (1e3, "kb/s"), (1.0, "b/s")),
    "_bytes_per_s": ((1e9, "GB/s"), (1e6, "MB/s"), (1e3, "kB/s"), (1.0, "B/s")),
    "flops_per_s": ((1e15, "PFLOP/s"), (1e12, "TFLOP/s"), (1e9, "GFLOP/s"), (1.0, "FLOP/s")),
    "_per_s": ((1.0, "/s"),),
    "_bytes": ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B")),
    "_s": ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs"), (1e-9, "ns")),
}
"""Units by the end of a name; the first that fits counts, as a rate ends like a time."""

_SHARES = ("fnr", "fpr", "precision", "recall", "tpr", "utilization", "waste_share")


@dataclass(frozen=True)
class Unit:
    """Unit for display.

    Attributes:
        symbol: Symbol, such as ``Mb/s``; empty for plain numbers.
        size: SI value of one unit, 1e6 for ``Mb/s``.
    """

    symbol: str
    size: float

    def shown(self, value: float) -> float:
        """Return the number to display."""
        return value / self.size


def unit_of(name: str, values: Iterable[float] = ()) -> Unit:
    """Return the most readable unit for values of a metric.

    Args:
        name: Name of the metric, with the unit as suffix.
        values: Values displayed together; the median of the non-zero ones determines the prefix.
    """
    name = re.sub(r"_at_\d+$", "", name)  # point of a curve
    for suffix, choices in _PREFIXES.items():
        if name.endswith(suffix):
            sizes = sorted(abs(value) for value in values if value and math.isfinite(value))
            middle = sizes[len(sizes) // 2] if sizes else 1.0
            size, symbol = next((choice for choice in choices if middle >= 0.9995 * choice[0]), choices[-1])
            return Unit(symbol, size)
    if name in _SHARES or re.search(r"fraction|reduction(?!s)", name) or name.startswith("recall"):
        return Unit("%", 0.01)
    if "slowdown" in name:
        return Unit("×", 1.0)
    return Unit("", 1.0)


def significant(value: float, digits: int = 3) -> str:
    """Return a number with a number of significant digits; all integer digits are kept."""
    if value == 0.0 or not math.isfinite(value):
        return "0" if value == 0.0 else str(value)
    decimals = digits - 1 - math.floor(math.log10(abs(value)))
    if decimals > 6:
        return f"{value:.{digits - 1}g}"
    return f"{value:,.{max(decimals, 0)}f}".replace(",", " ")


def with_interval(value: float, low: float, high: float) -> tuple[str, str, str]:
    """Return an estimate and its bounds with equally many decimals, enough to distinguish the bounds."""
    for digits in (3, 4):
        decimals = _decimals(max(abs(value), abs(low), abs(high)), digits)
        texts = tuple(f"{number:,.{decimals}f}".replace(",", " ") for number in (value, low, high))
        if texts[1] != texts[2] or low == high:
            break
    return texts[0], texts[1], texts[2]


def _decimals(size: float, digits: int) -> int:
    if size == 0.0:
        return 0
    return min(max(digits - 1 - math.floor(math.log10(size)), 0), 8)


def metric_text(name: str, value: float, *, exact: bool = False) -> str:
    """Return one value of a metric with its unit.

    Args:
        name: Name of the metric.
        value: Value in SI units.
        exact: Whether it is a setting and not a measurement: ``10 µs`` instead of ``10.0 µs``.
    """
    unit = unit_of(name, [value])
    shown = unit.shown(value)
    text = f"{round(shown, 9):,.12g}".replace(",", " ") if exact else significant(shown)
    return f"{text}{'' if unit.symbol in {'', '%'} else ' '}{unit.symbol}"


def time_text(time_s: float, digits: int = 2) -> str:
    """Return a measured time in its most readable unit, such as ``0.40 µs``.

    Args:
        time_s: The time, s.
        digits: Number of significant digits; all integer digits are kept.
    """
    unit = unit_of("time_s", [time_s])
    return f"{significant(unit.shown(time_s), digits)} {unit.symbol}"
