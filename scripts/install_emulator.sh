#!/usr/bin/env bash
# Install what the Linux backend needs of the system, on Debian or Ubuntu with root. Run again, it does nothing.
#
#   sudo scripts/install_emulator.sh            install what is missing
#   sudo scripts/install_emulator.sh --if-root  the same, and success where this machine is no place for it
#
# The Python packages are the extra "emulator". No Open vSwitch, no controller: Mininet is used for its
# namespaces alone, and its package's own recommendations are left out.
set -euo pipefail

declare -A packages=(
    [mnexec]=mininet
    [clang]=clang
    [/usr/include/bpf/bpf_helpers.h]=libbpf-dev
)

give_up() {
    printf 'Linux backend: %s\n' "$1" >&2
    [ "${2:-}" = --if-root ] && exit 0
    exit 1
}

missing=()
for what in "${!packages[@]}"; do
    [ -e "$what" ] || command -v "$what" >/dev/null || missing+=("${packages[$what]}")
done
[ ${#missing[@]} -eq 0 ] && exit 0

[ "$(uname)" = Linux ] || give_up "not installed, this is $(uname) and no Linux" "$@"
[ "$(id -u)" = 0 ] || give_up "not installed, that needs root: sudo scripts/install_emulator.sh" "$@"
command -v apt-get >/dev/null || give_up "not installed, there is no apt-get; install by your own means: ${missing[*]}" "$@"

printf 'Linux backend: installing %s\n' "${missing[*]}"
log=$(mktemp /tmp/sysgym-apt.XXXXXX)
export DEBIAN_FRONTEND=noninteractive
if ! { apt-get update && apt-get install -y --no-install-recommends "${missing[@]}"; } >"$log" 2>&1 </dev/null; then
    tail -n 20 "$log" >&2
    give_up "apt-get failed; its words are in $log" "$@"
fi
rm -f "$log"
