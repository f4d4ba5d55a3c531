// SPDX-License-Identifier: MIT
// cuda_bf16.cu -- training with bf16 weights on a GPU.
#include "device_run.hpp"

template int train_on_device<mpt::bf16, mpt::kernel_ops>(const options&,
                                                         mpt::communicator&);
