"""Policy over sets for sb3-contrib's MaskablePPO. Requires torch."""

from __future__ import annotations

from sb3_contrib.common.maskable.policies import MaskableActorCriticPolicy

from sysgym.agents.learned.sets.modules import SetActorCritic


class SetPolicy(SetActorCritic, MaskableActorCriticPolicy):  # type: ignore[misc]  # two forms of forward
    """Actor and critic over a set of masked choices."""
