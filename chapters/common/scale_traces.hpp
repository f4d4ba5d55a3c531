// SPDX-License-Identifier: MIT
// scale_traces.hpp -- what PyTorch's and DeepSpeed's loss scales did with known overflows.
#pragma once
#include "plot.hpp"

#include "mpt/base/error.hpp" // check

#include <cmath>
#include <cstdio>
#include <string>
#include <vector>

/// A step of a known trace: did it overflow, and the state after it.
struct traced {
    bool overflow;
    float scale;
    int count; // GradScaler: tracker; DeepSpeed: hysteresis left
};

// torch.amp.GradScaler from 1024, growth_interval 3.
inline const std::vector<traced> grad_scaler_trace{
    {0, 1024, 1}, {0, 1024, 2}, {0, 2048, 0}, {0, 2048, 1}, {0, 2048, 2},
    {1, 1024, 0}, {0, 1024, 1}, {0, 1024, 2}, {1, 512, 0},  {1, 256, 0},
    {0, 256, 1},  {0, 256, 2},  {0, 512, 0},  {0, 512, 1}};

// deepspeed DynamicLossScaler from 65536, loss_scale_window 4, hysteresis 2.
inline const std::vector<traced> deepspeed_trace{
    {1, 65536, 1}, {1, 32768, 1}, {1, 16384, 1}, {0, 16384, 1}, {0, 16384, 1}, {0, 16384, 1},
    {0, 16384, 1}, {0, 32768, 2}, {1, 32768, 1}, {1, 16384, 1}, {0, 16384, 1}, {1, 8192, 1},
    {0, 8192, 1},  {0, 8192, 1},  {0, 8192, 1},  {0, 8192, 1},  {0, 16384, 2}, {0, 16384, 2},
    {0, 16384, 2}, {0, 16384, 2}, {0, 32768, 2}};

/// Prints what `scale` does with the overflows of `known`; true where it is what is known.
/// count(scale): its tracker or hysteresis.
template <class Scale, class Count>
bool follows(const char* name, const char* counted, Scale scale, const std::vector<traced>& known,
             Count count) {
    std::printf("%s\n%5s %9s %7s %10s  %s\n", name, "step", "overflow", "scale", counted, "why");
    bool equal = true;
    for (std::size_t i = 0; i < known.size(); ++i) {
        scale.update(!known[i].overflow);
        std::printf("%5zu %9s %7g %10d  %s\n", i + 1, known[i].overflow ? "yes" : "", scale.value,
                    count(scale), scale.last.why.c_str());
        equal = equal && scale.value == known[i].scale && count(scale) == known[i].count;
    }
    return equal;
}

/// The scale over the steps, as a power of two, for a sequence of overflows.
template <class Scale>
curve scale_curve(const char* name, Scale scale, const std::vector<bool>& overflow) {
    curve c{name, {}, curve::line};
    for (std::size_t i = 0; i < overflow.size(); ++i) {
        c.points.push_back({double(i), std::log2(scale.value)});
        scale.update(!overflow[i]);
        c.points.push_back({double(i) + 1, c.points.back().second}); // stairs
    }
    return c;
}

/// Both machines from the same scale through the same overflows: an outlier, a cluster, an outlier.
template <class Grad, class DeepSpeed>
void draw_scales(const std::string& file, Grad grad, DeepSpeed deepspeed) {
    grad.value = deepspeed.value = 65536;
    grad.interval = deepspeed.window = 12;
    std::vector<bool> overflow(60);
    for (const std::size_t step : {5, 16, 17, 18, 48}) overflow[step] = true;
    curve marks{"overflow", {}, curve::dots};
    for (std::size_t i = 0; i < overflow.size(); ++i)
        marks.points.push_back({double(i) + 0.5, overflow[i] ? 11.5 : double(NAN)});
    const plot p{"The same overflows, two loss scales", "step", "log2 of the scale",
                 {scale_curve("GradScaler, interval 12", grad, overflow),
                  scale_curve("DeepSpeed, window 12", deepspeed, overflow), marks}};
    mpt::check(p.save(file), "--scales ", file,
               ": cannot be written; give a file in a folder that exists");
}
