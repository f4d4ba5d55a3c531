// SPDX-License-Identifier: MIT
// cuda_bf16.cu -- training with bf16 weights on a GPU.
#include "device_run.hpp"

template std::unique_ptr<mpt::strategy<mpt::bf16>>
rank_strategy<mpt::bf16, mpt::kernel_ops>(const options&, mpt::communicator&,
                                          const mpt::kernel_ops&, const mpt::layout&, mpt::memory&,
                                          const tell_line&);
template int train_on_device<mpt::bf16, mpt::kernel_ops>(const options&,
                                                         mpt::communicator&);
