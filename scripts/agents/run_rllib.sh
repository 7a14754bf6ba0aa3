#!/usr/bin/env bash
# Run the examples of RLlib and Ray Tune, in a virtual environment of their own.
#
#   scripts/agents/run_rllib.sh                               the three examples, a few iterations each
#   build/rllib/venv/bin/python examples/rllib_ppo.py --iterations 50      later, in the same environment
#
# RLlib requires one release of Gymnasium, another than that of constraints.txt; all other versions are those of
# constraints.txt. The virtual environment, what the examples write and their words (NAME.log) are in build/rllib.
set -uo pipefail
cd "$(dirname "$0")/../.."

uv=.venv/bin/uv
folder=build/rllib
venv=$folder/venv
[ -x "$uv" ] || { echo "run_rllib: $uv is missing; run 'make venv' first" >&2; exit 1; }
mkdir -p "$folder"

began=$SECONDS
grep -v '^gymnasium==' constraints.txt >"$folder/constraints.txt"
links=$(.venv/bin/python -m pip config get global.find-links 2>/dev/null || true)
options=(--python "$venv/bin/python" --constraint "$folder/constraints.txt")
# As in make_venv.sh: without an NVIDIA driver, the build of torch for the CPU.
if [ -n "${UV_FIND_LINKS:-$links}" ]; then
    options+=(--find-links "${UV_FIND_LINKS:-$links}")
elif [ "$(uname)" = Linux ] && ! command -v nvidia-smi >/dev/null && [ -z "${UV_TORCH_BACKEND:-}" ]; then
    options+=(--torch-backend cpu)
fi
{ [ -x "$venv/bin/python" ] || .venv/bin/python -m venv --without-pip "$venv"; } >"$folder/install.log" 2>&1 &&
    "$uv" pip install "${options[@]}" 'ray[rllib,tune]' --editable '.[train,multiagent]' >>"$folder/install.log" 2>&1 ||
    { tail -n 20 "$folder/install.log" >&2; echo "run_rllib: not installed" >&2; exit 1; }
"$venv/bin/python" - "$((SECONDS - began))" <<'PYTHON'
import sys
from importlib.metadata import version

names = ("ray", "gymnasium", "torch", "pettingzoo")
print(f"[{sys.argv[1]:>3} s] installed:", ", ".join(f"{name} {version(name)}" for name in names))
PYTHON

# Ray's workers run at priority 15, and next to other work hardly at all.
export RAY_worker_niceness=0
failed=0
run() {  # an example and its arguments
    local name=$1 began=$SECONDS result
    shift
    for _ in 1 2 3; do
        result=0
        "$venv/bin/python" "examples/$name.py" "$@" >"$folder/$name.log" 2>&1 || result=$?
        # Ray gives its processes half a minute to start, which cannot be changed and is short for a busy machine.
        grep -q 'The current node timed out during startup' "$folder/$name.log" || break
    done
    printf '[%3d s] examples/%s.py %s\n' "$((SECONDS - began))" "$name" "$*"
    if [ "$result" = 0 ]; then
        grep -E '^(iteration|checkpoint|learning rate|best)' "$folder/$name.log"
    else
        failed=1
        tail -n 20 "$folder/$name.log"
    fi
}
rm -rf "$folder/tune"
run rllib_ppo --iterations 3 --checkpoint "$folder/ppo"
run rllib_ppo --iterations 1 --checkpoint "$folder/ppo" --resume
run rllib_multi_agent --iterations 3 --checkpoint "$folder/multi-agent"
run rllib_multi_agent --iterations 1 --checkpoint "$folder/multi-agent" --resume
run tune_train --steps 4000 --out "$folder/tune"
[ "$failed" = 0 ] && echo 'all three ran'
exit "$failed"
