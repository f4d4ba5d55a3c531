// SPDX-License-Identifier: MIT
#include "mpt/nn/precision_bisect.hpp"
#include "chapters/common/planted_fault.hpp"
#include "checks.hpp"
#include "mpt/dist/one_rank.hpp"
#include "mpt/nn/autocast.hpp"
#include "mpt/nn/gpt.hpp"
#include "mpt/nn/gpt_scratch.hpp"
#include "mpt/nn/gpt_sites.hpp"

#include <doctest/doctest.h>

using namespace mpt;

namespace {

using words = std::vector<std::string>;

gpt_config config() {
    gpt_config c;
    c.layers = 2, c.heads = 2, c.kv_heads = 2, c.channels = 16, c.context = 11, c.vocabulary = 29;
    return c;
}

// A GPT with a fault, perhaps, and what bisect says of it.
template <class Low>
struct rig {
    explicit rig(const std::string& fault)
        : pool(1), ops(pool, mem, gpt_scratch<float>(c, 2, c.context)), model(c, ops),
          weights(model.map.size()), rank(ops, model.map), acts(mem, c, 2, c.context) {
        initial_values(model.map, 3, 0, weights);
        for (std::size_t i = 0; i < weights.size(); ++i)
            weights[i] = weights[i] * 5 + 0.05f * std::sin(float(i));
        ops.factor = fault == "lm_head" ? 0x1p16f : 1;
        if (fault != "lm_head" && fault != "none") plant_in_queries(weights, model.map, c, fault);
    }
    double loss(const precision_policy& policy) {
        ops.use(policy, gpt_sites(c), model.map, gpt_autocast_room<Low>(c, 2, c.context));
        const batch b{checks::span(inputs), checks::span(targets), 2, c.context};
        double sum = 0;
        low = results(ops, [&] { sum = model.forward(rank, checks::span(weights), b, acts); });
        return sum;
    }
    diagnosis bisect(const std::string& policy) {
        loss(precision_policy::all_fp32());
        const auto exact = low;
        return mpt::bisect(precision_policy::parse(policy), gpt_sites(c),
                           [&](const precision_policy& p) {
                               loss(p);
                               return judge<Low>(ops, low, exact);
                           });
    }

    const gpt_config c = config();
    memory mem;
    thread_pool pool;
    autocast<Low, planted> ops;
    gpt<float, autocast<Low, planted>> model;
    std::vector<float> weights;
    one_rank<float> rank;
    gpt_acts<float> acts;
    std::vector<int> inputs = checks::tokens(22, 1, 29), targets = checks::tokens(22, 2, 29);
    std::vector<std::vector<float>> low;
};

words found(const std::string& fault, const std::string& policy = "autocast") {
    return rig<fp16>(fault).bisect(policy).sites;
}

} // namespace

TEST_CASE("the planted faults leave fp32 unchanged, bit for bit") {
    const auto loss = [](const char* fault) {
        return rig<fp16>(fault).loss(precision_policy::all_fp32());
    };
    for (const char* fault : {"lm_head", "h.0.attn.c_attn", "h.1.attn.c_attn"})
        CHECK(loss(fault) == loss("none"));
}

TEST_CASE("results() shows one pass, as long as it runs") {
    rig<fp16> f("none");
    f.loss(precision_policy::autocast());
    CHECK(f.low.size() == gpt_sites(f.c).size());
    for (const auto& y : f.low) CHECK(!y.empty()); // every site's, the first one's too
    CHECK(!f.ops.watch); // what it wrote to may be gone by the next pass
}

TEST_CASE("the culprit, and the readers of what it writes, for faults in three places") {
    CHECK(found("lm_head") == words{"lm_head"}); // the loss is fp32 by autocast's list
    CHECK(found("lm_head", "all-low") == words{"lm_head", "loss"});
    CHECK(found("h.0.attn.c_attn") == words{"h.0.attn.c_attn", "h.0.attn"});
    CHECK(found("h.1.attn.c_attn") == words{"h.1.attn.c_attn", "h.1.attn"});
    CHECK(found("h.1.attn.c_attn", "all-low") == words{"h.1.attn.c_attn", "h.1.attn"});
}

TEST_CASE("a run without a fault has no culprit; nor has bf16, whose range is fp32's") {
    CHECK(found("none").empty());
    CHECK(found("none", "all-low").empty());
    CHECK(found("lm_head", "all-fp32").empty());
    CHECK(rig<bf16>("lm_head").bisect("autocast").sites.empty());
}

TEST_CASE("the cure is a policy that gives a finite loss; all but its last rule do not") {
    rig<fp16> f("h.0.attn.c_attn");
    const double exact = f.loss(precision_policy::all_fp32());
    // of 22 tokens; at most 3 roundings of each of 24 sites lie before the logits, site 22
    const double bound = 22 * loss_bound(std::sqrt(3.0 * 24) * 0x1p-11, f.low[22]);
    const diagnosis d = f.bisect("autocast");
    CHECK(d.cure.text() == "autocast,h.0.attn.c_attn=fp32,h.0.attn=fp32");
    CHECK(!d.before.good());
    CHECK(gpt_sites(f.c)[d.before.first].name == "h.0.attn.c_attn");
    CHECK(d.after.good());
    CHECK(std::abs(f.loss(d.cure) - exact) < bound);
    CHECK(std::isnan(f.loss(precision_policy::autocast())));
    CHECK(std::isnan(f.loss(precision_policy::parse("autocast,h.0.attn.c_attn=fp32"))));
    CHECK(std::isnan(f.loss(precision_policy::parse("autocast,h.0.attn=fp32"))));
    // one operation at a time: the culprit gets farthest, to its own reader; others change nothing
    CHECK(d.ranking.size() == gpt_sites(f.c).size() - 6); // five layer norms and the loss are fp32
    CHECK(d.ranking[0].site == "h.0.attn.c_attn");
    CHECK(gpt_sites(f.c)[d.ranking[0].result.first].name == "h.0.attn");
    for (std::size_t i = 1; i < d.ranking.size(); ++i)
        CHECK(d.ranking[i].result.first == d.before.first);
}

TEST_CASE("bisect on a made-up run: a drift without an infinity, and one that nothing mends") {
    const std::vector<site> sites = {
        {operation::linear, "a", {}}, {operation::linear, "b", {}}, {operation::gelu, "c", {}}};
    const auto worst = [&](std::vector<double> of_low) { // b is out because of a and itself
        return [&, of_low](const precision_policy& p) {
            const auto runs = p.resolve(sites);
            double sum = 0;
            for (std::size_t i = 0; i < 3; ++i) sum += runs[i] == precision::low ? of_low[i] : 0;
            return outcome{sum > 1 ? std::size_t(1) : 3, sum};
        };
    };
    CHECK(bisect(precision_policy::all_low(), sites, worst({3, 0.4, 0.1})).sites == words{"a"});
    CHECK(bisect(precision_policy::all_low(), sites, worst({3, 4, 0.1})).sites == words{"b", "a"});
    int calls = 0;
    const diagnosis hopeless =
        bisect(precision_policy::all_low(), sites, [&](const precision_policy&) {
            ++calls;
            return outcome{0, 2};
        });
    CHECK(hopeless.sites.empty());
    CHECK(!hopeless.after.good());
    CHECK(calls == 4); // one, and each of the three in fp32: it ends
}
