// SPDX-License-Identifier: MIT
/// @file launch.hpp
/// Kernel<<<grid, block>>>(arguments...) in C++, and all words of a kernel. tier 2, needs:
/// base/error.hpp simt/atomics.hpp simt/barrier.hpp simt/block.hpp simt/device_memory.hpp
/// simt/grid.hpp simt/half.hpp simt/hooks.hpp simt/intrinsics.hpp simt/probe.hpp
/// simt/runtime.hpp simt/settings.hpp simt/vector_types.hpp simt/warp.hpp simt/wmma.hpp
///
/// Idea     launch<kernel>({grid, block}, arguments...) runs the kernel and returns when all of it
///          is done. The kernel is a template argument: so its name is known, and g++ can put its
///          code into the loop over threads. This header brings all that a kernel may say, as
///          cuda_runtime.h does.
/// Breaks   what a device would refuse is refused here: a line with kernel and limit;
///          a pointer inside of a struct argument is not looked at
/// See      grid.hpp, block.hpp, kernels/launch.cuh, tests/simt/launch_test.cpp
#pragma once
#include "mpt/base/error.hpp"         // check
#include "mpt/simt/atomics.hpp"       // atomicAdd, ...
#include "mpt/simt/barrier.hpp"       // __syncthreads, ...
#include "mpt/simt/block.hpp"         // block, kernel_call, threadIdx, ...
#include "mpt/simt/device_memory.hpp" // device_memory
#include "mpt/simt/grid.hpp"          // run_grid, check_limits
#include "mpt/simt/half.hpp"          // __half, __nv_bfloat16, ...
#include "mpt/simt/hooks.hpp"         // launch_info, watch
#include "mpt/simt/intrinsics.hpp"    // __fmul_rn, __popc, ...
#include "mpt/simt/probe.hpp"         // the checks, in a checked build
#include "mpt/simt/runtime.hpp"       // cudaStream_t, cudaMalloc, ...
#include "mpt/simt/settings.hpp"      // settings
#include "mpt/simt/vector_types.hpp"  // dim3, float4, ...
#include "mpt/simt/warp.hpp"          // __shfl_sync, __ballot_sync, ...
#include "mpt/simt/wmma.hpp"          // nvcuda::wmma

#include <cstddef>
#include <exception>
#include <string_view>
#include <tuple>
#include <type_traits>

namespace mpt {

struct launch_config {
    simt::dim3 grid, block;  // blocks of the grid, threads of a block
    std::size_t shared_bytes = 0; // of dynamic shared memory a block
    simt::cudaStream_t stream = nullptr;
};

namespace simt {

/// As the compiler writes it (clang leaves template arguments out).
template <auto Kernel>
constexpr std::string_view kernel_name() {
    std::string_view text = __PRETTY_FUNCTION__;
    text.remove_prefix(text.find("Kernel = ") + 9);
    if (text.front() == '&') text.remove_prefix(1);
    const std::size_t end = text.find(';');
    return text.substr(0, end != text.npos ? end : text.rfind(']'));
}

/// A pointer into the host's memory would be a fault on a GPU.
template <class T>
void check_argument(const T& argument, int number, std::string_view kernel) {
    if constexpr (std::is_pointer_v<T> && !std::is_function_v<std::remove_pointer_t<T>>) {
        const auto* p = reinterpret_cast<const volatile void*>(argument);
        if (!p) return;
        const allocation* a = device_memory::here().find(p);
        check(a != nullptr, "launch: argument ", number, " of kernel ", kernel,
              " is host memory; copy it to memory of cudaMalloc");
        check(!a->freed, "launch: argument ", number, " of kernel ", kernel,
              " points into memory that was freed");
    }
}

// In a checked build a kernel stays a function of its own, so that it is known what is its code.
#if defined(MPT_SIMT_CHECK)
template <class Function>
__attribute__((noinline)) Function* as_function(Function* kernel) {
    asm volatile("" : "+r"(kernel));
    return kernel;
}
#else
template <class Function>
constexpr Function* as_function(Function* kernel) {
    return kernel;
}
#endif

/// Made when the program begins, for each kernel that it can launch.
template <auto Kernel>
inline const bool kernel_is_known =
    (watch::kernel_exists(reinterpret_cast<const void*>(Kernel)), true);

template <auto Kernel, class... Parameters>
void launch_as(void (*)(Parameters...), const launch_config& c,
               const std::tuple<Parameters...>& arguments) {
    static_cast<void>(kernel_is_known<Kernel>);
    const launch_info info{kernel_name<Kernel>(), c.grid, c.block, c.shared_bytes,
                           reinterpret_cast<const void*>(Kernel), &arguments, sizeof arguments};
    check_limits(info);
    check(!block::inside(), "launch of ", info.kernel, " inside a kernel: launch from the host");
    if (settings().checks)
        std::apply(
            [&](const Parameters&... p) {
                int number = 0;
                (check_argument(p, ++number, info.kernel), ...);
            },
            arguments);
    const kernel_call call{
        [](const void* a) {
            std::apply(as_function(Kernel), *static_cast<const std::tuple<Parameters...>*>(a));
        },
        &arguments};
    watch::launch_begin(info);
    std::exception_ptr failed;
    try {
        run_grid(info, call);
    } catch (...) {
        failed = std::current_exception();
    }
    failed = watch::launch_end(info, failed);
    if (failed) std::rethrow_exception(failed);
}
template <class... Parameters, class... Arguments>
std::tuple<Parameters...> as_parameters(void (*)(Parameters...), Arguments... arguments) {
    static_assert(sizeof...(Parameters) == sizeof...(Arguments),
                  "launch: the kernel has another number of parameters");
    return {static_cast<Parameters>(arguments)...};
}

} // namespace simt

/// Run the kernel on all threads of the grid. Throws mpt::error for what the device refuses, what
/// barriers and masks are found to do wrong, and whatever a thread throws.
template <auto Kernel, class... Arguments>
void launch(const launch_config& c, Arguments... arguments) {
    simt::launch_as<Kernel>(Kernel, c, simt::as_parameters(Kernel, arguments...));
}

/// The block's dynamic shared memory, as many bytes as the launch asked for.
template <class T>
T* dynamic_shared() {
    return static_cast<T*>(simt::block::here().dynamic_shared());
}

} // namespace mpt
