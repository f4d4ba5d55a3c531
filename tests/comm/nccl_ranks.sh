#!/bin/sh
# SPDX-License-Identifier: MIT
# nccl_ranks.sh RANKS KIND PROGRAM...: so many processes by a shell loop, as README's launch without
# mpirun. KIND: all, every rank is content; leaves: rank 1 does early, and every other says that it
# ended so. Status 77: there are fewer GPUs than ranks.
set -eu
ranks=$1 kind=$2
shift 2
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
export WORLD_SIZE="$ranks" MASTER_ADDR=127.0.0.1 MPT_RUN_ID="$$" MPT_TIMEOUT_S=60
MASTER_PORT=$((20000 + $$ % 10000))
export MASTER_PORT
rank=0
while [ "$rank" -lt "$ranks" ]; do
    (
        status=0
        RANK=$rank LOCAL_RANK=$rank timeout 500 "$@" "$kind" >"$folder/$rank" 2>&1 || status=$?
        echo "$status" >"$folder/$rank.status"
    ) &
    rank=$((rank + 1))
done
wait
if grep -q 'sees no GPU\|Duplicate GPU' "$folder"/[0-9]; then
    echo "skipped: $ranks ranks of NCCL need as many GPUs"
    exit 77
fi
failed=0
rank=0
while [ "$rank" -lt "$ranks" ]; do
    status=$(cat "$folder/$rank.status")
    if [ "$kind" = leaves ] && [ "$rank" != 1 ]; then
        { [ "$status" = 1 ] && grep -q "^ended: rank $rank: agree, collective 2: " "$folder/$rank"; } || failed=1
    else
        [ "$status" = 0 ] || failed=1
    fi
    [ "$failed" = 0 ] || { echo "rank $rank, status $status:"; cat "$folder/$rank"; }
    rank=$((rank + 1))
done
exit "$failed"
