#!/bin/sh
# SPDX-License-Identifier: MIT
# error_texts_sabotage.sh DIR: error_texts.sh is seen to fail where a message has changed.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
dir=$1
rm -rf "$dir"; mkdir -p "$dir/docs" "$dir/mpt/base"
says() { printf '%s\n' "$1" >"$dir/mpt/base/a.hpp"; }
explains() { printf '# T\n\n### %s\n\n%s\n' "$1" "$2" >"$dir/docs/troubleshooting.md"; }
passes() { sh "$here/error_texts.sh" "$dir" >"$dir/log" || { cat "$dir/log"; exit 1; }; }
fails() {  # fails PIECE
    if sh "$here/error_texts.sh" "$dir" >"$dir/log"; then echo "passed although '$1' is not said"; exit 1; fi
    grep -qF -e "nothing says '$1'" "$dir/log" || { cat "$dir/log"; exit 1; }
}
says 'check(n > 0, "asked for ", n, " ranks, there are "
              "none; give more");'
explains 'asked for ... ranks, there are none; give more' 'Why.'; passes
explains 'asked for ... ranks, there are some; give more' 'Why.'; fails 'ranks, there are some'
explains 'asks for ... ranks' 'Why.'; fails 'asks for'
explains 'asked for ...; give less' 'Why.'; fails 'give less'
explains 'segmentation fault' '*From the system.* Why.'; passes
explains 'segmentation fault' 'Why.'; fails 'segmentation fault'
