#!/usr/bin/env bash
# Install Chromium, in which the tests look at reports, on Debian with root. Run again, it does nothing.
#
#   sudo scripts/install_browser.sh          install it if it is missing
#   sudo scripts/install_browser.sh --if-ci  the same where CI=true and this is root; success everywhere
set -euo pipefail

give_up() {
    printf 'browser: %s\n' "$1" >&2
    [ "${2:-}" = --if-ci ] && exit 0
    exit 1
}

for name in chromium chromium-browser google-chrome; do
    command -v "$name" >/dev/null && exit 0
done
why="the tests of reports in a browser are skipped; 'sudo scripts/install_browser.sh' installs Chromium"
[ "${1:-}" != --if-ci ] || [ -n "${CI:-}" ] || give_up "$why" "$@"
[ "$(id -u)" = 0 ] || give_up "not installed, that needs root: $why" "$@"
command -v apt-get >/dev/null || give_up "not installed, there is no apt-get: $why" "$@"

printf 'browser: installing chromium\n'
log=$(mktemp /tmp/sysgym-apt.XXXXXX)
export DEBIAN_FRONTEND=noninteractive
if ! { apt-get update && apt-get install -y --no-install-recommends chromium; } >"$log" 2>&1 </dev/null; then
    tail -n 20 "$log" >&2
    give_up "apt-get failed; its words are in $log" "$@"
fi
rm -f "$log"
