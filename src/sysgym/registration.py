"""The environments' ids and where Gymnasium finds them."""

from __future__ import annotations

import gymnasium

# id -> entry point. A string, so that registering imports nothing; the class is loaded by `gymnasium.make`.
# No max_episode_steps: the scenario says how long an episode is, and the environment truncates it itself.
ENVIRONMENTS: dict[str, str] = {
    "sysgym/DatacenterCC-v0": "sysgym.envs.congestion.datacenter.datacenter_cc:DatacenterCC",
    "sysgym/FlowCC-v0": "sysgym.envs.congestion.flow.flow_cc:FlowCC",
    "sysgym/StragglerPrediction-v0": "sysgym.envs.stragglers.prediction:StragglerPrediction",
    "sysgym/StragglerMitigation-v0": "sysgym.envs.stragglers.mitigation:StragglerMitigation",
    "sysgym/CollectivePlacement-v0": "sysgym.envs.placement.placement:CollectivePlacement",
    "sysgym/ReductionProgram-v0": "sysgym.envs.placement.program:ReductionProgram",
    "sysgym/JointPlacement-v0": "sysgym.envs.placement.joint:JointPlacement",
}

VECTOR_ENVIRONMENTS: dict[str, str] = {
    "sysgym/DatacenterCC-v0": "sysgym.envs.congestion.datacenter.vector:DatacenterCCVector",
    "sysgym/FlowCC-v0": "sysgym.envs.congestion.flow.vector:FlowCCVector",
}
"""Those that `gymnasium.make_vec` also makes with `vectorization_mode="vector_entry_point"`."""


def register_environments() -> None:
    """Register every environment of the suite with Gymnasium; calling it again changes nothing."""
    for env_id, entry_point in ENVIRONMENTS.items():
        if env_id not in gymnasium.registry:
            vector_entry_point = VECTOR_ENVIRONMENTS.get(env_id)
            gymnasium.register(id=env_id, entry_point=entry_point, vector_entry_point=vector_entry_point)
