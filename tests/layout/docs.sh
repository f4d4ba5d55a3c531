#!/bin/sh
# SPDX-License-Identifier: MIT
# docs.sh WORK KIND. build: the book and the API without a warning. The others build a small tree:
# card: its words become paragraphs. formula: GitHub's formulas become formulas. snippet: a page quotes
# a file. lost-snippet, lost-page, bad-comment: mistakes that must stop the build.
# shellcheck disable=SC2016  # dollars and backquotes of Markdown
set -eu
work=$1/$2
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
case $root$work in *' '*) echo 'skipped: Doxygen wants a folder without blanks'; exit 77 ;; esac
command -v doxygen >/dev/null || { echo 'skipped: doxygen is not installed'; exit 77; }
rm -rf "$work"
mkdir -p "$work"
if [ "$2" = build ]; then sh "$root/docs/build.sh" "$work"; exit; fi

mkdir -p "$work/tree/docs" "$work/tree/mpt" "$work/tree/chapters"
cp "$root"/docs/*.sh "$root/docs/Doxyfile" "$work/tree/docs"
cp -R "$root/mpt/base" "$work/tree/mpt/base"
cd "$work/tree"
sed 's/^\/\/\/ Breaks   .*/&, `a<b>` and <b>/; s/^\/\/\/ Costs .*/\/\/\/ Formula  y = x * <T> @ 2\n\/\/\/          z = y\n&/' mpt/base/error.hpp >new
mv new mpt/base/error.hpp
printf '// SPDX-License-Identifier: MIT\n//! [step]\nint step = 7;\n//! [step]\n' >chapters/01_step.cpp
printf '# Title\n\nSee [the page](docs/page.md), and [the step](chapters/01_step.cpp).\n' >README.md
cat >docs/page.md <<'END'
# A page

**`seed` and more** is $S / n$, a price is 5$ or `$HOME`.

```math
y = x^2
```

> Code: [01_step.cpp, step](../chapters/01_step.cpp)
END
case $2 in
    lost-snippet) sed 's/cpp, step/cpp, gone/' docs/page.md >new; mv new docs/page.md; says='gone' ;;
    lost-page)    echo 'See @ref nowhere.' >>docs/page.md; says='nowhere' ;;
    bad-comment)  printf '/// @param z not there\ninline void f(int x);\n' >>mpt/base/error.hpp; says="'z'" ;;
    *) says='' ;;
esac
if sh docs/build.sh "$work/out" >"$work/log" 2>&1; then
    [ -z "$says" ] || { echo 'the mistake was not noticed'; exit 1; }
else
    cat "$work/log"
    [ -n "$says" ] || exit 1
    grep -q -F -e "$says" "$work/log"
    exit
fi
html=$work/out/html
has() { grep -q -F -e "$2" "$html/$1" || { echo "$1 has no $2"; exit 1; }; }
case $2 in
    card)    for word in Idea Costs Breaks See; do has error_8hpp.html "<dt>$word</dt>"; done
             has error_8hpp.html 'Tier 0, needs: std only'
             has error_8hpp.html '&lt;b&gt;'
             has error_8hpp.html 'y = x * &lt;T&gt; @ 2</div>'
             has error_8hpp.html 'z = y ' ;;
    formula) has md_docs_page.html '\(S / n\)'; has md_docs_page.html 'y = x^2'; has md_docs_page.html 'formulaDsp'; has md_docs_page.html '<b><code>seed</code> and more</b>'; has md_docs_page.html '5$ or <code>$HOME</code>'
             has md_docs_page.html 'mathjax/MathJax.js' ;;
    snippet) has md_docs_page.html '</a> = 7;'; has index.html 'href="md_docs_page.html"'; has index.html '01__step_8cpp' ;;
esac
