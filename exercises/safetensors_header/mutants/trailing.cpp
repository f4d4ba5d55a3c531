// SPDX-License-Identifier: MIT
// mutant: what stands behind the last tensor is not looked at
// fails: lengths
//< end
    if (at > data) throw std::runtime_error("bytes left: too few");
