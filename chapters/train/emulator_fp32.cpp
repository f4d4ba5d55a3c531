// SPDX-License-Identifier: MIT
// emulator_fp32.cpp -- training with fp32 weights (and tf32 products) on the emulated device.
#include "device_run.hpp"

template int train_on_device<float, mpt::kernel_ops>(const options&,
                                                     mpt::communicator&);
