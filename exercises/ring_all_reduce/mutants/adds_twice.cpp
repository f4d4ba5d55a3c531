// SPDX-License-Identifier: MIT
// mutant: the copying rounds add, too
// fails: every rank has the sum
//< ring
const mpt::device_span<float> came(room.data(), n);
for (int k = 0; k < 2 * (N - 1); ++k) {
    pass(chunk(r - k), came);
    const mpt::device_span<float> mine = chunk(r - k - 1);
    for (std::size_t i = 0; i < n; ++i) mine.data()[i] += room[i];
}
