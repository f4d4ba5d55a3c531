// SPDX-License-Identifier: MIT
#include "step.hpp"
#include "mpt/numeric/bf16.hpp"

namespace ladder {
template outcome train_as<mpt::bf16>(communicator&, const trial&, account*);
}
