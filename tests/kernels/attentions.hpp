// SPDX-License-Identifier: MIT
// Attention to be computed by kernels, and what it must give: the definition, in double, one number
// at a time, with the size of the sums, to which rounding errors are proportional.
#pragma once
#include "mpt/kernels/attention_backward.cuh"
#include "mpt/nn/dropout.hpp"
#include "tests/kernels/rig.hpp"

namespace attentions {

using namespace rig;

// Under the access probe, where a load costs some hundred times as much, shapes are fewer.
#if defined(MPT_SIMT_CHECK)
inline constexpr bool probed = true;
#else
inline constexpr bool probed = false;
#endif

struct kind {
    int B, Tq, Tk, heads, kv_heads, D;
    bool causal = true;
    float p = 0;     // dropout
    int gap = 0;     // elements between positions
    int offset = 0;  // of all arrays, from an aligned address
    float scale = 0;
};
inline std::string text(const kind& x) {
    std::ostringstream s;
    s << "B " << x.B << ", Tq " << x.Tq << ", Tk " << x.Tk << ", heads " << x.heads << "/"
      << x.kv_heads << " of " << x.D << (x.causal ? ", causal" : "") << ", dropout " << x.p
      << ", gap " << x.gap << ", offset " << x.offset;
    return s.str();
}

using list = std::vector<double>;

struct tensors { // contiguous: (B,Tq,heads,D), (B,Tk,kv_heads,D), lse (B,heads,Tq)
    list out, lse, dq, dk, dv;
};

// Rounds intermediate results; the exact reference rounds none.
inline double exact(double x) { return x; }

struct reference : tensors {
    tensors size;          // of the terms of the sums; lse: of the scores
    double largest_dot = 0; // sum |q k| scale, the largest

    // round: applied to scores, probabilities and their gradients as they are stored. given_out:
    // rowsum(dout out) is taken over this, what forward stored; empty: over out.
    template <class Round>
    reference(const kind& x, const list& q, const list& k, const list& v, const list& dout,
              Round round, const list& given_out = {}) {
        const std::size_t H = std::size_t(x.heads), K = std::size_t(x.kv_heads);
        const std::size_t D = std::size_t(x.D), Tq = std::size_t(x.Tq), Tk = std::size_t(x.Tk);
        const double scale = x.scale > 0 ? double(x.scale) : 1 / std::sqrt(double(x.D));
        for (tensors* t : {static_cast<tensors*>(this), &size}) {
            t->out.resize(q.size()), t->dq.resize(q.size());
            t->dk.resize(k.size()), t->dv.resize(k.size());
            t->lse.resize(std::size_t(x.B) * H * Tq);
        }
        for (std::size_t b = 0; b < std::size_t(x.B); ++b)
            for (std::size_t h = 0; h < H; ++h)
                for (std::size_t i = 0; i < Tq; ++i) {
                    const std::size_t row = ((b * Tq + i) * H + h) * D, l = (b * H + h) * Tq + i;
                    const auto kv = [&](std::size_t j) {
                        return ((b * Tk + j) * K + h / (H / K)) * D;
                    };
                    const long last = x.causal ? long(i) + long(Tk) - long(Tq) : long(Tk) - 1;
                    const std::size_t seen = last < 0 ? 0 : std::size_t(last) + 1;
                    list p(seen), kept(seen, 1.0), dp(seen), dp_size(seen);
                    double top = -HUGE_VAL, sum = 0, d = 0, d_size = 0;
                    for (std::size_t j = 0; j < seen; ++j) {
                        double dots = 0;
                        for (std::size_t c = 0; c < D; ++c) {
                            p[j] += q[row + c] * k[kv(j) + c];
                            dots += std::fabs(q[row + c] * k[kv(j) + c]);
                        }
                        p[j] = round(round(p[j]) * scale);
                        largest_dot = std::max(largest_dot, dots * scale);
                        size.lse[l] = std::max(size.lse[l], dots * scale);
                        top = std::max(top, p[j]);
                    }
                    for (std::size_t j = 0; j < seen; ++j) sum += p[j] = std::exp(p[j] - top);
                    lse[l] = seen == 0 ? -HUGE_VAL : top + std::log(sum);
                    if (x.p > 0 && seen > 0)
                        mpt::drop(kept.data(), (h * Tq + i) * Tk, seen, x.p, {11, 1, 2, 3}, int(b));
                    for (std::size_t j = 0; j < seen; ++j) {
                        p[j] = round(p[j] / sum);
                        for (std::size_t c = 0; c < D; ++c) {
                            const double term = round(p[j] * kept[j]) * v[kv(j) + c];
                            out[row + c] += term;
                            size.out[row + c] += std::fabs(term);
                            dp[j] += dout[row + c] * v[kv(j) + c];
                            dp_size[j] += std::fabs(dout[row + c] * v[kv(j) + c]);
                            const double back = round(p[j] * kept[j]) * dout[row + c];
                            dv[kv(j) + c] += back;
                            size.dv[kv(j) + c] += std::fabs(back);
                        }
                        dp[j] = round(dp[j]) * kept[j];
                        dp_size[j] *= kept[j];
                    }
                    for (std::size_t c = 0; c < D; ++c) {
                        const double o = given_out.empty() ? round(out[row + c])
                                                           : given_out[row + c];
                        d += dout[row + c] * o;
                        d_size += std::fabs(dout[row + c] * o);
                    }
                    for (std::size_t j = 0; j < seen; ++j) {
                        const double ds = round(p[j] * (dp[j] - d)) * scale;
                        const double ds_size = p[j] * (dp_size[j] + d_size) * scale;
                        for (std::size_t c = 0; c < D; ++c) {
                            dq[row + c] += ds * k[kv(j) + c];
                            dk[kv(j) + c] += ds * q[row + c];
                            size.dq[row + c] += ds_size * std::fabs(k[kv(j) + c]);
                            size.dk[kv(j) + c] += ds_size * std::fabs(q[row + c]);
                        }
                    }
                }
    }
};

// The arrays of one problem, in device memory and here, and the kernels' answers without gaps.
template <class T>
struct problem {
    using H = host_t<T>;
    kind is;
    std::size_t q_width, kv_width;
    std::vector<H> q, k, v, dout; // contiguous
    std::vector<H> out, dq, dk, dv;
    std::vector<float> lse;
    bool placed = false; // dropout's step and sample lie in device memory

    problem(const kind& x, std::uint32_t seed, double spread = 1)
        : is(x), q_width(std::size_t(x.heads) * x.D), kv_width(std::size_t(x.kv_heads) * x.D),
          q(checks::numbers<H>(std::size_t(x.B) * x.Tq * q_width, seed, spread)),
          k(checks::numbers<H>(std::size_t(x.B) * x.Tk * kv_width, seed + 1, spread)),
          v(checks::numbers<H>(k.size(), seed + 2)), dout(checks::numbers<H>(q.size(), seed + 3)) {}

    std::vector<H> spread_out(const std::vector<H>& x, std::size_t width) const {
        const std::size_t stride = width + std::size_t(is.gap);
        std::vector<H> y(x.size() / width * stride, mpt::narrow<H>(-99.0f));
        for (std::size_t i = 0; i < x.size(); ++i) y[i / width * stride + i % width] = x[i];
        return y;
    }
    // Throws where something was written between the positions.
    std::vector<H> gathered(const std::vector<H>& y, std::size_t width) const {
        const std::size_t stride = width + std::size_t(is.gap);
        std::vector<H> x;
        H untouched;
        std::memset(static_cast<void*>(&untouched), 0xFF, sizeof(H));
        for (std::size_t i = 0; i < y.size(); ++i)
            if (i % stride < width)
                x.push_back(y[i]);
            else if (std::memcmp(&y[i], &untouched, sizeof(H)) != 0)
                throw std::runtime_error("attention: written into the gap behind a position");
        return x;
    }

    using forward_step = void (*)(attention_args<T>, cudaStream_t);
    using backward_step = void (*)(attention_backward_args<T>, cudaStream_t);
    void run(forward_step forward = attention_forward<T>,
             backward_step backward = attention_backward<T>) { // or another step
        const std::size_t o = std::size_t(is.offset);
        const array<T> dq_(spread_out(q, q_width), o), dk_(spread_out(k, kv_width), o),
            dv_(spread_out(v, kv_width), o), go(spread_out(dout, q_width), o);
        array<T> y(go.size(), o), gq(go.size(), o), gk(dk_.size(), o), gv(dk_.size(), o);
        array<float> sums(std::size_t(is.B) * is.heads * is.Tq);
        const scratch room(attention_backward_bytes(is.B, is.heads, is.Tq));
        attention_backward_args<T> x;
        attention_args<T>& f = x.forward;
        f.q = dq_, f.k = dk_, f.v = dv_, f.out = y, f.lse = sums;
        f.B = is.B, f.Tq = is.Tq, f.Tk = is.Tk;
        f.heads = is.heads, f.kv_heads = is.kv_heads, f.head_dim = is.D;
        f.q_stride = f.out_stride = q_width + std::size_t(is.gap);
        f.kv_stride = kv_width + std::size_t(is.gap);
        f.causal = is.causal, f.scale = is.scale;
        f.drop.p = is.p, f.drop.seed = 11, f.drop.layer = 1;
        const array<long long> place(std::vector<long long>{2, 3});
        if (placed)
            f.drop.place = reinterpret_cast<const dropout_place*>(place.data());
        else
            f.drop.step = 2, f.drop.sample = 3;
        x.dout = go, x.dq = gq, x.dk = gk, x.dv = gv, x.scratch = room;
        forward(f, stream());
        backward(x, stream());
        out = gathered(y.read(), q_width), dq = gathered(gq.read(), q_width);
        dk = gathered(gk.read(), kv_width), dv = gathered(gv.read(), kv_width);
        lse = sums.read();
    }

    template <class Round = double (*)(double)>
    reference wanted(Round round = exact, bool with_out = true) const {
        return reference(is, checks::doubles(q), checks::doubles(k), checks::doubles(v),
                         checks::doubles(dout), round, with_out ? checks::doubles(out) : list());
    }

    // u = 2^-24. A score is a sum of D products, a scale and a power of 2: off by (D + 4) u of its
    // terms' size, and so, relatively, is e^score; a probability is off by that of its own score
    // and of the sum's. A sum of n terms in any order adds n u; exp2f, log2 e and lse some u more.
    // On tensor cores sums may lose a bit more (2 u), and probabilities and their gradients are
    // rounded to T before they are multiplied: by half of its epsilon, or half its smallest number.
    std::string compare(bool tensor_cores = sizeof(T) == 2) const {
        const reference w = wanted();
        const double u = tensor_cores ? 0x1p-23 : 0x1p-24;
        const double most = double(std::max(is.Tq, is.Tk));
        const double scores = (is.D + 8) * u * w.largest_dot;
        const double stored = tensor_cores ? double(mpt::format<H>::epsilon) / 2 : 0;
        const double least = tensor_cores ? double(mpt::format<H>::min_subnormal) / 2 : 0;
        const auto bound = [&](const list& size, double terms) {
            // 5: the largest of some thousand normal numbers
            return [&size, scores, terms, u, stored, least](std::size_t i) {
                return (2 * scores + stored + (terms + 32) * u) * size[i] + terms * least * 5;
            };
        };
        const double group = double(is.heads / is.kv_heads);
        std::string all;
        const auto add = [&](const char* name, const std::string& what) {
            if (!what.empty()) all += std::string(name) + ": " + what + "; ";
        };
        add("out", difference(out, w.out, bound(w.size.out, most)));
        add("lse", difference(lse, w.lse, [&](std::size_t i) {
                return scores + (most + 8 + 8 * std::fabs(w.lse[i])) * u;
            }));
        add("dq", difference(dq, w.dq, bound(w.size.dq, most + 2 * is.D)));
        add("dk", difference(dk, w.dk, bound(w.size.dk, group * most + 2 * is.D)));
        add("dv", difference(dv, w.dv, bound(w.size.dv, group * most)));
        return all;
    }
};

} // namespace attentions
