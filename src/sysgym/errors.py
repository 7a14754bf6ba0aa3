"""Public exceptions; `sysgym.scenarios.errors`, the lowest layer, defines them for use by all layers."""

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
