"""Plugins: Python files of users that register transports, agents and environments."""

from __future__ import annotations

import hashlib
import sys
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from sysgym.errors import ResultMismatch, SysgymError
from sysgym.scenarios.files import read_limited

LARGEST_PLUGIN_BYTES = 10_000_000
"""Maximum size of a plugin file."""


class PluginFile(NamedTuple):
    """User's Python file with its digest, which another process checks before it imports the file.

    Attributes:
        path: Path of the file.
        sha256: Digest of the file.
    """

    path: str
    sha256: str


@dataclass(frozen=True)
class Plugin:
    """Imported Python file of a user, and the names that it registered.

    Attributes:
        path: Path of the file.
        sha256: Digest of the file.
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
        """Path and digest from which another process can import the same file."""
        return PluginFile(self.path, self.sha256)


_LOADED: dict[Path, Plugin] = {}


def load_plugin(path: str | Path, sha256: str | None = None) -> Plugin:
    """Import a user's Python file once per process, so that the file can register its parts.

    The compiled source is exactly the content whose digest was computed. Later changes of the file and cached
    bytecode have no effect.

    Args:
        path: A file that calls ``register_transport``, ``register_agent`` or ``register_environment``.
        sha256: Required digest; None: any.

    Raises:
        ResultMismatch: If the file has another digest; it is not executed.
        SysgymError: If the file cannot be read, cannot be imported or registers nothing.
    """
    from sysgym.agents import list_agents
    from sysgym.emulator.packets.transports import list_transports
    from sysgym.registration import ENVIRONMENTS

    file = Path(path).expanduser().resolve()
    known = _LOADED.get(file)
    source = read_limited(file, LARGEST_PLUGIN_BYTES) if known is None else b""
    digest = hashlib.sha256(source).hexdigest() if known is None else known.sha256
    if sha256 not in (None, digest):
        raise ResultMismatch(f"{path}: expected a file with digest {sha256[:12]}, got {digest[:12]}")
    if known is not None:
        return known
    if file.suffix != ".py":
        raise SysgymError(f"{path}: not a Python file")
    # The module has the file's name, as with `import`, because pickles and numba's cache on disk use it.
    if file.stem in sys.modules:
        raise SysgymError(f'{path}: another module named "{file.stem}" is loaded already; rename the file')
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
        del sys.modules[file.stem]  # so that the user can correct the file and load it again
        raise SysgymError(
            f"{path}: expected a file that registers a new transport, agent or environment; it registers none"
        )
    _LOADED[file] = new
    return new
