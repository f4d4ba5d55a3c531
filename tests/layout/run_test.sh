#!/bin/sh
# SPDX-License-Identifier: MIT
# run_test.sh WORK CASE: what ./run says and does when something is not as it should be.
# Nothing is installed and nothing of the project is compiled here: cmake, ninja and apt-get are stand-ins
# that leave a mark. run_test.sh --list: the cases.
# shellcheck disable=SC2016  # the stand-ins expand their own dollars
set -eu

cases='help unknown-command no-command launcher launcher-off slurm-alone built-program start-builds
 second-start build-fails compile-fails no-compiler no-sudo apt apt-fails moved-folder stdout chapter-list chapter-names
 chapter-unknown sample doctor doctor-bare copy-where copy-what copy-unknown copy-option copy-value
 copy-namespace copy-clash copy-again copy-nowhere copy-anywhere copy-short copy-closure copy-licence
 copy-macros test test-quick gpu gpu-refused gpu-asked gpu-later gpu-old-nvcc gpu-doctor gpu-chapter gpu-bench'
if [ "$1" = --list ]; then echo "$cases" | tr ' ' '\n' | grep .; exit; fi

here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
work=$1/$2
rm -rf "$work"
mkdir -p "$work/bin" "$work/tree/chapters"
work=$(cd "$work" && pwd -P)
for v in OMPI_COMM_WORLD_RANK PMI_RANK RANK WORLD_SIZE SLURM_PROCID SLURM_STEP_ID SLURM_STEP_NUM_TASKS \
         MPT_CMAKE_ARGS MPT_BUILD CXX; do unset "$v"; done

# A tree with run and the headers, and tools that only say that they were called.
cp "$root/run" "$root/LICENSE" "$work/tree"
cp -R "$root/mpt" "$work/tree/mpt"
printf '// SPDX-License-Identifier: MIT\n/// @file 01_step.cpp\n/// One step, read top to bottom.\n' >"$work/tree/chapters/01_step.cpp"
printf '// SPDX-License-Identifier: MIT\n// Small gradients survive.\n' >"$work/tree/chapters/04_loss_scale.cpp"
run=$work/tree/run
tool() { printf '#!/bin/sh\n%s\n' "$2" >"$work/bin/$1"; chmod +x "$work/bin/$1"; }
program='mkdir -p "$MPT_BUILD/bin" && printf "#!/bin/sh\necho \"program: \$*\"\n" >"$MPT_BUILD/bin/made" && chmod +x "$MPT_BUILD/bin/made"'
tool cmake "echo \"cmake \$*\" >>'$work/called'
case \$1 in
    -S) mkdir -p \"\$MPT_BUILD\"; echo 'CMAKE_HOME_DIRECTORY:INTERNAL=$work/tree' >\"\$MPT_BUILD/CMakeCache.txt\"
        case \" \$* \" in *' -DMPT_CUDA=ON '*) echo MPT_CUDA:STRING=ON >>\"\$MPT_BUILD/CMakeCache.txt\" ;; esac
        : >\"\$MPT_BUILD/build.ninja\" ;;
    --build) while [ \"\$1\" != --target ]; do shift; done; shift
        $program; for t in \"\$@\"; do cp \"\$MPT_BUILD/bin/made\" \"\$MPT_BUILD/bin/\$t\"; done ;;
esac"
tool ninja :
tool apt-get "echo \"apt-get \$*\" >>'$work/called'"
tool sudo "exit 1"
tool nvidia-smi 'exit 9'  # no GPU, unless a case brings one
export PATH="$work/bin:$PATH" MPT_BUILD="$work/build" MPT_APT=0

out='' err='' status=0
try() { status=0; "$@" >"$work/out" 2>"$work/err" </dev/null || status=$?
        out=$(cat "$work/out") err=$(cat "$work/err"); }
fail() { echo "$*"; echo "status $status"; echo "stdout: $out"; echo "stderr: $err"; cat "$work/called" 2>/dev/null; exit 1; }
wants() { [ "$status" = "$1" ] || fail "wanted status $1"
          [ -z "${2:-}" ] || printf '%s\n' "$err" | grep -F -q -e "$2" || fail "wanted on stderr: $2"; }
one_line() { [ "$(printf '%s\n' "$err" | wc -l)" = 1 ] || fail 'wanted one line'; }
silent() { [ -z "$out" ] || fail 'stdout belongs to the program'; }
called() { [ -e "$work/called" ] && grep -q -e "$1" "$work/called"; }
built_nothing() { [ ! -e "$work/called" ] || fail 'something was called'; [ ! -e "$work/build" ] || fail 'a build folder appeared'; }
silent_but() { [ "$out" = "$1" ] || fail "stdout belongs to the program"; }
refuses_devices() { # refuses_devices WANTED COMMAND...: what is no device, at once
    devices=$1; shift
    rm -f "$work/called"
    for d in tpu cudaa --rows '*' 'cpu cuda' 'emulator cuda' ''; do
        try "$run" "$@" --quick --device "$d" x; wants 2 "--device ${d:-''}: wanted $devices"; one_line
        try "$run" "$@" "--device=$d"; wants 2 "--device ${d:-''}: wanted $devices"; one_line
    done
    try "$run" "$@" --quick --device; wants 2 "--device wants a value: $devices"; one_line; silent
    [ ! -e "$work/called" ] || fail 'something was called'
}
tools_of_a_gpu() {
    tool nvidia-smi 'echo "GPU 0: NVIDIA Stand-in (UUID: GPU-1)"'
    tool nvcc 'echo "Cuda compilation tools, release 13.0, V13.0.88"'
    cp "$work/bin/cmake" "$work/bin/plain-cmake"
}
tests_are_here() {  # doctest, and a ctest that says how it was called
    sed 's/^has_header() {/has_header() { return 0/' "$run" >"$run.new"; mv "$run.new" "$run"; chmod +x "$run"
    tool ctest 'while [ "$1" != -j ]; do shift; done; shift 2; echo "ctest: $*"'
}
few_tools() {  # a PATH with what a bare system has
    mkdir "$work/few"
    for t in sh sed awk grep dirname basename cat id tr head tail mkdir rm mktemp cp cmp sort find env nproc uname chmod; do
        ln -s "$(command -v "$t")" "$work/few/$t"
    done
    few=$work/few
}

case $2 in
    help) try "$run" help; wants 0 './run train'; silent
          for c in test chapter sample inspect export copy bench docs build doctor; do
              printf '%s\n' "$err" | grep -q "run $c" || fail "help does not name $c"; done ;;
    no-command) try "$run"; wants 0 './run train' ;;
    unknown-command)
        try "$run" trian --steps 3; wants 2 'perhaps train'; one_line; silent
        try "$run" --steps 3; wants 2 "'./run help' lists them"; one_line; built_nothing ;;
    launcher)  # each launcher's variables: no apt, no cmake, no folder, and what to do
        for set in OMPI_COMM_WORLD_RANK=0 PMI_RANK=3 'RANK=0 WORLD_SIZE=2' 'SLURM_PROCID=1 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=2' \
                   'SLURM_PROCID=0 SLURM_STEP_ID=0'; do
            # shellcheck disable=SC2086
            for c in train 'sample x' 'chapter step'; do try env $set "$run" $c; wants 3 "'./run build' first"; one_line; done
            # shellcheck disable=SC2086
            for c in test build docs; do try env $set "$run" "$c"; wants 3 'nothing is built'; one_line; done
        done
        silent; built_nothing ;;
    launcher-off)  # the check above can fail: a run that does not look at the variables builds
        sed 's/^launched() {/launched() { return 1/' "$run" >"$run.new"; sh -n "$run.new"
        mv "$run.new" "$run"; chmod +x "$run"
        try env PMI_RANK=0 "$run" train
        called 'cmake -S' || fail 'the sabotaged run did not build either' ;;
    slurm-alone)  # one task in an interactive step, and a batch script: no launcher
        try env SLURM_PROCID=0 SLURM_STEP_ID=0 SLURM_STEP_NUM_TASKS=1 "$run" train; wants 0
        try env SLURM_PROCID=0 SLURM_NTASKS=16 "$run" train; wants 0
        try env RANK=0 "$run" train; wants 0 ;;
    built-program)
        mkdir -p "$work/build/bin"; printf '#!/bin/sh\necho "program: $*"; exit 7\n' >"$work/build/bin/train"; chmod +x "$work/build/bin/train"
        try env PMI_RANK=0 "$run" train --steps 3 'a b'; wants 7; [ "$out" = 'program: --steps 3 a b' ] || fail 'arguments'
        [ -z "$err" ] || fail 'nothing to say'; [ ! -e "$work/called" ] || fail 'something was called' ;;
    start-builds)
        try "$run" train --steps 3; wants 0; [ "$out" = 'program: --steps 3' ] || fail 'the program was not started'
        called 'target train$' || fail 'train must build train and nothing else' ;;
    second-start)
        try "$run" train; rm "$work/called"; try "$run" train; wants 0
        called 'cmake -S' && fail 'configured again'; called apt-get && fail 'asked apt'
        [ -z "$err" ] || fail 'nothing to say' ;;
    build-fails)
        tool cmake 'case $1 in -S) echo "CMake Error: no luck"; exit 1 ;; esac'
        try "$run" train; wants 1 'no luck'; wants 1 'configure.log'; silent ;;
    compile-fails)
        tool cmake 'case $1 in -S) : >"$MPT_BUILD/build.ninja" ;; --build) echo "x.cpp:1: error: no"; exit 1 ;; esac'
        try "$run" train; wants 1 'x.cpp:1: error: no'; wants 1 'the build of train failed'; silent ;;
    no-compiler)
        few_tools; try env PATH="$few" "$run" train; wants 3 'sudo apt-get install g++ cmake ninja-build'
        wants 3 'there is no C++ compiler'; silent ;;
    no-sudo)  # not root, no sudo: name what is missing, go on
        few_tools; cp "$work/bin/cmake" "$work/bin/ninja" "$work/bin/apt-get" "$few"
        printf '#!/bin/sh\nPATH=%s exec %s "$@"\n' "'$PATH'" "$(command -v c++)" >"$few/c++"; chmod +x "$few/c++"
        tool id 'echo 1000'; rm "$few/id"; cp "$work/bin/id" "$few"
        sed 's/has_cblas  *||/false ||/' "$run" >"$run.new"; mv "$run.new" "$run"; chmod +x "$run"
        try env MPT_APT=1 PATH="$few" "$run" train; wants 0 'missing: libopenblas-dev'
        wants 0 'sudo apt-get install libopenblas-dev'; called apt-get && fail 'apt without being root'
        [ "$out" = 'program: ' ] || fail 'it did not go on' ;;
    apt)  # root: says which packages, installs only what is missing
        sed 's/has_cblas  *||/[ -e "$MPT_BUILD.blas" ] ||/' "$run" >"$run.new"; mv "$run.new" "$run"; chmod +x "$run"
        tool id 'echo 0'
        tool apt-get "echo \"apt-get \$*\" >>'$work/called'; case \$1 in install) : >\"\$MPT_BUILD.blas\" ;; esac"
        try env MPT_APT=1 "$run" train; wants 0 'installing (apt): libopenblas-dev'
        [ "$(grep -c 'apt-get .*install' "$work/called")" = 1 ] || fail 'one package, one call'
        rm "$work/called"; try env MPT_APT=1 "$run" train; wants 0; called apt-get && fail 'again'; : ;;
    apt-fails)  # goes on, and does not ask apt again at every start
        sed 's/has_cblas  *||/false ||/' "$run" >"$run.new"; mv "$run.new" "$run"; chmod +x "$run"
        tool id 'echo 0'
        tool apt-get "echo \"apt-get \$*\" >>'$work/called'; exit 100"
        try env MPT_APT=1 "$run" train; wants 0 'could not install libopenblas-dev'; [ "$out" = 'program: ' ] || fail 'it did not go on'
        rm "$work/called"; try env MPT_APT=1 "$run" train; wants 0 'missing: libopenblas-dev'; called apt-get && fail 'asked apt again'; : ;;
    moved-folder)
        try "$run" train; mv "$work/tree" "$work/other"; rm "$work/called"
        try "$work/other/run" train; wants 0 'starting it anew'; called 'cmake -S' || fail 'not configured anew' ;;
    stdout) try "$run" build; wants 0 'the programs are in'; silent ;;
    chapter-list) try "$run" chapter; wants 0 'One step, read top to bottom.'; wants 0 'Small gradients survive.'; silent; built_nothing ;;
    chapter-names)
        for n in loss_scale 04_loss_scale 04 4 loss-scale; do
            try "$run" chapter "$n" --scale 1; wants 0; [ "$out" = 'program: --scale 1' ] || fail "$n"
        done
        called 'target chapter_04_loss_scale$' || fail 'the target' ;;
    chapter-unknown) try "$run" chapter lossscale; wants 2 'perhaps loss_scale'; one_line
        try "$run" chapter '4*'; wants 2 "no chapter is called '4*'"; built_nothing ;;
    sample) try "$run" sample runs/001 --prompt 'To be'; wants 0; [ "$out" = 'program: runs/001 --prompt To be' ] || fail 'arguments'
            for c in inspect export; do
                try "$run" $c runs/001; wants 0; [ "$out" = 'program: runs/001' ] || fail "$c: arguments"
            done
            try "$run" inspekt x; wants 2 'perhaps inspect'; one_line; silent ;;
    doctor) try "$run" doctor; wants 0 'training can run'; silent
        for n in compiler cmake ninja CLI11 doctest BLAS MPI nvcc cuBLAS GPU NCCL doxygen; do
            printf '%s\n' "$err" | grep -q "^  $n " || fail "no row $n"; done ;;
    doctor-bare) few_tools; try env PATH="$few" "$run" doctor; wants 3 'training cannot run yet'; wants 3 'nothing can be compiled' ;;
    copy-where) try "$run" copy base/error.hpp; wants 2 '--to DIR'; one_line ;;
    copy-what) try "$run" copy --to "$work/x"; wants 2 'which header'; one_line; [ ! -e "$work/x" ] || fail written ;;
    copy-unknown) try "$run" copy base/eror.hpp --to "$work/x"; wants 2 'perhaps base/error.hpp'; one_line
        try "$run" copy ../run --to "$work/x"; wants 2 'no header is called'; [ ! -e "$work/x" ] || fail written ;;
    copy-option) try "$run" copy base/error.hpp --into x; wants 2 "unknown option '--into'"; one_line ;;
    copy-value) try "$run" copy base/error.hpp --to; wants 2 '--to wants a value'; one_line ;;
    copy-namespace)
        for n in '' 1a a-b 'a b' a::b _a a__b class std int 'a;b' 'é'; do
            try "$run" copy base/error.hpp --to "$work/x" --namespace "$n"; wants 2 "--namespace '$n'"; one_line
        done
        [ ! -e "$work/x" ] || fail written
        try "$run" copy base/error.hpp --to "$work/x" --namespace=ours_2; wants 0; grep -q '^namespace ours_2 {' "$work/x/ours_2/base/error.hpp" ;;
    copy-clash)
        mkdir -p "$work/x/mpt/base"; echo mine >"$work/x/mpt/base/error.hpp"
        try "$run" copy base/memory.hpp --to "$work/x"; wants 1 "$work/x/mpt/base/error.hpp"
        [ "$(cat "$work/x/mpt/base/error.hpp")" = mine ] || fail overwritten
        [ "$(find "$work/x" -type f | wc -l)" = 1 ] || fail 'something was written' ;;
    copy-again) try "$run" copy base/memory.hpp --to "$work/x"; wants 0; try "$run" copy base/error.hpp base/memory.hpp --to "$work/x"; wants 0 ;;
    copy-nowhere) : >"$work/file"; try "$run" copy base/error.hpp --to "$work/file/x"; wants 1 'cannot write' ;;
    copy-anywhere) cd "$work"; try tree/run copy mpt/base/error.hpp --to there; wants 0; [ -f there/mpt/base/error.hpp ] || fail 'relative to where one is'
        try tree/run copy "$work/tree/mpt/base/error.hpp" --to there2; wants 0; built_nothing ;;
    copy-short) try "$run" copy fp16 --to "$work/x"; wants 0; [ -f "$work/x/mpt/numeric/fp16.hpp" ] || fail 'a short name'
        mkdir -p "$work/tree/mpt/train"; cp "$work/tree/mpt/numeric/fp16.hpp" "$work/tree/mpt/train"
        try "$run" copy fp16 --to "$work/x"; wants 2 'numeric/fp16.hpp train/fp16.hpp' ;;
    copy-closure) try "$run" copy base/memory.hpp --to "$work/x"; wants 0
        (cd "$work/x" && find . -type f | sort | tr '\n' ' ') >"$work/list"
        grep -q '^./mpt/LICENSE ./mpt/base/arena.hpp ./mpt/base/device_span.hpp ./mpt/base/error.hpp ./mpt/base/ledger.hpp ./mpt/base/memory.hpp $' "$work/list" ||
            fail "$(cat "$work/list")" ;;
    copy-licence) try "$run" copy base/error.hpp --to "$work/x"; cmp "$root/LICENSE" "$work/x/mpt/LICENSE"
        sed -n 2p "$work/x/mpt/base/error.hpp" | grep -q 'Copied from mpt [0-9.]*, mpt/base/error.hpp' || fail 'no stamp' ;;
    copy-macros) try "$run" copy base/qualifiers.hpp --to "$work/x" --namespace ours; wants 0
        grep -q 'define OURS_HOST_DEVICE' "$work/x/ours/base/qualifiers.hpp" || fail 'the macro keeps its name'
        printf '// SPDX-License-Identifier: MIT\n/// @file a.hpp\n#pragma once\nnamespace mpt::deep { inline auto s = "mpt:: MPT_X"; } // mpt::deep\n' >"$work/tree/mpt/base/a.hpp"
        try "$run" copy base/a.hpp --to "$work/y" --namespace ours
        grep -q '^namespace ours::deep { inline auto s = "mpt:: MPT_X"; } // ours::deep$' "$work/y/ours/base/a.hpp" || fail "$(cat "$work/y/ours/base/a.hpp")" ;;
    test) tests_are_here; try "$run" test -R 'numeric|a b'; wants 0; called 'target all$' || fail 'what was built'
        silent_but 'ctest: -LE soak|learn -R numeric|a b'
        try "$run" test -L soak; silent_but 'ctest: -L soak' ;;
    test-quick) tests_are_here; try "$run" test --quick; wants 0; called 'target mpt_quick$' || fail 'what was built'
        called 'target all' && fail 'everything was built'
        silent_but 'ctest: -L ^quick$'
        rm "$work/called"
        try "$run" test --quick -R numeric; wants 2 'stands alone, found: --quick -R numeric'; one_line; silent
        try "$run" test -j 1 --quick; wants 2 'stands alone'; [ ! -e "$work/called" ] || fail 'something was called' ;;
    gpu) tools_of_a_gpu; try "$run" train; wants 0 'with CUDA 13.0 for GPU 0: NVIDIA Stand-in'
         called 'cmake -S .* -DMPT_CUDA=ON' || fail 'without CUDA'; silent_but 'program: '
         rm "$work/called"; try "$run" train; called 'cmake -S' && fail 'configured again'; : ;;
    gpu-refused)  # nvcc does not take this compiler: everything else is built
        tools_of_a_gpu
        tool cmake "echo \"cmake \$*\" >>'$work/called'
            case \" \$* \" in *' -DMPT_CUDA=ON '*) echo 'unsupported GNU version'; exit 1 ;; esac
            exec '$work/bin/plain-cmake' \"\$@\""
        try "$run" train; wants 0 'without CUDA 13.0: it does not compile here'
        grep -q 'unsupported GNU' "$work/build/configure-cuda.log" || fail 'the reason'
        called 'cmake -S .* -DMPT_CUDA=OFF' || fail 'asked for CUDA again'; silent_but 'program: ' ;;
    gpu-asked)  # what the user says about CUDA stands
        tools_of_a_gpu; try env MPT_CMAKE_ARGS=-DMPT_CUDA=OFF "$run" train; wants 0
        called 'MPT_CUDA=ON' && fail 'not what was asked for'; silent_but 'program: ' ;;
    gpu-later)  # a build folder from before the driver was installed
        try "$run" train; tools_of_a_gpu; echo 'MPT_CUDA:STRING=AUTO' >>"$work/build/CMakeCache.txt"
        try "$run" train; wants 0 'with CUDA 13.0'; called '-DMPT_CUDA=ON' || fail 'without CUDA' ;;
    gpu-old-nvcc) tools_of_a_gpu; tool nvcc 'echo "release 11.8, V11.8.89"'
        try "$run" train; wants 0; called 'MPT_CUDA=ON' && fail 'CUDA 11 has no C++20'
        try "$run" doctor; wants 0 'too old for C++20' ;;
    gpu-doctor) tools_of_a_gpu; try "$run" doctor; wants 0 'NVIDIA Stand-in'; wants 0 '13.0'
        tool nvidia-smi 'echo "NVIDIA-SMI has failed"; exit 9'
        try "$run" doctor; wants 0 'kernels run on the emulator'
        try "$run" train; called 'MPT_CUDA=ON' && fail 'CUDA without a GPU'; : ;;
    gpu-chapter)
        printf '// A chapter.\n#include "mpt/kernels/launch.cuh"\n' >"$work/tree/chapters/05_kernels.cpp"
        printf '// A model.\nmlp_run<float, here> run;\n' >"$work/tree/chapters/06_model.cpp"
        try "$run" chapter kernels --device cuda; wants 3 'no GPU was found'; silent
        tools_of_a_gpu; rm -rf "$work/build"
        rm -f "$work/called"
        for d in cuda emulator tpu; do
            try "$run" chapter step --device $d
            wants 2 "--device $d: wanted cpu; chapter 01_step runs on the CPU, these on a GPU as well: 05 06; './run train' takes"; one_line
        done
        [ ! -e "$work/called" ] || fail 'something was called'
        try "$run" chapter 5 --rows 3 --device cuda 'a b'; wants 0; silent_but 'program: --rows 3 a b'
        called 'target chapter_05_kernels_cuda$' || fail 'the target'
        try "$run" chapter 5 --device=cuda; silent_but 'program: '
        try "$run" chapter 5 --device emulator --rows 3; called 'target chapter_05_kernels$' || fail 'the emulator is the usual one'
        silent_but 'program: --rows 3'
        try "$run" chapter step --device=cpu; silent_but 'program: '
        refuses_devices 'emulator or cuda' chapter 5
        try "$run" chapter model --device cuda; wants 0; called 'target chapter_06_model_cuda$' || fail 'the GPU of 6'
        try "$run" chapter model --device cpu; wants 0; called 'target chapter_06_model$' || fail 'the CPU of 6'
        refuses_devices 'cpu or cuda' chapter 6
        echo 'MPT_CUDA_RUNNER:STRING=env;WHERE=here' >>"$work/build/CMakeCache.txt"
        printf '#!/bin/sh\necho "$WHERE"\n' >"$work/build/bin/made"; cp "$work/build/bin/made" "$work/build/bin/chapter_05_kernels_cuda"
        try env PMI_RANK=0 "$run" chapter 5 --device cuda; wants 0; silent_but here
        rm "$work/build/bin/chapter_05_kernels_cuda"
        try env PMI_RANK=0 "$run" chapter 5 --device cuda; wants 3 "'./run build mpt_cuda' first" ;;
    gpu-bench)
        mkdir "$work/tree/bench"; printf '// SPDX-License-Identifier: MIT\n// cast.cpp -- whole arrays.\n' >"$work/tree/bench/cast.cpp"
        try "$run" bench --help; wants 0 '--device cuda'; wants 0 'whole arrays.'; built_nothing
        try "$run" bench --device cuda; wants 3 'no GPU was found'; wants 3 'the rows of the CPU'; silent
        tools_of_a_gpu; rm -rf "$work/build"
        try "$run" bench --quick --device cuda; wants 0; silent_but 'program: --quick'
        called 'target bench_cuda$' || fail 'the target'
        try "$run" bench 'softmax f' --device=cuda --pairs 3; silent_but 'program: --only softmax f --pairs 3'
        refuses_devices 'cpu or cuda' bench
        try "$run" bench cuda; wants 2 'there are: cast'; cp "$work/build/bin/made" "$work/build/bin/bench_cast"
        try "$run" bench --quick; wants 0; silent_but 'program: --quick'  # not the GPU's
        try "$run" bench cast --device cpu --quick; wants 0; silent_but 'program: --quick' ;;
    *) echo "no case '$2'"; exit 2 ;;
esac
echo "ok: $2"
