// SPDX-License-Identifier: MIT
// cuda_fp32.cu -- training with fp32 weights (and tf32 products) on a GPU.
#include "device_run.hpp"

template int train_on_device<float, mpt::kernel_ops>(const options&,
                                                     mpt::communicator&);
