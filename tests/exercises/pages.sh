#!/bin/sh
# SPDX-License-Identifier: MIT
# pages.sh [ROOT]: every exercise is named on its chapter's page and by its chapter's number in its
# statement, and a page names no exercise that does not exist. A line each; status 1 if any.
set -eu
root=${1:-$(dirname "$0")/../..}
cd "$root"
field() { sed -n "s/.*\"$1\": \"\([^\"]*\)\".*/\1/p" "$2"; }
found=$(
    for json in exercises/*/exercise.json; do
        id=$(field id "$json")
        page=$(find docs -name "chapter_[0-9][0-9]_$(field chapter "$json").md")
        [ -n "$page" ] || { echo "$json: its chapter has no page"; continue; }
        grep -q "run learn test $id\`" "$page" || echo "$page: does not name the exercise $id (./run learn test $id)"
        number=$(echo "$page" | sed 's/.*chapter_0*\([0-9][0-9]*\)_.*/\1/')
        grep -q "^// .*chapters\{0,1\} \(.* \)\{0,1\}$number\>" "exercises/$id/solution.cpp" ||
            echo "exercises/$id/solution.cpp: does not say chapter $number"
    done
    count=$(find exercises -name exercise.json | wc -l)
    [ ! -e README.md ] || grep -q " $count exercises" README.md ||
        echo "README.md: does not say that there are $count exercises"
    # docs/teaching.md: the minutes of a week are those of its exercises, and every exercise has a week
    if [ -e docs/teaching.md ]; then
        for json in exercises/*/exercise.json; do
            echo "$(field id "$json") $(sed -n 's/.*"minutes": \([0-9]*\).*/\1/p' "$json")"
        done | awk -F '|' '
            NR == FNR { split($0, of, " "); minutes[of[1]] = of[2]; next }
            $2 ~ /^ *[0-9]+ *$/ && NF >= 6 {
                n = split($4, id, /[ ,]+/); sum = 0
                for (i = 1; i <= n; i++) if (id[i] != "") {
                    if (!(id[i] in minutes)) print "docs/teaching.md: the exercise " id[i] " does not exist"
                    sum += minutes[id[i]]; seen[id[i]] = 1
                }
                if (sum != $5 + 0) print "docs/teaching.md: week " $2 + 0 " takes " sum " minutes, not " $5 + 0
            }
            END { for (e in minutes) if (!(e in seen)) print "docs/teaching.md: no week has " e }
        ' - docs/teaching.md
    fi
    grep -ho 'run learn test [a-z0-9_]*`' docs/chapter_*.md | sed 's/.* //; s/`//' | sort -u | while read -r id; do
        [ -e "exercises/$id/exercise.json" ] || echo "docs: the exercise $id does not exist"
    done
)
[ -z "$found" ] || { printf '%s\n' "$found"; exit 1; }
