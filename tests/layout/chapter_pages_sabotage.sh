#!/bin/sh
# SPDX-License-Identifier: MIT
# chapter_pages_sabotage.sh DIR: chapter_pages.sh is seen to fail, in a small book with one thing
# wrong at a time.
# shellcheck disable=SC2016  # dollars and backquotes of Markdown
set -eu
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd)
dir=$1
page=$dir/docs/chapter_07_step.md
rm -rf "$dir"; mkdir -p "$dir/docs/images" "$dir/chapters"
right() {
    rm -f "$dir"/docs/*.md "$dir"/docs/images/* "$dir"/chapters/*
    echo '<svg><title>x</title><desc>y</desc><style>@media(prefers-color-scheme:dark){}</style></svg>' >"$dir/docs/images/x.svg"
    echo 'See [7](docs/chapter_07_step.md).' >"$dir/README.md"
    printf '// A step.\n// broken: --no => [FAILS] 4 of 5\n    // expect: [holds] 5 of 5 weights\n' >"$dir/chapters/07_step.cpp"
    cat >"$page" <<'END'
# Chapter 7: A step

```sh
./run chapter 07_step
```

**The idea.** Step.

| one | two |
|---|---|

```math
y = x
```

**In numbers.** It is
`5 of 5 weights`.

> Code: [07_step.cpp, step](../chapters/07_step.cpp)

## What it costs: nothing

## Break it

| flag | what |
|---|---|

## What others call it

PyTorch: step. ![one two three four five](images/x.svg)

## Often said, and not so

- *"a"* b
- *"c"* d

## Exercises

`./run learn test step`

## Where it comes from

A paper, section 3. Next: the end.
END
}
fails() {  # fails WORDS: chapter_pages.sh says them, and nothing else
    if out=$(sh "$here/chapter_pages.sh" "$dir"); then echo "passed although: $1"; exit 1; fi
    case $out in *"$1"*) ;; *) echo "said '$out', wanted '$1'"; exit 1 ;; esac
    [ "$(printf '%s\n' "$out" | wc -l)" = 1 ] || { echo "said '$out', wanted one line: '$1'"; exit 1; }
    right
}
without() { sed -i "$1" "$page"; fails "$2"; }  # without SED WORDS
right
sh "$here/chapter_pages.sh" "$dir" >"$dir/log"
mv "$page" "$dir/docs/page.md"; fails '07_step.cpp: has no page'
cp "$page" "$dir/docs/chapter_08_other.md"; fails 'there is no chapters/08_other.cpp'
echo 'nothing' >"$dir/README.md"; fails 'does not lead to docs/chapter_07_step.md'
without '1s/7/8/' 'line 1 is not # Chapter 7: '
without '/^.\/run chapter/d' 'no ./run chapter tells'
without 's/^\*\*The idea.\*\* /Idea: /' 'no **The idea.**'
without '/^| one/,/^|--/d' 'no table and no picture before'
without 's/one two three four five/a picture/' 'a picture without words'
without 's/^```math/```/' 'no formula'
without 's/\*\*In numbers.\*\*/In numbers:/' 'no **In numbers.**'
without 's/`5 of 5/`6 of 6/' 'quotes no number'
without 's/`5 of 5 weights`/`weights`/' 'quotes no number'
without 's/\[07_step.cpp, /[08_step.cpp, /' 'quotes nothing of its program'
without 's/^PyTorch.*/&\n\n\\snippet x y/' 'on GitHub nobody can follow'
without 's/^## What it costs.*/## Costs/' '0 times ## What it costs'
without 's/^## Exercises/## Exercises\n\n`.\/run learn test x`\n\n&/' '2 times ## Exercises'
without 's/^PyTorch/Nobody/' 'names neither PyTorch nor'
without 's/^- \*"c.*//' 'has 1 items'
without 's/^`.\/run learn.*//' 'neither ./run learn test nor'
without 's/section 3/page 3/' 'names no section'
without 's/Next: //' 'no Next:'
without '/^| flag/,/^|--/d' '## Break it has no table'
sed -i '/^## Break it/,/^|--/d; s/^## Exercises/&\n\n`.\/run learn test x`\n\n## Break it\n\n| flag |\n/' "$page"
fails '## Break it stands behind'
cp "$dir/docs/images/x.svg" "$dir/docs/images/y.svg"; fails 'y.svg: no page shows it'
sed -i 's/<desc>y/<desc>/' "$dir/docs/images/x.svg"; fails 'x.svg: has no <desc>'
sed -i 's/<title>x/<title>/' "$dir/docs/images/x.svg"; fails 'x.svg: has no <title>'
sed -i 's/dark/light/' "$dir/docs/images/x.svg"; fails 'x.svg: has no prefers-color-scheme:dark'
