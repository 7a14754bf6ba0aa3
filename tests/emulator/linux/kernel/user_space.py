"""Headers of the kernel's programs that do not use the kernel, compiled for user space."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
from pathlib import Path

import pytest

from sysgym.emulator.linux.kernel.bpf_objects import SOURCES

_FLAGS = ("-O1", "-ftrapv", "-Wall", "-Wno-unknown-pragmas", "-Werror", "-shared", "-fPIC")


def compiled_for_user_space(code: str, folder: Path) -> ctypes.CDLL:
    """Compiles C that includes headers of ``bpf/`` and loads it; skips the test without a compiler."""
    compiler = shutil.which("clang") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler")
    source, library = folder / "code.c", folder / "code.so"
    source.write_text(code)
    subprocess.run([compiler, *_FLAGS, f"-I{SOURCES}", str(source), "-o", str(library)], check=True)
    return ctypes.CDLL(str(library))
