// SPDX-License-Identifier: MIT
#include "step.hpp"

namespace ladder {
template outcome train_as<float>(communicator&, const trial&, account*);
}
