// SPDX-License-Identifier: MIT
// fp32.cpp -- training and sampling with fp32 weights (and tf32 products).
#include "cpu_run.hpp"

template int train<float>(const options&, mpt::communicator&);
template int sample<float>(const options&);
