"""Registry of families: those of the package, of other packages, and of the user's files.

The families of the package are the folders of ``envs/`` that declare one. Other packages name theirs in the
entry-point group ``sysgym.families``. Both are loaded on first use.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from importlib import import_module, metadata
from pkgutil import iter_modules
from types import MappingProxyType
from typing import TYPE_CHECKING

from sysgym.scenarios.errors import SysgymError, UnknownName
from sysgym.scenarios.family import Environment, Evaluation, Family, load_entry

if TYPE_CHECKING:
    from sysgym.scenarios.schema.scenario import Scenario

GROUP = "sysgym.families"
"""Entry-point group in which other packages name their families."""

PACKAGE = "sysgym.envs"
"""Package whose folders declare the families of sysgym itself."""

_FAMILIES: dict[str, Family] = {}
_LISTENERS: list[Callable[[Environment], None]] = []
_waiting: list[metadata.EntryPoint] | None = None  # entry points still to load; None before the first search


class FamilyWarning(UserWarning):
    """Warning that a family of another package cannot be used."""


def families() -> Mapping[str, Family]:
    """Return all families by name, those of the package first."""
    global _waiting
    if _waiting is None:
        _waiting = []
        for family in _own():
            register_family(family)
        _waiting = sorted(metadata.entry_points(group=GROUP), key=lambda entry: entry.name)
    if _waiting:
        found, _waiting = _waiting, []
        for entry in found:
            _load(entry)
    return MappingProxyType(_FAMILIES)


def get_family(name: str) -> Family:
    """Return a family.

    Args:
        name: Name of the family, as in scenario files.

    Raises:
        UnknownName: If there is no such family.
    """
    known = families()
    if name not in known:
        raise UnknownName("family", name, known, hint="or install the package that brings it")
    return known[name]


def evaluation_of(family: str, env_id: str = "") -> Evaluation:
    """Return how results of a family are evaluated.

    Args:
        family: Name of the family.
        env_id: Id of the environment; empty for the family's default.

    Raises:
        UnknownName: If there is no such family.
    """
    return get_family(family).evaluation_of(env_id)


def family_with_transports() -> Family:
    """Return the default family of contenders, the first one with transports."""
    return next(family for family in families().values() if family.transports is not None)


def register_family(family: Family) -> Family:
    """Register a family in this process.

    Args:
        family: Declaration of the family.

    Raises:
        SysgymError: If its name, or the id of one of its environments, is taken by another family.
    """
    families()
    known = _FAMILIES.get(family.name)
    if known is not None and known != family:
        raise SysgymError(f'the family "{family.name}" exists already; choose another name')
    for environment in family.environments:
        _check_free(family.name, environment)
    _FAMILIES[family.name] = family
    for environment in family.environments:
        _tell(environment)
    return family


def add_environment(name: str, environment: Environment) -> None:
    """Add an environment to a family, in this process.

    Args:
        name: Name of the family.
        environment: Environment to add; one that the family already has changes nothing.

    Raises:
        UnknownName: If there is no such family.
        SysgymError: If its id is taken.
    """
    family = get_family(name)
    _check_free(name, environment)
    if family.environment(environment.env_id) is None:
        _FAMILIES[name] = replace(family, environments=(*family.environments, environment))
        _tell(environment)


def on_environment(listener: Callable[[Environment], None]) -> None:
    """Call a function for every environment, registered already or later."""
    for family in families().values():
        for environment in family.environments:
            listener(environment)
    _LISTENERS.append(listener)


def scenario_model(family: str) -> type[Scenario]:
    """Return the schema of a family.

    Args:
        family: Name of the family.

    Raises:
        UnknownName: If there is no such family.
    """
    from sysgym.scenarios.schema.scenario import Scenario

    model = load_entry(get_family(family).scenario)
    assert isinstance(model, type)
    assert issubclass(model, Scenario)
    return model


def _own() -> Iterator[Family]:
    """Yield the families declared by folders of the package, by name."""
    for found in sorted(iter_modules(import_module(PACKAGE).__path__), key=lambda found: found.name):
        if found.ispkg:
            family = getattr(import_module(f"{PACKAGE}.{found.name}"), "FAMILY", None)
            if isinstance(family, Family):
                yield family


def _load(entry: metadata.EntryPoint) -> None:
    """Register the family of another package; warn if it cannot be used."""
    if _is_being_imported(entry.module):
        assert _waiting is not None
        _waiting.append(entry)  # its module is importing sysgym: try again later
        return
    try:
        family = entry.load()
        if not isinstance(family, Family):
            raise SysgymError(f"{entry.value} is a {type(family).__name__}, not a Family")
        register_family(family)
    except Exception as error:  # a third-party module may raise anything
        package = entry.dist.name if entry.dist is not None else entry.module
        warn_unusable(f'the family "{entry.name}"', package, error)


def warn_unusable(what: str, package: str, error: Exception) -> None:
    """Warn that a part of another package cannot be used.

    Args:
        what: Name of the part.
        package: Name of the package.
        error: Cause of the failure.
    """
    words = str(error) if isinstance(error, SysgymError) else f"{type(error).__name__}: {error}"
    warnings.warn(
        f"{what} of the package {package} cannot be used: {words}; mend, update or uninstall that package",
        FamilyWarning,
        stacklevel=3,
    )


def _is_being_imported(module: str) -> bool:
    spec = getattr(sys.modules.get(module), "__spec__", None)
    return bool(getattr(spec, "_initializing", False))


def _check_free(name: str, environment: Environment) -> None:
    for other in _FAMILIES.values():
        known = other.environment(environment.env_id)
        if known is not None and (other.name != name or known != environment):
            raise SysgymError(
                f'the environment "{environment.env_id}" exists already, in the family "{other.name}"'
            )


def _tell(environment: Environment) -> None:
    for listener in _LISTENERS:
        listener(environment)
