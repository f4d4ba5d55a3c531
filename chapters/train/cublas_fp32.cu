// SPDX-License-Identifier: MIT
// cublas_fp32.cu -- training with fp32 weights (and tf32 products) on a GPU, products by cuBLAS.
#include "device_run.hpp"

#include "mpt/nn/cublas.hpp" // cublas_ops

// Who adds up gradients is the same with the products of kernels: compiled there.
extern template std::unique_ptr<mpt::strategy<float>>
rank_strategy<float, mpt::kernel_ops>(const options&, mpt::communicator&,
                                      const mpt::kernel_ops&, const mpt::layout&, mpt::memory&,
                                      const tell_line&);
template int train_on_device<float, mpt::cublas_ops>(const options&,
                                                     mpt::communicator&);
