// SPDX-License-Identifier: MIT
// cuda.cpp -- the one function that the library of `--device cuda` shows. The kernels' list has the
// same names there and on the emulator, and other code: so it is a library, and hides all others.
#include "options.hpp"

#include "mpt/numeric/bf16.hpp"
#include "mpt/numeric/fp16.hpp"

namespace mpt {
struct kernel_ops;
}
extern template int train_on_device<float, mpt::kernel_ops>(const options&);
extern template int train_on_device<mpt::fp16, mpt::kernel_ops>(const options&);
extern template int train_on_device<mpt::bf16, mpt::kernel_ops>(const options&);

__attribute__((visibility("default"))) int train_on_cuda(const options& o) {
    if (o.precision == "fp16") return train_on_device<mpt::fp16, mpt::kernel_ops>(o);
    if (o.precision == "bf16") return train_on_device<mpt::bf16, mpt::kernel_ops>(o);
    return train_on_device<float, mpt::kernel_ops>(o);
}
