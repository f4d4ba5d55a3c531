// SPDX-License-Identifier: MIT
// Every kernel of mpt/kernels, for every type it takes, in one object: what registers.sh looks at.
#include "mpt/kernels/cast.cuh"
#include "mpt/kernels/elementwise.cuh"

namespace {

using namespace mpt::kernels;

template <class... Launchers>
void compile(Launchers... launchers) { // an address is enough for nvcc to compile the kernel
    const void* volatile address = nullptr;
    ((address = reinterpret_cast<const void*>(launchers)), ...);
}

template <class T>
void each_type() {
    compile(fill<T>, add<T>, add_to_sums<T>);
    compile(cast<T, float>, cast<T, __half>, cast<T, __nv_bfloat16>);
}

} // namespace

void all_kernels() {
    each_type<float>();
    each_type<__half>();
    each_type<__nv_bfloat16>();
}
