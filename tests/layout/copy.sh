#!/bin/sh
# SPDX-License-Identifier: MIT
# copy.sh WORK: ./run copy of all headers, plain and under another namespace, into one folder; then of
# every 24th header into an empty folder of its own. A program includes both copies and is compiled
# with nothing but -std=c++20 -I. That each header compiles alone is headers.sh's to show.
# copy.sh WORK closure|namespace: the same for one header, after damage that must show.
set -eu
export LC_ALL=C
work=$1
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
cxx=${CXX:-c++}

both() {  # both FOLDER HEADER...: copy them twice, and write FOLDER/use.cpp
    folder=$1
    shift
    mkdir -p "$folder"
    if ! { "$root/run" copy "$@" --to "$folder" &&
           "$root/run" copy "$@" --namespace theirs --to "$folder"; } 2>"$folder/log"; then
        cat "$folder/log"
        return 1
    fi
    printf '#include "mpt/%s"\n' "$@" >"$folder/use.cpp"
    printf '#include "theirs/%s"\n' "$@" >>"$folder/use.cpp"
    echo 'int main() {}' >>"$folder/use.cpp"
}
check() {  # check FOLDER: every file's stamp and words, then the compiler
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
    if both "$folder" "$3" && check "$folder" >"$folder/err" 2>&1; then :; else
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
        both "$work/x" base/memory.hpp; check "$work/x"
        rm "$work/x/theirs/base/ledger.hpp"
        if (check "$work/x") >"$work/log" 2>&1; then echo 'compiled without a header it needs'; exit 1; fi
        grep 'ledger.hpp' "$work/log" ;;
    namespace)  # the copy keeps the old namespace: two versions in one program must collide
        both "$work/x" base/error.hpp; check "$work/x"
        sed 's/namespace theirs/namespace mpt/' "$work/x/theirs/base/error.hpp" >"$work/new"
        cp "$work/new" "$work/x/theirs/base/error.hpp"
        if (check "$work/x") >"$work/log" 2>&1; then echo 'the old namespace was not noticed'; exit 1; fi
        grep -E 'redefinition|old name' "$work/log" ;;
    '')
        (cd "$root/mpt" && find . -name '*.hpp' -o -name '*.cuh') | sed 's|^\./||' | sort >"$work/list"
        # shellcheck disable=SC2046  # paths without blanks
        both "$work/all" $(cat "$work/list") && check "$work/all"
        awk 'NR % 24 == 1' "$work/list" >"$work/some"
        xargs -P "$(nproc 2>/dev/null || echo 2)" -n 1 sh "$0" "$work" one <"$work/some" || exit 1
        echo "$(wc -l <"$work/list") headers copied and compiled, $(wc -l <"$work/some") of them alone, each twice" ;;
    *) exit 2 ;;
esac
