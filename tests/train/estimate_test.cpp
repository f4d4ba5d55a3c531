// SPDX-License-Identifier: MIT
#include "mpt/train/estimate.hpp"

#include "mpt/base/memory.hpp"
#include "mpt/base/thread_pool.hpp"
#include "mpt/dist/one_rank.hpp"
#include "mpt/nn/gpt.hpp"
#include "mpt/nn/gpt_scratch.hpp"
#include "mpt/nn/loops.hpp"
#include "mpt/numeric/bf16.hpp"
#include "mpt/train/advise.hpp"
#include "mpt/train/deepspeed_estimate.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <string>
#include <vector>

using namespace mpt;

namespace {

gpt_config shape(int layers, int heads, int kv_heads, int channels, int context, int vocabulary) {
    gpt_config c;
    c.layers = layers, c.heads = heads, c.kv_heads = kv_heads;
    c.channels = channels, c.context = context, c.vocabulary = vocabulary;
    return c;
}
const gpt_config gpt2 = shape(12, 12, 12, 768, 1024, 50257);
const gpt_config odd = shape(5, 3, 1, 21, 7, 11); // nothing divides by 2 or 4

training_plan plan_of(int ranks, int stage) {
    training_plan p;
    p.ranks = ranks, p.stage = stage;
    return p;
}

// The totals that the ZeRO paper prints for 7.5 billion parameters.
using estimator = std::function<std::size_t(const model_size&, const training_plan&)>;
bool knows_7_5B(const estimator& bytes) {
    const model_size m = size_of_parameters(7500000000);
    const std::size_t wanted[3][4] = {{120000000000, 120000000000, 120000000000, 120000000000},
                                      {120000000000, 52500000000, 41250000000, 30000000000},
                                      {120000000000, 31406250000, 16640625000, 1875000000}};
    const int ranks[] = {1, 4, 64};
    for (int i = 0; i < 3; ++i)
        for (int stage = 0; stage < 4; ++stage)
            if (bytes(m, plan_of(ranks[i], stage)) != wanted[i][stage]) return false;
    return true;
}

} // namespace

TEST_CASE("7.5 billion parameters: 120, 31.4, 16.6 and 1.875 GB") {
    CHECK(knows_7_5B([](const auto& m, const auto& p) { return estimate_bytes(m, p).total(); }));
}

TEST_CASE("... and an estimator that shards the weights in stage 1 does not know them") {
    CHECK_FALSE(knows_7_5B([](const auto& m, const auto& p) {
        estimate e = estimate_bytes(m, p);
        if (p.stage >= 1) e.at(kind::weights) /= std::size_t(p.ranks);
        return e.total();
    }));
}

TEST_CASE("bytes a parameter by precision and optimizer") {
    const model_size m = size_of_parameters(256000);
    const auto each = [&](std::size_t weight, bool master, optimizer_kind o, int micro_batches) {
        training_plan p;
        p.weight = weight, p.master = master, p.optimizer = o, p.micro_batches = micro_batches;
        return double(estimate_bytes(m, p).total()) / 256000;
    };
    CHECK(each(4, false, optimizer_kind::adamw, 1) == 16);
    CHECK(each(4, false, optimizer_kind::adamw, 2) == 20);
    CHECK(each(2, true, optimizer_kind::adamw, 1) == 16);
    CHECK(each(2, true, optimizer_kind::adamw, 3) == 20);
    CHECK(each(2, false, optimizer_kind::adamw, 1) == 12);
    CHECK(each(2, true, optimizer_kind::adam8, 1) == 10.03125);
    CHECK(each(2, true, optimizer_kind::adam16, 1) == 12);
    CHECK(each(2, true, optimizer_kind::momentum, 1) == 12);
    CHECK(each(2, true, optimizer_kind::sgd, 1) == 8);
    // fp32 without a master of its own: 8 + 8/N, 4 + 12/N, 16/N
    for (int stage = 1; stage <= 3; ++stage) {
        training_plan p = plan_of(4, stage);
        p.weight = 4, p.master = false;
        CHECK(double(estimate_bytes(m, p).total()) / 256000 == (stage == 1   ? 10
                                                                : stage == 2 ? 7
                                                                             : 4));
    }
}

TEST_CASE("shards add up to the whole, and to the padding of each unit") {
    for (const int N : {1, 2, 3, 4, 7, 64, 1000}) {
        const model_size m = size_of_gpt(odd, checkpointing::none(5), 2, 7, 2);
        const std::size_t P = m.parameters().n, all = m.shard(N).n * std::size_t(N);
        CHECK(all >= P);
        CHECK(all - P <= std::size_t(N - 1) * m.units.size());
        std::size_t padding = 0;
        for (const std::size_t u : m.units)
            padding += (std::size_t(N) - u % std::size_t(N)) % std::size_t(N);
        CHECK(all - P == padding);
        CHECK(m.shard(1).n == P);
    }
}

TEST_CASE("more ranks or a higher stage never take more; more micro-batches never less") {
    const model_size m = size_of_gpt(gpt2, checkpointing::none(12), 1, 1024, 2);
    const auto states = [&](const training_plan& p) { // units in flight are no states
        const estimate e = estimate_bytes(m, p);
        return e.total() - e.at(kind::comm);
    };
    for (const optimizer_kind o : {optimizer_kind::adamw, optimizer_kind::adam8,
                                   optimizer_kind::momentum, optimizer_kind::sgd})
        for (const int M : {1, 2})
            for (int stage = 0; stage <= 3; ++stage)
                for (int N = 1; N < 40; N += 3) {
                    training_plan p = plan_of(N, stage), more = plan_of(N + 3, stage);
                    p.optimizer = more.optimizer = o;
                    p.micro_batches = more.micro_batches = M;
                    p.reduce = more.reduce = reduce_when::every;
                    CHECK(states(more) <= states(p));
                    training_plan next = p;
                    next.stage = std::min(stage + 1, 3);
                    CHECK(states(next) <= states(p));
                    next = p;
                    next.micro_batches = M + 1;
                    CHECK(states(next) >= states(p));
                    next = p;
                    next.reduce = reduce_when::once; // never less than every
                    CHECK(states(next) >= states(p));
                    for (const offload_to away : {offload_to::host, offload_to::file}) {
                        next = p;
                        next.offload = away;
                        CHECK(states(next) <= states(p));
                    }
                }
}

TEST_CASE("sums of a window: whole with once, a shard with every; nothing for one micro-batch") {
    const model_size m = size_of_parameters(1000);
    for (int stage = 0; stage <= 3; ++stage)
        for (const bool every : {false, true}) {
            training_plan p = plan_of(4, stage);
            p.reduce = every ? reduce_when::every : reduce_when::once;
            CHECK(estimate_bytes(m, p).at(kind::sums) == 0);
            p.micro_batches = 5;
            CHECK(estimate_bytes(m, p).at(kind::sums) == (every && stage > 0 ? 1000 : 4000));
            p.reduce = reduce_when::usual;
            CHECK(estimate_bytes(m, p).at(kind::sums) == (stage >= 2 ? 1000 : 4000));
        }
}

TEST_CASE("offloading moves bytes, and loses none") {
    const model_size m = size_of_parameters(1024);
    training_plan p = plan_of(4, 2);
    const estimate here = estimate_bytes(m, p);
    p.offload = offload_to::host;
    const estimate host = estimate_bytes(m, p);
    CHECK(host.total() == 2 * 1024);
    CHECK(host.total(place::host) == 14 * 256);
    CHECK(host.total() + host.total(place::host) == here.total());
    // Of several micro-batches the host keeps sums, and no gradients beside them.
    p.micro_batches = 3;
    CHECK(estimate_bytes(m, p).at(kind::grads, place::host) == 0);
    CHECK(estimate_bytes(m, p).total(place::host) == (4 + 12) * 256);
    p.micro_batches = 1;
    p.offload = offload_to::file, p.stage = 3;
    const estimate file = estimate_bytes(m, p);
    CHECK(file.total() == 0);
    CHECK(file.total(place::host) == 2 * 256);
    CHECK(file.total(place::file) == 14 * 256);
    // fp32 weights are their own master, and the host updates a copy.
    p.offload = offload_to::host, p.stage = 0, p.weight = 4, p.master = false;
    CHECK(estimate_bytes(m, p).at(kind::master, place::host) == 4 * 1024);
}

TEST_CASE("8-bit Adam: embeddings and small tensors keep fp32 moments") {
    const model_size m = size_of_gpt(gpt2, checkpointing::none(12), 1, 1024, 2);
    const std::size_t P = m.parameters().n;
    CHECK(P == 124439808);
    // In 32 bits: both embeddings, 25 norms of 2 * 768, and a block's biases 2304 + 3072 + 2 * 768.
    const std::size_t wide = (50257 + 1024) * 768 + 25 * 2 * 768 + 12 * (2304 + 3072 + 2 * 768);
    CHECK(m.wide == wide);
    CHECK(m.blocks8 * 256 == P - wide); // matrices of multiples of 768 fill their blocks
    training_plan p;
    p.optimizer = optimizer_kind::adam8;
    CHECK(estimate_bytes(m, p).at(kind::moments) == wide * 8 + (P - wide) * 65 / 32);
}

namespace {

// Elements that are whole at a time, on a rank that would gather and reduce them.
template <class T>
struct counting_rank : one_rank<T> {
    counting_rank(const cpu& on, const layout& map) : one_rank<T>(on, map), map_(map) {}
    device_span<const T> acquire(device_span<const T> weights, int unit) override {
        weights_ += map_.units[std::size_t(unit)].size();
        see();
        return one_rank<T>::acquire(weights, unit);
    }
    void release(int unit) override { weights_ -= map_.units[std::size_t(unit)].size(); }
    device_span<T> collect(gradients<T>& grads, int unit) override {
        grads_ += map_.units[std::size_t(unit)].size();
        see();
        return one_rank<T>::collect(grads, unit);
    }
    void ready(gradients<T>& grads, int unit, int micro) override {
        grads_ -= map_.units[std::size_t(unit)].size();
        one_rank<T>::ready(grads, unit, micro);
    }
    std::size_t most_grads = 0, most = 0;

private:
    void see() {
        most_grads = std::max(most_grads, grads_);
        most = std::max(most, grads_ + weights_);
    }
    const layout& map_;
    std::size_t weights_ = 0, grads_ = 0;
};

// A small run, and what an estimate says of it.
struct lived {
    std::size_t grads_in_flight, in_flight;
    std::array<std::size_t, kinds> measured;
    model_size size;
};
template <class T>
lived live(const gpt_config& c, const std::string& words, int B, int M) {
    const checkpointing how = checkpointing::parse(words, c.layers);
    thread_pool pool(2);
    memory mem;
    loops ops(pool, mem, gpt_scratch<T>(c, B, c.context));
    gpt<T, loops> model(c, ops);
    const std::size_t P = model.map.size(), n = std::size_t(B) * std::size_t(c.context);
    counting_rank<T> rank(ops, model.map);
    gpt_acts<T> acts(mem, c, B, c.context, how);
    buffer<T> weights(mem, kind::weights, P, "weights"), grads(mem, kind::grads, P, "gradients");
    buffer<float> sums(mem, kind::sums, M > 1 ? P : 0, "sums");
    buffer<int> in(mem, kind::data, n, "inputs"), out(mem, kind::data, n, "targets");
    std::vector<T> first(P);
    for (std::size_t i = 0; i < P; ++i) first[i] = T(std::sin(float(i)) * 0.1f);
    ops.copy_to_device(weights.span(), std::span<const T>(first));
    std::vector<int> tokens(n);
    for (std::size_t i = 0; i < n; ++i) tokens[i] = int(i * i % std::size_t(c.vocabulary));
    ops.copy_to_device(in.span(), std::span<const int>(tokens));
    ops.copy_to_device(out.span(), std::span<const int>(tokens));
    gradients<T> g{grads.span(), sums.span()};
    for (int micro = 0; micro < M; ++micro) {
        const batch b{in.span(), out.span(), B, c.context, micro, 0, micro * B};
        model.forward(rank, weights.span(), b, acts);
        model.backward(rank, weights.span(), b, acts, 1.0f, g);
    }
    lived l{rank.most_grads, rank.most, {}, size_of_gpt(c, how, B, c.context, sizeof(T))};
    for (int k = 0; k < kinds; ++k) l.measured[std::size_t(k)] = mem.books.at_peak(kind(k));
    l.size.temp += (gpt_scratch<T>(c, B, c.context) + 63) / 64 * 64 * 2; // of 2 workers
    return l;
}

// Of the kinds that the small run has.
bool equals(const lived& l, const estimate& e) {
    for (const kind k :
         {kind::weights, kind::grads, kind::sums, kind::activations, kind::temp, kind::data})
        if (l.measured[std::size_t(k)] != e.at(k)) return false;
    return true;
}

} // namespace

TEST_CASE_TEMPLATE("what a run holds = its estimate, byte for byte; units in flight as well", T,
                   float, bf16) {
    gpt_config tfixup = odd, scaled = shape(4, 2, 2, 6, 5, 300), rezero = scaled;
    tfixup.layer_norm = rezero.layer_norm = false;
    scaled.residual_scale = rezero.residual_scale = true;
    for (const gpt_config& c : {odd, shape(1, 1, 1, 8, 3, 5), tfixup, scaled, rezero})
        for (const std::string words : {"none", "every:1", "sqrt", "blocks:0"})
            for (const int M : {1, 3}) {
                CAPTURE(words);
                CAPTURE(c.layers);
                const lived l = live<T>(c, words, 3, M);
                training_plan p;
                p.weight = sizeof(T), p.micro_batches = M;
                estimate e = estimate_bytes(l.size, p);
                CHECK(equals(l, e));
                CHECK(l.grads_in_flight == l.size.grads_in_flight);
                CHECK(l.in_flight == l.size.in_flight);
                e.at(kind::sums) = 0; // forgotten
                CHECK(equals(l, e) == (M == 1));
            }
}

TEST_CASE("one unit ahead: one block more of weights and of gradients, where there are such") {
    const model_size m = size_of_gpt(odd, checkpointing::none(5), 2, 7, 2);
    const std::size_t U = m.units[0], B = m.units[1];
    CHECK(m.going.grads == U + 2 * B);
    CHECK(m.both.all == std::max(2 * U + B, U + 4 * B));
    CHECK(m.coming.all == std::max(2 * U + B, U + 3 * B));
    const model_size again = size_of_gpt(odd, checkpointing::every(2, 5), 2, 7, 2);
    CHECK(again.both.all == std::max(2 * U + B, U + 5 * B)); // 2 held, 1 comes, 1 goes, 1 is made
    for (int stage = 0; stage <= 3; ++stage)
        for (const bool once : {false, true}) {
            training_plan p = plan_of(3, stage), ahead = p;
            p.micro_batches = ahead.micro_batches = 2;
            p.reduce = ahead.reduce = once ? reduce_when::once : reduce_when::every;
            ahead.ahead = true;
            const std::size_t more =
                estimate_bytes(m, ahead).total() - estimate_bytes(m, p).total();
            if (stage < 2) CHECK(more == 0);
            if (stage == 2) CHECK(more == (once ? 0 : 2 * B));
            if (stage == 3) CHECK(more == 2 * ((once ? m.coming.all : m.both.all) - m.in_flight));
        }
}

TEST_CASE("keys and values of a GPT-2: 36,864 bytes a token") {
    CHECK(kv_cache_bytes(gpt2, 1, 1, 2) == 2 * 12 * 768 * 2);
    CHECK(kv_cache_bytes(gpt2, 8, 1024, 2) == 36864ul * 8 * 1024);
    CHECK(kv_cache_bytes(shape(12, 12, 3, 768, 1024, 50257), 1, 1, 2) == 36864 / 4); // GQA
}

TEST_CASE("DeepSpeed's estimators say what its documentation shows for t5-3b on 8 GPUs") {
    const double P = 2851598336, L = 32128 * 1024, GiB = 1 << 30;
    const auto near = [&](double bytes, double shown) {
        return std::abs(bytes / GiB - shown) <= 0.005;
    };
    CHECK(near(deepspeed_zero2(P, 8, 1, true).gpu(), 5.31));
    CHECK(near(deepspeed_zero2(P, 8, 1, true).machine, 127.48));
    CHECK(near(deepspeed_zero2(P, 8, 1, false).machine, 127.48));
    CHECK(near(deepspeed_zero3(P, L, 8, 1, true, true).gpu(), 0.12));
    CHECK(near(deepspeed_zero3(P, L, 8, 1, true, true).machine, 71.71));
    CHECK(near(deepspeed_zero3(P, L, 8, 1, true, false).gpu(), 0.79));
    CHECK(near(deepspeed_zero3(P, L, 8, 1, true, false).machine, 63.74));
    CHECK(near(deepspeed_zero3(P, L, 8, 1, false, false).gpu(), 6.10));
    CHECK(near(deepspeed_zero3(P, L, 8, 1, false, false).machine, 1.47));
    // Its documentation still has the ZeRO-2 of before: 4 P + 16 P / G.
    CHECK(near(4 * P + 16 * P / 8, 15.93));
    CHECK_FALSE(near(deepspeed_zero2(P, 8, 1, false).gpu(), 15.93));
    CHECK(deepspeed_zero2(P, 8, 1, false).gpu() == doctest::Approx(2 * P + 18 * P / 8));
    // t5-large on 4 GPUs, in MiB cut off: 3291, 125, 477
    const double large = 737668096;
    CHECK(std::floor(deepspeed_zero3(large, L, 4, 1, false, false).gpu() / (1 << 20)) == 3291);
    CHECK(std::floor(deepspeed_zero3(large, L, 4, 1, true, true).gpu() / (1 << 20)) == 125);
    CHECK(std::floor(deepspeed_zero3(large, L, 4, 1, true, false).gpu() / (1 << 20)) == 477);
}

TEST_CASE("theirs and mpt's differ by the fp32 copies of gradients, and by what is whole") {
    const std::size_t P = 64 * 1000;
    const model_size m = size_of_parameters(P);
    for (const int N : {2, 4, 8}) {
        const double each = double(P) / N;
        CHECK(deepspeed_zero2(double(P), N, 1, false).gpu() -
                  double(estimate_bytes(m, plan_of(N, 2)).total()) ==
              4 * each);
        // ZeRO-3: 4 more of fp32 copies, 2 less: the shard of 16-bit gradients is not counted
        CHECK(deepspeed_zero3(double(P), 0, N, 1, false, false).gpu() -
                  double(estimate_bytes(m, plan_of(N, 3)).total()) ==
              (4 - 2) * each);
    }
}

TEST_CASE("advice: plain while it fits, 2 before 3, offloading last") {
    const model_size m = size_of_parameters(7500000000);
    const auto first = [&](int ranks, std::size_t GB) {
        return best_of(advise(m, m, plan_of(ranks, 0), GB * 1000000000));
    };
    CHECK(first(64, 120).name == "data parallel");
    CHECK(first(64, 119).name == "ZeRO-1");
    CHECK(first(64, 31).name == "ZeRO-2");
    CHECK(first(64, 16).name == "ZeRO-3"); // 16.64 GB of ZeRO-2 do not fit
    CHECK(first(4, 29).name == "ZeRO-2, optimizer in host memory");
    CHECK(first(4, 14).name == "ZeRO-3, optimizer in host memory");
    CHECK(first(4, 3).name == "ZeRO-3, states in a file");
    CHECK(first(1, 120).name == "as it is");
    CHECK(first(1, 80).name == "optimizer in host memory");
    CHECK_FALSE(first(1, 14).fits); // its 15 GB of weights stay
    CHECK(first(1, 14).bytes.total() == 15000000000);
}

TEST_CASE("advice: checkpointing where activations are what does not fit") {
    const model_size kept = size_of_gpt(gpt2, checkpointing::none(12), 32, 1024, 2);
    const model_size again = size_of_gpt(gpt2, checkpointing::sqrt(12), 32, 1024, 2);
    const auto all = advise(kept, again, plan_of(8, 0), 12000000000);
    CHECK(best_of(all).name == "data parallel + checkpointing");
    CHECK(best_of(all).again);
    CHECK(best_of(all).bytes.total() <= 12000000000);
    // Where the states alone are too much, checkpointing is no cure and is not offered.
    for (const candidate& c : advise(kept, again, plan_of(8, 0), 1000000000))
        CHECK_FALSE((c.again && c.bytes.total() - again.activations > 1000000000));
}

TEST_CASE("what makes no sense is refused in one line") {
    const model_size m = size_of_parameters(10);
    CHECK_THROWS_WITH_AS(estimate_bytes(m, plan_of(0, 0)), "estimate: 0 ranks; wanted 1 or more",
                         error);
    CHECK_THROWS_WITH_AS(estimate_bytes(m, plan_of(2, 4)), "estimate: ZeRO stage 4; choose 0 to 3",
                         error);
    CHECK_THROWS_WITH_AS(size_of_parameters(0), "model: 0 parameters; wanted 1 or more", error);
    CHECK_THROWS_AS(estimate_bytes(size_of_parameters(SIZE_MAX / 4), plan_of(1, 0)), error);
    training_plan p;
    p.micro_batches = 0;
    CHECK_THROWS_WITH_AS(estimate_bytes(m, p), "estimate: 0 micro-batches; wanted 1 or more",
                         error);
}
