#!/bin/sh
# SPDX-License-Identifier: MIT
# error_texts.sh [ROOT]: the messages that docs/troubleshooting.md explains are still those that the
# programs say. A heading ### is a message; ... stands for what differs, and ; parts messages that have
# one cause. Each piece is looked for in the sources, literals of two lines joined. A section that
# begins with "*From " (another program's words) or "*No message" is not looked for.
set -eu
export LC_ALL=C
root=${1:-$(dirname "$0")/../..}
cd "$root"
work=$(mktemp -d "${TMPDIR:-/tmp}/mpt-texts.XXXXXX")
trap 'rm -rf "$work"' EXIT
find run mpt chapters exercises cmake CMakeLists.txt tests/kernels tests/cuda_main.cpp \( -name '*.hpp' -o -name '*.cuh' -o -name '*.cpp' -o -name '*.cu' \
    -o -name '*.cmake' -o -name '*.in' -o -name CMakeLists.txt -o -name run \) 2>/dev/null | sort |
    while read -r source; do cat "$source"; done | tr '\n\t' '  ' | sed 's/"  *"//g; s/\\"/"/g' >"$work/sources"
awk '
    function out() { if (heading != "") print line "\t" heading; heading = "" }
    /^### / { out(); heading = substr($0, 5); line = FNR; next }
    heading != "" && /^(\*From |\*No message)/ { heading = "" }
    heading != "" && /[^ ]/ { out() }
    END { out() }' docs/troubleshooting.md >"$work/headings"
found=$(
    while IFS='	' read -r line heading; do
        printf '%s\n' "$heading" | sed 's/\\_/_/g; s/\.\.\./\n/g; s/; /\n/g' |
            sed 's/^[ ,;:()]*//; s/[ ,;:()]*$//' | while read -r piece; do
            [ "${#piece}" -ge 3 ] || continue
            grep -qF -e "$piece" "$work/sources" ||
                echo "docs/troubleshooting.md:$line: nothing says '$piece' any more (### $heading)"
        done
    done <"$work/headings"
)
[ -z "$found" ] || { printf '%s\n' "$found"; exit 1; }
echo "texts: $(wc -l <"$work/headings") messages are still said"
