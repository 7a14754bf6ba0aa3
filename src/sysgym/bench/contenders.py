"""Contenders: agents, over transports where the family has those; and files of the user that define more."""

from __future__ import annotations

import hashlib
import os
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from sysgym.errors import ResultMismatch, SysgymError, UnknownName
from sysgym.scenarios.families import families, family_with_transports, get_family
from sysgym.scenarios.family import Family, Transports
from sysgym.scenarios.files import open_regular, read_limited
from sysgym.scenarios.names import check_name

SHIPPED = "shipped:"
"""Before the name of a checkpoint that came with the package."""

LARGEST_DIGESTED_BYTES = 2_000_000_000
"""Of a checkpoint or another file that rows name; a thousand times the package's own."""

LARGEST_PLUGIN_BYTES = 10_000_000
"""Of a user's Python file."""


@dataclass(frozen=True)
class Contender:
    """A contender: an agent, over a transport where the family has transports.

    Attributes:
        name: What tables call it.
        transport: Congestion control law of the senders; empty where the family has no transports.
        agent: Who decides.
        learned: Whether the agent needs a checkpoint.
        privileged: Whether the agent reads more than the observation: a reference, not a competitor.
        checkpoint: Path of what training wrote, or SHIPPED and the name of one of the package's; None for
            heuristics.
        checkpoint_sha256: Digest of that file.
        plugins: Path -> SHA-256 of the user's files that define the transport or the agent.
        parameters: What the agent is made with, where it is not its defaults.
        trusted: Whether the user lets code in the checkpoint run; no part of a row.
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
        """Its parts, in words."""
        if self.transport in ("", self.agent):
            return self.agent
        uncapped = {one.transports.uncapped for one in families().values() if one.transports is not None}
        return self.transport if self.agent in uncapped else f"{self.transport} under {self.agent}"

    @property
    def identity(self) -> tuple[Any, ...]:
        """What has to be equal for two results to be of the same contender; paths do not count."""
        digests = tuple(sorted(digest for _, digest in self.plugins))
        return (self.name, self.transport, self.agent, self.checkpoint_sha256, digests, self.parameters)

    def with_checkpoint(self, path: str | Path, *, relative_to: Path | None = None) -> Contender:
        """Return the contender with this checkpoint.

        Args:
            path: The file.
            relative_to: Folder of the results; a path inside it is written relative to it.

        Raises:
            SysgymError: The file is not there.
        """
        path = Path(path)
        shown = path
        if relative_to is not None and path.resolve().is_relative_to(relative_to.resolve()):
            shown = path.resolve().relative_to(relative_to.resolve())
        return replace(self, checkpoint=str(shown), checkpoint_sha256=file_sha256(path))

    def with_shipped(self, scenario: str) -> Contender:
        """Return a learned contender that has no checkpoint with the package's own, if there is one."""
        from sysgym.agents.learned.shipped import shipped_checkpoint

        if not self.learned or self.checkpoint is not None:
            return self
        found = shipped_checkpoint(self.agent, scenario)
        if found is None:
            return self
        return replace(self, checkpoint=SHIPPED + found.name, checkpoint_sha256=file_sha256(found))

    def checkpoint_path(self, folder: Path | None = None) -> Path | None:
        """Return where the checkpoint lies.

        Args:
            folder: Of the results, which its path may be relative to.
        """
        if self.checkpoint is None:
            return None
        if self.checkpoint.startswith(SHIPPED):
            from sysgym.agents.learned.shipped import FOLDER

            return FOLDER / self.checkpoint.removeprefix(SHIPPED)
        return (folder or Path()) / self.checkpoint

    def to_json(self) -> dict[str, Any]:
        """Return the form that rows have."""
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
        """Return the contender of a row."""
        pairs = {key: tuple(data.get(key, {}).items()) for key in ("plugins", "parameters")}
        return cls(**{**data, **pairs, "trusted": False})


def file_sha256(path: Path) -> str:
    """Return the hex digest of a regular file.

    Raises:
        SysgymError: It cannot be read, is no file, or is larger than :data:`LARGEST_DIGESTED_BYTES`.
    """
    try:
        with open_regular(path) as file:
            if os.fstat(file.fileno()).st_size > LARGEST_DIGESTED_BYTES:
                raise SysgymError(f"{path}: larger than {LARGEST_DIGESTED_BYTES / 1e9:g} GB")
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise SysgymError(f"{path}: cannot be read: {error.strerror}") from error


class PluginFile(NamedTuple):
    """A user's Python file as it was read: what another process imports is this or nothing.

    Attributes:
        path: The file.
        sha256: Its digest.
    """

    path: str
    sha256: str


@dataclass(frozen=True)
class Plugin:
    """A user's file that was imported, and what it brought.

    Attributes:
        path: The file.
        sha256: Its digest.
        transports: Names of the transports that it registered.
        agents: Names of the agents that it registered.
        environments: Ids of the environments that it registered.
    """

    path: str
    sha256: str
    transports: frozenset[str]
    agents: frozenset[str]
    environments: frozenset[str] = frozenset()

    @property
    def file(self) -> PluginFile:
        """What another process needs to import the same."""
        return PluginFile(self.path, self.sha256)


_LOADED: dict[Path, Plugin] = {}


def load_plugin(path: str | Path, sha256: str | None = None) -> Plugin:
    """Import a user's Python file, once a process, so that it can register what it defines.

    What is compiled are the bytes whose digest was taken: neither a file that changes meanwhile nor a cached
    form of it beside it counts.

    Args:
        path: A file with calls of ``register_transport``, ``register_agent`` or ``register_environment``.
        sha256: The digest that it has to have; None: any.

    Raises:
        ResultMismatch: It has another digest; then nothing of it has run.
        SysgymError: It cannot be read, cannot be imported or registers nothing.
    """
    from sysgym.agents import list_agents
    from sysgym.emulator.packets.transports import list_transports
    from sysgym.registration import ENVIRONMENTS

    file = Path(path).expanduser().resolve()
    known = _LOADED.get(file)
    source = read_limited(file, LARGEST_PLUGIN_BYTES) if known is None else b""
    digest = hashlib.sha256(source).hexdigest() if known is None else known.sha256
    if sha256 not in (None, digest):
        raise ResultMismatch(f"{path}: is not the file that was asked for, its digest is {digest[:12]}")
    if known is not None:
        return known
    if file.suffix != ".py":
        raise SysgymError(f"{path}: not a Python file")
    # The file's own name, as `import` would have it: pickles and numba's cache on disk go by it.
    if file.stem in sys.modules:
        raise SysgymError(f'{path}: a module named "{file.stem}" is loaded already; rename the file')
    before = frozenset(list_transports()), frozenset(list_agents()), frozenset(ENVIRONMENTS)
    module = ModuleType(file.stem)
    module.__file__ = str(file)
    sys.modules[file.stem] = module
    try:
        exec(compile(source, str(file), "exec", dont_inherit=True), module.__dict__)
    except SysgymError:
        del sys.modules[file.stem]
        raise
    except Exception as error:
        del sys.modules[file.stem]
        raise SysgymError(f"{path}: cannot be imported: {type(error).__name__}: {error}") from error
    new = Plugin(
        str(path),
        digest,
        frozenset(list_transports()) - before[0],
        frozenset(list_agents()) - before[1],
        frozenset(ENVIRONMENTS) - before[2],
    )
    if not new.transports and not new.agents and not new.environments:
        del sys.modules[file.stem]  # as before: the user may mend the file and load it again
        raise SysgymError(f"{path}: registers no transport, no agent and no environment of a new name")
    _LOADED[file] = new
    return new


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
        name: What tables call it.
        transport: A registered transport; empty where the family has none.
        agent: A registered agent.
        plugins: Loaded files, so that the rows say where a part came from.
        family: Of the scenarios that it plays; None: that whose contenders have transports.
        parameters: What the agent is made with.
        env_id: Environment that it plays, which may be a plugin's.

    Raises:
        UnknownName: There is no such transport or agent.
        SysgymError: A name is none that rows can have.
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
        raise SysgymError(f'"{name}": there are no transports in the family {playing.name}; name an agent')
    if transports is not None and info.transport and transport not in (info.transport, transports.driven):
        raise SysgymError(f'"{name}": the agent "{agent}" brings its own transport, {info.transport}')
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
    return Contender(name, transport, agent, info.learned, info.privileged, plugins=used, parameters=chosen)


def parse_contender(
    text: str, plugins: Iterable[Plugin] = (), family: str | None = None, env_id: str = ""
) -> Contender:
    """Return the contender that a user wrote.

    In a family with transports a transport's name is that transport left to itself, an agent's name is that
    agent setting rates, ``TRANSPORT:AGENT`` is both; elsewhere there are only agents. ``NAME=...`` gives it
    another name, ``...@FILE`` a checkpoint: ``mine=paced:ppo@runs/mine/final.zip``.

    Args:
        text: The words.
        plugins: As in :func:`contender_from`.
        family: As there.
        env_id: As there.

    Raises:
        UnknownName: A part does not exist.
        SysgymError: The checkpoint cannot be read, or is given to a heuristic.
    """
    playing = _family(family)
    label, equals, rest = text.partition("=")
    if not equals:
        label, rest = "", text
    parts, _, checkpoint = rest.partition("@")
    transport, colon, agent = parts.partition(":")
    if not colon:
        transport, agent = "", parts
        if playing.transports is not None:
            transport, agent = _parts_of(parts, playing, playing.transports)
    name = label or parts.replace(":", "-")
    contender = contender_from(name, transport, agent, plugins, playing.name, env_id=env_id)
    if checkpoint:
        if not contender.learned:
            raise SysgymError(f'"{text}": the agent "{agent}" takes no checkpoint')
        contender = contender.with_checkpoint(checkpoint)
    return contender


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
    """Return the error for a name that is of another family, or of none; says who plays this one."""
    from sysgym.agents import list_agents

    own: list[str] = []
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
        kind = "a transport, and this is no network" if is_transport else "an agent of another family"
        listing = f"it is {kind}; this family is played by {', '.join(sorted(players))}"
    elif own:
        listing = f"sysgym list lists all {len(players)}"
    if own:
        hint = "or write TRANSPORT:AGENT"
    return UnknownName(f"contender of the family {family.name}", name, players, hint=hint, listing=listing)
