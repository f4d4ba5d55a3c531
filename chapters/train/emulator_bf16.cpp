// SPDX-License-Identifier: MIT
// emulator_bf16.cpp -- training with bf16 weights on the emulated device.
#include "device_run.hpp"

template int train_on_device<mpt::bf16, mpt::kernel_ops>(const options&,
                                                         mpt::communicator&);
