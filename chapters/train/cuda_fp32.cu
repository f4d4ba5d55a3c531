// SPDX-License-Identifier: MIT
// cuda_fp32.cu -- training with fp32 weights (and tf32 products) on a GPU.
#include "device_run.hpp"

template std::unique_ptr<mpt::strategy<float>>
rank_strategy<float, mpt::kernel_ops>(const options&, mpt::communicator&,
                                      const mpt::kernel_ops&, const mpt::layout&, mpt::memory&,
                                      const tell_line&);
template int train_on_device<float, mpt::kernel_ops>(const options&,
                                                     mpt::communicator&);
