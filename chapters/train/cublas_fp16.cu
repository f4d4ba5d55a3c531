// SPDX-License-Identifier: MIT
// cublas_fp16.cu -- training with fp16 weights on a GPU, products by cuBLAS.
#include "device_run.hpp"

#include "mpt/nn/cublas.hpp" // cublas_ops

template int train_on_device<mpt::fp16, mpt::cublas_ops>(const options&,
                                                         mpt::communicator&);
