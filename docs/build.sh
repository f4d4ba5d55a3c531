#!/bin/sh
# SPDX-License-Identifier: MIT
# docs/build.sh OUT: the book and the API into OUT/html. Any warning of Doxygen is an error.
set -eu
case $1 in /*) out=$1 ;; *) out=$PWD/$1 ;; esac
cd "$(dirname "$0")/.."
case $PWD in *' '*)
    echo "docs: Doxygen loses the links between pages below a folder with blanks in its name: $PWD"
    exit 1 ;;
esac
mkdir -p "$out"
MPT_DOCS_OUT=$out
MPT_VERSION=$(sed -n 's/.*version\[\] *= *"\([0-9.]*\)".*/\1/p' mpt/base/version.hpp)
exists() { for f in "$@"; do if [ -e "$f" ]; then printf '%s ' "$f"; fi; done; }
MPT_DOCS_INPUT=$(exists README.md docs mpt chapters)
MPT_DOCS_EXAMPLES=$(exists chapters mpt tests CMakeLists.txt CMakePresets.json README.md)
MPT_DOCS_IMAGES=$(exists docs docs/images)
css=/usr/share/doxygen-awesome-css
MPT_DOCS_CSS=$(exists $css/doxygen-awesome.css docs/book.css)
export MPT_DOCS_OUT MPT_VERSION MPT_DOCS_INPUT MPT_DOCS_EXAMPLES MPT_DOCS_IMAGES MPT_DOCS_CSS

rm -rf "$out/html"
doxygen docs/Doxyfile 2>"$out/warnings.txt" >"$out/log.txt" && status=0 || status=$?
# Doxygen 1.9.1 to 1.9.5 do not know each other's settings; that is no fault of the pages.
grep -v -E "ignoring unsupported tag|has become obsolete|^ *To avoid this warning" "$out/warnings.txt" >"$out/errors.txt" || true
if [ -s "$out/errors.txt" ] || { [ "$status" != 0 ] && [ ! -s "$out/warnings.txt" ]; }; then
    cat "$out/errors.txt"
    echo "docs: $(grep -c . "$out/errors.txt") lines of warnings, which are errors here"
    exit 1
fi
[ -e "$out/html/index.html" ] || { echo "docs: doxygen wrote no pages (status $status)"; exit 1; }
mathjax=/usr/share/javascript/mathjax
if [ -d $mathjax ]; then ln -sfn $mathjax "$out/html/mathjax"; fi
echo "docs: $(find "$out/html" -name '*.html' | wc -l) pages in $out/html"
