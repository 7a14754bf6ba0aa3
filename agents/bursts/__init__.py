"""Agents of the bursts family: plans of a rule or of a dynamic program, and rules of background work.

All but the oracles read the observation, and the profile and constants that the scenario makes public.
"""

from __future__ import annotations

from sysgym.agents.info import AgentInfo

_FAMILY = "bursts"


def _heuristic(name: str, entry: str, summary: str, *, privileged: bool = False) -> AgentInfo:
    return AgentInfo(name, summary, f"sysgym.agents.bursts.{entry}", privileged=privileged, family=_FAMILY)


AGENTS = (
    _heuristic("data_parallel", "plans:DataParallel", "all GPUs for every layer"),
    _heuristic("one_gpu", "plans:OneGpu", "one GPU for every layer"),
    _heuristic("fixed_gpus", "plans:FixedGpus", "the same number of GPUs for every layer, a parameter"),
    _heuristic("bursts/random", "plans:RandomAgent", "any action"),
    _heuristic("knee", "plans:Knee", "for each layer the cheapest count after that of the layer before"),
    _heuristic("deeppool", "plans:DeepPool", "DeepPool's planner: fastest plan below an amplification limit"),
    _heuristic(
        "dynamic_program", "plans:DynamicProgram", "cheapest plan of the profile, by a dynamic program"
    ),
    _heuristic(
        "bursts/oracle",
        "oracles:Oracle",
        "cheapest plan of the true times; of background work the best in every window",
        privileged=True,
    ),
    _heuristic("no_background", "background:NoBackground", "no background work"),
    _heuristic("constant_background", "background:ConstantBackground", "one batch and number of pieces"),
    _heuristic(
        "aimd_background", "background:Aimd", "one more piece while the slowdown is small, half if not"
    ),
    _heuristic(
        "model_background",
        "background:ModelBased",
        "the best action of the model, with a tracked interference",
    ),
)
"""Agents of the family, besides the general learning algorithms with discrete actions."""
