#!/bin/sh
# SPDX-License-Identifier: MIT
# faults.sh PROGRAM SOURCE KIND: the checks find the fault of this kind, with kernel, block, thread,
# file and line, and say nothing of the same kernel repaired. --list: the kinds.
set -eu
kinds='past_the_end read_before misaligned after_free host shared_end other_kernels_array dynamic_end
 null not_written shared_not_written no_barrier same_value shuffle_is_no_barrier warp_barrier_only
 next_round between_blocks halves no_fence half_the_block
 structure_left structure_taken'
if [ "$1" = --list ]; then
    echo "$kinds"
    exit
fi
program=$1 source=$2 kind=$3
kernel=$kind
case $kind in after_free | host | null) kernel=of_pointers ;; esac

line() { # of the place marked "LINE name"
    grep -n "LINE $1\\( \\|\$\\)" "$source" | head -n 1 | cut -d: -f1
}
said=$("$program" "$kind")
want() {
    case $said in *"$1"*) return ;; esac
    echo "$kind: expected '$1' in"
    echo "$said"
    exit 1
}
want "faults::$kernel"
want "faults.cpp:$(line "$kind")"
first='thread (0,0,0) in block (0,0,0)'
case $kind in
    past_the_end)
        want 'Invalid __global__ write of size 4 bytes'
        want 'by thread (64,0,0) in block (2,0,0)'
        want 'is out of bounds and is 1 bytes after the nearest allocation at 0x'
        want ' of size 1024 bytes' ;;
    read_before)
        want 'Invalid __global__ read of size 4 bytes'
        want "by $first"
        want 'is out of bounds and is 4 bytes before the nearest allocation at 0x' ;;
    structure_left)
        want 'Invalid __global__ write of size '
        want 'by thread (64,0,0) in block (0,0,0)' ;;
    structure_taken)
        want 'Invalid __global__ read of size '
        want 'by thread (64,0,0) in block (0,0,0)' ;;
    misaligned)
        want 'Invalid __global__ read of size 16 bytes'
        want 'by thread (1,0,0) in block (0,0,0)'
        want 'is misaligned' ;;
    after_free)
        want 'Invalid __global__ read of size 4 bytes'
        want 'of size 256 bytes was freed' ;;
    host) want "is not in the device's memory: it is the host's" ;;
    null) want 'Address 0x0 is out of bounds: it is a null pointer' ;;
    shared_end)
        want 'Invalid __shared__ write of size 4 bytes'
        want 'by thread (63,0,0) in block (0,0,0)'
        want '1 bytes after faults::shared_end<false>(float*)::s of size 256 bytes' ;;
    other_kernels_array) want 'Invalid __shared__ write of size 4 bytes' ;;
    dynamic_end)
        want 'Invalid __shared__ write of size 4 bytes'
        want 'by thread (60,0,0) in block (0,0,0)'
        want "the block's dynamic shared memory has 240 bytes, this is byte 240" ;;
    not_written)
        want 'Uninitialized __global__ memory read of size 4 bytes'
        want 'by thread (5,0,0) in block (0,0,0)' ;;
    shared_not_written)
        want 'Uninitialized __shared__ memory read of size 4 bytes'
        want "by $first" ;;
    no_barrier)
        want 'Race reported between Read access at '
        want 'and Write access at '
        want "faults.cpp:$(line no_barrier.other) [32 hazards]"
        want 'on __shared__ memory' ;;
    same_value)
        want 'Race reported between Write access at '
        want 'and Write access at '
        want '[7 hazards]' # of 8 threads
        want "by thread (1,0,0) in block (0,0,0)" ;;
    shuffle_is_no_barrier | warp_barrier_only | next_round) want 'Race reported between ' ;;
    halves)
        want 'Race reported between Write access at '
        want 'on __shared__ memory' ;;
    between_blocks)
        want 'on __global__ memory'
        want 'by thread (0,0,0) in block (1,0,0)' ;;
    no_fence)
        want 'Race reported between Read access at '
        want 'by thread (0,0,0) in block (3,0,0)'
        want "and by $first" ;;
    half_the_block)
        want 'Barrier error detected. Divergent thread(s) in block, 32 exited threads'
        want 'thread (0,0,0) and 31 more at __syncthreads()' ;;
esac
said=$("$program" "$kind.repaired")
[ "$said" = "$kind: clean" ] && exit
echo "$kind, repaired: expected no findings, found"
echo "$said"
exit 1
