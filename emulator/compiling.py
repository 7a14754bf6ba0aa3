"""Compiled functions with a robust cache on disk.

numba raises the errors of its cache, such as a file truncated by a full disk or a crash, or a read-only
folder. Here a damaged file is removed and the function compiled anew, and a program also runs where nothing
can be cached.

numba's cache checks only the file of the cached function, although functions and record types of other files
are compiled into it. Here a function belongs to a package, and is compiled again when any file of that
package has changed.
"""

from __future__ import annotations

import hashlib
import importlib
import os
import sys
import threading
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
from numba.core import event
from numba.core.caching import FunctionCache, IndexDataCacheFile, NullCache
from numba.core.ccallback import CFunc

from sysgym.emulator import first_start
from sysgym.emulator.optimising import whole
from sysgym.scenarios.interrupts import interrupts_deferred

KernelT = TypeVar("KernelT", bound=Callable[..., Any])

_OURS = "sysgym."
_PACKAGE_DEPTH = 3  # sysgym.emulator.packets
_told: set[str] = set()


def cached_kernel(*packages: str) -> Callable[[KernelT], KernelT]:
    """Return a decorator that compiles a function when it is first called, for the types of that call.

    The function is cached on disk until a file of its own package (such as ``sysgym.emulator.packets``, with
    everything below) changes. It runs without the interpreter lock.

    Args:
        packages: Import names of further packages whose functions or records are compiled into it.
    """

    def compile_later(function: KernelT) -> KernelT:
        made: Any = numba.njit(nogil=True)(function)
        made._cache = _cache_of(function, _digest_of_packages(function, packages))
        return cast("KernelT", made)

    return compile_later


def compile_for(
    signature: Any, function: Callable[..., Any], packages: Iterable[str] = (), **options: Any
) -> Any:
    """Compile a function now, for one signature.

    Args:
        signature: Signature of numba.
        function: Function to compile.
        packages: As for :func:`cached_kernel`.
        options: Options of ``numba.njit``; a function compiled with other options is cached separately.

    Raises:
        numba.core.errors.NumbaError: If it cannot be compiled.
    """
    made: Any = numba.njit(**options)(function)
    variant = f"{sorted(options.items())!r} {_digest_of_packages(function, packages)}"
    made._cache = _cache_of(function, variant)
    made.compile(signature)
    made.disable_compile()
    return made


def address_of(made: Any, signature: Any) -> int:
    """Return the address of a function of :func:`compile_for`, with numba's calling convention."""
    result = made.get_compile_result(signature)
    return int(result.library.get_pointer_to_function(result.fndesc.llvm_func_name))


def c_function(signature: Any, function: Callable[..., Any]) -> Any:
    """Compile a C function now."""
    made: Any = CFunc(function, (signature.args, signature.return_type), locals={}, options={})
    made._cache = _cache_of(function, _digest_of_packages(function))
    with whole():
        made.compile()
    return made


def source_digest(folder: Path) -> str:
    """Return a digest of the names and contents of the Python files of a folder and all folders below it."""
    digest = hashlib.sha256()
    for path in sorted(folder.rglob("*.py")):
        content = path.read_bytes()
        digest.update(f"{path.relative_to(folder).as_posix()} {len(content)}\n".encode())
        digest.update(content)
    return digest.hexdigest()


def _digest_of_packages(function: Callable[..., Any], more: Iterable[str] = ()) -> str:
    """Return the digests of the package that a function belongs to, if any, and of other packages."""
    own = ".".join(function.__module__.split(".")[:_PACKAGE_DEPTH])
    # A package is imported before its modules, but a module that is loaded from a file has no package.
    names = {*more, own} if own.startswith(_OURS) and own in sys.modules else set(more)
    return " ".join(map(_package_digest, sorted(names)))


@cache
def _package_digest(name: str) -> str:
    """Return the digest of a package's files; "" for a module, which numba's cache checks itself."""
    folders = getattr(importlib.import_module(name), "__path__", ())
    return " ".join(source_digest(Path(folder)) for folder in folders)


class _WithoutInterrupts(event.Listener, threading.local):
    """Defers Ctrl-C until this thread has compiled, or loaded, the outermost function at hand.

    LLVM calls Python functions of numba while it links a module. An exception in such a call is lost, and can
    end the process with a segmentation fault.
    """

    def __init__(self) -> None:
        self._depth = 0
        self._deferred = ExitStack()

    def on_start(self, event: Any) -> None:
        self._depth += 1
        if self._depth == 1:
            self._deferred.enter_context(interrupts_deferred())

    def on_end(self, event: Any) -> None:
        self._depth -= 1
        if self._depth == 0:
            self._deferred.close()


event.register("numba:compiler_lock", _WithoutInterrupts())  # type: ignore[no-untyped-call]


class _Announced:
    """Announcement that a function of the package is being compiled because it is not in the cache."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._name = function.__name__ if function.__module__.startswith(_OURS) else ""

    def begin(self) -> None:
        if self._name:
            first_start.compiling(self._name)

    def end(self) -> None:
        if self._name:
            first_start.compiled()


class _FilesByKey(IndexDataCacheFile):
    """Files of a function's compiled code, each of which has a name that follows from what it is for.

    numba numbers them by its index. Two processes that compile one function for different types, or two
    closures of one function, at the same time take the same number, and the index then leads to the code of
    the other: a law with another law's constants. Here the worst that they do is to lose an index entry.
    """

    def save(self, key: Any, data: Any) -> None:
        """Store compiled code, and then its place in the index."""
        name = self.name_of(key)
        self._save_data(name, data)  # type: ignore[no-untyped-call]
        self._save_index({**self._load_index(), key: name})  # type: ignore[no-untyped-call]

    def name_of(self, key: Any) -> str:
        """Return the name of the file for a key of the index."""
        digest = hashlib.sha256(repr((key, self._source_stamp)).encode()).hexdigest()
        return str(self._data_name(int(digest[:16], 16)))  # type: ignore[no-untyped-call]


class _KeptOnDisk(FunctionCache):
    """Cache of one function on disk.

    Args:
        function: The function.
        variant: Further dependencies: the options of the compilation, and the packages compiled into it.
    """

    def __init__(self, function: Callable[..., Any], variant: str = "") -> None:
        super().__init__(function)  # type: ignore[no-untyped-call]
        self._variant, self._announced = variant, _Announced(function)
        place = self._impl.locator
        self._cache_file = _FilesByKey(  # type: ignore[no-untyped-call]
            place.get_cache_path(), self._impl.filename_base, place.get_source_stamp()
        )

    def load_overload(self, sig: Any, target_context: Any) -> Any:
        """Return the function for a signature; None if it must be compiled."""
        try:
            found = super().load_overload(sig, target_context)  # type: ignore[no-untyped-call]
        except Exception:  # a damaged pickle can raise any exception
            self._clear()
            found = None
        if found is None:
            self._announced.begin()
        return found

    def save_overload(self, sig: Any, data: Any) -> None:
        """Store a compiled function, if possible."""
        try:
            super().save_overload(sig, data)  # type: ignore[no-untyped-call]
        except OSError as error:
            _tell_once(f"compiled code cannot be kept in {self.cache_path}: {error.strerror}; {_REMEDY}")
        finally:
            self._announced.end()

    def _index_key(self, sig: Any, codegen: Any) -> tuple[Any, ...]:
        key: tuple[Any, ...] = super()._index_key(sig, codegen)  # type: ignore[no-untyped-call]
        return (*key, self._variant) if self._variant else key

    def _clear(self) -> None:
        folder, base = Path(self.cache_path), self._impl.filename_base
        _tell_once(f"damaged files of compiled code in {folder}: they are removed and compiled anew")
        for path in (folder / f"{base}.nbi", *folder.glob(f"{base}.*.nbc")):
            try:
                path.unlink(missing_ok=True)
            except OSError as error:
                _tell_once(f"{path} cannot be removed: {error.strerror}; {_REMEDY}")


class _NotKept(NullCache):
    """Null cache, for functions that cannot be cached in any folder."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self._announced = _Announced(function)

    def load_overload(self, sig: Any, target_context: Any) -> None:
        self._announced.begin()

    def save_overload(self, sig: Any, cres: Any) -> None:
        self._announced.end()


_REMEDY = "every start compiles until NUMBA_CACHE_DIR names a folder that can be written to"


def _cache_of(function: Callable[..., Any], variant: str = "") -> Any:
    try:
        return _KeptOnDisk(function, variant)
    except RuntimeError:  # numba found no usable folder
        if os.path.exists(function.__code__.co_filename):  # interactive code has no file
            _tell_once(f"compiled code cannot be kept anywhere; {_REMEDY}")
        return _NotKept(function)


def _tell_once(words: str) -> None:
    if words not in _told:
        _told.add(words)
        first_start.LOG.warning(words)
