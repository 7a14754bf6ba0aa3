"""Live views of placements: traffic by level, devices by group, programs, candidates, jobs."""

from __future__ import annotations

from typing import Any

from sysgym.envs.placement.joint import JointPlacement
from sysgym.envs.placement.live.base import PlacementView
from sysgym.envs.placement.live.candidates import CandidatesView
from sysgym.envs.placement.live.devices import DevicesView
from sysgym.envs.placement.live.jobs import JobsView
from sysgym.envs.placement.live.programs import ProgramsView
from sysgym.envs.placement.multijob import MultiJobPlacement
from sysgym.envs.placement.placement import CollectivePlacement
from sysgym.envs.placement.program import ReductionProgram
from sysgym.scenarios.errors import SysgymError

VIEWS: dict[type, type[PlacementView[Any]]] = {
    CollectivePlacement: DevicesView,
    ReductionProgram: ProgramsView,
    JointPlacement: CandidatesView,
    MultiJobPlacement: JobsView,
}


def live_view(env: Any) -> PlacementView[Any]:
    """Return the live view of an environment of the family.

    Raises:
        SysgymError: If there is none, as for an environment of a plugin.
    """
    for kind, view in VIEWS.items():
        if isinstance(env, kind):
            return view(env)
    raise SysgymError(f"{type(env).__name__} has no live view")
