#!/usr/bin/env bash
# Create .venv and install sysgym into it, editable, with the versions of constraints.txt.
#
# Finds a Python >= 3.11 (or takes $PYTHON), installs Debian's venv package if that is all that is missing,
# and uses uv for the packages because it takes seconds where pip takes a minute; where uv cannot
# (a mirror that only pip's configuration knows), pip does the same work.
set -euo pipefail
cd "$(dirname "$0")/.."

venv=.venv
extras=train,stragglers,placement,multiagent,traces,video,human,parquet,chakra,emulator,export,live,labs,ray,slurm,graphs,minari,hub,docs,dev
log=$venv/install.log
started=$SECONDS

say() { printf '[set-up %3ds] %s\n' "$((SECONDS - started))" "$*"; }
fail() { printf 'set-up: %s\n' "$*" >&2; exit 1; }

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }

find_python() {
    local candidate
    for candidate in ${PYTHON:-python3 python3.13 python3.12 python3.11 python3.14 python}; do
        if new_enough "$candidate"; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

# `pip config get` reads the files, the PIP_ variables win over them, as for pip itself.
find_links() {
    echo "${UV_FIND_LINKS:-${PIP_FIND_LINKS:-$("$venv/bin/python" -m pip config get global.find-links 2>/dev/null || true)}}"
}

python=$(find_python) || fail "sysgym needs Python 3.11 or later, and ${PYTHON:-python3} is $(
    "${PYTHON:-python3}" --version 2>/dev/null || echo 'not there'). Install one and say 'make PYTHON=/path/to/python3.12 ...'."

# Half a venv, or one whose Python has gone, is made anew; a sound one is kept and brought up to date.
if ! { [ -x "$venv/bin/python" ] && new_enough "$venv/bin/python" && "$venv/bin/python" -m pip --version >/dev/null 2>&1; }; then
    if ! "$python" -c 'import ensurepip, venv' 2>/dev/null; then
        if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
            say "installing Debian's python3-venv"
            package=python$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')-venv
            { apt-get update && apt-get install -y --no-install-recommends "$package"; } >/tmp/sysgym-apt.log 2>&1 ||
                fail "apt-get could not install $package; its words are in /tmp/sysgym-apt.log."
        else
            fail "$python lacks the venv module. On Debian or Ubuntu: sudo apt-get install python3-venv"
        fi
    fi
    say "creating $venv with $("$python" --version)"
    rm -rf "$venv"
    "$python" -m venv "$venv"
fi

run() { "$@" >>"$log" 2>&1; }
: >"$log"

with_uv() {
    run "$venv/bin/python" -m pip install --quiet --disable-pip-version-check --constraint constraints.txt uv || return 1
    local links; links=$(find_links)
    local options=(--python "$venv/bin/python" --constraint constraints.txt --compile-bytecode)
    if [ -n "$links" ]; then
        options+=(--find-links "$links")
    elif [ "$(uname)" = Linux ] && ! command -v nvidia-smi >/dev/null && [ -z "${UV_TORCH_BACKEND:-}" ]; then
        # On Linux the default torch brings gigabytes of CUDA; without an NVIDIA driver the CPU build does.
        run "$venv/bin/uv" pip install "${options[@]}" --torch-backend cpu --editable ".[$extras]" && return
    fi
    run "$venv/bin/uv" pip install "${options[@]}" --editable ".[$extras]"
}
with_pip() { run "$venv/bin/python" -m pip install --constraint constraints.txt --editable ".[$extras]"; }

say "installing sysgym[$extras] (the largest is torch; words in $log)"
if ! with_uv; then
    say "uv could not, trying pip"
    with_pip || { tail -n 20 "$log" >&2; fail "the installation failed; the whole story is in $log."; }
fi
touch "$venv/.installed"
say "installed"
