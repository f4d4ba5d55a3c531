#!/bin/sh
# SPDX-License-Identifier: MIT
# chapter_pages.sh [ROOT]: every chapter has a page, and every page has what a page of this book has:
#   # Chapter N: ...         N as in the file's name; ./run chapter above the first section
#   a table or a picture     of the problem, before the reader is asked to break something
#   **The idea.**            in a sentence or two
#   ```math, **In numbers.** a formula; the paragraph of numbers quotes `words with a number` that the
#                            chapter's own test looks for: its // expect:, with: or broken: lines
#   > Code: [NN_name.cpp, REGION](...)   lines of its own program
#   ## What it costs...      ## Break it (a table)      ## What others call it (names a real system)
#   ## Often said, and not so (two or more)             ## Exercises (./run learn test, ./run chapter)
#   ## Where it comes from   with a section, algorithm, figure, issue ...; a Next: behind it
#   ![at least five words](picture)
# Every picture is shown somewhere, has a <title> and a <desc>, and colours for dark paper.
# A line each; status 1 if any. chapter_pages_sabotage.sh shows for each that it can fail.
set -eu
export LC_ALL=C
root=${1:-$(dirname "$0")/../..}
cd "$root"
found=$(
    for program in chapters/[0-9][0-9]_*.cpp; do
        page=docs/chapter_$(basename "$program" .cpp).md
        [ -e "$page" ] || { echo "$program: has no page $page"; continue; }
        grep -q "]($page)" README.md || echo "README.md: does not lead to $page"
        sed -n 's/^.*\/\/ \(expect\|with\|broken\): *//p' "$program" | awk -v page="$page" -v own="$(basename "$program")" '
            function bad(text) { print page ": " text }
            function section(words) { return index(head, "## " words) == 1 }
            function has(what) { return what in seen }
            BEGIN {
                number = page; sub(/.*chapter_0*/, "", number); sub(/_.*/, "", number)
                count = split("What it costs|Break it|What others call it|Often said, and not so|Exercises|Where it comes from", order, "|")
            }
            NR == FNR { claim[NR] = $0; claims = NR; next }
            FNR == 1 && $0 !~ "^# Chapter " number "[:,] " { bad("line 1 is not # Chapter " number ": ...") }
            /^```/ && fence == "" { fence = $0; if (fence ~ /^```math/) seen["math"] = 1; next }
            fence != "" {
                if ($0 ~ /^```/) fence = ""
                else if (head == "" && /^\.\/run chapter /) seen["run"] = 1
                next
            }
            /^\\snippet/ { bad("line " FNR ": on GitHub nobody can follow \\snippet; write > Code: [FILE, REGION](../chapters/FILE)") }
            /^## / {
                head = $0
                for (i = 1; i <= count; i++) if (section(order[i])) {
                    place[i]++
                    if (i < last) bad("## " order[i] " stands behind ## " order[last])
                    last = i
                }
            }
            /^\*\*The idea\.\*\* ./ || /^## The idea$/ { seen["idea"] = 1 }
            /^\|/ || /^!\[/ { if (!place[2]) seen["problem"] = 1 }
            index($0, "> Code: [" own ", ") == 1 { seen["snippet"] = 1 }
            {
                text = $0
                while (match(text, /!\[[^]]*\]\(/)) {
                    if (split(substr(text, RSTART + 2, RLENGTH - 4), word, / +/) < 5)
                        bad("line " FNR ": a picture without words for those who do not see it")
                    text = substr(text, RSTART + RLENGTH)
                }
            }
            /\*\*In numbers\.\*\*/ { seen["numbers"] = numbers = 1 }
            /^$/ { numbers = 0 }
            numbers {
                n = split($0, part, "`")
                for (i = 2; i < n; i += 2) if (part[i] ~ /[0-9]/)
                    for (c = 1; c <= claims; c++) if (index(claim[c], part[i])) seen["proved"] = 1
            }
            section("Break it") && /^\|/ { seen["break"] = 1 }
            section("What others call it") && /PyTorch|DeepSpeed|Megatron/ { seen["others"] = 1 }
            section("Often said") && /^- / { said++ }
            section("Exercises") && /\.\/run (learn test|chapter) [a-z0-9]/ { seen["exercise"] = 1 }
            section("Where it comes from") && /[Ss]ections?|[Aa]lgorithm|[Ff]igure|[Tt]able|[Cc]hapter|[Aa]ppendix|equation/ { seen["where"] = 1 }
            section("Where it comes from") && /Next:/ { seen["next"] = 1 }
            END {
                if (!has("run")) bad("above its first section no ./run chapter tells how to start it")
                if (!has("problem")) bad("no table and no picture before ## Break it")
                if (!has("idea")) bad("no **The idea.**")
                if (!has("math")) bad("no formula (```math)")
                if (!has("numbers")) bad("no **In numbers.**")
                else if (!has("proved")) bad("**In numbers.** quotes no number, `...`, that a // expect:, with: or broken: line of " own " has")
                if (!has("snippet")) bad("quotes nothing of its program (> Code: [" own ", REGION](../chapters/" own "))")
                for (i = 1; i <= count; i++) if (place[i] != 1) bad(place[i] + 0 " times ## " order[i] ", wanted once")
                if (!has("break")) bad("## Break it has no table")
                if (!has("others")) bad("## What others call it names neither PyTorch nor DeepSpeed nor Megatron")
                if (said < 2) bad("## Often said, and not so has " said + 0 " items, wanted 2 or more")
                if (!has("exercise")) bad("## Exercises has neither ./run learn test nor ./run chapter")
                if (!has("where")) bad("## Where it comes from names no section, algorithm, figure ... of its sources")
                if (!has("next")) bad("no Next: at the end")
            }' - "$page"
    done
    for page in docs/chapter_[0-9][0-9]_*.md; do
        [ -e "$page" ] || continue
        program=chapters/$(basename "$page" .md | sed 's/^chapter_//').cpp
        [ -e "$program" ] || echo "$page: there is no $program"
    done
    for picture in docs/images/*.svg; do
        [ -e "$picture" ] || continue
        grep -q "](.*images/$(basename "$picture"))" README.md docs/*.md || echo "$picture: no page shows it"
        for part in '<title>[^<]' '<desc>[^<]' 'prefers-color-scheme:dark'; do
            grep -q "$part" "$picture" || echo "$picture: has no $part"
        done
    done
)
[ -z "$found" ] || { printf '%s\n' "$found"; exit 1; }
echo "pages: $(find docs -name 'chapter_[0-9]*.md' | wc -l) chapters have all their parts"
