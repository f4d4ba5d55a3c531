#!/bin/sh
# SPDX-License-Identifier: MIT
# Usage: shellcheck.sh ROOT [sabotage]. Every script of the project; the sabotage is one that is wrong.
set -eu
cd "$1"
command -v shellcheck >/dev/null || { echo 'skipped: shellcheck is not installed'; exit 77; }
if [ -n "${2:-}" ]; then
    # shellcheck disable=SC2016  # that is the mistake
    if printf '#!/bin/sh\nrm -rf $HOME/"$1\n' | shellcheck - >/dev/null; then echo 'a broken script passes'; exit 1; fi
    exit 0
fi
shellcheck run .ci/run docs/*.sh
find tests -name '*.sh' | sort >"${TMPDIR:-/tmp}/scripts.$$"
# SC2238: a file that is called like a command, cut or list, is no mistake
xargs shellcheck --severity=warning --exclude=SC2238 <"${TMPDIR:-/tmp}/scripts.$$" && status=0 || status=1
count=$(wc -l <"${TMPDIR:-/tmp}/scripts.$$")
rm "${TMPDIR:-/tmp}/scripts.$$"
[ $status = 0 ]
[ "$(head -n 1 run)" = '#!/bin/sh' ] || { echo 'run is not a POSIX shell script'; exit 1; }
echo "run, .ci/run, docs and $count scripts are in order"
