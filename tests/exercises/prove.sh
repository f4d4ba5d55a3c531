#!/bin/sh
# SPDX-License-Identifier: MIT
# prove.sh LEARN FOLDER: `learn prove` names everything that is wrong with the exercise sabotage.
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
