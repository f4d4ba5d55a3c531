#!/bin/sh
# SPDX-License-Identifier: MIT
# course.sh COURSE DIR: export leaves no answer behind, grade gives each student what is theirs, new
# makes an exercise that `learn prove` would take.
set -eu
course=$1 dir=$2
root=$(CDPATH='' cd -- "$(dirname -- "$0")/../.." && pwd)
rm -rf "$dir"; mkdir -p "$dir"
failed=0
fail() { echo "FAIL $*"; failed=1; }
says() {  # says WORDS COMMAND...: the command fails, and these words are in what it says
    wanted=$1; shift
    status=0
    out=$("$@" 2>&1) || status=$?
    [ "$status" != 0 ] || fail "$*: ended with 0"
    case $out in *"$wanted"*) ;; *) fail "$*: said '$out', wanted '$wanted'" ;; esac
}

# ---- export ----
"$course" export --exercises loss_scale,ring_all_reduce --seed spring --to "$dir/students"
for f in run CMakeLists.txt exercises/loss_scale/template.cpp exercises/ring_all_reduce/grader.cpp; do
    [ -e "$dir/students/$f" ] || fail "export: no $f"
done
for f in exercises/loss_scale/solution.cpp exercises/loss_scale/mutants exercises/block_sum; do
    [ ! -e "$dir/students/$f" ] || fail "export: $f is in it"
done
if grep -q '## Solution' "$dir/students/exercises/loss_scale/hints.md"; then fail 'export: the reason is in the hints'; fi
if grep -q isfinite "$dir/students/exercises/loss_scale/template.cpp"; then fail 'export: the answer is in the template'; fi
says 'is not empty' "$course" export --to "$dir/students"
says 'no exercise is called none' "$course" export --exercises none --to "$dir/other"

# ---- grade: a right answer, a wrong one, one that does not compile, none, one that cheats ----
submit() { mkdir -p "$dir/in/$1/loss_scale"; cat >"$dir/in/$1/loss_scale/answer.cpp"; }
submit ann <"$root/exercises/loss_scale/solution.cpp"
sed 's/s.value = std::max(s.value \/ 2, minimum);/s.value \/= 2;/' "$root/exercises/loss_scale/solution.cpp" | submit bob
echo 'int x' | submit eve
mkdir -p "$dir/in/dan"
printf '#include "exercise.hpp"\n#include <cstdlib>\nbool update(scale&, bool) { std::exit(0); }\n' | submit mal
"$course" grade "$dir/in" --exercises loss_scale --jobs 2 --seed 5 --out "$dir/grades.csv" --details "$dir/told"
cat >"$dir/wanted" <<'END'
student,score,max_score,loss_scale
ann,10,10,10
bob,8,10,8
dan,0,10,0
eve,0,10,0
mal,0,10,0
END
cmp "$dir/wanted" "$dir/grades.csv" || { fail 'grades differ'; cat "$dir/grades.csv"; }
grep -q 'does not\|error' "$dir/told/eve.json" || fail 'eve is not told why'
grep -q 'no answer was handed in' "$dir/told/dan.json" || fail 'dan is not told why'

# ---- secret parts add points ----
mkdir -p "$dir/secret"
printf '#include "exercise.hpp"\n#include "exercises/harness/grade.hpp"\nPART("secret", 4) {\n    scale s;\n    update(s, false);\n    grade::equals("S", s.value, 512.0f, "it is");\n}\n' >"$dir/secret/loss_scale.cpp"
"$course" grade "$dir/in" --exercises loss_scale --seed 5 --secret "$dir/secret" --out "$dir/more.csv"
grep -q '^ann,14,14,14$' "$dir/more.csv" || { fail 'secret parts'; cat "$dir/more.csv"; }

says 'is no folder' "$course" grade "$dir/none"
says 'has no folders' "$course" grade "$dir/secret"
says '--seed x: wanted a whole number' "$course" grade "$dir/in" --seed x
says 'jobs' "$course" grade "$dir/in" --jobs 0
says 'small letters' "$course" new 'Bad-Id' --chapter step
says 'no chapter is called nowhere' "$course" new fine --chapter nowhere
says 'exists' "$course" new loss_scale --chapter step
says 'subcommand' "$course"
exit $failed
