#!/bin/sh
# SPDX-License-Identifier: MIT
# Make the built-in corpus anew from the project's own text and code: chapters/data/make_corpus.sh
# The corpus is frozen: figures in pages and tests hold for the file as it is committed, so this is
# run on purpose only, and those figures are looked at again.
# The first nine tenths of every file stand first, the last tenths behind them: what a run holds out
# (the last tenth of the corpus) is then of the same kind as what it learns from.
set -eu
cd "$(dirname "$0")/../.."
train=$(mktemp) held_out=$(mktemp)
trap 'rm -f "$train" "$held_out"' EXIT
git ls-files 'mpt/*.hpp' 'chapters/*.cpp' 'chapters/*.hpp' 'docs/*.md' README.md run | sort |
while read -r file; do
    lines=$(wc -l <"$file")
    cut=$((lines - lines / 10))
    head -n "$cut" "$file" >>"$train"
    tail -n +"$((cut + 1))" "$file" >>"$held_out"
done
cat "$train" "$held_out" >chapters/data/corpus.txt
wc -c chapters/data/corpus.txt >&2
