"""Agents of the bursts family: plans of a rule or of a dynamic program, and rules of background work.

All but the oracles read the observation, and the profile and constants that the scenario makes public.
"""

from __future__ import annotations

from sysgym.agents.info import AgentInfo

_FAMILY = "bursts"


def _heuristic(
    name: str, entry: str, summary: str, *, privileged: bool = False, env_id: str = ""
) -> AgentInfo:
    entry = f"sysgym.agents.bursts.{entry}"
    return AgentInfo(name, summary, entry, privileged=privileged, family=_FAMILY, env_id=env_id)


def _plan(name: str, class_name: str, summary: str) -> AgentInfo:
    return _heuristic(name, f"plans:{class_name}", summary, env_id="sysgym/BurstPlan-v0")


def _background(name: str, class_name: str, summary: str) -> AgentInfo:
    return _heuristic(name, f"background:{class_name}", summary, env_id="sysgym/BurstMux-v0")


AGENTS = (
    _plan("data_parallel", "DataParallel", "all GPUs for every layer"),
    _plan("one_gpu", "OneGpu", "one GPU for every layer"),
    _plan("fixed_gpus", "FixedGpus", "the same number of GPUs for every layer, a parameter"),
    _heuristic("bursts/random", "plans:RandomAgent", "uniformly random actions"),
    _plan("knee", "Knee", "for each layer, the cheapest GPU count given that of the previous layer"),
    _plan("deeppool", "DeepPool", "DeepPool's planner: fastest plan below an amplification limit"),
    _plan("dynamic_program", "DynamicProgram", "cheapest plan of the profile, by a dynamic program"),
    _heuristic(
        "bursts/oracle",
        "oracles:Oracle",
        "cheapest plan of the true times; best background work in every window",
        privileged=True,
    ),
    _background("no_background", "NoBackground", "no background work"),
    _background("constant_background", "ConstantBackground", "one batch and number of pieces"),
    _background(
        "aimd_background", "Aimd", "one more piece while the slowdown is small, otherwise half as many"
    ),
    _background(
        "model_background",
        "ModelBased",
        "the best action of the model, with a tracked interference",
    ),
)
"""Agents of the family, besides the general learning algorithms with discrete actions."""
