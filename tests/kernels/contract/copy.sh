#!/bin/sh
# SPDX-License-Identifier: MIT
# copy.sh HEADER WORK [RUNNER...]: the copy contract of one header of mpt/kernels. ./run copy takes it
# into an empty folder, under another namespace; of what came with it, only kernels/ is kept. A
# program with its own main, stream and buffers (use/NAME.cu) is compiled there by nvcc as C++17 and
# run behind RUNNER. Status 77: no device to run it on. NVCC: another nvcc.
# copy.sh --sabotage WORK: a kernel that includes a header of another folder, a use that expects something else.
set -eu
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
header=$1 work=$2; shift 2
cudart=static
if [ $# -gt 0 ]; then cudart=shared; fi

fetch() {  # fetch HEADER: the project of somebody else, with nothing of mpt but this
    rm -rf "$work"
    mkdir -p "$work"
    "$root/run" copy "kernels/$1" --namespace theirs --to "$work" 2>"$work/log" || { cat "$work/log"; exit 1; }
    find "$work/theirs" -mindepth 1 -maxdepth 1 -type d ! -name kernels -exec rm -r {} +
    cp "$here/use/user.cuh" "$work"
    name=${1%.cuh}
    if [ -e "$here/use/$name.cu" ]; then cp "$here/use/$name.cu" "$work/use.cu"
    else printf '#include "theirs/kernels/%s"\nint main() {}\n' "$1" >"$work/use.cu"; fi
}
build() {  # a runner brings a CUDA runtime of its own; without one none need be on the library path
    (cd "$work" && "${NVCC:-nvcc}" -std=c++17 -cudart $cudart -gencode arch=compute_80,code=compute_80 -I. \
        -Xcompiler=-Wall,-Wextra -Werror all-warnings -o use use.cu >log 2>&1)
}

if [ "$header" = --sabotage ]; then
    fetch elementwise.cuh
    sed 's|^#pragma once|&\n#include "theirs/numeric/fp16.hpp"|' "$work/theirs/kernels/elementwise.cuh" >"$work/new"
    mv "$work/new" "$work/theirs/kernels/elementwise.cuh"
    if build; then echo 'compiled with a header that is not there'; exit 1; fi
    grep -q 'theirs/numeric/fp16.hpp' "$work/log" || { cat "$work/log"; exit 1; }
    echo 'seen: a header of another folder'
    fetch elementwise.cuh
    sed 's/2\.25/2.5/' "$work/use.cu" >"$work/new"
    mv "$work/new" "$work/use.cu"
    build || { cat "$work/log"; exit 1; }
    status=0
    "$@" "$work/use" >"$work/log" || status=$?
    cat "$work/log"
    [ "$status" != 77 ] || exit 77
    grep -q 'element 1 is 2.25, wanted 2.5' "$work/log" && [ "$status" = 1 ]
    exit
fi
fetch "$header"
build || { cat "$work/log"; echo "$header does not compile alone in a project with nvcc"; exit 1; }
if [ ! -e "$here/use/${header%.cuh}.cu" ]; then
    if grep -q 'cudaStream_t [a-z]*)' "$root/mpt/kernels/$header"; then
        echo "$header has a launcher that nobody tries: write tests/kernels/contract/use/${header%.cuh}.cu"
        exit 1
    fi
    echo "$header compiles alone; it has no launcher"
    exit
fi
"$@" "$work/use" || { status=$?; [ "$status" = 77 ] || echo "the use of $header failed"; exit "$status"; }
echo "$header: $(grep -c . "$work/use.cu") lines use it, with $(find "$work/theirs" -name '*.cuh' | wc -l) files"
