#!/bin/sh
# SPDX-License-Identifier: MIT
# check.sh SOURCE PROGRAM WORK: run a chapter and look for what its comments promise.
#   // expect: TEXT            a run without flags shows TEXT on stdout and exits with 0
#   // broken: FLAGS => TEXT   with FLAGS the claim fails: TEXT on stdout or stderr, status not 0
#   // with: FLAGS => TEXT     with FLAGS the claim holds: TEXT on stdout, status 0
#   // picture: FLAGS FILE => docs/images/NAME   with FLAGS it writes FILE, the book's picture, byte for byte
# A chapter has at least one expect and one broken line. Runs of blanks count as one blank, so a
# table may be aligned anew. --help must name every flag; an unknown option is one line, status 2.
set -eu
export LC_ALL=C
source=$1 program=$2 work=$3
name=$(basename "$source" .cpp)
rm -rf "$work"
mkdir -p "$work"
source=$(cd "$(dirname "$source")" && pwd)/$(basename "$source")
cd "$work"
failed=0
bad() { echo "$name: $*"; failed=1; }

squeeze() { tr -s ' \t' ' ' | sed 's/^ //; s/ $//'; }
lines() { sed -n "s|^.*// $1: *||p" "$source" | squeeze; } # lines expect: what stands behind it
shows() { squeeze <"$1" | grep -qF -e "$2"; }
tail_of() { tail -n 15 "$1" | sed 's/^/    /'; }
run() { # run FILE FLAGS...: FILE.out, FILE.err, and the status in $status
    to=$1; shift
    status=0
    "$program" "$@" >"$to.out" 2>"$to.err" </dev/null || status=$?
}

lines expect >expect.txt
[ -s expect.txt ] || bad "has no line with // expect: TEXT; a chapter that claims nothing teaches nothing"
{
    lines broken | sed 's/^/broken /'
    lines with | sed 's/^/with /'
} >modes.txt
grep -q '^broken ' modes.txt || bad "has no line with // broken: FLAGS => TEXT; show how its claim fails"
grep -v ' => [^ ]' modes.txt >unclear.txt || true
[ ! -s unclear.txt ] || bad "wanted FLAGS => TEXT, found: $(head -n 1 unclear.txt)"
[ "$failed" = 0 ] || exit 1

run default
[ "$status" = 0 ] || { bad "exits with $status without flags"; tail_of default.out; tail_of default.err; }
while read -r text; do
    shows default.out "$text" || { bad "stdout does not have: $text"; tail_of default.out; }
done <expect.txt

sed 's/ => .*//' modes.txt | sort -u >runs.txt
while read -r mode flags <&3; do
    # shellcheck disable=SC2086  # the flags are several words
    run mode $flags
    case $mode in
        broken) if [ "$status" = 0 ] || [ "$status" -ge 126 ]; then
            bad "$flags: exits with $status; wanted 1, since its claim does not hold"
        fi ;;
        with) [ "$status" = 0 ] || { bad "$flags: exits with $status"; tail_of mode.err; } ;;
    esac
    cat mode.out >mode.shown
    [ "$mode" = with ] || cat mode.err >>mode.shown
    grep -F -e "$mode $flags => " modes.txt >of_run.txt
    while read -r line; do
        text=${line#* => }
        shows mode.shown "$text" || { bad "$flags: does not show: $text"; tail_of mode.shown; }
    done <of_run.txt
done 3<runs.txt

lines picture >pictures.txt
while read -r line <&3; do
    flags=${line% => *} wanted=$(dirname "$source")/../${line#* => }
    # shellcheck disable=SC2086  # the flags are several words
    run picture $flags
    [ "$status" = 0 ] || { bad "$flags: exits with $status"; tail_of picture.err; }
    cmp -s "${flags##* }" "$wanted" ||
        bad "$flags: is not ${line#* => }, which the book shows; draw that anew with these flags"
done 3<pictures.txt

run help --help
if [ "$status" != 0 ] || [ ! -s help.out ]; then
    bad "--help: exits with $status, wanted a text on stdout and 0"
fi
sed 's/^[a-z]* //' runs.txt | tr ' ' '\n' | sed -n 's/=.*//; /^--/p' | sort -u >flags.txt
while read -r flag; do
    grep -qwF -e "$flag" help.out || bad "--help does not name $flag"
done <flags.txt

run unknown --no-such-option
[ "$status" = 2 ] || bad "an unknown option: exits with $status, wanted 2"
if [ "$(wc -l <unknown.err)" -ne 1 ] || [ -s unknown.out ]; then
    bad "an unknown option: $(wc -l <unknown.err) lines on stderr, wanted 1, and none on stdout"
fi

[ "$failed" = 0 ] || exit 1
echo "$name: $(wc -l <expect.txt) lines as expected, $(wc -l <modes.txt) in other modes"
