// SPDX-License-Identifier: MIT
// cublas_fp16.cu -- training with fp16 weights on a GPU, products by cuBLAS.
#include "device_run.hpp"

#include "mpt/nn/cublas.hpp" // cublas_ops

// Who adds up gradients is the same with the products of kernels: compiled there.
extern template std::unique_ptr<mpt::strategy<mpt::fp16>>
rank_strategy<mpt::fp16, mpt::kernel_ops>(const options&, mpt::communicator&,
                                          const mpt::kernel_ops&, const mpt::layout&, mpt::memory&,
                                          const tell_line&);
template int train_on_device<mpt::fp16, mpt::cublas_ops>(const options&,
                                                         mpt::communicator&);
