"""Laws in studies: transports of contenders, and a test of whether two laws can share a network."""

from __future__ import annotations

from collections.abc import Sequence

from sysgym.agents import make_agent
from sysgym.agents.protocol import environment_arguments
from sysgym.bench.contenders import Contender, parse_contender
from sysgym.emulator.packets.transports import Transport, get_transport
from sysgym.envs.congestion.sharing import common_first
from sysgym.errors import SysgymError
from sysgym.scenarios import CongestionScenario
from sysgym.scenarios.families import get_family

SHIPPED_FOR = "dumbbell-10g"
"""Scenario whose shipped policies of learned laws are used on random networks and links."""


def transport_of(law: Contender) -> Transport:
    """Return the transport of a contender that sets no rates: a classical, a learned or a user's law.

    Raises:
        SysgymError: The contender is a controller of a whole network, or a law under such a controller.
    """
    transports = get_family("congestion").transports
    assert transports is not None
    constants, parameters = law.parameters_of(transports)
    agent = make_agent(
        law.agent, checkpoint=law.checkpoint_path(None), family="congestion", trust=law.trusted, **parameters
    )
    own = environment_arguments(agent).get("transport")
    if own is None and law.agent != transports.uncapped:
        raise SysgymError(f"{law.name}: not a law of single flows: the agent {law.agent} sets its rates")
    found = law.transport if own is None else own
    if isinstance(found, str):
        found = get_transport(found).with_constants(constants)
    if found.rate_driven:
        raise SysgymError(f"{law.name}: not a law of single flows, but a controller of a whole network")
    return found


def transports_of(texts: Sequence[str], scenario: str) -> dict[str, Transport]:
    """Return the transports of contenders that are written as ``NAME`` or ``NAME=AGENT@CHECKPOINT``, by name.

    Args:
        texts: The contenders.
        scenario: Name of the scenario whose shipped checkpoints are used.

    Raises:
        SysgymError: A contender is unknown, has an unreadable checkpoint, or is a controller of a whole
            network.
    """
    laws = [parse_contender(text, (), "congestion").with_shipped(scenario) for text in texts]
    return {law.name: transport_of(law) for law in laws}


def can_share(scenario: CongestionScenario, first: Transport, second: Transport) -> bool:
    """Return whether two laws can share a network: one of them provides what the other requires."""
    try:
        common_first(scenario, first, second)
    except SysgymError:
        return False
    return True
