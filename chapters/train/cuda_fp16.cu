// SPDX-License-Identifier: MIT
// cuda_fp16.cu -- training with fp16 weights on a GPU.
#include "device_run.hpp"

template int train_on_device<mpt::fp16, mpt::kernel_ops>(const options&,
                                                         mpt::communicator&);
