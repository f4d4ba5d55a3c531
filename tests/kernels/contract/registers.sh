#!/bin/sh
# SPDX-License-Identifier: MIT
# registers.sh SOURCE ARCHITECTURE...: compiles SOURCE for these (80 90 ...) with nvcc and prints the
# registers, spills and static shared memory of each kernel. Status 1: a kernel spills on 80 or 90,
# or SOURCE is all.cu and a kernel of mpt/kernels is not in it. NVCC: another nvcc.
set -eu
export LC_ALL=C
source=$1; shift
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../../.." && pwd)
work=$(mktemp -d "${TMPDIR:-/tmp}/mpt-registers.XXXXXX")
trap 'rm -rf "$work"' EXIT
# Steps that are there to be read, not to be trained with: they may spill, and the table shows it.
may_spill=' '

for arch; do set -- "$@" -gencode "arch=compute_$arch,code=sm_$arch"; shift; done
if ! "${NVCC:-nvcc}" -std=c++17 -O3 -t 0 -I"$root" -Werror all-warnings -Xptxas -v "$@" -c "$source" \
        -o "$work/all.o" >"$work/said" 2>&1; then
    grep -v '^ptxas info' "$work/said" | head -n 30
    exit 1
fi
awk '/Compiling entry function/ { gsub(/'"'"'/, ""); name = $7; arch = $9 }
     /bytes stack frame/ { spill = $5 + $9 }
     /: Used [0-9]+ registers/ {
         shared = 0
         for (i = 1; i < NF; i++) if ($(i + 1) == "bytes" && $(i + 2) ~ /^smem/) shared = $i
         for (i = 1; i <= NF; i++) if ($i == "Used") print arch, $(i + 1), spill, shared, name
     }' "$work/said" | c++filt |
    sed 's/ void / /; s/(.*$//; s/mpt::kernels:://g; s/__nv_bfloat16/bf16/g; s/__half/fp16/g' |
    sort -k5 -k1,1 >"$work/table"
awk 'BEGIN { printf "%-8s %9s %13s %14s  %s\n", "", "registers", "spilled bytes", "shared memory", "kernel" }
     { k = $5; for (i = 6; i <= NF; i++) k = k " " $i; printf "%-8s %9d %13d %14d  %s\n", $1, $2, $3, $4, k }' "$work/table"
[ -s "$work/table" ] || { echo 'no kernel was compiled'; exit 1; }

bad=
if [ "$(basename "$source")" = all.cu ]; then
    cat "$root"/mpt/kernels/*.cuh | sed 's|//.*||' | tr '\n' ' ' |
        grep -oE '__global__ +(__launch_bounds__\([^)]*\) +)?void +(__launch_bounds__\([^)]*\) +)?[A-Za-z0-9_]+' |
        sed 's/.* //' | sort -u >"$work/kernels"
    [ -s "$work/kernels" ] || { echo 'no kernel was found in mpt/kernels'; exit 1; }
    while read -r kernel; do
        awk '{ print $5 }' "$work/table" | sed 's/<.*//; s/.*:://' | grep -qx "$kernel" || {
            echo "$kernel of mpt/kernels is not in all.cu: add its launcher there"; bad=yes; }
    done <"$work/kernels"
fi
spills=$(awk -v may="$may_spill" '($1 == "sm_80" || $1 == "sm_90") && $3 > 0 {
    name = $5; sub(/<.*/, "", name); sub(/.*::/, "", name)
    if (!index(may, " " name " ")) { k = $5; for (i = 6; i <= NF; i++) k = k " " $i; print k " spills " $3 " bytes on " $1 } }' "$work/table")
[ -z "$spills" ] || { printf '%s\n' "$spills"; bad=yes; }
[ -z "$bad" ] || exit 1
echo "$(wc -l <"$work/table") kernels, none of the training path spills"
