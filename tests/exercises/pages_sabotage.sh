#!/bin/sh
# SPDX-License-Identifier: MIT
# pages_sabotage.sh DIR: pages.sh is seen to fail, in a small tree with one thing wrong at a time.
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
dir=$1
rm -rf "$dir"; mkdir -p "$dir/docs" "$dir/exercises/one"
# shellcheck disable=SC2016
right() {
    echo '{"id": "one", "chapter": "step"}' | sed 's/, /,\n/' >"$dir/exercises/one/exercise.json"
    echo '// The statement: chapter 7.' >"$dir/exercises/one/solution.cpp"
    echo 'see `./run learn test one`' >"$dir/docs/chapter_07_step.md"
}
fails() {  # fails WORDS: pages.sh says them
    if out=$(sh "$here/pages.sh" "$dir"); then echo "passed although: $1"; exit 1; fi
    case $out in *"$1"*) ;; *) echo "said '$out', wanted '$1'"; exit 1 ;; esac
    right
}
right
sh "$here/pages.sh" "$dir"
echo 'nothing' >"$dir/docs/chapter_07_step.md"; fails 'does not name the exercise one'
echo '// The statement: chapter 17.' >"$dir/exercises/one/solution.cpp"; fails 'does not say chapter 7'
# shellcheck disable=SC2016
echo 'and `./run learn test two`' >>"$dir/docs/chapter_07_step.md"; fails 'the exercise two does not exist'
echo 'with 2 exercises' >"$dir/README.md"; fails 'does not say that there are 1 exercises'
rm "$dir/README.md"
sed -i 's/}/, "minutes": 5}/' "$dir/exercises/one/exercise.json"
echo '| 1 | 7 | one | 6 | why |' >"$dir/docs/teaching.md"; fails 'week 1 takes 5 minutes, not 6'
echo '| 1 | 7 | two | 0 | why |' >"$dir/docs/teaching.md"; fails 'no week has one'
rm "$dir/docs/teaching.md"
mv "$dir/docs/chapter_07_step.md" "$dir/docs/chapter_07_other.md"; fails 'its chapter has no page'
