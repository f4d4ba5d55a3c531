// SPDX-License-Identifier: MIT
// cublas_bf16.cu -- training with bf16 weights on a GPU, products by cuBLAS.
#include "device_run.hpp"

#include "mpt/nn/cublas.hpp" // cublas_ops

template int train_on_device<mpt::bf16, mpt::cublas_ops>(const options&,
                                                         mpt::communicator&);
