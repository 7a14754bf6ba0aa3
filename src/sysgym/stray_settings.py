"""Files of settings in the current folder, which may be a stranger's: numba and matplotlib do without them.

Both libraries read such a file when they are imported. numba's can name a folder of compiled functions, which
are read with pickle, so that code would run; matplotlib's decides what a picture looks like.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType


def ignore_numbas() -> None:
    """Have numba, once it is imported, read environment variables only."""
    _install(_Finder("numba.core.config", _NumbaConfig))


def ignore_matplotlibs() -> None:
    """Have matplotlib, once it is imported, draw with its own defaults; no file of the user counts either."""
    _install(_Finder("matplotlib", _Matplotlib))


class _NumbaConfig(SourceFileLoader):
    """Loads ``numba.core.config``, which looks for the file again whenever something is compiled."""

    def get_code(self, fullname: str) -> CodeType | None:
        code = super().get_code(fullname)
        return code and _without_file(code, ".numba_config.yaml")


class _Matplotlib(SourceFileLoader):
    """Loads ``matplotlib``; its defaults are in a file of the same name, which another function reads."""

    def get_code(self, fullname: str) -> CodeType | None:
        code = super().get_code(fullname)
        return code and _without_file(code, "matplotlibrc", "matplotlib_fname")


class _Finder(MetaPathFinder):
    """Finds one module where it is, for another loader.

    Args:
        name: Of the module.
        loader: Its loader.
    """

    def __init__(self, name: str, loader: type[SourceFileLoader]) -> None:
        self.name, self._loader = name, loader

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self.name:
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if spec is not None and spec.origin is not None:
            spec.loader = self._loader(fullname, spec.origin)
        return spec


def _install(finder: _Finder) -> None:
    if not any(isinstance(one, _Finder) and one.name == finder.name for one in sys.meta_path):
        sys.meta_path.insert(0, finder)


def _without_file(code: CodeType, file: str, function: str | None = None) -> CodeType:
    """Return code that finds an empty file for one it names; no attribute is there before it is read.

    Args:
        code: Of a module or a function.
        file: Name of the file.
        function: Where it is named, functions inside included; None: anywhere.
    """

    def instead(constant: object) -> object:
        if isinstance(constant, CodeType):
            inside = None if constant.co_name == function else function
            return _without_file(constant, file, inside)
        return os.devnull if function is None and constant == file else constant

    return code.replace(co_consts=tuple(instead(constant) for constant in code.co_consts))
