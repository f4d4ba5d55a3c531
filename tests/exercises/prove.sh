#!/bin/sh
# SPDX-License-Identifier: MIT
# prove.sh LEARN FOLDER: `learn prove` names everything that is wrong with the exercise sabotage;
# `learn mutate` what the grader of lenient does not notice, and that sabotage tells it nothing.
set -eu
learn=$1 folder=$2
status=0
said=$("$learn" --exercises "$folder" prove sabotage) || status=$?
[ "$status" = 1 ] || { echo "prove ended with status $status, wanted 1: $said"; exit 1; }
while read -r wanted; do
    printf '%s\n' "$said" | grep -q -F "$wanted" || { echo "not said: $wanted"; echo "$said"; exit 1; }
done <<'END'
the solution loses "four"
the template gets all points
mutant unseen (three times, from 5 on) keeps "one"
1 mutants, wanted 2 or more
hints.md has no "## Hint 3
END

status=0
said=$("$learn" --exercises "$folder" mutate lenient 2>/dev/null) || status=$?
[ "$status" = 1 ] || { echo "mutate ended with status $status, wanted 1: $said"; exit 1; }
printf '%s\n' "$said" | grep -q -F 'lenient: not noticed: return x > 100 ? 200 : 2 * x; => return x > 101 ? 200 : 2 * x;' ||
    { echo "mutate does not name the change that is not noticed: $said"; exit 1; }
if said=$("$learn" --exercises "$folder" mutate sabotage 2>&1); then echo "mutate takes a wrong solution: $said"; exit 1; fi
printf '%s\n' "$said" | grep -q 'the solution of sabotage is not right' || { echo "mutate says: $said"; exit 1; }
