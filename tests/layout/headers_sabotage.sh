#!/bin/sh
# SPDX-License-Identifier: MIT
# headers_sabotage.sh WORK KIND: headers.sh must find a header that leans on its includer's headers
# (alone), a function defined twice (inline), C++20 in numeric/ (cxx17), a warning (warning),
# a kernel that the emulator does not compile (kernel).
set -eu
work=$1/$2
here=$(cd "$(dirname "$0")" && pwd)
rm -rf "$work"
mkdir -p "$work/tree/mpt/base" "$work/tree/mpt/numeric"
cp "$here/../../mpt/base/error.hpp" "$work/tree/mpt/base"
new() { printf '#pragma once\n%s\n' "$2" >"$work/tree/mpt/$1"; }
new numeric/good.hpp 'inline int good() { return 1; }'
sh "$here/headers.sh" c++ "$work/out" "$work/tree" || { echo 'the good tree fails'; exit 1; }
case $2 in
    alone)   new base/bad.hpp 'inline int size(const std::string& s) { return int(s.size()); }'
             says='base/bad.hpp does not compile alone' ;;
    inline)  new base/bad.hpp 'int twice() { return 2; }'
             says='do not link from two translation units' ;;
    cxx17)   new numeric/bad.hpp 'template <class T> concept any = true;'
             says='numeric/bad.hpp does not compile alone with -std=c++17' ;;
    warning) new base/bad.hpp 'inline int unused(int x) { return 1; }'
             says='base/bad.hpp does not compile alone' ;;
    kernel)  mkdir "$work/tree/mpt/kernels"
             new kernels/bad.cuh 'inline int kernel(int x) { return lost(x); }'
             says='kernels/bad.cuh does not compile alone with -std=c++20 -DMPT_SIMT' ;;
    *) exit 2 ;;
esac
if sh "$here/headers.sh" c++ "$work/out" "$work/tree" >"$work/log" 2>&1; then echo "not seen: $2"; exit 1; fi
grep -F "$says" "$work/log" || { echo "seen, but not for its reason:"; cat "$work/log"; exit 1; }
