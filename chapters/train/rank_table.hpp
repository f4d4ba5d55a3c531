// SPDX-License-Identifier: MIT
// rank_table.hpp -- what each rank has held and sent, measured beside formula.
#pragma once
#include "memory_plan.hpp"
#include "options.hpp"

#include "mpt/base/ledger.hpp"       // ledger
#include "mpt/comm/communicator.hpp" // communicator, traffic, verb, element
#include "mpt/dist/bucket.hpp"       // buckets
#include "mpt/dist/partition.hpp"    // partition
#include "mpt/train/estimate.hpp"    // estimate: bytes by kind and place

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

/// Elements sent by one rank, by verb and type.
struct elements_sent {
    std::array<std::array<std::size_t, mpt::element_kinds>, mpt::verbs> n{};

    std::size_t& at(mpt::verb v, mpt::element e) { return n[std::size_t(v)][std::size_t(e)]; }

    static elements_sent of(const mpt::traffic& book) {
        elements_sent all;
        for (int v = 0; v < mpt::verbs; ++v)
            for (int e = 0; e < mpt::element_kinds; ++e)
                all.at(mpt::verb(v), mpt::element(e)) =
                    book.of(mpt::verb(v), mpt::element(e)).elements;
        return all;
    }
    /// What was sent from `before` to `after` is added: steps count, not validations and saving.
    void add(const elements_sent& before, const elements_sent& after) {
        for (std::size_t v = 0; v < n.size(); ++v)
            for (std::size_t e = 0; e < n[v].size(); ++e) n[v][e] += after.n[v][e] - before.n[v][e];
    }
};

/// What the steps of this call have been.
struct steps_taken {
    std::size_t steps = 0;   // attempted
    std::size_t applied = 0; // of them
    std::size_t kept = 0;    // begun with unit 0 still gathered, by a validation just before

    /// Has a micro-batch known the order of units, so that it could gather them ahead?
    bool ahead(int micro_batches) const { return steps * std::size_t(micro_batches) > 1 + kept; }
};

//! [traffic]
/// What rank `rank` sends in these steps: (N-1)/N of 2 elements a parameter for a window that is
/// reduced once (3 with zero3), more with every micro-batch (reduce_mode.hpp); exactly, with the
/// padding. sums: numbers that the optimizer adds up over shards.
inline elements_sent planned_traffic(const options& o, const mpt::layout& map,
                                     const mpt::partition& cut, int rank, mpt::element type,
                                     const steps_taken& done, std::size_t sums) {
    const std::size_t N = std::size_t(cut.ranks()), M = std::size_t(o.micro_batches);
    const bool once = M > 1 && reduces_once(o); // in fp32, else each micro-batch in `type`
    const mpt::element of = once ? mpt::element::fp32 : type;
    const std::size_t reductions = done.steps * (once ? 1 : M),
                      shards = (N - 1) * cut.packed_size();
    const auto all_reduce = [&](std::size_t n) { // my part to all others, and theirs to them
        const std::size_t part = (n + N - 1) / N, begin = std::size_t(rank) * part;
        const std::size_t mine = std::min(n, begin + part) - std::min(n, begin);
        return n - mine + (N - 1) * mine;
    };
    const bool on_host = o.device == "cpu";
    elements_sent all;
    if (o.zero == 0) {
        for (const mpt::bucket& b : mpt::buckets(map, mpt::bytes_of(of)))
            all.at(mpt::verb::all_reduce, of) += reductions * all_reduce(b.size);
    } else {
        all.at(mpt::verb::reduce_scatter, of) = reductions * shards;
        all.at(mpt::verb::all_gather, type) =
            o.zero < 3 ? (on_host ? done.applied : done.steps) * shards
                       : done.steps * 2 * M * shards - done.kept * (N - 1) * cut.shard(0);
    }
    if (!on_host) {
        // A device publishes after skipped steps, too: its host does not know yet. One message has
        // losses, squares, how many are not finite, who wants to stop; where some are not finite
        // hosts tell each other where.
        all.at(mpt::verb::all_reduce, mpt::element::fp64) += done.steps * all_reduce(M + 3);
        all.at(mpt::verb::agree, mpt::element::fp64) = (N - 1) * 2 * (done.steps - done.applied);
        return all;
    }
    // the loss, `finite`; where a rank has its shard only, squares of each unit, and 3 to say what
    // is not finite
    std::size_t numbers = 2 * done.steps;
    if (o.zero > 0)
        numbers +=
            done.steps * map.units.size() + done.applied * sums + 3 * (done.steps - done.applied);
    all.at(mpt::verb::agree, mpt::element::fp64) = (N - 1) * numbers;
    return all;
}
//! [traffic]

/// Bytes that have crossed between a rank's device and its host.
struct moved {
    std::size_t out = 0, in = 0; // from the device, to it

    /// What has crossed from `before` to `after` is added: of steps, as elements_sent::add.
    void add(const moved& before, const moved& after) {
        out += after.out - before.out, in += after.in - before.in;
    }
};

/// One rank's account, as numbers that ranks can send each other.
struct rank_account {
    mpt::estimate held, planned; // bytes of each place at its peak
    std::size_t padding = 0;     // bytes of `planned` in buffers that the device keeps
    elements_sent sent, promised;
    moved crossed, to_cross;

    std::vector<double> numbers() const {
        std::vector<double> all{double(padding)};
        for (const moved& m : {crossed, to_cross})
            all.insert(all.end(), {double(m.out), double(m.in)});
        for (const auto* of_places : {&held.bytes, &planned.bytes})
            for (const auto& list : *of_places) all.insert(all.end(), list.begin(), list.end());
        for (const auto* book : {&sent, &promised})
            for (const auto& of_verb : book->n)
                all.insert(all.end(), of_verb.begin(), of_verb.end());
        return all;
    }
    static rank_account of(const double* from) {
        rank_account a;
        a.padding = std::size_t(*from++);
        for (moved* m : {&a.crossed, &a.to_cross})
            m->out = std::size_t(*from++), m->in = std::size_t(*from++);
        for (auto* of_places : {&a.held.bytes, &a.planned.bytes})
            for (auto& list : *of_places)
                for (std::size_t& x : list) x = std::size_t(*from++);
        for (auto* book : {&a.sent, &a.promised})
            for (auto& of_verb : book->n)
                for (std::size_t& x : of_verb) x = std::size_t(*from++);
        return a;
    }
};

/// The accounts of all ranks, by rank. Every rank calls it.
inline std::vector<rank_account> all_accounts(mpt::communicator& comm, const rank_account& mine) {
    const std::vector<double> numbers = mine.numbers(), all = comm.gather(numbers);
    std::vector<rank_account> found;
    for (std::size_t r = 0; r < std::size_t(comm.size()); ++r)
        found.push_back(rank_account::of(all.data() + r * numbers.size()));
    return found;
}

namespace rank_table {

// Ranks beside each other: 3 at most, and as many in each part of the table.
inline std::size_t columns(std::size_t ranks) {
    const std::size_t parts = (ranks + 2) / 3;
    return (ranks + parts - 1) / parts;
}

// A row: measured and formula of ranks [first, last); false where they differ.
template <class Of>
bool row(const std::string& name, const std::vector<rank_account>& all, std::size_t first,
         std::size_t last, Of of) {
    std::string text = name;
    text.resize(std::max<std::size_t>(text.size(), 22), ' ');
    bool same = true;
    for (std::size_t r = first; r < last; ++r) {
        const auto [measured, formula] = of(all[r]);
        char pair[64];
        std::snprintf(pair, sizeof pair, "%13zu%13zu", std::size_t(measured), std::size_t(formula));
        text += pair;
        same = same && measured == formula;
    }
    std::printf("%s%s\n", text.c_str(), same ? "" : "   differ");
    return same;
}
inline void head(const char* name, std::size_t first, std::size_t last) {
    std::printf("  %-20s", name);
    for (std::size_t r = first; r < last; ++r)
        std::printf("%13s%13s", ("rank " + std::to_string(r)).c_str(), "formula");
    std::printf("\n");
}
using pair = std::pair<std::size_t, std::size_t>;

inline const char* words_of(mpt::place p) {
    return p == mpt::place::device ? "on the device"
           : p == mpt::place::host ? "on the host"
                                   : "in files";
}

} // namespace rank_table

/// Both tables on stdout. steps: how many the traffic is of. Is all as it was planned?
inline bool print_accounts(const std::vector<rank_account>& all, std::size_t steps) {
    using namespace rank_table;
    const auto in_use = [&](auto number) {
        return std::any_of(all.begin(), all.end(),
                           [&](const rank_account& a) { return number(a) > 0; });
    };
    bool same = true;
    const std::size_t each = columns(all.size());
    for (std::size_t first = 0; first < all.size(); first += each) {
        const std::size_t last = std::min(all.size(), first + each);
        for (int p = 0; p < mpt::places; ++p) {
            const mpt::place here = mpt::place(p);
            const auto total = [&](const rank_account& a) {
                return pair(a.held.total(here), a.planned.total(here));
            };
            if (!in_use([&](const rank_account& a) { return total(a).first + total(a).second; }))
                continue;
            std::printf("memory of each rank at its peak, bytes %s, ledger beside formula\n",
                        words_of(here));
            head("kind", first, last);
            for (int k = 0; k < mpt::kinds; ++k) {
                const auto both = [&](const rank_account& a) {
                    return pair(a.held.at(mpt::kind(k), here), a.planned.at(mpt::kind(k), here));
                };
                if (in_use([&](const rank_account& a) { return both(a).first + both(a).second; }))
                    same &=
                        row(std::string("  ") + to_string(mpt::kind(k)), all, first, last, both);
            }
            same &= row("  total", all, first, last, total);
            if (here == mpt::place::device)
                row("  padding in it", all, first, last,
                    [](const rank_account& a) { return pair(a.padding, a.padding); });
        }
        if (in_use([](const rank_account& a) {
                return a.crossed.out + a.crossed.in + a.to_cross.out + a.to_cross.in;
            })) {
            std::printf("bytes that each rank has moved in %zu steps, counted beside formula\n",
                        steps);
            head("way", first, last);
            same &= row("  from its device", all, first, last,
                        [](const rank_account& a) { return pair(a.crossed.out, a.to_cross.out); });
            same &= row("  to its device", all, first, last,
                        [](const rank_account& a) { return pair(a.crossed.in, a.to_cross.in); });
        }
        std::printf("elements that each rank has sent in %zu steps, counted beside formula\n",
                    steps);
        head("verb, type", first, last);
        for (std::size_t v = 0; v < mpt::verbs; ++v)
            for (std::size_t e = 0; e < mpt::element_kinds; ++e)
                if (in_use([&](const rank_account& a) { return a.sent.n[v][e]; }) ||
                    in_use([&](const rank_account& a) { return a.promised.n[v][e]; }))
                    same &= row(std::string("  ") + to_string(mpt::verb(v)) + ' ' +
                                    to_string(mpt::element(e)),
                                all, first, last, [&](const rank_account& a) {
                                    return pair(a.sent.n[v][e], a.promised.n[v][e]);
                                });
        same &= row("  bytes in all", all, first, last, [](const rank_account& a) {
            pair sum;
            for (std::size_t v = 0; v < mpt::verbs; ++v)
                for (std::size_t e = 0; e < mpt::element_kinds; ++e) {
                    sum.first += a.sent.n[v][e] * mpt::bytes_of(mpt::element(e));
                    sum.second += a.promised.n[v][e] * mpt::bytes_of(mpt::element(e));
                }
            return sum;
        });
    }
    std::printf("%zu ranks: measured and formula are %s\n", all.size(),
                same ? "equal" : "DIFFERENT");
    return same;
}
