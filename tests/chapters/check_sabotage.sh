#!/bin/sh
# SPDX-License-Identifier: MIT
# check_sabotage.sh WORK CASE: check.sh must find what is wrong with a chapter made for the purpose.
# check_sabotage.sh --list: the cases.
set -eu
if [ "$1" = --list ]; then
    echo right expectation stderr status no-expect no-broken unclear unbroken silent crash with picture no-picture help option lines
    exit 0
fi
work=$1/$2 case=$2
check=$(cd "$(dirname "$0")" && pwd)/check.sh
rm -rf "$work"
mkdir -p "$work/chapters" "$work/docs/images"
cd "$work"
echo '<svg/>' >docs/images/x.svg

# A chapter and its program, both right: then one word of either is changed.
cat >chapters/00_fake.cpp <<'CHAPTER'
// broken: --no-master --lr 1 => 0 of 3 moved
// broken: --no-master --lr 1 => error: nothing moved
// with: --fast => 3 of 3 moved
// picture: --fast --plot x.svg => docs/images/x.svg
    print("moved"); // expect: 3 of 3 moved
CHAPTER
cat >program <<'PROGRAM'
#!/bin/sh
case "$*" in
    ''|--fast) echo 'after 2 steps    3 of 3   moved'; exit 0 ;;
    '--fast --plot x.svg') echo '<svg/>' >x.svg; exit 0 ;;
    '--no-master --lr 1') echo '0 of 3 moved'; echo 'error: nothing moved' >&2; exit 1 ;;
    --help) echo 'a chapter: --no-master --lr RATE --fast'; exit 0 ;;
    *) echo "unknown option $1" >&2; exit 2 ;;
esac
PROGRAM
change() { # change FILE SED-SCRIPT, which must change something
    sed "$2" "$1" >changed
    if cmp -s "$1" changed; then echo "the sabotage $case changes nothing"; exit 1; fi
    cat changed >"$1"
}
case $case in
    right) wanted= ;;
    expectation) change chapters/00_fake.cpp 's/expect: 3/expect: 2/'; wanted='stdout does not have: 2 of 3 moved' ;;
    stderr) change program "s/moved'; exit 0/moved' >\&2; exit 0/"; wanted='stdout does not have: 3 of 3 moved' ;;
    status) change program 's/; exit 0 ;;/; exit 3 ;;/'; wanted='exits with 3 without flags' ;;
    no-expect) change chapters/00_fake.cpp '/expect/d'; wanted='has no line with // expect' ;;
    no-broken) change chapters/00_fake.cpp '/broken/d'; wanted='has no line with // broken' ;;
    unclear) change chapters/00_fake.cpp 's/ => 3/ 3/'; wanted='wanted FLAGS => TEXT' ;;
    unbroken) change program 's/; exit 1 ;;/; exit 0 ;;/'; wanted='--no-master --lr 1: exits with 0' ;;
    silent) change program 's/error: nothing moved/ok/'; wanted='does not show: error: nothing moved' ;;
    crash) change program 's/; exit 1 ;;/; kill -SEGV $$ ;;/'; wanted='exits with 139' ;;
    with) change chapters/00_fake.cpp 's/--fast => 3/--fast => 2/'; wanted='--fast: does not show: 2 of 3 moved' ;;
    picture) change docs/images/x.svg 's/svg/SVG/'; wanted='is not docs/images/x.svg' ;;
    no-picture) change program 's/>x.svg/>y.svg/'; wanted='is not docs/images/x.svg' ;;
    help) change program "s/ --fast'/'/"; wanted='--help does not name --fast' ;;
    option) change program 's/exit 2/exit 1/'; wanted='an unknown option: exits with 1' ;;
    lines) change program 's/unknown option/unknown\\noption/'; wanted='an unknown option: 2 lines' ;;
    *) echo "no case is called $case"; exit 2 ;;
esac
chmod +x program
status=0
sh "$check" chapters/00_fake.cpp "$PWD/program" "$PWD/run" >log 2>&1 || status=$?
cat log
if [ "$case" = right ]; then exit "$status"; fi
[ "$status" != 0 ] || { echo "check.sh did not notice"; exit 1; }
grep -qF -e "$wanted" log || { echo "wanted the line: $wanted"; exit 1; }
