// SPDX-License-Identifier: MIT
// policy_run.hpp -- a GPT in fp32 whose operations obey a precision policy, and what its sites
// make of a batch under this policy and under that.
#pragma once
#include "gpt_run.hpp"
#include "planted_fault.hpp"
#include "plot.hpp"

#include "mpt/nn/autocast.hpp"         // autocast: use, weights_changed, casts
#include "mpt/nn/gpt_sites.hpp"        // gpt_sites, gpt_autocast_room
#include "mpt/nn/precision_bisect.hpp" // judge, outcome; drift.hpp

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

using site_results = std::vector<std::vector<float>>; // of every site, in fp32

template <class Low>
struct policy_run : gpt_run<float, mpt::autocast<Low, planted>> {
    policy_run(const mpt::gpt_config& c, int B, int threads)
        : gpt_run<float, mpt::autocast<Low, planted>>(c, B, 1, threads), sites(mpt::gpt_sites(c)),
          room(mpt::gpt_autocast_room<Low>(c, B, c.context)) {}

    void use(const mpt::precision_policy& policy) {
        this->ops.use(policy, sites, this->model.map, room);
    }
    /// What the sites make of a window. mean_loss: of it.
    site_results under(const mpt::precision_policy& policy, const window& w) {
        use(policy);
        return mpt::results(this->ops, [&] { mean_loss = this->loss(w); });
    }
    std::size_t index(const std::string& name) const {
        std::size_t i = 0;
        while (i < sites.size() && sites[i].name != name) ++i;
        return i;
    }
    std::string name(std::size_t site) const {
        return site < sites.size() ? sites[site].name : "none";
    }
    std::vector<float> host_weights() const {
        std::vector<float> all(this->weights.size());
        this->ops.copy_to_host(all, this->weights);
        return all;
    }

    const std::vector<mpt::site> sites;
    const std::size_t room; // elements of Low
    double mean_loss = 0;
};

/// Of 100 multiplications of the linear layers and of attention, those in 16 bits.
template <class Run>
double low_share(const Run& run, const mpt::gpt_config& c) {
    double low = 0, all = 0;
    for (std::size_t i = 0; i < run.sites.size(); ++i) {
        double size = 0; // a token
        for (const mpt::tensor_info& t : run.model.map.tensors)
            if (run.sites[i].op == mpt::operation::linear && t.name == run.sites[i].tensors[0])
                size = double(t.size);
        if (run.sites[i].op == mpt::operation::attention) size = double(c.context * c.channels);
        all += size, low += run.ops.ran_low(i) ? size : 0;
    }
    return 100 * low / all;
}

/// What the run under a policy has made of a batch, against fp32 and against all in 16 bits.
template <class Low>
void print_drifts(const policy_run<Low>& run, const site_results& low, const site_results& all_low,
                  const site_results& exact) {
    const std::vector<double> bounds = mpt::drift_bounds<Low>(run.ops);
    std::printf("\n%-16s %-5s %10s %9s %9s %9s %9s %9s %9s %9s\n", "site", "runs", "1 - cosine",
                "relative", "bound", "all-low", "largest", "overflow", "zeroed", "subnormal");
    for (std::size_t i = 0; i < low.size(); ++i) {
        const mpt::drift d = mpt::compare<Low>(low[i], exact[i]);
        std::printf("%-16s %-5s %10.1e %9.1e %9.1e %9.1e %9.1e %8.3f%% %8.3f%% %8.3f%%\n",
                    run.name(i).c_str(), run.ops.ran_low(i) ? mpt::name<Low>() : "fp32",
                    std::abs(1 - d.cosine), d.relative, bounds[i],
                    mpt::compare<Low>(all_low[i], exact[i]).relative, d.max_relative, d.overflow,
                    d.underflow, d.subnormal);
    }
}

/// A picture of two policies in two formats: log2 of the relative drift over the sites. exact: of
/// run's weights in fp32.
template <class Low>
void draw_drifts(policy_run<Low>& run, const site_results& exact, const window& w, int threads,
                 const std::string& path) {
    plot p{"How far each operation's result is from fp32",
           "operation, in the order of the forward pass",
           "log2 of |low - fp32| / |fp32|",
           {}};
    const auto add = [&](auto low, const char* policy) {
        using other = decltype(low);
        policy_run<other> twin(run.model.config, run.acts.B, threads);
        twin.ops.copy_to_device(twin.weights, run.host_weights());
        const site_results r = twin.under(mpt::precision_policy::parse(policy), w);
        curve c{mpt::join(policy, ", ", mpt::name<other>()), {}, curve::line};
        for (std::size_t i = 0; i < r.size(); ++i) {
            const double off = mpt::compare<other>(r[i], exact[i]).relative;
            c.points.push_back({double(i), off > 0 ? std::log2(off) : NAN});
        }
        p.curves.push_back(c);
    };
    add(mpt::bf16(), "all-low"), add(mpt::bf16(), "autocast");
    add(mpt::fp16(), "all-low"), add(mpt::fp16(), "autocast");
    p.curves[0].points.push_back({NAN, NAN});
    p.curves[0].points.push_back({0, -5}); // room for the legend
    mpt::check(p.save(path), "--plot ", path,
               ": cannot be written; give a file in a folder that exists");
}

//! [squares]
/// Wrong: layer norm with its squares and their sum rounded to fp16. Row: x, -x, x, -x.
inline float layernorm_in_fp16(float x) {
    using mpt::fp16;
    fp16 sum(0.0f);
    for (int i = 0; i < 4; ++i) sum = fp16(float(sum) + float(fp16(x * x)));
    const fp16 rstd(1 / std::sqrt(float(sum) / 4));
    return float(fp16(x * float(rstd)));
}
/// mpt's: stored in fp16, computed in fp32. The same row.
inline float layernorm_of_fp16(const mpt::loops& ops, float x) {
    std::vector<mpt::fp16> row = {mpt::fp16(x), mpt::fp16(-x), mpt::fp16(x), mpt::fp16(-x)};
    std::vector<mpt::fp16> y(4), gamma(4, mpt::fp16(1.0f)), beta(4, mpt::fp16(0.0f));
    std::vector<float> mean(1), rstd(1);
    const auto at = [](auto& v) { return mpt::device_span(v.data(), v.size()); };
    ops.layernorm_forward<mpt::fp16>(at(y), at(mean), at(rstd), at(row), at(gamma), at(beta),
                                     {1, 4});
    return float(y[0]);
}
//! [squares]
