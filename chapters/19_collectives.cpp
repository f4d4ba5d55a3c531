// SPDX-License-Identifier: MIT
// Collectives: what ranks say to each other, what they send, in which order sums are taken, and
// what happens when one does not come.
//
// broken: --sabotage blocking => waited 0.3 s for rank
// broken: --no-predivide => [FAILS] 64 x 2048 in fp16, divided by 8 before and after, have a mean
// with: --ranks 2 => [holds] elements measured = formula, every verb, every rank
// with: --ranks 7 => [holds] elements measured = formula, every verb, every rank
#include "common/args.hpp"     // arguments: the flags
#include "common/claims.hpp"   // claims: what is proved
#include "common/on_ranks.hpp" // on_ranks, error_of
#include "common/plot.hpp"     // plot: times over bytes

#include "mpt/comm/cost_model.hpp"   // link, ring_seconds, tree_seconds, servers_seconds
#include "mpt/comm/hierarchical.hpp" // servers
#include "mpt/comm/leader.hpp"       // leader_all_reduce
#include "mpt/comm/ring.hpp"         // ring_all_reduce
#include "mpt/comm/tree.hpp"         // tree_all_reduce
#include "mpt/numeric/fp16.hpp"      // fp16
#include "mpt/numeric/scalar.hpp"    // widen, narrow

#include <algorithm>
#include <functional>

using mpt::communicator, mpt::device_span, mpt::fp16, mpt::verb;

struct options {
    std::string sabotage = "none";
    int ranks = 3;
    bool no_predivide = false;
    std::string svg;
};

using numbers = std::vector<float>;

template <class V>
auto span(V& x) {
    return device_span(x.data(), x.size());
}
template <class T>
mpt::device_view<T> view(const std::vector<T>& x) {
    return {x.data(), x.size()};
}

//! [verbs]
// Each verb on numbers x; what this rank has after it.
struct act {
    const char* name;
    std::function<numbers(communicator&, numbers x)> play;
};
const act acts[] = {
    {"all_reduce", [](auto& comm, numbers x) { return comm.all_reduce(span(x)), x; }},
    {"reduce_scatter",
     [](auto& comm, numbers x) {
         numbers mine(x.size() / std::size_t(comm.size())); // my part of the sum
         return comm.template reduce_scatter<float>(span(mine), view(x)), mine;
     }},
    {"all_gather",
     [](auto& comm, numbers x) {
         numbers all(x.size() * std::size_t(comm.size())); // everybody's x
         return comm.template all_gather<float>(span(all), view(x)), all;
     }},
    {"broadcast", [](auto& comm, numbers x) { return comm.broadcast(span(x), 0), x; }},
    {"all_to_all",
     [](auto& comm, numbers x) {
         numbers to(x.size()); // part r comes from rank r
         return comm.template all_to_all<float>(span(to), view(x)), to;
     }},
    {"send, recv",
     [](auto& comm, numbers x) { // to the right, from the left
         const int N = comm.size(), right = (comm.rank() + 1) % N, left = (comm.rank() + N - 1) % N;
         numbers got(x.size());
         mpt::handle way = comm.template start_send<float>(view(x), right);
         comm.recv(span(got), left);
         return way.wait(), got;
     }},
};
//! [verbs]

std::string shown(const numbers& x) {
    std::string s;
    for (const float v : x) s += mpt::join(s.empty() ? "" : " ", v);
    return s;
}

//! [formula]
// Elements that a rank sends: of n, or, where each has a part of n / N or gathers N n, as said.
double wanted(const std::string& name, double n, int N, int rank) {
    if (name == "all_reduce") return 2 * n * (N - 1) / N;
    if (name == "reduce_scatter" || name == "all_to_all") return n * (N - 1) / N;
    if (name == "all_gather") return n * (N - 1); // of N n gathered
    if (name == "broadcast") return rank == 0 ? n * (N - 1) : 0;
    return n; // send
}
//! [formula]

void verbs(const options& o, claims& claim) {
    const int N = o.ranks;
    struct seen {
        numbers small;
        double sent;
    };
    bool equal = true;
    std::printf("%-15s", "");
    for (int r = 0; r < N; ++r) std::printf(" %-27s", mpt::join("rank ", r).c_str());
    std::printf("\n%-15s", "each has");
    const auto first = [&](int r, std::size_t n) {
        numbers x(n);
        for (std::size_t i = 0; i < n; ++i) x[i] = float(10 * r + 1 + int(i));
        return x;
    };
    for (int r = 0; r < N; ++r) std::printf(" %-27s", shown(first(r, std::size_t(N))).c_str());
    for (const act& a : acts) {
        const std::size_t n = 1000 * std::size_t(N); // elements that are counted
        const auto found = on_ranks(N, [&](communicator& comm) {
            seen s{a.play(comm, first(comm.rank(), std::size_t(N))), 0};
            comm.sent.clear();
            a.play(comm, first(comm.rank(), n));
            comm.barrier(); // who reads from me has read
            s.sent = double(comm.sent.total().elements);
            return s;
        });
        std::printf("\n%-15s", a.name);
        for (const seen& s : found) std::printf(" %-27s", shown(s.small).c_str());
        for (int r = 0; r < N; ++r)
            equal &= found[std::size_t(r)].sent == wanted(a.name, double(n), N, r);
    }
    std::printf("\n\n");
    // expect: [holds] elements measured = formula, every verb, every rank
    claim(equal, "elements measured = formula, every verb, every rank");
}

//! [forms]
// An all_reduce of x in five forms, on N ranks: how, and what each rank sends of n elements.
struct form {
    const char* name;
    std::function<std::size_t(communicator&, numbers& x)> play; // returns what other books have
    std::function<double(double n, int N, int rank)> wanted;
};
const form forms[] = {
    {"owner", [](auto& comm, numbers& x) { return comm.all_reduce(span(x)), 0; },
     [](double n, int N, int) { return 2 * n * (N - 1) / N; }},
    {"ring",
     [](auto& comm, numbers& x) {
         numbers room(x.size());
         return mpt::ring_all_reduce(comm, span(x), span(room)), 0;
     },
     [](double n, int N, int) { return 2 * n * (N - 1) / N; }},
    {"leader",
     [](auto& comm, numbers& x) {
         numbers room(x.size());
         return mpt::leader_all_reduce(comm, span(x), span(room)), 0;
     },
     [](double n, int N, int rank) { return rank == 0 ? n * (N - 1) : n; }},
    {"tree",
     [](auto& comm, numbers& x) {
         numbers room(x.size());
         return mpt::tree_all_reduce(comm, span(x), span(room)), 0;
     },
     [](double n, int, int rank) { return rank == 0 || rank == 2 ? 2 * n : n; }}, // of 4
    {"servers of 2",
     [](auto& comm, numbers& x) {
         mpt::servers s(comm, 2);
         s.all_reduce(span(x));
         comm.barrier(); // who reads from me has read
         return s.inside->sent.of(verb::reduce_scatter).elements +
                s.inside->sent.of(verb::all_gather).elements +
                s.between->sent.of(verb::all_reduce).elements;
     },
     [](double n, int, int) { return 2 * n / 2 + 2 * n / 2 / 2; }}, // inside, between
};
//! [forms]

void sums(const options& o, claims& claim) {
    //! [order]
    const float terms[] = {1e8f, 1, -1e8f, 1}; // of ranks 0 to 3
    //! [order]
    bool equal = true, agree = true;
    std::vector<numbers> results;
    std::printf("%-14s %27s   1e8 + 1 - 1e8 + 1, four times\n", "all_reduce",
                "ranks 0 to 3 send of 1000");
    for (const form& f : forms) {
        struct seen {
            numbers sum;
            double sent;
        };
        const auto found = on_ranks(4, [&](communicator& comm) {
            seen s{numbers(4, terms[comm.rank()]), 0};
            f.play(comm, s.sum);
            comm.barrier();
            comm.sent.clear();
            numbers x(1000, 1);
            const std::size_t others = f.play(comm, x);
            comm.barrier();
            s.sent = double(others);
            for (const verb v : {verb::all_reduce, verb::send})
                s.sent += double(comm.sent.of(v).elements);
            return s;
        });
        std::printf("%-14s", f.name);
        for (int r = 0; r < 4; ++r) {
            const seen& s = found[std::size_t(r)];
            std::printf(" %6.0f", s.sent);
            equal &= s.sent == f.wanted(1000, 4, r), agree &= s.sum == found[0].sum;
        }
        std::printf("   %s\n", shown(found[0].sum).c_str());
        results.push_back(found[0].sum);
    }
    //! [fp16]
    const float before = o.no_predivide ? 1 : 8, after = 64 / before;
    const auto mean = on_ranks(64, [&](communicator& comm) {
        std::vector<fp16> x(1, mpt::narrow<fp16>(2048 / before));
        comm.all_reduce(span(x)); // the sum of 64, rounded to fp16
        return mpt::widen(x[0]) / after;
    });
    //! [fp16]
    std::printf("mean of 64 x 2048 in fp16, divided by %g before the sum and %g after: %g\n\n",
                double(before), double(after), double(mean[0]));
    // expect: [holds] owner, ring, leader, tree, servers: elements measured = formula, every rank
    claim(equal, "owner, ring, leader, tree, servers: elements measured = formula, every rank");
    // expect: [holds] each form has one result on all ranks
    claim(agree, "each form has one result on all ranks");
    // expect: [holds] 1e8 + 1 - 1e8 + 1 = 1 in rank order; 0, 1, 0, 1 around a ring
    claim(results[0] == numbers(4, 1) && results[1] == numbers{0, 1, 0, 1},
          "1e8 + 1 - 1e8 + 1 = 1 in rank order; 0, 1, 0, 1 around a ring");
    // expect: [holds] 64 x 2048 in fp16, divided by 8 before and after, have a mean of 2048
    claim(std::all_of(mean.begin(), mean.end(), [](float x) { return x == 2048; }),
          "64 x 2048 in fp16, divided by 8 before and after, have a mean of 2048");
}

void times(const options& o, claims& claim) {
    //! [times]
    constexpr int N = 16;
    plot p{mpt::join("An all_reduce over ", N, " ranks, by the model"),
           "log10 of bytes",
           "log10 of microseconds",
           {},
           false,
           true};
    const auto draw = [&](const std::string& name, auto seconds) {
        curve c{name, {}, curve::line};
        for (double e = 3; e <= 9.5; e += 0.25)
            c.points.push_back({e, std::log10(1e6 * seconds(std::pow(10, e)))});
        p.curves.push_back(c);
    };
    for (const mpt::link& by : {mpt::nvswitch, mpt::infiniband, mpt::ethernet})
        draw(mpt::join("ring, ", by.name), [&](double b) { return mpt::ring_seconds(by, N, b); });
    draw("tree, InfiniBand", [](double b) { return mpt::tree_seconds(mpt::infiniband, N, b); });
    draw("leader, InfiniBand", [](double b) { return mpt::leader_seconds(mpt::infiniband, N, b); });
    //! [times]
    if (!o.svg.empty())
        mpt::check(p.save(o.svg), "--svg ", o.svg, ": cannot be written; give another path");
    std::printf("%-14s %12s %12s %12s   over 16 ranks, by the model\n", "ms", "8 KB", "25 MB",
                "1 GB");
    const auto row = [](const char* name, auto seconds) {
        std::printf("%-14s %12.3f %12.3f %12.1f\n", name, 1e3 * seconds(8e3), 1e3 * seconds(25e6),
                    1e3 * seconds(1e9));
    };
    const mpt::link &fast = mpt::nvswitch, &slow = mpt::infiniband;
    row("NVSwitch ring", [&](double b) { return mpt::ring_seconds(fast, N, b); });
    row("InfiniBand ring", [&](double b) { return mpt::ring_seconds(slow, N, b); });
    row("  ... tree", [&](double b) { return mpt::tree_seconds(slow, N, b); });
    row("  ... 2 servers", [&](double b) { return mpt::servers_seconds(fast, 8, slow, 2, b); });
    row("Ethernet ring", [&](double b) { return mpt::ring_seconds(mpt::ethernet, N, b); });
    std::printf("\n");
    const auto tree_first = [&](double b) {
        return mpt::tree_seconds(slow, N, b) < mpt::ring_seconds(slow, N, b);
    };
    // expect: [holds] by the model a tree wins at 8 KB, a ring at 25 MB
    claim(tree_first(8e3) && !tree_first(25e6),
          "by the model a tree wins at 8 KB, a ring at 25 MB");
    // expect: [holds] ... and servers of 8 with a fast inside are 5 times as fast at 1 GB
    claim(5 * mpt::servers_seconds(fast, 8, slow, 2, 1e9) < mpt::ring_seconds(slow, N, 1e9),
          "... and servers of 8 with a fast inside are 5 times as fast at 1 GB");
}

void asynchronous(const options& o, claims& claim) {
    const bool blocks = o.sabotage == "blocking";
    //! [async]
    const auto meet = [&](communicator& comm) {
        numbers x(1000, 1), word(1, 7);
        if (comm.rank() == 0) {
            mpt::handle way = comm.start_all_reduce(span(x)); // returns at once ...
            if (blocks) way.wait();
            comm.send<float>(view(word), 1); // ... for rank 1 begins after this word
            way.wait();                      // x belongs to the collective until here
        } else {
            comm.recv(span(word), 0);
            comm.all_reduce(span(x));
        }
        return x;
    };
    //! [async]
    const auto sums = on_ranks(2, meet, blocks ? 0.3 : mpt::timeout_seconds());
    // expect: [holds] start returns before the others have come, wait when the sum is there
    claim(sums[0] == numbers(1000, 2) && sums[1] == sums[0],
          "start returns before the others have come, wait when the sum is there");
}

void missing(claims& claim) {
    const auto says = [&](const char* what, auto body, double timeout, const char* words) {
        const std::string error = error_of([&] { mpt::run_ranks(3, body, timeout); });
        std::printf("%s\n  %s\n", what, error.c_str());
        return error.find(words) != std::string::npos;
    };
    //! [missing]
    const auto leaves = [](communicator& comm) {
        numbers x(8, 1);
        comm.all_reduce(span(x));
        if (comm.rank() == 1) return; // it has no more data
        comm.all_reduce(span(x));
    };
    const auto stalls = [](communicator& comm) {
        numbers x(8, 1);
        if (comm.rank() == 2) comm.recv(span(x), 0); // nobody sends
        comm.all_reduce(span(x));
    };
    const auto differs = [](communicator& comm) {
        numbers x(comm.rank() == 2 ? 9 : 8, 1); // one parameter more than the others
        comm.all_reduce(span(x));
    };
    //! [missing]
    const double usual = mpt::timeout_seconds();
    const bool left = says("rank 1 leaves early:", leaves, usual, "rank 1 has left after 1");
    const bool late = says("rank 2 waits for somebody else:", stalls, 0.3, "waited 0.3 s for rank");
    const bool other =
        says("rank 2 has another count:", differs, usual,
             "collective 1: rank 0 calls all_reduce of 8 fp32, rank 2 all_reduce of");
    std::printf("\n");
    // expect: [holds] a rank that leaves, stalls or differs is named, with the collective
    claim(left && late && other,
          "a rank that leaves, stalls or differs is named, with the collective");
}

int collectives(const options& o) {
    claims claim;
    verbs(o, claim);
    sums(o, claim);
    times(o, claim);
    missing(claim);
    asynchronous(o, claim);
    return claim.status();
}

int main(int argc, char** argv) {
    options o;
    arguments args(argc, argv, "19_collectives", "Collectives: verbs, traffic, order, deadlines.");
    args.add("--ranks", o.ranks, "threads, each a rank", 2, 16);
    args.add("--no-predivide", o.no_predivide, "break it: sum 64 numbers of fp16 undivided");
    args.add("--sabotage", o.sabotage, "break it", {"none", "blocking"});
    args.add("--svg", o.svg, "draw the model's times into this file");
    return args.run([&] { return collectives(o); });
}
