#!/bin/sh
# SPDX-License-Identifier: MIT
# copy.sh WORK: ./run copy of every header, plain and under another namespace, into an empty folder
# of its own; one program includes both copies and is compiled with nothing but -std=c++20 -I.
# copy.sh WORK closure|namespace: the same for one header, after damage that must show.
set -eu
export LC_ALL=C
work=$1
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
cxx=${CXX:-c++}

both() {  # both HEADER FOLDER: copy it twice; compile FOLDER/use.cpp
    mkdir -p "$2"
    if ! { "$root/run" copy "$1" --to "$2" &&
           "$root/run" copy "mpt/$1" --namespace theirs --to "$2"; } 2>"$2/log"; then
        cat "$2/log"
        return 1
    fi
    printf '#include "mpt/%s"\n#include "theirs/%s"\nint main() {}\n' "$1" "$1" >"$2/use.cpp"
}
check() {  # check FOLDER
    find "$1/mpt" "$1/theirs" -type f ! -name LICENSE >"$1/files"
    while read -r f; do
        [ "$(sed -n 1p "$f")" = '// SPDX-License-Identifier: MIT' ] || { echo "$f: no licence line"; return 1; }
        sed -n 2p "$f" | grep -q '^// Copied from mpt [0-9]*\.[0-9]*\.[0-9]*, mpt/' || { echo "$f: no stamp"; return 1; }
        case $f in */theirs/*)
            if sed '2d; s/"[^"]*"//g' "$f" | grep -nwE 'mpt|MPT_[A-Z_0-9]*'; then
                echo "$f: the old name is left"
                return 1
            fi ;;
        esac
    done <"$1/files"
    # the switch of the emulator belongs to each copy: kernels need it, nothing else looks at it
    (cd "$1" && "$cxx" -std=c++20 -I. -Wall -Wextra -DMPT_SIMT -DTHEIRS_SIMT -fsyntax-only use.cpp)
}

if [ "${2:-}" = one ]; then
    folder=$work/$(echo "$3" | tr '/.' '__')
    if both "$3" "$folder" && check "$folder" >"$folder/err" 2>&1; then :; else
        echo "$3: the copy fails"
        head -n 20 "$folder/err"
        exit 1
    fi
    exit 0
fi

rm -rf "$work"
mkdir -p "$work"
case ${2:-} in
    closure)    # a header that the copy needs is gone: the compiler must not find the original
        both base/memory.hpp "$work/x"; check "$work/x"
        rm "$work/x/theirs/base/ledger.hpp"
        if (check "$work/x") >"$work/log" 2>&1; then echo 'compiled without a header it needs'; exit 1; fi
        grep 'ledger.hpp' "$work/log" ;;
    namespace)  # the copy keeps the old namespace: two versions in one program must collide
        both base/error.hpp "$work/x"; check "$work/x"
        sed 's/namespace theirs/namespace mpt/' "$work/x/theirs/base/error.hpp" >"$work/new"
        cp "$work/new" "$work/x/theirs/base/error.hpp"
        if (check "$work/x") >"$work/log" 2>&1; then echo 'the old namespace was not noticed'; exit 1; fi
        grep -E 'redefinition|old name' "$work/log" ;;
    '')
        (cd "$root/mpt" && find . -name '*.hpp' -o -name '*.cuh') | sed 's|^\./||' | sort >"$work/list"
        xargs -P "$(nproc 2>/dev/null || echo 2)" -n 1 sh "$0" "$work" one <"$work/list" || exit 1
        echo "$(wc -l <"$work/list") headers copied and compiled, each twice" ;;
    *) exit 2 ;;
esac
