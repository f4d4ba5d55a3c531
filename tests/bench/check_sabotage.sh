#!/bin/sh
# SPDX-License-Identifier: MIT
# check_sabotage.sh KIND DIR: check.sh refuses a benchmark that is broken in this way, and takes
# the same one whole.
set -u
here=$(dirname "$0") kind=$1 work=$2/$1
mkdir -p "$work"
make() {  # a program that behaves like bench_memory, but for $1
    cat >"$work/bench" <<END
#!/bin/sh
case \$1 in
    --quick)
        [ "$1" = silent ] && exit 0
        echo header; echo 'buffers of'; echo 'VmHWM, fp16'
        [ "$1" = rowless ] || echo 'VmHWM, fp32'
        n=3; [ "$1" = rowless ] && n=2
        while [ \$n -gt 0 ]; do echo '{"bench":1}' >>"\$3"; n=\$((n - 1)); done
        [ "$1" = status ] && exit 1
        exit 0 ;;
    --help)
        echo --threads --pairs --only --quick --cpu-time --json --help
        exit 0 ;;
    *)
        echo unknown
        [ "$1" = options ] && exit 0
        exit 2 ;;
esac
END
    chmod +x "$work/bench"
}
make nothing
sh "$here/check.sh" memory "$work/bench" "$work" || exit 1
make "$kind"
if sh "$here/check.sh" memory "$work/bench" "$work" 2>"$work/why"; then
    echo "the sabotage '$kind' was not noticed"; exit 1
fi
echo "noticed: $(head -n 1 "$work/why")"
