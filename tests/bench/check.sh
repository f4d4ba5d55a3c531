#!/bin/sh
# SPDX-License-Identifier: MIT
# check.sh NAME PROGRAM DIR [RUNNER...]: the benchmark runs with --quick, prints the rows it is known for, one
# JSON object each with --json, and refuses what it does not know. No word about speed.
# check_sabotage.sh shows that each of these checks can fail.
set -u
name=$1 program=$2 dir=$3 json=$3/$1.json
shift 3
set -- "$@" "$program"  # what starts it
options='--pairs --only --quick --json --help'
[ "$name" = cuda ] || options="$options --threads --cpu-time"
fail() { echo "bench.$name: $*" >&2; exit 1; }

case $name in
    step) rows='small T 256, fp32|small T 64, fp32|GPT-2 124M T 64, fp32|fp16, of|bf16, of|checkpointing, every block|checkpointing, sqrt, bytes' ;;
    cast) rows='fp32 to fp16, plain|fp16 to fp32, str|fp32 to bf16, plain|bf16 to fp32, str|fp32 to e4m3, of|e5m2 to fp32, str|fp32 to bf16, stoch|fp32 to e4m3, stoch' ;;
    optimizer) rows='inspect fp32|inspect fp16|AdamW, fused, of|AdamW, fused, against|accumulate' ;;
    ranks) rows='zero1 of ddp|zero2 of ddp|zero3 of ddp|8 ranks of 2' ;;
    offload) rows='states on the host, of|states in files, of' ;;
    layers) rows='layernorm forward|layernorm backward|gelu forward|gelu backward|softmax' ;;
    product) rows='own loop|own loop, of plain|matmul fp16|matmul bf16' ;;
    attention) rows='forward, T|backward, T|both ways, T|bytes, T' ;;
    collectives) rows='2 x 25 MiB fp32, of the ring|2 x 25 MiB fp32, of a leader|2 x 25 MiB fp32, of memory|4 x 25 MiB fp32, of memory|2 x 1 MiB fp32, of the ring|2 x 25 MiB bf16, of memory' ;;
    mpi) rows='2 processes, 25 MiB fp32|2 processes, 1 MiB fp32' ;;
    simt) rows='barrier, block of 32|shuffle, block of 1024|barrier, block of 256, to switch|no waits, y += x' ;;
    cuda) rows='copy by a kernel|cast fp32 to fp16|cast bf16 to fp32|AdamW, fused|AdamW, stochastic|AdamW, 8-bit|layernorm forward|layernorm backward|softmax forward|softmax backward|cross-entropy, one pass|matmul naive|matmul registers|matmul wmma tf32|matmul wmma fp16|matmul wmma bf16|attention forward|attention backward|attention both|product with bias, cuBLASLt|GPT-2 124M step, bf16, of cuBLAS|GPT-2 124M step, products by kernels' ;;
    memory) rows='buffers of|VmHWM, fp16|VmHWM, fp32' ;;
    *) fail "no rows are known for it: add them to $0" ;;
esac

mkdir -p "$dir" && rm -f "$json"
out=$("$@" --quick --json "$json" 2>"$json.err"); status=$?
if [ "$name" = cuda ] && [ "$status" = 3 ]; then
    [ "$(grep -c . "$json.err")" = 1 ] || fail "without a GPU more than one line: $(cat "$json.err")"
    echo "skipped: $(cat "$json.err")"; exit 77
fi
[ "$status" = 0 ] || fail "--quick ends with status $status: $(tail -n 1 "$json.err")"
[ -n "$out" ] || fail 'nothing on stdout'
rest=$rows
while [ -n "$rest" ]; do
    row=${rest%%|*}
    case $rest in *'|'*) rest=${rest#*|} ;; *) rest= ;; esac
    printf '%s\n' "$out" | grep -qF "$row" || fail "no row '$row' in:
$out"
done
lines=$(printf '%s\n' "$out" | grep -c .)
objects=$(grep -c '^{"bench":.*}$' "$json") || fail "no objects in $json"
[ "$objects" = $((lines - 1)) ] || fail "$((lines - 1)) rows, $objects objects in $json"

help=$("$@" --help) || fail "--help ends with status $?"
for option in $options; do
    printf '%s\n' "$help" | grep -q -- "$option" || fail "--help says nothing about $option"
done
for wrong in '--no-such-option' '--threads none' '--threads 0' '--pairs' 'word'; do
    # shellcheck disable=SC2086  # an option and its value
    text=$("$@" $wrong 2>&1); status=$?
    [ "$status" = 2 ] || fail "'$wrong' ends with status $status, not 2"
    [ "$(printf '%s\n' "$text" | grep -c .)" = 1 ] || fail "'$wrong' gets more than one line: $text"
done
echo "bench.$name: $objects rows"
