// SPDX-License-Identifier: MIT
// All-reduce around a ring: chapter 19.
//
// N ranks stand in a ring; each sends to the one behind it (rank + 1) and receives from the one
// before. x is cut into N chunks. In N - 1 rounds a chunk travels around the ring, and each rank
// adds its own: then every rank has one chunk that is the sum of all. In N - 1 more rounds these
// go around once more, and are copied. Each rank sends 2 (N - 1) chunks: 2 (N - 1) / N of x,
// however many ranks. In round k of the first part rank r sends chunk (r - k) mod N.
#include "exercise.hpp"

void ring_all_reduce(mpt::communicator& comm, std::span<float> x, std::span<float> room) {
    const int N = comm.size(), r = comm.rank();
    const int next = (r + 1) % N, before = (r + N - 1) % N;
    const std::size_t n = x.size() / std::size_t(N); // elements of a chunk
    const auto chunk = [&](int c) {
        return mpt::device_span<float>(x.data() + std::size_t((c % N + N) % N) * n, n);
    };
    // One round: my chunk `out` goes on, the other one comes into `to`.
    const auto pass = [&](mpt::device_span<float> out, mpt::device_span<float> to) {
        mpt::handle way = comm.start_send<float>(out, next);
        comm.recv(to, before);
        way.wait();
    };
    //< ring: N - 1 rounds that add, N - 1 rounds that copy, about 7 lines
    const mpt::device_span<float> came(room.data(), n);
    for (int k = 0; k < N - 1; ++k) {
        pass(chunk(r - k), came);
        const mpt::device_span<float> mine = chunk(r - k - 1);
        for (std::size_t i = 0; i < n; ++i) mine.data()[i] += room[i];
    }
    for (int k = 0; k < N - 1; ++k) pass(chunk(r + 1 - k), chunk(r - k));
    //> throw exercise::todo("ring");
}
