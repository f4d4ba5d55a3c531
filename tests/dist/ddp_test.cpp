// SPDX-License-Identifier: MIT
#include "mpt/dist/ddp.hpp"

#include "units_rig.hpp"
#include "mpt/comm/world.hpp"
#include "mpt/dist/global_norm.hpp"
#include "mpt/dist/one_rank.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <vector>

using namespace mpt;
using rig::backward, rig::gradient, rig::three_units;

TEST_CASE_TEMPLATE("a window's gradients are the sum over ranks, in either mode", T, float, fp16,
                   bf16) {
    const layout map = three_units();
    for (const int ranks : {1, 2, 3, 4})
        for (const int micros : {1, 2, 3})
            for (const reduce_mode mode : {reduce_mode::once, reduce_mode::every})
                for (const std::size_t most : {std::size_t(1), bucket_bytes})
                    run_ranks(ranks, [&](communicator& comm) {
                        rig::machine m(1);
                        ddp<T> s(m.on, map, comm, micros, mode, most);
                        std::vector<T> micro(map.size());
                        std::vector<float> sum(micros > 1 ? map.size() : 0, NAN);
                        gradients<T> grads{rig::span(micro), rig::span(sum)};
                        for (int k = 0; k < micros; ++k)
                            backward(s, map, grads, gradient<T>(map, comm.rank(), k), k);
                        const owned_gradients<T> own = s.finish(grads);

                        // The same sums, taken here in the order that the mode promises.
                        std::vector<float> want(map.size());
                        for (std::size_t i = 0; i < want.size(); ++i) {
                            float ours = 0, part[3];
                            if (mode == reduce_mode::once && micros > 1) {
                                for (int r = 0; r < ranks; ++r) {
                                    for (int k = 0; k < micros; ++k) {
                                        const float g = widen(gradient<T>(map, r, k)[i]);
                                        part[k] = k ? part[k - 1] + g : g;
                                    }
                                    ours = r ? ours + part[micros - 1] : part[micros - 1];
                                }
                            } else {
                                for (int k = 0; k < micros; ++k) {
                                    float over = 0;
                                    for (int r = 0; r < ranks; ++r) {
                                        const float g = widen(gradient<T>(map, r, k)[i]);
                                        over = r ? over + g : g;
                                    }
                                    over = widen(narrow<T>(over));
                                    ours = k ? ours + over : over;
                                }
                            }
                            want[i] = ours;
                            if (i == 40) break; // the rest is as these; gradient() is not free
                        }
                        own.visit([&](const auto& parts) {
                            CHECK(size_of(parts) == map.size());
                            for (std::size_t i = 0; i < 40; ++i)
                                REQUIRE(widen(parts[0].data.data()[i]) == want[i]);
                        });

                        // elements sent, as the card has them
                        const std::size_t messages = mode == reduce_mode::once ? 1 : micros;
                        const double all =
                            comm.sum(double(comm.sent.of(verb::all_reduce).elements));
                        CHECK(all == double(2 * std::size_t(ranks - 1) * map.size() * messages));
                    });
}

TEST_CASE("the norm is one for all ranks, and the same as one rank's over all") {
    const layout map = three_units();
    double alone = 0;
    for (const int ranks : {1, 2, 3, 4})
        run_ranks(ranks, [&](communicator& comm) {
            rig::machine m(1);
            ddp<float> s(m.on, map, comm, 1);
            std::vector<float> g(map.size());
            gradients<float> grads{rig::span(g), {}};
            backward(s, map, grads, gradient<float>(map, 0, 0), 0); // the same on every rank
            const owned_gradients<float> own = s.finish(grads);
            const float N = float(ranks);
            for (float& x : g) x /= N;
            const health h = inspect(m.on, own);
            const double length = norm(s, map, own, h);
            double exact = 0;
            for (const float x : g) exact += double(x) * double(x);
            // a block's squares are within 9 * 2^-24 of exact, their root within half of that
            CHECK(length == doctest::Approx(std::sqrt(exact)).epsilon(9 * 0x1p-24 / 2 + 1e-15));
            CHECK(comm.max(length) == length);
            if (ranks == 1) alone = length;
            g[0] += 1; // sabotage: one element other than before
            CHECK(norm(s, map, own, inspect(m.on, own)) != alone);
        });
}
