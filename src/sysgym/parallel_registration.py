"""Registration of multi-agent environments with PettingZoo, whose newer releases have a registry.

PettingZoo takes longer to import than sysgym, so it is not imported here. The ids are registered immediately
if PettingZoo has already been imported, otherwise when it is imported.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import ModuleType

from sysgym.scenarios.families import families

_NAME = "pettingzoo"


def register_with_pettingzoo() -> None:
    """Register the environments of all families, now or when PettingZoo is imported."""
    if _NAME in sys.modules:
        _register(sys.modules[_NAME])
    elif not any(isinstance(one, _Finder) for one in sys.meta_path):
        sys.meta_path.insert(0, _Finder())


def _register(pettingzoo: ModuleType) -> None:
    """Register the missing environments; do nothing for a release without a registry."""
    registry = getattr(pettingzoo, "parallel_registry", None)
    if registry is None:
        return
    for family in families().values():
        for env_id, entry_point in family.parallel.items():
            if env_id not in registry:
                pettingzoo.register("parallel", env_id, entry_point)


class _Loader(SourceFileLoader):
    """Loader of PettingZoo that registers the environments after loading it."""

    def exec_module(self, module: ModuleType) -> None:
        super().exec_module(module)
        _register(module)


class _Finder(MetaPathFinder):
    """Finder that handles only PettingZoo."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != _NAME:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = _Loader(fullname, spec.origin)
        return spec
