// SPDX-License-Identifier: MIT
// cuda.cpp -- the one function that the library of `--device cuda` shows. The kernels' list has the
// same names there and on the emulator, and other code: so it is a library, and hides all others.
#include "options.hpp"

#include "mpt/numeric/bf16.hpp"
#include "mpt/numeric/fp16.hpp"

namespace mpt {
struct kernel_ops;
}
using mpt::communicator, mpt::kernel_ops;
extern template int train_on_device<float, kernel_ops>(const options&, communicator&);
extern template int train_on_device<mpt::fp16, kernel_ops>(const options&, communicator&);
extern template int train_on_device<mpt::bf16, kernel_ops>(const options&, communicator&);

__attribute__((visibility("default"))) int train_on_cuda(const options& o, communicator& comm) {
    if (o.precision == "fp16") return train_on_device<mpt::fp16, kernel_ops>(o, comm);
    if (o.precision == "bf16") return train_on_device<mpt::bf16, kernel_ops>(o, comm);
    return train_on_device<float, kernel_ops>(o, comm);
}
