// SPDX-License-Identifier: MIT
// cublas_fp32.cu -- training with fp32 weights (and tf32 products) on a GPU, products by cuBLAS.
#include "device_run.hpp"

#include "mpt/nn/cublas.hpp" // cublas_ops

template int train_on_device<float, mpt::cublas_ops>(const options&,
                                                     mpt::communicator&);
