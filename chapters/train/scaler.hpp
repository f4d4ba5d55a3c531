// SPDX-License-Identifier: MIT
// scaler.hpp -- the run's loss scale: PyTorch's machine or DeepSpeed's, chosen by --scaler.
#pragma once
#include "options.hpp"

#include "mpt/train/hysteresis_scale.hpp" // hysteresis_scale
#include "mpt/train/loss_scale.hpp"       // loss_scale

#include <string>
#include <string_view>
#include <variant>

/// Either machine, by the verbs that both have.
class scaler {
public:
    scaler() = default;
    explicit scaler(const options& o) {
        const bool fixed = fixed_scale(o);
        const float start = !fixed ? o.scale_start : o.scale.empty() ? 1 : std::stof(o.scale);
        if (o.scaler == "deepspeed")
            machine_.emplace<mpt::hysteresis_scale>();
        std::visit(
            [&](auto& s) {
                s.value = start;
                s.minimum = fixed ? start : o.scale_min;
                s.dynamic = !fixed;
                if constexpr (requires { s.hysteresis; }) {
                    if (o.scale_interval > 0) s.window = o.scale_interval;
                    s.hysteresis = o.scale_hysteresis;
                    s.consecutive_hysteresis = o.scale_consecutive_hysteresis;
                } else if (o.scale_interval > 0) {
                    s.interval = o.scale_interval;
                }
                s.validate();
            },
            machine_);
    }

    const mpt::any_scale& now() const { // value, seed(tokens), skipped, last
        return std::visit([](const auto& s) -> const mpt::any_scale& { return s; }, machine_);
    }
    /// PyTorch's, which a device moves by itself. Throws where it is DeepSpeed's.
    const mpt::loss_scale& grad() const { return std::get<mpt::loss_scale>(machine_); }
    bool update(bool finite, std::string_view found) {
        return std::visit([&](auto& s) { return s.update(finite, found); }, machine_);
    }
    mpt::scale_words state() const {
        return std::visit([](const auto& s) { return s.state(); }, machine_);
    }
    void restore(const mpt::scale_words& saved) {
        std::visit([&](auto& s) { s.restore(saved); }, machine_);
    }

private:
    std::variant<mpt::loss_scale, mpt::hysteresis_scale> machine_;
};
