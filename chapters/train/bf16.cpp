// SPDX-License-Identifier: MIT
// bf16.cpp -- training and sampling with bf16 weights.
#include "cpu_run.hpp"

template int train<mpt::bf16>(const options&, mpt::communicator&);
template int sample<mpt::bf16>(const options&);
