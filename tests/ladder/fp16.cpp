// SPDX-License-Identifier: MIT
#include "step.hpp"
#include "mpt/numeric/fp16.hpp"

namespace ladder {
template outcome train_as<mpt::fp16>(communicator&, const trial&, account*);
}
