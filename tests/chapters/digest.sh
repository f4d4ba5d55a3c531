#!/bin/sh
# SPDX-License-Identifier: MIT
# digest.sh PROGRAM WANTED FLAGS...: stdout of the program is the file WANTED, exactly.
# With "--sabotage flip" among the flags: every line of it is another than the file's.
set -eu
export LC_ALL=C
program=$1 wanted=$2
shift 2
found=$("$program" "$@" 2>/dev/null) || { echo "$program $*: exits with $?"; exit 1; }
case " $* " in
*' --sabotage flip '*)
    same=$(printf '%s\n' "$found" | grep -cxF -f "$wanted" || true)
    lines=$(printf '%s\n' "$found" | wc -l)
    if [ "$same" != 0 ] || [ "$lines" != "$(wc -l <"$wanted")" ]; then
        echo "one wrong code of 2^32, but $same of $lines digests are right:"
        printf '%s\n' "$found"
        exit 1
    fi ;;
*)
    printf '%s\n' "$found" | diff "$wanted" - || { echo "$program $*: < wanted, > found"; exit 1; } ;;
esac
