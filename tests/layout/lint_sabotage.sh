#!/bin/sh
# SPDX-License-Identifier: MIT
# lint_sabotage.sh WORK RULE: break one rule in a copy of the tree. lint.sh must be content with the
# line before and name it after. lint_sabotage.sh --list: the rules.
set -eu

rules='spdx file purpose tier needs-missing needs-extra card-word card-long see upward quoted says
 system posix sockets intrinsics cblas cublas once columns tab blanks note branch define exit print using circle
 folder kernel-includes kernel-branch kernel-name version source-licence source-note link words'

if [ "$1" = --list ]; then echo "$rules" | tr ' ' '\n' | grep .; exit; fi
work=$1/$2
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work/mpt/train" "$work/tests/base" "$work/chapters"
cp -R "$here/../../mpt/base" "$work/mpt/base"
cp "$here/../../CMakeLists.txt" "$work"
printf '// SPDX-License-Identifier: MIT\n' | tee "$work/tests/base/good_test.cpp" >"$work/chapters/good.cpp"
good() { sed -e "s/error\\.hpp/good.hpp/; s/tier 0/tier $1/; s|tests/base/error_test|tests/base/good_test|" \
    "$work/mpt/base/error.hpp"; }
good 0 >"$work/mpt/base/good.hpp"   # the good header, in a low tier
good 5 >"$work/mpt/train/good.hpp"  # and in a concept tier

low=mpt/base/good.hpp
high=mpt/train/good.hpp
kernel=mpt/kernels/good.cuh
mkdir "$work/mpt/kernels"
good 3 | sed 's/@file good.hpp/@file good.cuh/' >"$work/$kernel"
edit() { f=$work/$1; shift; sed "$@" "$f" >"$f.new"; mv "$f.new" "$f"; }
after_pragma() { edit "$1" "/^#pragma once/a\\
$2"; }

case $2 in
    spdx)          file=$low; says='line 1 is not';        sabotage() { edit $low 1d; } ;;
    file)          file=$low; says='line 2 is not';        sabotage() { edit $low 's/@file good/@file other/'; } ;;
    purpose)       file=$low; says='line 3 is not';        sabotage() { edit $low '3s/tier 0, //'; } ;;
    tier)          file=$low; says='the card says tier 3'; sabotage() { edit $low 's/tier 0/tier 3/'; } ;;
    needs-missing) file=$low; says='does not list under needs'
                   sabotage() { after_pragma $low '#include "mpt/base/version.hpp"  // version'; } ;;
    needs-extra)   file=$low; says='which is not included'; sabotage() { edit $low 's|std only|base/version.hpp|'; } ;;
    card-word)     file=$low; says='paragraph of the card'; sabotage() { edit $low 's|^/// Costs    |/// Costs |'; } ;;
    card-long)     file=$low; says='18 are allowed'
                   sabotage() { edit $low '/^\/\/\/ Costs/{p;p;p;p;p;p;p;p;p;p;p;}'; } ;;
    see)           file=$low; says='does not exist';       sabotage() { edit $low 's|tests/base/good_test|tests/base/gone_test|'; } ;;
    upward)        file=$low; says='tier 0 includes'
                   sabotage() { after_pragma $low '#include "mpt/train/good.hpp"  // check'; } ;;
    quoted)        file=$low; says='own headers are included as'
                   sabotage() { after_pragma $low '#include "version.hpp"  // version'; } ;;
    says)          file=$low; says='say behind it';        sabotage() { after_pragma $low '#include "mpt/base/version.hpp"'; } ;;
    system)        file=$high; says='nothing else';        sabotage() { after_pragma $high '#include <boost/any.hpp>'; } ;;
    posix)         file=mpt/numeric/good.hpp; says='POSIX belongs'
                   mkdir -p "$work/mpt/numeric"; good 1 >"$work/mpt/numeric/good.hpp"
                   sabotage() { after_pragma $file '#include <unistd.h>'; } ;;
    sockets)       file=$low; says='sockets belong in comm'; sabotage() { after_pragma $low '#include <sys/socket.h>'; } ;;
    intrinsics)    file=$high; says='intrinsics belong';   sabotage() { after_pragma $high '#include <immintrin.h>'; } ;;
    cblas)         file=$high; says='nn/product.hpp alone';   sabotage() { after_pragma $high '#include <cblas.h>'; } ;;
    cublas)        file=$high; says='nn/cublas_product.hpp alone'; sabotage() { after_pragma $high '#include <cublasLt.h>'; } ;;
    once)          file=$low; says='no #pragma once';      sabotage() { edit $low '/^#pragma once/d'; } ;;
    columns)       file=$low; says='100 are allowed'
                   sabotage() { after_pragma $low "// $(printf '%099d' 0)"; } ;;
    tab)           file=$low; says='a tab';                sabotage() { after_pragma $low "$(printf '//\tx')"; } ;;
    blanks)        file=$low; says='blanks at the end';    sabotage() { edit $low 's/^#pragma once/& /'; } ;;
    note)          file=$low; says='note to oneself';      sabotage() { after_pragma $low '// TO''DO later'; } ;;
    branch)        file=$high; says='a branch of the preprocessor'
                   sabotage() { after_pragma $high '#ifdef __linux__'; } ;;
    define)        file=$high; says='stays defined';       sabotage() { after_pragma $high '#define MPT_SPEED 9'; } ;;
    exit)          file=$high; says='never ends the program'
                   sabotage() { after_pragma $high 'inline void stop() { std::exit(1); }'; } ;;
    print)         file=$high; says='does not print'
                   sabotage() { after_pragma $high 'inline void hi() { std::cout << 1; }'; } ;;
    using)         file=$high; says='using namespace';     sabotage() { after_pragma $high 'using namespace std;'; } ;;
    circle)        file=mpt/; says='in a circle'
                   sabotage() { after_pragma $low '#include "mpt/base/ring.hpp"  // check'
                                good 0 >"$work/mpt/base/ring.hpp"
                                after_pragma mpt/base/ring.hpp '#include "mpt/base/good.hpp"  // check'; } ;;
    folder)        file=mpt/misc/good.hpp; says='is no tier'
                   sabotage() { mkdir "$work/mpt/misc"; good 0 >"$work/mpt/misc/good.hpp"; } ;;
    kernel-includes) file=$kernel; says='includes kernels/*.cuh alone'
                   sabotage() { after_pragma $kernel '#include "mpt/base/version.hpp"  // version'; } ;;
    kernel-branch) file=$kernel; says='meet in launch.cuh and device.cuh alone'
                   sabotage() { after_pragma $kernel '#ifdef __CUDACC__'; } ;;
    kernel-name)   file=mpt/kernels/good.hpp; says='.cuh is the ending'
                   sabotage() { good 3 >"$work/mpt/kernels/good.hpp"; } ;;
    version)       file=CMakeLists.txt; says='a second version number'
                   sabotage() { edit CMakeLists.txt 's/^project(mpt VERSION [^ ]*/project(mpt VERSION 9.9.9/'; } ;;
    source-licence) file=tests/base/good_test.cpp; says='line 1 is not'
                   sabotage() { echo 'int x;' >"$work/$file"; } ;;
    source-note)   file=chapters/good.cpp; says='note to oneself'
                   sabotage() { echo '// FIX''ME' >>"$work/$file"; } ;;
    link)          file=docs/page.md; says='leads nowhere'
                   mkdir "$work/docs"; echo '[error](../mpt/base/error.hpp#L3), `[x](y)`, [web](https://x.y)' >"$work/$file"
                   sabotage() { echo '[error](../mpt/base/eror.hpp)' >>"$work/$file"; } ;;
    words)         file=$low; says='docs/words.md does not name it'
                   mkdir "$work/docs"; echo '[good](../mpt/base/good.hpp)' >"$work/docs/words.md"
                   sabotage() { echo '[error](../mpt/base/error.hpp)' >"$work/docs/words.md"; } ;;
    *) echo "no rule '$2'"; exit 2 ;;
esac

named() { sh "$here/lint.sh" "$work" >"$work/out.txt" 2>&1 && status=0 || status=$?
          grep "^$file" "$work/out.txt" | grep -F -q -e "$says"; }
if named; then echo "lint complains before anything is broken:"; cat "$work/out.txt"; exit 1; fi
sabotage
if ! named || [ "$status" = 0 ]; then
    echo "rule $2 was broken in $file and lint did not say '$says' (status $status):"
    cat "$work/out.txt"
    exit 1
fi
grep "^$file" "$work/out.txt" | grep -F -e "$says"
