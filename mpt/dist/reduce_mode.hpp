// SPDX-License-Identifier: MIT
/// @file reduce_mode.hpp
/// When the gradients of a window of micro-batches are added over ranks.   tier 6, needs: std only
///
/// Idea     once: each rank adds its own micro-batches in fp32 and the sums are reduced at the
///          window's end; fewest bytes, but every rank holds a sum of every parameter.
///          every: each micro-batch is reduced as it comes, and only what a rank owns is added up.
/// Formula  elements a rank sends in a window of M micro-batches, times (N-1)/N of all parameters:
///          once 2 for ddp, zero1, zero2 and 2 M + 1 for zero3;  every 2 M, M + 1, M + 1, 3 M
/// Breaks   comparing runs of the two modes bit for bit: they add in another order, and differ by
///          rounding. Within a mode all strategies have the same bits
/// See      ddp.hpp, train/grad_accum.hpp, tests/dist/ddp_test.cpp
#pragma once

namespace mpt {

enum class reduce_mode { once, every };

inline const char* to_string(reduce_mode m) { return m == reduce_mode::once ? "once" : "every"; }

} // namespace mpt
