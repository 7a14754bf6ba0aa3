"""sysgym: a Gymnasium suite for learned systems control.

Importing it registers the environments with Gymnasium and nothing more: the simulator, the scenario schema
and the command line load when they are first used.

    >>> import gymnasium, sysgym
    >>> env = gymnasium.make("sysgym/DatacenterCC-v0", scenario="dumbbell-10g")
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from sysgym.registration import register_environments

if TYPE_CHECKING:
    from sysgym import errors as errors
    from sysgym.errors import SysgymError as SysgymError

__version__ = "0.1.0"

__all__ = ["SysgymError", "__version__", "errors"]

register_environments()


if not TYPE_CHECKING:  # A checker that saw it would take every attribute for real.

    def __getattr__(name: str) -> object:
        """Load the error tree, and with it the scenario schema, when someone first asks for it."""
        if name in {"SysgymError", "errors"}:
            errors = importlib.import_module("sysgym.errors")
            return errors if name == "errors" else errors.SysgymError
        raise AttributeError(f"module 'sysgym' has no attribute {name!r}")
