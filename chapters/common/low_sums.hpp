// SPDX-License-Identifier: MIT
// low_sums.hpp -- what goes wrong when a running sum is kept in 16 bits.
#pragma once
#include "gpt_run.hpp"

#include "mpt/numeric/bf16.hpp"   // bf16
#include "mpt/numeric/fp16.hpp"   // fp16
#include "mpt/numeric/scalar.hpp" // widen, narrow

#include <string>
#include <utility>

//! [low]
// Wrong: a running sum that is rounded to 16 bits after each micro-batch. (fp32: left as it is.)
struct sums_in : mpt::one_rank<float> {
    sums_in(gpt_run<float>& run, std::string format)
        : mpt::one_rank<float>(run.ops, run.model.map), run(run), format(std::move(format)) {}
    void ready(mpt::gradients<float>& grads, int unit, int micro) override {
        mpt::one_rank<float>::ready(grads, unit, micro); // sum += micro
        const mpt::unit_info& u = run.model.map.units[std::size_t(unit)];
        if (format == "fp16") round<mpt::fp16>(grads.sum.subspan(u.begin, u.size()));
        if (format == "bf16") round<mpt::bf16>(grads.sum.subspan(u.begin, u.size()));
    }
    template <class Low>
    void round(mpt::device_span<float> sum) {
        mpt::buffer<Low> low(run.mem, mpt::kind::temp, sum.size(), "16-bit sums");
        run.ops.cast(low.span(), sum);
        run.ops.cast(sum, low.span());
    }
    gpt_run<float>& run;
    std::string format;
};
// 1.0 added 4096 times, the sum kept in Low.
template <class Low>
double sum_of_ones() {
    Low sum = mpt::narrow<Low>(0);
    for (int i = 0; i < 4096; ++i) sum = mpt::narrow<Low>(mpt::widen(sum) + 1);
    return mpt::widen(sum);
}
//! [low]
