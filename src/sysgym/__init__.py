"""sysgym: a Gymnasium suite for learned systems control.

Importing the package only registers the environments with Gymnasium and PettingZoo; the simulator, the
scenario schema and the command line are loaded at first use.

    >>> import gymnasium, sysgym
    >>> env = gymnasium.make("sysgym/DatacenterCC-v0", scenario="dumbbell-10g")

Time series of flows and queues in an episode, as arrays:

    >>> series = sysgym.record("dumbbell-10g", contender="dctcp", interval_s=100e-6)
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from sysgym.parallel_registration import register_with_pettingzoo
from sysgym.registration import register_environments
from sysgym.stray_settings import ignore_numbas

if TYPE_CHECKING:
    from sysgym import errors as errors
    from sysgym.errors import SysgymError as SysgymError
    from sysgym.series import TimeSeries as TimeSeries
    from sysgym.series import read_series as read_series
    from sysgym.series import record as record

__version__ = "0.1.0"

__all__ = ["SysgymError", "TimeSeries", "__version__", "errors", "read_series", "record"]

ignore_numbas()
register_environments()
register_with_pettingzoo()

_HOME = {
    "SysgymError": "sysgym.errors",
    "TimeSeries": "sysgym.series",
    "read_series": "sysgym.series",
    "record": "sysgym.series",
}

if not TYPE_CHECKING:  # Hidden from type checkers, which would accept any attribute.

    def __getattr__(name: str) -> object:
        """Import the module that defines ``name`` at its first use."""
        if name == "errors":
            return importlib.import_module("sysgym.errors")
        if name in _HOME:
            return getattr(importlib.import_module(_HOME[name]), name)
        raise AttributeError(f"module 'sysgym' has no attribute {name!r}")
