#!/bin/sh
# SPDX-License-Identifier: MIT
# packaging.sh WORK KIND: mpt as other programs take it. KIND: install, blas, component, version,
# lost-header, fetchcontent, plain. The names after the first two are refusals that must be refused.
set -eu
work=$1/$2 kind=$2
here=$(cd "$(dirname "$0")" && pwd)
root=$(cd "$here/../.." && pwd)
rm -rf "$work"
mkdir -p "$work/user"
unset RANK WORLD_SIZE CMAKE_PREFIX_PATH || true

cat >"$work/user/main.cpp" <<'END'
#include "mpt/base/thread_pool.hpp"  // thread_pool
#include "mpt/base/version.hpp"      // version
#include "mpt/numeric/fp16.hpp"      // fp16
#include <atomic>
#include <cstdio>
#ifdef MPT_HAS_CBLAS
#include <cblas.h>
#endif
int main() {
    mpt::thread_pool pool(2);
    std::atomic<int> sum = 0;
    pool.for_each(10, [&](std::size_t task, int) { sum += int(task); });
    // Fused, the product keeps what rounding took away: -ffp-contract=off must have arrived.
    volatile float a = 1 + 0x1p-13f, b = 1 - 0x1p-13f;
    float x = a, y = b, fused = x * y - 1;
    std::printf("%s %d %g %s", mpt::version, sum.load(), float(mpt::fp16(2049.0f)), fused == 0 ? "separate" : "fused");
#ifdef MPT_HAS_CBLAS
    std::printf(" blas %g", cblas_sdot(1, &x, 1, &y, 1));
#endif
    std::printf("\n");
}
END
version=$(sed -n 's/.*version\[\] *= *"\([0-9.]*\)".*/\1/p' "$root/mpt/base/version.hpp")
expected="$version 45 2048 separate"

quietly() { "$@" >"$work/log" 2>&1 || { cat "$work/log"; return 1; }; }
install_mpt() {
    quietly cmake -S "$root" -B "$work/mpt" -DMPT_BUILD_TESTS=OFF -DMPT_BUILD_CHAPTERS=OFF \
        -DMPT_BUILD_BENCH=OFF -DMPT_BUILD_DOCS=OFF -DMPT_CUDA=OFF -DMPT_MPI=OFF -DCMAKE_INSTALL_PREFIX="$work/prefix"
    quietly cmake --install "$work/mpt"
}
user() {  # user CMAKE-LINE...: a project of somebody else's, with these lines
    {
        echo 'cmake_minimum_required(VERSION 3.22)'
        echo 'project(user CXX)'
        printf '%s\n' "$@"
    } >"$work/user/CMakeLists.txt"
    cmake -S "$work/user" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" -DCMAKE_CXX_FLAGS=-march=x86-64-v3 \
        >"$work/log" 2>&1 || cmake -S "$work/user" -B "$work/build" -DCMAKE_PREFIX_PATH="$work/prefix" >"$work/log" 2>&1
}
program='add_executable(user main.cpp)
target_link_libraries(user PRIVATE mpt::mpt)'
build_and_run() {
    quietly cmake --build "$work/build"
    said=$("$work/build/user" 2>&1 || true)
    echo "$said"
}
refused() {  # refused TEXT: the last user call failed, and for this reason
    tr '\n' ' ' <"$work/log" | tr -s ' ' | grep -F -e "$1" >/dev/null || { cat "$work/log"; echo "wanted: $1"; exit 1; }
    echo "refused: $1"
}

case $kind in
    install)
        install_mpt
        (cd "$root/mpt" && find . -name '*.hpp' -o -name '*.cuh' | sort) >"$work/have"
        (cd "$work/prefix/include/mpt" && find . -type f | sort) >"$work/got"
        cmp "$work/have" "$work/got"
        user "find_package(mpt $version REQUIRED)" "$program" || { cat "$work/log"; exit 1; }
        # an unprivileged user: the package must not lead back to the source or build folder
        if grep -rn -e "$root" "$work/prefix"; then echo 'the installed package names the source folder'; exit 1; fi
        [ "$(build_and_run | tee /dev/stderr)" = "$expected" ] ;;
    blas)
        install_mpt
        user "find_package(mpt $version REQUIRED COMPONENTS blas)" "$program" 'target_link_libraries(user PRIVATE mpt::blas)' ||
            { grep -q 'no cblas.h' "$work/log" && echo 'skipped: no BLAS' && exit 77; cat "$work/log"; exit 1; }
        [ "$(build_and_run | tee /dev/stderr)" = "$expected blas 1" ] ;;
    component)
        install_mpt
        if user "find_package(mpt REQUIRED COMPONENTS tensor)"; then echo 'a component that is not there'; exit 1; fi
        refused "mpt has no component 'tensor'" ;;
    version)
        install_mpt
        if user "find_package(mpt 99.0 REQUIRED)"; then echo 'version 99 was found'; exit 1; fi
        refused "mptConfig.cmake, version: $version" ;;
    lost-header)  # the check of install can fail
        install_mpt
        rm "$work/prefix/include/mpt/numeric/rounding.hpp"
        user "find_package(mpt REQUIRED)" "$program" || { cat "$work/log"; exit 1; }
        if cmake --build "$work/build" >"$work/log" 2>&1; then echo 'compiled from somewhere else'; exit 1; fi
        refused rounding.hpp ;;
    fetchcontent)
        # shellcheck disable=SC2016  # CMake's dollars
        user 'include(FetchContent)' "FetchContent_Declare(mpt SOURCE_DIR \"$root\")" \
             'FetchContent_MakeAvailable(mpt)' 'enable_testing()' "$program" \
             'if(TARGET mpt::blas)' '  target_link_libraries(user PRIVATE mpt::blas)' 'endif()' \
             'foreach(own MPT_BUILD_TESTS MPT_BUILD_CHAPTERS MPT_INSTALL MPT_NATIVE)' \
             '  if(${own})' '    message(FATAL_ERROR "${own} is on in a project of somebody else")' '  endif()' \
             'endforeach()' || { cat "$work/log"; exit 1; }
        said=$(build_and_run)
        echo "$said"
        [ "${said% blas 1}" = "$expected" ] ;;
    plain)
        cd "$work/user"
        "${CXX:-c++}" -std=c++20 -ffp-contract=off -I"$root" main.cpp -pthread -o user
        [ "$(./user | tee /dev/stderr)" = "$expected" ] ;;
    *) exit 2 ;;
esac
