#!/bin/sh
# SPDX-License-Identifier: MIT
# headers.sh COMPILER WORK [ROOT [together]]: every header alone, and all of them in two translation
# units, in both orders, linked into one program; "together" leaves out the first part. What kernels
# are written in (simt/, kernels/*.cuh) is compiled for the emulator; nvcc: tests/kernels/contract.
# Status 77: the compiler is not here.
set -eu
export LC_ALL=C
compiler=$1 work=$2
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "${3:-$here/../..}" && pwd)
command -v "$compiler" >/dev/null || { echo "skipped: $compiler is not installed"; exit 77; }
rm -rf "$work"
mkdir -p "$work"
cd "$work"
ln -s "$root" tree  # a path without blanks
flags='-ffp-contract=off -Wall -Wextra -Wpedantic -Werror -Itree'
(cd "$root" && find mpt -name '*.hpp' -o -name '*.cuh' | sort) >list.txt

# What asks for the emulator: simt/, kernels/, and who includes them, also by way of others.
grep -E '^mpt/(simt|kernels)/' list.txt >asks.txt || true
before=
while [ "$(wc -l <asks.txt)" != "$before" ]; do
    before=$(wc -l <asks.txt)
    sed 's/.*/#include "&"/' asks.txt >includes.txt
    (cd "$root" && xargs grep -lFf "$work/includes.txt") <list.txt >more.txt || true
    sort -u asks.txt more.txt >all.txt
    mv all.txt asks.txt
done

# Alone: warnings are errors; numeric/ and its base also as C++17; product.hpp also with a BLAS,
# comm/mpi*.hpp also with MPI, comm/nccl*.hpp with NCCL.
{
    grep -vxFf asks.txt list.txt | sed 's/$/ -std=c++20/'
    sed 's/$/ -std=c++20 -DMPT_SIMT/' asks.txt
    grep -E '^mpt/(numeric/|base/(qualifiers|philox)\.hpp)' list.txt | sed 's/$/ -std=c++17/' || true
    if printf '#include <cblas.h>\n' | "$compiler" -x c++ -E - >/dev/null 2>&1; then
        grep '^mpt/nn/product\.hpp' list.txt | sed 's/$/ -std=c++20 -DMPT_HAS_CBLAS=1/' || true
    fi
    cuda="-isystem ${CUDA_HOME:-/usr/local/cuda}/include"
    # shellcheck disable=SC2086
    if printf '#include <nccl.h>\n' | "$compiler" $cuda -x c++ -E - >/dev/null 2>&1; then
        grep '^mpt/comm/nccl' list.txt | sed "s|\$| -std=c++20 -DMPT_HAS_NCCL=1 $cuda|" || true
    fi
    mpi=$(mpicxx --showme:incdirs 2>/dev/null | sed 's/[^ ][^ ]*/-isystem &/g') || mpi=
    # shellcheck disable=SC2086
    if [ -n "$mpi" ] && printf '#include <mpi.h>\n' | "$compiler" $mpi -x c++ -E - >/dev/null 2>&1; then
        grep '^mpt/comm/mpi' list.txt | sed "s|\$| -std=c++20 -DMPT_HAS_MPI=1 $mpi|" || true
    fi
} >jobs.txt
if [ "${4:-}" = together ]; then : >jobs.txt; fi
# shellcheck disable=SC2016  # expanded by the inner shell
[ ! -s jobs.txt ] || xargs -P "$(nproc 2>/dev/null || echo 2)" -L 1 sh -c '
    compiler=$1 flags=$2 header=$3; shift 3
    name=$(echo "$header $*" | tr -c "A-Za-z0-9+\n" _)
    printf "#include \"%s\"\n" "$header" >"$name.cpp"
    $compiler "$@" $flags -fsyntax-only "$name.cpp" >"$name.log" 2>&1 || echo "$header does not compile alone with $*" >"$name.bad"
' sh "$compiler" "$flags" <jobs.txt
if ls ./*.bad >/dev/null 2>&1; then
    cat ./*.bad
    for bad in ./*.bad; do head -n 20 "${bad%.bad}.log"; done
    exit 1
fi

# Twice: a function that is neither inline nor a template is defined twice, and the linker says so.
native=
case $compiler in *aarch64*) ;; *) native=-march=native ;; esac
# A compiler may warn of the CPU itself, whatever it compiles: then without its instructions.
if [ -n "$native" ] && ! echo 'int x;' | "$compiler" $native -Werror -x c++ -c -o /dev/null - 2>/dev/null; then
    echo "without $native, of which $compiler warns"
    native=
fi
sed 's/.*/#include "&"/' list.txt >first.cpp
echo 'int second(); int main() { return second(); }' >>first.cpp
sort -r list.txt | sed 's/.*/#include "&"/' >second.cpp
echo 'int second(); int second() { return 0; }' >>second.cpp
# shellcheck disable=SC2016,SC2086
printf '%s\n' first second | xargs -P 2 -I '{}' "$compiler" -std=c++20 $flags -DMPT_SIMT $native -c '{}.cpp' -o '{}.o' ||
    { echo 'the headers do not compile together'; exit 1; }
"$compiler" first.o second.o -pthread -o both || { echo 'the headers do not link from two translation units'; exit 1; }
echo "$(wc -l <jobs.txt) checks alone, $(wc -l <list.txt) headers twice: $("$compiler" --version | head -n 1)"
