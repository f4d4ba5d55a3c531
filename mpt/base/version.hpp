// SPDX-License-Identifier: MIT
/// @file version.hpp
/// The version of these headers.                                           tier 0, needs: std only
///
/// Idea     One place: CMake and `./run copy` read the number from this line.
#pragma once

namespace mpt {

inline constexpr const char version[] = "0.1.0"; ///< major.minor.patch

} // namespace mpt
