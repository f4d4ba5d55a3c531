// SPDX-License-Identifier: MIT
// Every verb with every type, on numbers whose sums depend on their order: what comes out, as a
// digest, and what it sent. The same from ranks of every kind.
#pragma once
#include "mpt/comm/communicator.hpp"

#include "../train/rig.hpp"

#include <cstddef>
#include <cstdint>
#include <vector>

namespace every_verb {

using namespace mpt;

struct outcome {
    std::uint64_t bits = 0; // of all results
    sent total;
};

template <class T>
std::vector<T> mine(const communicator& comm, std::uint32_t stream, std::size_t n) {
    return rig::numbers<T>(stream * 64 + std::uint32_t(comm.rank()), n, 100);
}

// Bits from others, never summed: any type.
template <class T>
std::vector<T> marks(const communicator& comm, std::size_t n) {
    std::vector<T> x(n);
    for (std::size_t i = 0; i < n; ++i) x[i] = T(i * 7 + std::size_t(comm.rank()) * 31);
    return x;
}

template <class T>
std::uint64_t moved(communicator& comm, const std::vector<T>& x, std::uint64_t bits) {
    const std::size_t ranks = std::size_t(comm.size()), n = x.size();
    std::vector<T> all(n * ranks), to(n * ranks);
    comm.all_gather(rig::span(all), rig::view(x));
    bits = rig::digest(all, bits);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = x.empty() ? T() : x[(i * 5) % n];
    comm.all_to_all(rig::span(to), rig::view(all));
    bits = rig::digest(to, bits);
    for (int root = 0; root < comm.size(); ++root) {
        std::vector<T> y = x;
        comm.broadcast(rig::span(y), root);
        bits = rig::digest(y, bits);
    }
    // round in a ring: a message waits for its receiver, so it is only started
    const int next = (comm.rank() + 1) % comm.size();
    const int before = (comm.rank() + comm.size() - 1) % comm.size();
    std::vector<T> got(n);
    handle going = comm.start_send<T>(rig::view(x), next);
    comm.recv(rig::span(got), before);
    going.wait();
    return rig::digest(got, bits);
}

template <class T>
std::uint64_t summed(communicator& comm, std::uint32_t stream, std::size_t n, std::uint64_t bits) {
    std::vector<T> x = mine<T>(comm, stream, n);
    comm.all_reduce(rig::span(x));
    bits = rig::digest(x, bits);
    std::vector<T> all = mine<T>(comm, stream + 1, n * std::size_t(comm.size())), part(n);
    comm.reduce_scatter(rig::span(part), rig::view(all));
    bits = rig::digest(part, bits);
    const device_span<T> own(all.data() + n * std::size_t(comm.rank()), n); // in its place
    comm.reduce_scatter(own, rig::view(all));
    bits = rig::digest(own.data(), n * sizeof(T), bits);
    comm.all_gather(rig::span(all), device_view<T>(own));
    return rig::digest(all, bits);
}

// Started, in an order, and waited for in another.
template <class T>
std::uint64_t started(communicator& comm, std::uint32_t stream, std::size_t n, std::uint64_t bits) {
    std::vector<T> a = mine<T>(comm, stream, n), b = mine<T>(comm, stream + 1, n + 1);
    std::vector<T> c = mine<T>(comm, stream + 2, n * std::size_t(comm.size())), part(n), all(c);
    handle ha = comm.start_all_reduce(rig::span(a));
    handle hb = comm.start_all_reduce(rig::span(b));
    handle hc = comm.start_reduce_scatter(rig::span(part), rig::view(c));
    hc.wait();
    handle hd = comm.start_all_gather(rig::span(all), rig::view(part));
    hb.wait(), ha.wait(), hd.wait();
    return rig::digest(all, rig::digest(b, rig::digest(a, rig::digest(part, bits))));
}

inline outcome run(communicator& comm, std::size_t n) {
    comm.sent.clear();
    std::uint64_t bits = 1;
    bits = summed<float>(comm, 1, n, bits);
    bits = summed<double>(comm, 3, n, bits);
    bits = summed<fp16>(comm, 5, n, bits);
    bits = summed<bf16>(comm, 7, n, bits);
    bits = moved(comm, mine<float>(comm, 9, n), bits);
    bits = moved(comm, mine<fp16>(comm, 10, n), bits);
    bits = moved(comm, marks<std::int32_t>(comm, n), bits);
    bits = moved(comm, marks<std::uint8_t>(comm, n), bits);
    bits = started<float>(comm, 11, n, bits);
    bits = started<bf16>(comm, 14, n, bits);
    comm.barrier();
    const double said[] = {comm.sum(0.1 * (comm.rank() + 1)), comm.max(comm.rank()),
                           comm.all(comm.rank() < 2) ? 1.0 : 0.0};
    bits = rig::digest(said, sizeof said, bits);
    const std::vector<double> all = comm.gather(said);
    return {rig::digest(all, bits), comm.sent.total()};
}

} // namespace every_verb
