"""Small jobs."""

from __future__ import annotations

from typing import Any

from sysgym.emulator.training.generated.job import ParallelJob
from sysgym.emulator.training.generated.models import Layer


def equal_layers(n: int, *, outputs: float = 0.0, parameters: float = 0.0) -> tuple[Layer, ...]:
    """Layers of one second of forward and two of backward pass at one operation a second, divisible."""
    return (Layer(parameters, 1.0, outputs, divisible=True),) * n


def small_job(**values: Any) -> ParallelJob:
    """A job of eight equal layers on DGX H100, two ranks in each direction."""
    defaults: dict[str, Any] = {
        "layers": equal_layers(8, outputs=1e8, parameters=1e8),
        "flops_per_s": 1.0,
        "memory_bytes_per_s": 1e12,
        "bucket_bytes": 3e8,
    }
    return ParallelJob(**(defaults | values))
