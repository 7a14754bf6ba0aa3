"""The errors users catch; they are defined in the lowest layer, `sysgym.scenarios.errors`, so that all may raise them."""

from sysgym.scenarios.errors import (
    BackendError,
    BackendUnavailable,
    MissingExtra,
    ResultMismatch,
    ScenarioError,
    SysgymError,
    UnknownName,
)

__all__ = [
    "BackendError",
    "BackendUnavailable",
    "MissingExtra",
    "ResultMismatch",
    "ScenarioError",
    "SysgymError",
    "UnknownName",
]
