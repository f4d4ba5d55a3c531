// SPDX-License-Identifier: MIT
// emulator_fp16.cpp -- training with fp16 weights on the emulated device.
#include "device_run.hpp"

template int train_on_device<mpt::fp16, mpt::kernel_ops>(const options&,
                                                         mpt::communicator&);
