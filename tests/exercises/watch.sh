#!/bin/sh
# SPDX-License-Identifier: MIT
# watch.sh SOURCES DIR: ./run learn as somebody at a terminal has it: the first template is tested,
# keys answer, a saved solution is right and the next exercise comes. In a build and a workshop of
# its own. Status 77: there is nothing that plays a terminal.
set -eu
root=$1 dir=$2
command -v script >/dev/null || { echo 'skipped: script (util-linux) is not installed'; exit 77; }
rm -rf "$dir"; mkdir -p "$dir"
if ! { cmake -S "$root" -B "$dir/build" -DMPT_BUILD_TESTS=OFF -DMPT_BUILD_CHAPTERS=OFF -DMPT_BUILD_BENCH=OFF \
             -DMPT_BUILD_DOCS=OFF -DMPT_CUDA=OFF -DMPT_MPI=OFF -DMPT_WORKSHOP="$dir/my" &&
       cmake --build "$dir/build" --target learn; } >"$dir/log" 2>&1; then
    tail -n 5 "$dir/log"
    exit 1
fi
learn=$dir/build/bin/learn
first=$("$learn" list | sed -n '1s/ .*//p') second=$("$learn" list | sed -n '2s/ .*//p')

mkfifo "$dir/keys"
: >"$dir/screen"
NO_COLOR=1 script -qefc "$learn" "$dir/screen" <"$dir/keys" >/dev/null 2>&1 &
terminal=$!
exec 3>"$dir/keys"
trap 'exec 3>&-; kill "$terminal" 2>/dev/null || true' EXIT

shown=0  # lines of the screen that have been looked at
looks=600
expect() {  # expect WORDS: within two minutes the screen shows them, after what was seen before
    for _ in $(seq $looks); do
        at=$(tail -n +$((shown + 1)) "$dir/screen" | grep -nF -m 1 -e "$1" | cut -d: -f1) || at=
        if [ -n "$at" ]; then shown=$((shown + at)); return; fi
        sleep 0.2
    done
    echo "'$1' does not come; the screen:"; tail -n 30 "$dir/screen"; exit 1
}
key() { printf %s "$1" >&3; }

expect "templates are in $dir/my"
expect '0 of '
expect "($first, "
expect 'save the file to test it again'
key h; expect "$(sed -n '/^## Hint 1/{n;:a;/^$/{n;ba};s/^\(.\{20\}\).*/\1/p;q}' "$root/exercises/$first/hints.md")"
key l; expect "$second "
key r; expect 'the template again; your answer is in '
expect 'save the file to test it again'
printf 'this is no C++\n' >"$dir/my/$first/answer.cpp"
expect 'does not compile'
expect 'save the file to test it again'
cp "$root/exercises/$first/solution.cpp" "$dir/my/$first/answer.cpp"
expect 'right, '
expect "next        ./run learn test $second"
expect '1 of '
expect "($second, "
expect 'save the file to test it again'
key n; expect 'save the file to test it again'
if (looks=3; expect "($second, ") >/dev/null; then echo 'what was seen is seen again'; exit 1; fi
key q
wait "$terminal" || { echo "q ends it with status $?"; exit 1; }
"$learn" list | grep -q "^$first .*done" || { echo "$first is not listed as done"; exit 1; }
echo "watched: $first solved, $second next"
