"""Sources of ``sysgym export``: ordinary checkpoints, and formats declared by agents."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from sysgym.agents.learned.checkpoint import read_checkpoint
from sysgym.agents.learned.deploy.graph import PolicyGraph
from sysgym.agents.learned.deploy.onnx_file import checkpoint_properties
from sysgym.agents.learned.learning import graph_of
from sysgym.agents.registry import agent_info, list_agents
from sysgym.scenarios.errors import SysgymError
from sysgym.scenarios.family import load_entry
from sysgym.scenarios.files import parse_json, read_limited

LARGEST_FILE_BYTES = 10_000_000


@dataclass(frozen=True)
class Source:
    """Policy to export.

    Attributes:
        graph: The policy.
        about: Lines of the comment at the top of the C header.
        properties: Function that returns the metadata of the ONNX model.
        hint: Command that plays the model, without the name of the file; empty if no agent plays it.
    """

    graph: PolicyGraph
    about: list[str]
    properties: Callable[[], dict[str, str]]
    hint: str


def read_source(path: Path) -> Source:
    """Read a checkpoint for export; its suffix determines the format.

    Raises:
        SysgymError: If the file is not a checkpoint, or its policy cannot be exported.
    """
    own_format = [info for info in map(agent_info, list_agents()) if info.checkpoint_suffix == path.suffix]
    exported = [info for info in own_format if info.exporter]
    if exported:
        named = _agent_of(path)
        info = next((one for one in own_format if one.name == named), exported[0])
        if not info.exporter:
            raise SysgymError(
                f"{path}: {info.name} is not a network, so there is nothing to export; its file contains"
                " its constants"
            )
        source: Source = load_entry(info.exporter)(path)
        return source
    checkpoint = read_checkpoint(path)
    meta = checkpoint.meta
    about = [
        f"Policy {meta.agent}, trained on {meta.scenario_name} ({meta.env_id}) for {meta.total_steps} steps.",
        f"Action: {', '.join(f'{key} {value}' for key, value in meta.action_scale.items())}.",
        "Written by sysgym export. Needs -lm and no -ffast-math: forbidden actions score -INFINITY.",
        "",
        "Observation:",
        *(f"{index:4d}  {what}" for index, what in enumerate(meta.observation_index)),
    ]
    hint = f"sysgym run {meta.scenario_name} --agent onnx --checkpoint"
    return Source(graph_of(checkpoint), about, lambda: checkpoint_properties(checkpoint), hint)


def _agent_of(path: Path) -> object:
    """Return the agent named in a JSON file; None if the file is not JSON or names none."""
    with suppress(SysgymError, ValueError):
        data = parse_json(read_limited(path, LARGEST_FILE_BYTES))
        return data.get("agent") if isinstance(data, dict) else None
    return None
