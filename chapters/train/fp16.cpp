// SPDX-License-Identifier: MIT
// fp16.cpp -- training and sampling with fp16 weights.
#include "cpu_run.hpp"

template int train<mpt::fp16>(const options&, mpt::communicator&);
template int sample<mpt::fp16>(const options&);
