// SPDX-License-Identifier: MIT
/// @file blocks.hpp
/// What a rank owns, cut into tasks by size alone.      tier 5, needs: base/error.hpp nn/params.hpp
///
/// Idea     The pieces of a rank, one behind the other, make one packed array: that is how the
///          optimizer's moments lie in memory. A task is a block of one piece; the cut depends on
///          the sizes, never on the number of threads, so sums over blocks have the same bits with
///          any number of them.
/// See      inspect.hpp, adamw.hpp, master_weights.hpp, tests/train/blocks_test.cpp
#pragma once
#include "mpt/base/error.hpp" // check
#include "mpt/nn/params.hpp"  // pieces

#include <algorithm>
#include <cstddef>
#include <vector>

namespace mpt {

/// Elements [begin, end) of pieces[piece], which lie from `packed` on in a packed array.
struct block {
    std::size_t piece, begin, end, packed;
    std::size_t size() const { return end - begin; }
};

/// The smaller, the better the load is spread; 16 Ki elements are some microseconds of work.
inline constexpr std::size_t block_size = 16384;

template <class T>
std::vector<block> blocks(const pieces<T>& parts, std::size_t size = block_size) {
    std::vector<block> cut;
    std::size_t packed = 0;
    for (std::size_t p = 0; p < parts.size(); ++p)
        for (std::size_t i = 0, n = parts[p].data.size(); i < n; i += size) {
            const std::size_t end = std::min(n, i + size);
            cut.push_back({p, i, end, packed});
            packed += end - i;
        }
    return cut;
}

/// Throws unless both lists name the same elements of the flat buffer.
template <class A, class B>
void check_same_pieces(const char* what, const pieces<A>& a, const pieces<B>& b) {
    check(a.size() == b.size(), what, ": ", a.size(), " pieces against ", b.size(),
          "; take both from the same strategy");
    for (std::size_t p = 0; p < a.size(); ++p)
        check(a[p].begin == b[p].begin && a[p].data.size() == b[p].data.size(), what, ": piece ", p,
              " is elements ", a[p].begin, " + ", a[p].data.size(), " against ", b[p].begin, " + ",
              b[p].data.size(), "; take both from the same strategy");
}

/// The pieces of a packed array whose elements are those of `like`. Throws unless the sizes agree.
template <class W, class T>
pieces<W> pieces_of(device_span<W> packed, const pieces<T>& like) {
    check(packed.size() == size_of(like), "pieces_of: an array of ", packed.size(),
          " elements for ", size_of(like), " owned ones; allocate exactly those");
    pieces<W> parts;
    std::size_t at = 0;
    for (const piece<T>& p : like) {
        parts.push_back({packed.subspan(at, p.data.size()), p.begin});
        at += p.data.size();
    }
    return parts;
}

} // namespace mpt
