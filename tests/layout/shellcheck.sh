#!/bin/sh
# SPDX-License-Identifier: MIT
# Usage: shellcheck.sh ROOT [sabotage]. Every script of the project; the sabotage is one that is wrong.
set -eu
cd "$1"
command -v shellcheck >/dev/null || { echo 'skipped: shellcheck is not installed'; exit 77; }
set -- "${2:-}" run .ci/run
for script in docs/*.sh docs/*/*.sh tests/*/*.sh exercises/*.sh tests/*/*/*.sh; do
    [ -e "$script" ] && set -- "$@" "$script"
done
sabotage=$1; shift
if [ -n "$sabotage" ]; then
    # shellcheck disable=SC2016  # that is the mistake
    if printf '#!/bin/sh\nrm -rf $HOME/"$1\n' | shellcheck - >/dev/null; then echo 'a broken script passes'; exit 1; fi
    exit 0
fi
shellcheck "$@"
[ "$(head -n 1 run)" = '#!/bin/sh' ] || { echo 'run is not a POSIX shell script'; exit 1; }
echo "$# scripts are in order"
