#!/bin/sh
# SPDX-License-Identifier: MIT
# mpi_faults.sh PROGRAM RANKS FROM TO MPIEXEC...: faults number FROM to TO. Every job ends by itself
# with a status that is not 0; every rank that is not at fault names the one that is; the launcher
# names a killed one. A job in which nothing is at fault ends with 0 and without a word.
set -eu
program=$1 ranks=$2 from=$3 to=$4
shift 4
export MPT_TIMEOUT_S=3
log=$(mktemp)
trap 'rm -f "$log"' EXIT
fail() {
    echo "fault $i ($kind, rank $victim, call $point): $1"
    cat "$log"
    exit 1
}

i=none kind=none victim=0 point=none
status=0
timeout 120 "$@" "$ranks" "$program" none 0 0 >"$log" 2>&1 || status=$?
[ "$status" = 0 ] || fail "status $status"
if grep ended "$log"; then fail "somebody ended"; fi

i=$from
while [ "$i" -le "$to" ]; do
    kind=$(echo throws stalls leaves killed differs letter drops | cut -d ' ' -f $((i % 7 + 1)))
    victim=$((i / 7 % ranks))
    point=$((i * 7 % 40))
    if [ "$kind" = letter ]; then point=$((7 + i % 4 * 9)); fi # where all send to the next one
    status=0
    timeout 120 "$@" "$ranks" "$program" "$kind" "$victim" "$point" >"$log" 2>&1 || status=$?
    [ "$status" != 0 ] || fail "the job ends with 0"
    [ "$status" != 124 ] || fail "the job does not end"
    case $kind in
        throws)  says="rank $victim ended: thrown on purpose" ;;
        stalls)  says="waited 3 s for .*rank $victim (after" ;;
        leaves)  says="rank $victim (after .*) has left" ;;
        letter)  says=""
                 grep -q "recv of 1000 fp32 from rank $victim, who sends 7 fp32; both must say the same" "$log" ||
                     fail "nobody says what differs" ;;
        differs | drops) says="" ;; # another verb is named, or another size, or who has ended
        killed)  grep -qi 'signal 9\|KILLED' "$log" || fail "the launcher does not say so" ;;
    esac
    r=0
    while [ "$kind" != killed ] && [ "$r" -lt "$ranks" ]; do
        [ "$r" = "$victim" ] || grep -q "^ended $r: .*$says" "$log" || fail "rank $r does not say \"$says\""
        r=$((r + 1))
    done
    i=$((i + 1))
done
echo "$((to - from + 1)) faults"
