"""Contenders of a benchmark: an agent, or a transport together with an agent."""

from __future__ import annotations

import hashlib
import inspect
import json
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sysgym.bench.plugins import Plugin
from sysgym.errors import SysgymError, UnknownName
from sysgym.scenarios.families import families, family_with_transports, get_family
from sysgym.scenarios.family import Family, Transports
from sysgym.scenarios.files import open_regular
from sysgym.scenarios.names import check_name

if TYPE_CHECKING:
    from sysgym.agents import AgentInfo

SHIPPED = "shipped:"
"""Prefix of the name of a checkpoint that is included in the package."""

RESERVED = frozenset(("checkpoint", "expected", "family", "trust"))
"""Arguments of agents that cannot be parameters of a contender."""

LARGEST_DIGESTED_BYTES = 2_000_000_000
"""Maximum size of a checkpoint or another file named in rows; a thousand times that of the package's own."""


@dataclass(frozen=True)
class Contender:
    """Contender of a benchmark: an agent, with a transport in families that have transports.

    Attributes:
        name: Name in tables.
        transport: Congestion control law of the senders; empty in families without transports.
        agent: Name of the agent.
        learned: Whether the agent needs a checkpoint.
        privileged: Whether the agent reads more than the observation. Such an agent is a reference, not a
            competitor.
        checkpoint: Path of the checkpoint, or :data:`SHIPPED` followed by the name of a checkpoint in the
            package; None for heuristics, and for learned agents that have no checkpoint yet.
        checkpoint_sha256: SHA-256 digest of the checkpoint.
        plugins: Pairs of path and SHA-256 digest of the user's files that define the transport, the agent or
            the environment.
        parameters: Constants of the transport and arguments of the agent that are set explicitly; all others
            have their defaults.
        trusted: Whether the checkpoint may run code; not part of a row.
    """

    name: str
    transport: str
    agent: str
    learned: bool = False
    privileged: bool = False
    checkpoint: str | None = None
    checkpoint_sha256: str | None = None
    plugins: tuple[tuple[str, str], ...] = ()
    parameters: tuple[tuple[str, Any], ...] = ()
    trusted: bool = field(default=False, compare=False)

    @property
    def parts(self) -> str:
        """Description of the transport and the agent, such as ``paced under ppo``."""
        if self.transport in ("", self.agent):
            return self.agent
        uncapped = {one.transports.uncapped for one in families().values() if one.transports is not None}
        return self.transport if self.agent in uncapped else f"{self.transport} under {self.agent}"

    @property
    def identity(self) -> tuple[Any, ...]:
        """Values that identify the contender in results; paths are not included."""
        digests = tuple(sorted(digest for _, digest in self.plugins))
        parameters = tuple(sorted(self.parameters, key=lambda pair: pair[0]))
        return (self.name, self.transport, self.agent, self.checkpoint_sha256, digests, parameters)

    def parameters_of(self, transports: Transports | None) -> tuple[dict[str, Any], dict[str, Any]]:
        """Split the parameters into constants of the transport and arguments of the agent.

        Args:
            transports: Transports of the family; None if it has none.
        """
        names = transports.constants(self.transport) if transports is not None and self.parameters else []
        given = dict(self.parameters)
        return (
            {name: value for name, value in given.items() if name in names},
            {name: value for name, value in given.items() if name not in names},
        )

    def with_checkpoint(self, path: str | Path, *, relative_to: Path | None = None) -> Contender:
        """Return the contender with a checkpoint.

        Args:
            path: The checkpoint, absolute or relative to the current folder.
            relative_to: Results folder. A path inside it is stored relative to it, any other path as an
                absolute path. None: the path is stored as given.

        Raises:
            SysgymError: If the file does not exist.
        """
        path = Path(path)
        shown = path
        if relative_to is not None:
            shown, folder = path.resolve(), relative_to.resolve()
            shown = shown.relative_to(folder) if shown.is_relative_to(folder) else shown
        return replace(self, checkpoint=str(shown), checkpoint_sha256=file_sha256(path))

    def with_shipped(self, scenario: str, *, only: bool = False) -> Contender:
        """Return the contender with the checkpoint that is included in the package, if there is one.

        A contender that is not learned, or that already has a checkpoint, is returned unchanged.

        Args:
            scenario: Name of the scenario to play.
            only: Whether to use only a checkpoint for this scenario, not the agent's general one.
        """
        from sysgym.agents.learned.shipped import shipped_checkpoint

        if not self.learned or self.checkpoint is not None:
            return self
        found = shipped_checkpoint(self.agent, scenario, only=only)
        if found is None:
            return self
        return replace(self, checkpoint=SHIPPED + found.name, checkpoint_sha256=file_sha256(found))

    def checkpoint_path(self, folder: Path | None = None) -> Path | None:
        """Return the path of the checkpoint; None if there is none.

        Args:
            folder: Results folder to which the path may be relative.
        """
        if self.checkpoint is None:
            return None
        if self.checkpoint.startswith(SHIPPED):
            from sysgym.agents.learned.shipped import FOLDER

            return FOLDER / self.checkpoint.removeprefix(SHIPPED)
        return (folder or Path()) / self.checkpoint

    def to_json(self) -> dict[str, Any]:
        """Return the contender as JSON data of a row."""
        return {
            "name": self.name,
            "transport": self.transport,
            "agent": self.agent,
            "learned": self.learned,
            "privileged": self.privileged,
            "checkpoint": self.checkpoint,
            "checkpoint_sha256": self.checkpoint_sha256,
            "plugins": dict(self.plugins),
            "parameters": dict(self.parameters),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Contender:
        """Return the contender from JSON data of a row."""
        pairs = {key: tuple(data.get(key, {}).items()) for key in ("plugins", "parameters")}
        return cls(**{**data, **pairs, "trusted": False})


def file_sha256(path: Path) -> str:
    """Return the hexadecimal SHA-256 digest of a regular file.

    Raises:
        SysgymError: If the file cannot be read, is not a regular file, or is larger than
            :data:`LARGEST_DIGESTED_BYTES`.
    """
    try:
        with open_regular(path) as file:
            if os.fstat(file.fileno()).st_size > LARGEST_DIGESTED_BYTES:
                raise SysgymError(f"{path}: larger than {LARGEST_DIGESTED_BYTES / 1e9:g} GB")
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise SysgymError(f"{path}: cannot be read: {error.strerror}") from error


def contender_from(
    name: str,
    transport: str,
    agent: str,
    plugins: Iterable[Plugin] = (),
    family: str | None = None,
    parameters: Mapping[str, Any] | None = None,
    env_id: str = "",
) -> Contender:
    """Return a contender from the names of its parts.

    Args:
        name: Name in tables.
        transport: A registered transport; empty in families without transports.
        agent: A registered agent.
        plugins: Loaded plugins; those that define a part of the contender are recorded in it.
        family: Family of the scenarios; None: the family whose contenders have transports.
        parameters: Constants of the transport, and arguments of the agent.
        env_id: Id of the environment, which a plugin may define.

    Raises:
        UnknownName: If there is no such transport, constant, agent, or argument of the agent.
        SysgymError: If a name is not valid in rows, or a constant or an argument is outside its bounds.
    """
    from sysgym.agents import agent_info

    playing = _family(family)
    transports = playing.transports
    try:
        info = agent_info(agent, playing.name)
    except UnknownName:
        raise _nobody_of(playing, agent) from None
    check_name("contender", name)
    check_name("agent", info.short_name)
    if transport:
        check_name("transport", transport)
    if transports is None and transport:
        raise SysgymError(f'"{name}": the family {playing.name} has no transports; expected an agent')
    if transports is not None and info.transport and transport not in ("", info.transport, transports.driven):
        raise SysgymError(
            f'"{name}": the agent "{agent}" has its own transport, {info.transport}; omit the transport'
        )
    if info.transport:
        transport = info.transport
    elif transports is not None:
        transports.check(transport)
    if info.family not in ("", playing.name):
        raise _nobody_of(playing, agent)
    used = tuple(
        (plugin.path, plugin.sha256)
        for plugin in plugins
        if transport in plugin.transports or info.name in plugin.agents or env_id in plugin.environments
    )
    chosen = tuple((parameters or {}).items())
    found = Contender(name, transport, agent, info.learned, info.privileged, plugins=used, parameters=chosen)
    if chosen:
        constants, arguments = found.parameters_of(transports)
        if transports is not None and agent == transports.uncapped:
            # This agent does not control the transport and has no arguments: all names must be constants.
            constants, arguments = constants | arguments, {}
        if transports is not None and constants:
            transports.with_constants(transport, constants)
        _check_arguments(info, arguments)
    return found


def _check_arguments(info: AgentInfo, arguments: Mapping[str, Any]) -> None:
    """Check that an agent has the given arguments and accepts their values.

    Raises:
        UnknownName: If the agent has no such argument.
        SysgymError: If the agent does not accept a value.
    """
    if not arguments:
        return
    from sysgym.agents import make_agent
    from sysgym.agents.arguments import check_types

    if (check := getattr(info.factory(), "check_arguments", None)) is not None:
        check(arguments)
        return
    signature = inspect.signature(info.factory())
    declared = signature.parameters.values()
    if not any(one.kind is one.VAR_KEYWORD for one in declared):
        known = [one.name for one in declared if one.name not in RESERVED]
        for name in arguments:
            if name not in known:
                raise UnknownName(f"argument of the agent {info.short_name}", name, known)
    # Only a complete agent can be made; a suite's grid may add required arguments, and training a checkpoint.
    if info.learned or RESERVED & arguments.keys() or not _is_complete(signature, arguments):
        check_types(info.short_name, info.factory(), arguments)
    else:
        make_agent(info.name, **arguments)


def _is_complete(signature: inspect.Signature, arguments: Mapping[str, Any]) -> bool:
    try:
        signature.bind(**arguments)
    except TypeError:
        return False
    return True


def parse_contender(
    text: str,
    plugins: Iterable[Plugin] = (),
    family: str | None = None,
    env_id: str = "",
    relative_to: Path | None = None,
) -> Contender:
    """Return a contender from its text form.

    In a family with transports, the name of a transport denotes this transport without rate caps, the name
    of an agent denotes this agent setting the rates, and ``TRANSPORT:AGENT`` names both. In other families,
    there are only agents. Optional parts:

    - ``NAME=...`` sets the name in tables.
    - ``...@FILE`` sets the checkpoint, ``...@SCENARIO`` the package's checkpoint for a scenario.
    - ``...,KEY=VALUE`` sets a constant of the transport or an argument of the agent.

    Examples: ``mine=paced:ppo@runs/mine/final.zip``, ``ppo@iroko-dumbbell-10m``, ``swift,beta=0.4``,
    ``once=annealing,measurements=1``.

    Args:
        text: Text form of a contender.
        plugins: As in :func:`contender_from`.
        family: As in :func:`contender_from`.
        env_id: As in :func:`contender_from`.
        relative_to: As in :meth:`Contender.with_checkpoint`.

    Raises:
        UnknownName: If a part does not exist.
        SysgymError: If the text is malformed, the checkpoint cannot be read, or the agent takes no
            checkpoint.
    """
    playing = _family(family)
    label, equals, rest = text.partition("=")
    if not equals or "," in label or "@" in label:
        label, rest = "", text
    parts, _, checkpoint = rest.partition("@")
    if "," in checkpoint and "=" in checkpoint.rpartition(",")[2] and not Path(checkpoint).exists():
        constants = checkpoint.partition(",")[2]
        raise SysgymError(f'"{text}": expected constants before the checkpoint: ...,{constants}@FILE')
    parts, *settings = parts.split(",")
    parameters: dict[str, Any] = {}
    for one in settings:
        key, value = _setting(text, one)
        if key in parameters:
            raise SysgymError(f'"{text}": {key} appears twice')
        parameters[key] = value
    transport, colon, agent = parts.partition(":")
    if not colon:
        transport, agent = "", parts
        if playing.transports is not None:
            transport, agent = _parts_of(parts, playing, playing.transports)
    set_to = [f"{key}-{value}" for key, value in parameters.items()]
    name = label or "-".join([parts.replace(":", "-"), *set_to])
    contender = contender_from(name, transport, agent, plugins, playing.name, parameters, env_id)
    if checkpoint:
        if not contender.learned:
            raise SysgymError(f'"{text}": the agent "{agent}" takes no checkpoint')
        contender = contender.with_shipped(checkpoint, only=True)
        if contender.checkpoint is None:
            contender = contender.with_checkpoint(checkpoint, relative_to=relative_to)
    return contender


def _setting(contender: str, text: str) -> tuple[str, Any]:
    """Return the key and the value of ``KEY=VALUE``; a value that is not valid JSON is a string."""
    key, equals, value = text.partition("=")
    if not (key and equals and value):
        raise SysgymError(f'"{contender}": expected KEY=VALUE after a comma, such as beta=0.4, got "{text}"')
    try:
        found = json.loads(value)
    except ValueError:
        return key, value
    # Whole numbers become integers, so that 1e3 and 1000 denote the same contender.
    return key, int(found) if isinstance(found, float) and found.is_integer() else found


def _family(name: str | None) -> Family:
    return family_with_transports() if name is None else get_family(name)


def _parts_of(name: str, family: Family, transports: Transports) -> tuple[str, str]:
    from sysgym.agents import list_agents

    if name in transports.names() and name != transports.driven:
        return name, transports.uncapped
    if name in list_agents(family.name):
        return transports.driven, name
    raise _nobody_of(family, name)


def _nobody_of(family: Family, name: str) -> UnknownName:
    """Return the error for a name that is not a contender of this family."""
    from sysgym.agents import list_agents

    if "," in name:
        return UnknownName("agent", name, listing=f"values are parts of a contender: --contender {name}")
    own: list[str] = []
    if family.transports is not None and name in family.transports.names():
        return UnknownName("agent", name, listing=f"it is a transport: --contender {name}")
    if family.transports is not None:
        own = [one for one in family.transports.names() if one != family.transports.driven]
    players = [*own, *list_agents(family.name)]
    others = [other for other in families().values() if other.name != family.name]
    is_transport = any(
        name in other.transports.names() and name != other.transports.driven
        for other in (family, *others)
        if other.transports is not None
    )
    listing, hint = "", ""
    if is_transport or any(name in list_agents(other.name) for other in others):
        kind = "a transport, and this family has none" if is_transport else "an agent of another family"
        listing = f"it is {kind}; the agents of this family are {', '.join(sorted(players))}"
    elif own:
        listing = f"sysgym list agents and sysgym list transports list all {len(players)}"
    if own:
        hint = "Write TRANSPORT:AGENT for both; --plugin FILE loads a file of your own"
    return UnknownName(f"contender of the family {family.name}", name, players, hint=hint, listing=listing)
