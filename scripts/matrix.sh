#!/usr/bin/env bash
# Run tests of the environments with several versions of Python and Gymnasium; print a table.
#
#   scripts/matrix.sh                                  what the table of docs/integrations.md has
#   PYTHONS="3.12" GYMNASIUMS="1.2.2" scripts/matrix.sh tests/envs
#
# The arguments are pytest's; by default the tests of what Gymnasium sees: infos, life cycle, seeds, wrappers, vector forms.
# Interpreters are those on the path, pyenv's, or uv's; one that is not there is said to be missing. The virtual
# environments are in build/matrix, and the words of each run in build/matrix/PYTHON-GYMNASIUM.log.
set -uo pipefail
cd "$(dirname "$0")/.."

read -ra pythons <<<"${PYTHONS:-3.11 3.12 3.13 3.14}"
read -ra gymnasiums <<<"${GYMNASIUMS:-1.1.1 1.2.2 latest}"
extras=placement,multiagent,human
tests=("$@")
[ $# -gt 0 ] || tests=(
    tests/envs/test_infos.py tests/envs/test_lifecycle.py tests/envs/test_seeds.py tests/envs/test_wrappers.py
    tests/envs/congestion/test_vector.py tests/envs/congestion/test_parallel.py
)
uv=.venv/bin/uv
folder=build/matrix
mkdir -p "$folder"
[ -x "$uv" ] || { echo "matrix: $uv is missing; run 'make venv' first" >&2; exit 1; }

find_python() {
    local candidate
    for candidate in "python$1" "$(command -v pyenv >/dev/null && ls -d "$(pyenv root)/versions/$1".*/bin/python 2>/dev/null | tail -n 1)" \
        "$("$uv" python find --no-python-downloads "$1" 2>/dev/null)"; do
        if [ -n "$candidate" ] && [ "$("$candidate" -c 'import sys; print("%d.%d" % sys.version_info[:2])' 2>/dev/null)" = "$1" ]; then
            command -v "$candidate"
            return
        fi
    done
    return 1
}

install() {  # a virtual environment, the version of Gymnasium
    local wanted=gymnasium
    [ "$2" = latest ] || wanted=gymnasium==$2
    "$uv" pip install --python "$1/bin/python" "$wanted" 'pytest>=8.3,<9.2' hypothesis \
        pytest-xdist pytest-rerunfailures setuptools --editable ".[$extras]"
}

failed=0
echo '| Python | Gymnasium | numpy | tests |'
echo '| --- | --- | --- | --- |'
for version in "${pythons[@]}"; do
    if ! python=$(find_python "$version"); then
        echo "| $version | | | no interpreter |"
        continue
    fi
    for gymnasium in "${gymnasiums[@]}"; do
        venv=$folder/$version-$gymnasium
        log=$venv.log
        rm -rf "$venv"
        if ! { "$python" -m venv --without-pip "$venv" && install "$venv" "$gymnasium"; } >"$log" 2>&1; then
            echo "| $version | $gymnasium | | not installed: $(grep -v '^ *$' "$log" | tail -n 1) |"
            failed=1
            continue
        fi
        versions=$("$venv/bin/python" -c 'from importlib.metadata import version
import sys
print(sys.version.split()[0], "|", version("gymnasium"), "|", version("numpy"))')
        "$venv/bin/python" -m pytest -q -p no:cacheprovider -m 'not slow and not linux' "${tests[@]}" >>"$log" 2>&1 ||
            failed=1
        echo "| $versions | $(tail -n 1 "$log" | sed 's/^=* *//; s/ *=*$//') |"
    done
done
exit "$failed"
