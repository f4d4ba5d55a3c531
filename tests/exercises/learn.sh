#!/bin/sh
# SPDX-License-Identifier: MIT
# learn.sh LEARN DIR: the grader's verdicts on answers that try to get points without the answer, and
# what `learn` refuses. The learner's own build is not touched: programs are compiled here.
set -eu
learn=$1 dir=$2
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
rm -rf "$dir"; mkdir -p "$dir"
failed=0
fail() { echo "FAIL $*"; failed=1; }

# says WORDS COMMAND...: the command fails, and its first words are these
says() {
    wanted=$1; shift
    status=0
    out=$("$@" 2>&1) || status=$?
    [ "$status" != 0 ] || fail "$*: ended with 0"
    case $out in *"$wanted"*) ;; *) fail "$*: said '$out', wanted '$wanted'" ;; esac
}

[ "$("$learn" list | wc -l)" -ge 4 ] || fail 'list has fewer than 4 lines'
"$learn" list --json | grep -q '"id":"loss_scale"' || fail 'list --json lacks loss_scale'
"$learn" hint loss_scale --level 3 | grep -q 'std::max' || fail 'hint 3 of loss_scale'
says 'no exercise is called los' "$learn" hint los
says 'perhaps loss_scale, lost_policy; ' "$learn" hint los
says 'The following argument was not expected' "$learn" tset
says 'level' "$learn" hint loss_scale --level 4
says '--seed five: wanted a whole number' "$learn" mutate loss_scale --seed five
says '--seed five: wanted a whole number' "$learn" grade --seed five
says 'count' "$learn" mutate loss_scale --count -1
says 'format' "$learn" grade --format word
says 'no such folder' "$learn" --exercises "$dir/none" list

# the template: compiles, says what is to be written, and does not hold the answer
"$learn" compose "$root/exercises/loss_scale/solution.cpp" >"$dir/template.cpp"
grep -q 'YOURS, update' "$dir/template.cpp" || fail 'the template does not say what is to be written'
if grep -q 'isfinite\|//<\|//>' "$dir/template.cpp"; then fail 'the template holds the answer, or markers'; fi
printf 'int x;\n' >"$dir/none.cpp"
says 'nothing is left to the learner' "$learn" compose "$dir/none.cpp"
printf '//< a: b\nint x;\n' >"$dir/open.cpp"
says 'has no //>' "$learn" compose "$dir/open.cpp"
printf '// mutant: m\n// fails: f\n//< nowhere\nint x;\n' >"$dir/mutant.cpp"
says 'a place that the solution does not have' "$learn" compose "$root/exercises/loss_scale/solution.cpp" "$dir/mutant.cpp"
exit $failed
