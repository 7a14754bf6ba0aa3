"""Protection from settings of numba and matplotlib in the current folder, which may be untrusted.

Both libraries read a settings file when they are imported. The file of numba can set a folder of compiled
functions, which are unpickled and can therefore run code. The file of matplotlib changes the appearance of
pictures.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from types import CodeType, ModuleType


def ignore_numbas() -> None:
    """Make numba read only environment variables when it is imported."""
    _install(_Finder("numba.core.config", _NumbaConfig))


def ignore_matplotlibs() -> None:
    """Make matplotlib use its defaults and ignore all settings of the user when it is imported."""
    _install(_Finder("matplotlib", _Matplotlib))


class _NumbaConfig(SourceFileLoader):
    """Loader of ``numba.core.config`` without its settings file, which numba rereads at every compilation."""

    def get_code(self, fullname: str) -> CodeType | None:
        code = super().get_code(fullname)
        return code and _without_file(code, ".numba_config.yaml")


class _Matplotlib(SourceFileLoader):
    """Loader of ``matplotlib`` that changes only ``matplotlib_fname``.

    The defaults are in a file of the same name, which is read elsewhere.
    """

    def get_code(self, fullname: str) -> CodeType | None:
        code = super().get_code(fullname)
        return code and _without_file(code, "matplotlibrc", "matplotlib_fname")


class _Finder(MetaPathFinder):
    """Finder that assigns another loader to one module.

    Args:
        name: Name of the module.
        loader: Loader to use.
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
    """Return code in which the name of a file is replaced by that of an empty file.

    The code is changed because the module reads the file during its import, before attributes can be set.

    Args:
        code: Code of a module or a function.
        file: Name of the file.
        function: Function whose code, inner functions included, is changed; None: all code.
    """

    def instead(constant: object) -> object:
        if isinstance(constant, CodeType):
            inside = None if constant.co_name == function else function
            return _without_file(constant, file, inside)
        return os.devnull if function is None and constant == file else constant

    return code.replace(co_consts=tuple(instead(constant) for constant in code.co_consts))
