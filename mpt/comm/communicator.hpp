// SPDX-License-Identifier: MIT
/// @file communicator.hpp
/// What ranks say to each other, whatever carries it.                      tier 2, needs:
/// base/device_span.hpp base/trace.hpp comm/traffic.hpp
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
#include "mpt/comm/traffic.hpp"     // traffic, verb, element

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace mpt {

/// One verb as a rank calls it. `in` and `out` may be the same memory, or `in` the rank's own part
/// of `out` (all_gather), or `out` of `in` (reduce_scatter).
struct collective {
    verb what;
    element type;
    const void* in;
    void* out;
    std::size_t count; // elements of all_reduce, broadcast, send and recv; of a rank's part else
    int peer = -1;     // broadcast: whose; send: to whom; recv: from whom
};

/// A collective on its way.
class handle {
public:
    handle() = default; // of one that is done
    /// wait: until it is done. drop: the same for a rank that is about to end, and has to end it.
    explicit handle(std::function<void()> wait, std::function<void()> drop = nullptr)
        : wait_(std::move(wait)), drop_(std::move(drop)) {}
    handle(handle&& other) noexcept { *this = std::move(other); }
    handle& operator=(handle&& other) noexcept {
        std::swap(wait_, other.wait_);
        std::swap(drop_, other.drop_);
        return *this;
    }
    ~handle() { // its buffers may be freed next
        if (wait_ && drop_) drop_();
    }

    /// Returns when the result is in place; throws what ended the collective. On a GPU the stream
    /// of the caller's kernels waits, not the host.
    void wait() {
        if (const auto wait = std::exchange(wait_, nullptr)) wait();
    }
    bool pending() const { return bool(wait_); } // wait() has not been called

private:
    std::function<void()> wait_, drop_;
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
        parts("reduce_scatter", all.size(), mine.size());
        run(reduction<T>({verb::reduce_scatter, {}, all.data(), mine.data(), mine.size()}));
    }
    /// all (size() n): the mine (n) of rank 0, of rank 1, ...
    template <class T>
    void all_gather(device_span<T> all, device_view<T> mine) {
        parts("all_gather", all.size(), mine.size());
        run({verb::all_gather, element_code<T>::value, mine.data(), all.data(), mine.size()});
    }
    /// x (n): becomes that of rank `root`.
    template <class T>
    void broadcast(device_span<T> x, int root) {
        peer("broadcast", root);
        run({verb::broadcast, element_code<T>::value, x.data(), x.data(), x.size(), root});
    }
    /// Part r of `to` (size() n) becomes this rank's part of rank r's `from` (size() n).
    template <class T>
    void all_to_all(device_span<T> to, device_view<T> from) {
        const std::size_t n = from.size() / std::size_t(size_);
        parts("all_to_all", from.size(), n);
        parts("all_to_all", to.size(), n);
        run({verb::all_to_all, element_code<T>::value, from.data(), to.data(), n});
    }

    template <class T>
    [[nodiscard]] handle start_all_reduce(device_span<T> x) {
        return start(reduction<T>({verb::all_reduce, {}, x.data(), x.data(), x.size()}));
    }
    template <class T>
    [[nodiscard]] handle start_reduce_scatter(device_span<T> mine, device_view<T> all) {
        parts("reduce_scatter", all.size(), mine.size());
        return start(
            reduction<T>({verb::reduce_scatter, {}, all.data(), mine.data(), mine.size()}));
    }
    template <class T>
    [[nodiscard]] handle start_all_gather(device_span<T> all, device_view<T> mine) {
        parts("all_gather", all.size(), mine.size());
        return start(
            {verb::all_gather, element_code<T>::value, mine.data(), all.data(), mine.size()});
    }

    /// Between two ranks; messages of a pair arrive in the order sent. send() may wait for its
    /// receiver: of two ranks that send to each other one receives first, or uses start_send.
    template <class T>
    void send(device_view<T> x, int to) {
        start_send<T>(x, to).wait();
    }
    template <class T>
    void recv(device_span<T> x, int from) {
        start_recv(x, from).wait();
    }
    template <class T>
    [[nodiscard]] handle start_send(device_view<T> x, int to) {
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
    std::vector<double> gather_one(double x) { return gather({&x, 1}); }
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
