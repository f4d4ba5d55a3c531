// SPDX-License-Identifier: MIT
// mutant: the copying rounds are one less
// fails: every rank has the sum
//< ring
const mpt::device_span<float> came(room.data(), n);
for (int k = 0; k < N - 1; ++k) {
    pass(chunk(r - k), came);
    const mpt::device_span<float> mine = chunk(r - k - 1);
    for (std::size_t i = 0; i < n; ++i) mine.data()[i] += room[i];
}
for (int k = 0; k < N - 2; ++k) pass(chunk(r + 1 - k), chunk(r - k));
