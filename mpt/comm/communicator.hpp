// SPDX-License-Identifier: MIT
/// @file communicator.hpp
/// What ranks say to each other, whatever carries it.                      tier 2, needs:
/// base/device_span.hpp base/trace.hpp comm/handle.hpp comm/traffic.hpp
///
/// Idea     N ranks run one program on different data; at some points all of them call the same
///          verb, in the same order, and meet. Threads, MPI and NCCL differ in how bytes move; a
///          training step knows only these verbs. start_ forms return at once: the result is there
///          after wait(), and what was passed belongs to the collective until then.
/// Formula  all_reduce      x_i    = sum over ranks of their x_i
///          reduce_scatter  mine_i = sum over ranks of their all[rank n + i]
///          all_gather      all[r n + i] = mine_i of rank r
/// Costs    traffic.hpp; sums are taken in fp32 (fp64 for fp64), in rank order, and rounded once
/// Breaks   a collective under a condition that not all ranks share: the others wait, and are told
///          after the timeout who is missing and where. Branch on all(), never on what one rank saw
/// Source   MPI: A Message-Passing Interface Standard 4.0, chapter 6 (collective communication)
/// See      world.hpp (ranks as threads), tests/comm/world_test.cpp
#pragma once
#include "mpt/base/device_span.hpp" // device_span, check
#include "mpt/base/trace.hpp"       // trace
#include "mpt/comm/handle.hpp"      // handle
#include "mpt/comm/traffic.hpp"     // traffic, verb, element

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace mpt {

/// One verb as a rank calls it. `in` and `out` are the same memory (all_reduce, broadcast), or `in`
/// may be the rank's own part of `out` (all_gather), or `out` of `in` (reduce_scatter).
struct collective {
    verb what;
    element type;
    const void* in;
    void* out;
    std::size_t count; // elements of all_reduce, broadcast, send and recv; of a rank's part else
    int peer = -1;     // broadcast: whose; send: to whom; recv: from whom
};

class communicator {
public:
    communicator(int rank, int size) : rank_(rank), size_(size) {}
    virtual ~communicator() = default;
    communicator(const communicator&) = delete;
    communicator& operator=(const communicator&) = delete;

    int rank() const { return rank_; } // 0 to size() - 1
    int size() const { return size_; }

    traffic sent;               // what this rank has sent
    mpt::trace* seen = nullptr; // a bar for each collective, in its lane comm

    /// x (n): becomes the sum. T: float, double, fp16, bf16.
    template <class T>
    void all_reduce(device_span<T> x) {
        run(reduction<T>({verb::all_reduce, {}, x.data(), x.data(), x.size()}));
    }
    /// mine (n): the sum of this rank's part of all (size() n).
    template <class T>
    void reduce_scatter(device_span<T> mine, device_view<T> all) {
        run(scatter<T>(mine, all));
    }
    /// all (size() n): the mine (n) of rank 0, of rank 1, ...
    template <class T>
    void all_gather(device_span<T> all, device_view<T> mine) {
        run(gathering<T>(all, mine));
    }
    /// x (n): becomes that of rank `root`.
    template <class T>
    void broadcast(device_span<T> x, int root) {
        run(casting<T>(x, root));
    }
    /// Part r of `to` (size() n) becomes this rank's part of rank r's `from` (size() n), which lies
    /// elsewhere.
    template <class T>
    void all_to_all(device_span<T> to, device_view<T> from) {
        run(exchange<T>(to, from));
    }

    template <class T>
    [[nodiscard]] handle start_all_reduce(device_span<T> x) {
        return start(reduction<T>({verb::all_reduce, {}, x.data(), x.data(), x.size()}));
    }
    template <class T>
    [[nodiscard]] handle start_reduce_scatter(device_span<T> mine, device_view<T> all) {
        return start(scatter<T>(mine, all));
    }
    template <class T>
    [[nodiscard]] handle start_all_gather(device_span<T> all, device_view<T> mine) {
        return start(gathering<T>(all, mine));
    }
    template <class T>
    [[nodiscard]] handle start_broadcast(device_span<T> x, int root) {
        return start(casting<T>(x, root));
    }
    template <class T>
    [[nodiscard]] handle start_all_to_all(device_span<T> to, device_view<T> from) {
        return start(exchange<T>(to, from));
    }

    /// Between two ranks: the k-th send to a rank meets the k-th recv there. send() may wait for
    /// its receiver: of two ranks that send to each other one receives first, or has started one
    /// of the two.
    template <class T>
    void send(device_span<T> x, int to) {
        start_send(x, to).wait();
    }
    template <class T>
    void send(device_span<const T> x, int to) {
        start_send(x, to).wait();
    }
    template <class T>
    void recv(device_span<T> x, int from) {
        start_recv(x, from).wait();
    }
    template <class T>
    [[nodiscard]] handle start_send(device_span<T> x, int to) {
        return start_send(device_span<const T>(x), to);
    }
    template <class T>
    [[nodiscard]] handle start_send(device_span<const T> x, int to) {
        peer("send", to);
        return start({verb::send, element_code<T>::value, x.data(), nullptr, x.size(), to});
    }
    template <class T>
    [[nodiscard]] handle start_recv(device_span<T> x, int from) {
        peer("recv", from);
        return start({verb::recv, element_code<T>::value, nullptr, x.data(), x.size(), from});
    }

    /// Returns when every rank has called it.
    void barrier() { run({verb::barrier, element::byte, nullptr, nullptr, 0}); }
    [[nodiscard]] handle start_barrier() {
        return start({verb::barrier, element::byte, nullptr, nullptr, 0});
    }

    /// The numbers of every rank, (size(), mine.size()), rank by rank. On the host.
    virtual std::vector<double> gather(std::span<const double> mine) = 0;

    /// Does every rank say yes? The one branch that all ranks take alike.
    bool all(bool yes) {
        const std::vector<double> said = gather_one(yes ? 1 : 0);
        return std::all_of(said.begin(), said.end(), [](double x) { return x == 1; });
    }
    /// In rank order; the same bits on every rank.
    double sum(double mine) {
        double total = 0;
        for (const double x : gather_one(mine)) total += x;
        return total;
    }
    double max(double mine) {
        const std::vector<double> said = gather_one(mine);
        return *std::max_element(said.begin(), said.end());
    }

    /// The ranks that give the same color, in the order of (key, rank). Every rank calls it; one
    /// that gives a negative color gets none.
    virtual std::unique_ptr<communicator> split(int color, int key) = 0;

    /// From here on verbs wait for the work of a device's stream, and it for them: `kernels` is its
    /// cudaStream_t. Returned is how the host waits until that stream has come to an event, where
    /// it may wait for other ranks: no longer than for a verb. Empty: as it likes.
    virtual std::function<void(void* event)> follow(void* kernels) {
        static_cast<void>(kernels); // of ranks whose buffers are the host's there is none
        return {};
    }

protected:
    virtual handle start(const collective& c) = 0;
    /// The same, and wait.
    virtual void run(const collective& c) { start(c).wait(); }

private:
    template <class T>
    static collective reduction(collective c) {
        static_assert(std::is_floating_point_v<T> || sizeof(T) == 2,
                      "sums are of fp32, fp64, fp16 or bf16");
        c.type = element_code<T>::value;
        return c;
    }
    template <class T>
    collective scatter(device_span<T> mine, device_view<T> all) const {
        parts("reduce_scatter", all.size(), mine.size());
        apart<T>("reduce_scatter", mine, all, rank_);
        return reduction<T>({verb::reduce_scatter, {}, all.data(), mine.data(), mine.size()});
    }
    template <class T>
    collective gathering(device_span<T> all, device_view<T> mine) const {
        parts("all_gather", all.size(), mine.size());
        apart<T>("all_gather", mine, all, rank_);
        return {verb::all_gather, element_code<T>::value, mine.data(), all.data(), mine.size()};
    }
    template <class T>
    collective casting(device_span<T> x, int root) const {
        peer("broadcast", root);
        return {verb::broadcast, element_code<T>::value, x.data(), x.data(), x.size(), root};
    }
    template <class T>
    collective exchange(device_span<T> to, device_view<T> from) const {
        const std::size_t n = from.size() / std::size_t(size_);
        parts("all_to_all", from.size(), n);
        parts("all_to_all", to.size(), n);
        apart<T>("all_to_all", to, from, -1);
        return {verb::all_to_all, element_code<T>::value, from.data(), to.data(), n};
    }
    std::vector<double> gather_one(double x) { return gather({&x, 1}); }

    // Nobody reads what another writes: the two do not overlap, or one is that part of the other.
    template <class T>
    static void apart(const char* what, device_span<const T> x, device_span<const T> all,
                      int part) {
        const auto at = [](const T* p) { return reinterpret_cast<std::uintptr_t>(p); };
        const std::uintptr_t a = at(x.data()), b = at(all.data());
        const bool overlap = a < b + all.bytes() && b < a + x.bytes();
        const bool own = part >= 0 && a == b + std::size_t(part) * x.bytes();
        check(!overlap || own, what, ": the two buffers overlap; ",
              part < 0
                  ? std::string("take two")
                  : join("they may where one is part ", part, " of the other, this rank's own"));
    }
    void parts(const char* what, std::size_t all, std::size_t part) const {
        check(all == part * std::size_t(size_), what, ": ", all, " elements and a part of ", part,
              " for each of ", size_, " ranks; wanted ", part * std::size_t(size_),
              ", pad what does not divide");
    }
    void peer(const char* what, int rank) const {
        check(rank >= 0 && rank < size_, what, ": rank ", rank, " of ", size_, "; wanted 0 to ",
              size_ - 1);
    }

    int rank_, size_;
};

} // namespace mpt
