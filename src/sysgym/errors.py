"""The errors users catch; the lowest layer, `sysgym.scenarios.errors`, defines them for all to raise."""

from sysgym.scenarios.errors import (
    BackendError,
    BackendUnavailable,
    MissingExtra,
    ResultMismatch,
    ScenarioError,
    StorageError,
    SysgymError,
    TransportError,
    UnknownName,
)

__all__ = [
    "BackendError",
    "BackendUnavailable",
    "MissingExtra",
    "ResultMismatch",
    "ScenarioError",
    "StorageError",
    "SysgymError",
    "TransportError",
    "UnknownName",
]
