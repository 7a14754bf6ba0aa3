"""eBPF objects: compiled with clang at first use, kept in a cache folder, loaded through libbpf.

A program's source names everything ``..._0000``. On loading, these four digits are replaced by the service's
own in the compiled object, so that one cached object serves every service and a service's objects can be
recognized by name. Nothing is pinned to a file system: the kernel frees programs and maps when the last
process that holds them ends, however it ends.
"""

from __future__ import annotations

import ctypes
import functools
import hashlib
import mmap
import os
import platform
import shutil
import stat
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sysgym.scenarios.errors import BackendError, BackendUnavailable

SOURCES = Path(__file__).parents[1] / "bpf"
KERNEL_TYPES = Path("/sys/kernel/btf/vmlinux")
PLACEHOLDER = b"_0000"

_INSTALL = "apt-get install clang libbpf-dev"
_BTF_REMEDY = "boot a kernel with CONFIG_DEBUG_INFO_BTF=y (those of Debian 12 and Ubuntu 22.04 have it)"
_TARGETS = {"x86_64": "x86", "aarch64": "arm64", "riscv64": "riscv", "s390x": "s390", "ppc64le": "powerpc"}
_NAME_LENGTH = 16
_ENTRY_BYTES = 8  # entries of an array map begin at multiples of it
_ATTACH_STRUCT_OPS = 44  # enum bpf_attach_type, linux/bpf.h
_F_LINK = 1 << 13  # BPF_F_LINK: registered for as long as a link exists
_ENOENT = 2
KINDS = {"map": "map", "prog": "program"}


def unavailable(missing: str, remedy: str) -> BackendUnavailable:
    """Return the error for a missing requirement of this machine."""
    return BackendUnavailable("linux", missing, remedy)


def cache_folder() -> Path:
    """Return the folder of compiled objects; it is made if it is missing.

    Root loads these objects into the kernel, so nobody else may be able to write to the folder or to a folder
    above it. Where the user's cache folder is not as safe (``sudo`` with another user's home), the folder is
    ``/var/cache/sysgym``.

    Raises:
        BackendUnavailable: There is no folder that only this user can write to.
    """
    home = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    for folder in (Path(home) / "sysgym" / "bpf", Path("/var/cache/sysgym/bpf")):
        try:
            folder.mkdir(mode=0o755, parents=True, exist_ok=True)
        except OSError:
            continue
        if folder.is_absolute() and all(_only_ours(part) for part in (folder, *folder.parents)):
            return folder
    raise unavailable(
        "a cache folder that only this user can write to", "set XDG_CACHE_HOME to a folder of your own"
    )


def _only_ours(folder: Path) -> bool:
    status = folder.stat()
    sticky = bool(status.st_mode & stat.S_ISVTX)  # /tmp: other users cannot rename files that are not theirs
    return status.st_uid in {0, os.geteuid()} and (sticky or not status.st_mode & 0o022)


def compiled(name: str) -> Path:
    """Return the path of the object compiled from ``bpf/<name>.bpf.c``; compile it if it is not cached.

    The cache's key is the digest of all sources, the compiler's version, the flags and the kernel's release.

    Raises:
        BackendUnavailable: There is no clang, no header of libbpf, or no BTF.
        BackendError: The compiler refuses the source; the detail has its output.
    """
    if not KERNEL_TYPES.exists():
        raise unavailable("the kernel's type information (BTF, /sys/kernel/btf/vmlinux)", _BTF_REMEDY)
    clang = shutil.which("clang")
    if clang is None:
        raise unavailable("clang, which compiles the eBPF programs", _INSTALL)
    if not Path("/usr/include/bpf/bpf_helpers.h").exists():
        raise unavailable("the headers of libbpf (bpf/bpf_helpers.h)", _INSTALL)
    source = SOURCES / f"{name}.bpf.c"
    flags = _flags()
    digest = hashlib.sha256(repr((_version_of(clang), flags, os.uname().release)).encode())
    for text in (source, *sorted(SOURCES.rglob("*.h"))):
        digest.update(text.read_bytes())
    target = cache_folder() / f"{name}-{digest.hexdigest()[:24]}.o"
    if not target.exists():
        partial = target.with_suffix(f".{os.getpid()}")
        run = subprocess.run(
            [clang, *flags, f"-I{SOURCES}", "-c", str(source), "-o", str(partial)],
            capture_output=True,
            text=True,
            check=False,
        )
        if run.returncode != 0:
            raise BackendError(f"clang cannot compile {source.name}", run.stderr[-4000:])
        partial.replace(target)
    return target


def _flags() -> list[str]:
    machine = platform.machine()
    major, minor = (int(part) for part in os.uname().release.split(".")[:2])
    flags = ["-O2", "-g", "-target", "bpf", "-mcpu=v3", "-Wall", "-Werror"]
    flags += [f"-D__TARGET_ARCH_{_TARGETS.get(machine, machine)}", f"-DKERNEL={major * 1000 + minor}"]
    # Debian keeps asm/types.h in an architecture's folder, which clang does not search for this target.
    return flags + [f"-idirafter{path.parent.parent}" for path in Path("/usr/include").glob("*/asm/types.h")]


@functools.cache
def _version_of(clang: str) -> str:
    return subprocess.run([clang, "--version"], capture_output=True, text=True, check=True).stdout


class _Info(ctypes.Structure):
    """First fields of struct bpf_map_info (linux/bpf.h)."""

    _fields_ = [
        ("type", ctypes.c_uint32),
        ("id", ctypes.c_uint32),
        ("key_size", ctypes.c_uint32),
        ("value_size", ctypes.c_uint32),
        ("max_entries", ctypes.c_uint32),
        ("map_flags", ctypes.c_uint32),
        ("name", ctypes.c_char * _NAME_LENGTH),
    ]


class _ProgramInfo(ctypes.Structure):
    """First fields of struct bpf_prog_info (linux/bpf.h)."""

    _fields_ = [("before", ctypes.c_uint8 * 64), ("name", ctypes.c_char * _NAME_LENGTH)]


_INFO: dict[str, type[Any]] = {"map": _Info, "prog": _ProgramInfo}


@functools.cache
def libbpf() -> ctypes.CDLL:
    """Return libbpf with the signatures of the functions used here.

    Raises:
        BackendUnavailable: It is not installed.
    """
    try:
        library = ctypes.CDLL("libbpf.so.1", use_errno=True)
    except OSError:
        raise unavailable("libbpf 1.x (libbpf.so.1)", "apt-get install libbpf1") from None
    pointer, text = ctypes.c_void_p, ctypes.c_char_p
    for name, result, arguments in (
        ("bpf_object__open_mem", pointer, [text, ctypes.c_size_t, pointer]),
        ("bpf_object__load", ctypes.c_int, [pointer]),
        ("bpf_object__close", None, [pointer]),
        ("bpf_object__find_map_by_name", pointer, [pointer, text]),
        ("bpf_object__find_program_by_name", pointer, [pointer, text]),
        ("bpf_object__find_map_fd_by_name", ctypes.c_int, [pointer, text]),
        ("bpf_program__fd", ctypes.c_int, [pointer]),
        ("bpf_map__fd", ctypes.c_int, [pointer]),
        ("bpf_map__reuse_fd", ctypes.c_int, [pointer, ctypes.c_int]),
        ("bpf_map__set_map_flags", ctypes.c_int, [pointer, ctypes.c_uint32]),
        ("bpf_map__attach_struct_ops", pointer, [pointer]),
        ("bpf_link__destroy", ctypes.c_int, [pointer]),
        ("bpf_link_create", ctypes.c_int, [ctypes.c_int, ctypes.c_int, ctypes.c_int, pointer]),
        ("bpf_map_get_next_id", ctypes.c_int, [ctypes.c_uint32, ctypes.POINTER(ctypes.c_uint32)]),
        ("bpf_prog_get_next_id", ctypes.c_int, [ctypes.c_uint32, ctypes.POINTER(ctypes.c_uint32)]),
        ("bpf_map_get_fd_by_id", ctypes.c_int, [ctypes.c_uint32]),
        ("bpf_prog_get_fd_by_id", ctypes.c_int, [ctypes.c_uint32]),
        ("bpf_obj_get_info_by_fd", ctypes.c_int, [ctypes.c_int, pointer, ctypes.POINTER(ctypes.c_uint32)]),
        ("libbpf_set_print", pointer, [pointer]),
        ("libbpf_minor_version", ctypes.c_uint32, []),
    ):
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    library.libbpf_set_print(None)  # the kernel's messages come with the error, not on the terminal
    return library


class LoadedObject:
    """An eBPF object in the kernel, named for a service; it is freed when this process releases it."""

    def __init__(self, name: str, sid: str) -> None:
        self.name = name
        self._library = libbpf()
        self._links: list[int] = []  # descriptors
        self._registrations: list[int] = []  # libbpf's own links
        image = compiled(name).read_bytes().replace(PLACEHOLDER, b"_" + sid.encode())
        self._handle: int | None = self._library.bpf_object__open_mem(image, len(image), None)
        if not self._handle:
            raise BackendError(f"libbpf cannot read the compiled {name} program", _errno_text())

    def load(self) -> None:
        """Load programs and maps into the kernel.

        Raises:
            BackendUnavailable: This process lacks the privilege, or the kernel a feature that the program
                uses.
        """
        if self._library.bpf_object__load(self._handle) < 0:
            error = ctypes.get_errno()
            remedy = "run as root" if os.geteuid() != 0 else "use a kernel 6.4 or later with BTF"
            raise unavailable(
                f"a kernel that takes the eBPF program {self.name} ({os.strerror(error)})", remedy
            )

    def map_fd(self, name: str) -> int:
        """Return the descriptor of a map, given its full name."""
        return int(self._library.bpf_object__find_map_fd_by_name(self._handle, name.encode()))

    def program_fd(self, name: str) -> int:
        """Return the descriptor of a program, given its full name."""
        program = self._library.bpf_object__find_program_by_name(self._handle, name.encode())
        return int(self._library.bpf_program__fd(program))

    def use_map_of(self, other: LoadedObject, name: str) -> None:
        """Use a map of another object instead of an own one; call before :meth:`load`."""
        own = self._library.bpf_object__find_map_by_name(self._handle, name.encode())
        self._library.bpf_map__reuse_fd(own, other.map_fd(name))

    def register_for_as_long_as_this_process(self, name: str) -> None:
        """Request a registration that ends with its link; call before :meth:`load`."""
        operations = self._library.bpf_object__find_map_by_name(self._handle, name.encode())
        self._library.bpf_map__set_map_flags(operations, _F_LINK)

    def register(self, name: str) -> None:
        """Register a table of operations (struct_ops), like a congestion control; call after :meth:`load`."""
        library = self._library
        operations = library.bpf_object__find_map_by_name(self._handle, name.encode())
        link = library.bpf_map__attach_struct_ops(operations)
        if not link:
            raise unavailable(f"struct_ops for {name} ({_errno_text()})", "use a kernel 6.4 or later")
        if library.libbpf_minor_version() >= 2:
            self._registrations.append(link)
            return
        # Before 1.2 libbpf only fills in the table; the link is made here.
        descriptor = library.bpf_link_create(library.bpf_map__fd(operations), 0, _ATTACH_STRUCT_OPS, None)
        if descriptor < 0:
            raise unavailable(f"struct_ops links for {name} ({_errno_text()})", "use a kernel 6.4 or later")
        self._links.append(descriptor)

    def close(self) -> None:
        """Release the object; the kernel frees what nobody else uses."""
        for descriptor in self._links:
            os.close(descriptor)
        self._links.clear()
        for link in self._registrations:
            self._library.bpf_link__destroy(link)
        self._registrations.clear()
        if self._handle:
            self._library.bpf_object__close(self._handle)
        self._handle = None


def find_map(name: str) -> int:
    """Return the descriptor of the map of that name, whichever process loaded it.

    Raises:
        BackendError: There is no such map.
    """
    return _find(name, "map")


def find_program(name: str) -> int:
    """Return the descriptor of the program of that name.

    Raises:
        BackendError: There is no such program.
    """
    return _find(name, "prog")


def run_times(part: str) -> dict[int, tuple[int, int]]:
    """Return nanoseconds and number of runs of the programs with such a part in their names, by program.

    The kernel counts them while its setting ``kernel.bpf_stats_enabled`` is 1. It keeps 15 characters of a
    program's name, that of its function.

    Raises:
        BackendUnavailable: There is no libbpf, or this process may not list the programs.
    """
    found = {}
    for descriptor in _descriptors("prog"):
        lines = Path(f"/proc/self/fdinfo/{descriptor}").read_text().splitlines()
        of_program = dict(line.split(":\t", 1) for line in lines if ":\t" in line)
        name = _name_of(descriptor, _INFO["prog"])
        os.close(descriptor)
        if part in name:
            found[int(of_program["prog_id"])] = int(of_program["run_time_ns"]), int(of_program["run_cnt"])
    return found


def names(kind: str) -> Iterator[str]:
    """Yield the names of all objects of a kind (one of :data:`KINDS`) in the kernel, whoever loaded them.

    Raises:
        BackendUnavailable: There is no libbpf, or this process may not list the objects.
    """
    for descriptor in _descriptors(kind):
        yield _name_of(descriptor, _INFO[kind])
        os.close(descriptor)


def _find(name: str, kind: str) -> int:
    for descriptor in _descriptors(kind):
        if _name_of(descriptor, _INFO[kind]) == name:
            return descriptor
        os.close(descriptor)
    raise BackendError(f"no eBPF {KINDS[kind]} in the kernel is named {name}: has its service ended?")


def _descriptors(kind: str) -> Iterator[int]:
    library = libbpf()
    following = getattr(library, f"bpf_{kind}_get_next_id")
    open_by_id = getattr(library, f"bpf_{kind}_get_fd_by_id")
    number = ctypes.c_uint32(0)
    while following(number.value, ctypes.byref(number)) == 0:
        descriptor = open_by_id(number.value)
        if descriptor >= 0:
            yield descriptor
        elif ctypes.get_errno() != _ENOENT:  # an object that has gone since then is not an error
            raise unavailable(f"the right to look at eBPF objects ({_errno_text()})", "run as root")


def _name_of(descriptor: int, info: type[Any]) -> str:
    found, size = info(), ctypes.c_uint32(ctypes.sizeof(info))
    if libbpf().bpf_obj_get_info_by_fd(descriptor, ctypes.byref(found), ctypes.byref(size)) < 0:
        return ""
    return bytes(found.name).decode()


def _errno_text() -> str:
    return os.strerror(ctypes.get_errno())


def map_into_memory(descriptor: int, record: np.dtype[Any], length: int) -> NDArray[Any]:
    """Map an array map into memory as a NumPy array of records, shared with the kernel.

    Args:
        descriptor: Descriptor of the map; it may be closed afterwards.
        record: Layout of one value.
        length: Number of entries.
    """
    stride = -(-record.itemsize // _ENTRY_BYTES) * _ENTRY_BYTES
    size = -(-stride * length // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(descriptor, size, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE)
    one = np.empty(1, record)
    return np.ndarray((length, *record.shape), record.base, memory, strides=(stride, *one.strides[1:]))
