"""Congestion control: a controller, or each sender, decides how fast a datacenter network sends."""

from __future__ import annotations

from typing import Any


def parallel_env(*arguments: Any, **named: Any) -> Any:
    """Make an environment in which every flow or host is an agent (PettingZoo's ParallelEnv).

    Args:
        *arguments: As :class:`sysgym.envs.congestion.parallel.ParallelCC` takes them.
        **named: The same by name: ``scenario``, ``agents``, ``split``, ``preset``, ...

    Raises:
        MissingExtra: If the extra ``multiagent`` is not installed.
    """
    from sysgym.envs.congestion.parallel import ParallelCC

    return ParallelCC(*arguments, **named)
