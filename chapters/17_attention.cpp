// SPDX-License-Identifier: MIT
// Attention in tiles: a softmax that never sees its row whole, forward and backward.
//
// broken: --sabotage no-rescale --longest 64 => [FAILS] a row in tiles of two: its softmax
// broken: --sabotage no-rescale --longest 64 => [FAILS] a thread a query: within its bound
// broken: --sabotage no-barrier => Race reported between
// broken: --sabotage no-barrier => chapters/17_attention.cpp:70
// broken: --sabotage top-left --longest 64 => [FAILS] the last query sees all keys
// broken: --sabotage no-lse --longest 64 => [FAILS] gradients, made again from lse
// with: --length 33 --longest 64 --plot bytes.svg => [holds] scratch: T squared a head, or T
// cuda: --length 40 --longest 128
#include "common/args.hpp"              // arguments: the flags
#include "common/attention_problem.hpp" // drawn, on_device, attend: queries, keys, values
#include "common/claims.hpp"            // claims: what is proved
#include "common/device.hpp"            // array, cost_of: the emulator or a GPU
#include "common/plain_attention.hpp"   // plain_attention: the definition, and the bound
#include "common/plot.hpp"              // plot: bytes over the length
#include "common/unfused_attention.hpp" // unfused: what tiles are compared with

#include "mpt/kernels/attention_backward.cuh" // attention_forward, attention_backward

struct options {
    std::string sabotage = "none", plot;
    int length = on_gpu ? 256 : 70;    // where results are checked
    int longest = on_gpu ? 4096 : 128; // where the forms are compared
};

//! [running]
// What is kept of a row of softmax(scores) v while tiles of it come by: the largest score so far,
// and what was summed relative to it. D: numbers of a value.
template <int D>
struct running {
    float m = -infinity, l = 0, o[D] = {}, factor = 0;

    __host__ __device__ void add(const float* s, const float (*v)[D], int n, bool rescale) {
        float top = m;
        for (int j = 0; j < n; ++j) top = fmaxf(top, s[j]);
        if (top == -infinity) return; // -inf - (-inf) is NaN: a row that has seen nothing waits
        factor = rescale ? expf(m - top) : 1; // e^-inf = 0 at first
        l *= factor;
        for (int c = 0; c < D; ++c) o[c] *= factor;
        for (int j = 0; j < n; ++j) {
            const float p = expf(s[j] - top); // at most 1
            l += p;
            for (int c = 0; c < D; ++c) o[c] += p * v[j][c];
        }
        m = top;
    }
};
//! [running]

//! [kernel]
// A thread a query; a block's 32 queries share tiles of 32 keys and values.
__global__ void thread_a_query(attention_args<float> x, bool rescale, bool wait, bool top_left) {
    __shared__ float k[32][D], v[32][D];
    const int i = int(blockIdx.x * 32 + threadIdx.x), h = int(blockIdx.y), lane = int(threadIdx.x);
    const int seen = i >= x.Tq ? 0 : top_left ? i + 1 < x.Tk ? i + 1 : x.Tk : x.seen(i);
    float q[D], s[32];
    running<D> row;
    for (int c = 0; c < D; ++c) q[c] = i < x.Tq ? x.q[x.q_at(0, i, h) + size_t(c)] : 0;
    for (int j0 = 0; j0 < x.Tk; j0 += 32) {
        for (int j = 0; j < 32 && j0 + j < x.Tk; ++j) {
            k[j][lane] = x.k[x.kv_at(0, j0 + j, h) + size_t(lane)];
            v[j][lane] = x.v[x.kv_at(0, j0 + j, h) + size_t(lane)];
        }
        __syncthreads();                               // keys and values are there
        const int n = seen - j0 < 32 ? seen - j0 : 32; // below 1: none
        for (int j = 0; j < n; ++j) {
            s[j] = 0;
            for (int c = 0; c < D; ++c) s[j] += q[c] * k[j][c];
            s[j] *= x.scale;
        }
        row.add(s, v, n, rescale);
        if (wait) __syncthreads(); // all have read them
    }
    if (i >= x.Tq) return;
    for (int c = 0; c < D; ++c)
        x.out[x.out_at(0, i, h) + size_t(c)] = row.l == 0 ? 0 : row.o[c] / row.l;
    x.lse[x.lse_at(0, i, h)] = row.l == 0 ? -infinity : row.m + logf(row.l);
}
//! [kernel]

void one_row(const options& o, claims& claim) {
    const float scores[] = {1, 2, 0, 4, 3, 5, 2, 1};
    const float v[][1] = {{1}, {2}, {3}, {4}, {5}, {6}, {7}, {8}};
    double sum = 0, out = 0; // plainly: e^5 is the largest
    for (int j = 0; j < 8; ++j) {
        const double p = std::exp(double(scores[j]));
        sum += p, out += p * double(v[j][0]);
    }
    std::printf("\n%-6s %-8s %8s %10s %9s %9s %9s\n", "tile", "scores", "largest", "correction",
                "sum l", "sum o", "o / l");
    running<1> row, far; // far: the same scores, 90 more each
    for (int j = 0; j < 8; j += 2) {
        row.add(scores + j, v + j, 2, o.sabotage != "no-rescale");
        const float more[] = {scores[j] + 90, scores[j + 1] + 90};
        far.add(more, v + j, 2, o.sabotage != "no-rescale");
        std::printf("%-6d %g, %-5g %8g %10.4f %9.4f %9.4f %9.4f\n", j / 2 + 1, double(scores[j]),
                    double(scores[j + 1]), double(row.m), double(row.factor), double(row.l),
                    double(row.o[0]), double(row.o[0] / row.l));
    }
    // expect: [holds] a row in tiles of two: its softmax, to rounding; 90 more each: the same bits
    claim(std::fabs(double(row.o[0] / row.l) - out / sum) < 8 * 32 * 0x1p-24 && row.l == far.l &&
              row.o[0] == far.o[0],
          "a row in tiles of two: its softmax, to rounding; 90 more each: the same bits");
}

//! [mask]
// Which keys a query sees, as the kernel has it: all scores are 0 and value j is number j of the
// unit matrix, so that what comes out are the row's probabilities.
answer mask(const options& o, int Tq, int Tk) {
    operands x = drawn({Tq, Tk, 1, 1, D});
    std::fill(x.q.begin(), x.q.end(), 0.0f), std::fill(x.v.begin(), x.v.end(), 0.0f);
    for (int j = 0; j < Tk; ++j) x.v[std::size_t(j * D + j)] = 1;
    const answer a = attend({Tq, Tk, 1, 1, D}, x, [&](const attention_args<float>& y) {
        if (o.sabotage != "top-left") return attention_forward(y, nullptr);
        mpt::launch<thread_a_query>({1, 32}, y, true, true, true);
    });
    std::printf("\n%d queries, %d keys\n", Tq, Tk);
    for (int i = 0; i < Tq; ++i) {
        for (int j = 0; j < Tk; ++j) std::printf(" %d", a.out[std::size_t(i * D + j)] > 0);
        std::printf("   lse %g\n", double(a.lse[std::size_t(i)]));
    }
    return a;
}
//! [mask]

void masks(const options& o, claims& claim) {
    const answer few = mask(o, 2, 5), many = mask(o, 5, 2);
    // expect: [holds] the last query sees all keys, the one before it all but the last
    const auto near = [](float a, float b) { return std::fabs(a - b) < 0x1p-22f; };
    claim(near(few.out[D + 4], 0.2f) && near(few.out[3], 0.25f) && few.out[4] == 0 &&
              near(many.out[4 * D + 1], 0.5f) && many.out[3 * D] == 1,
          "the last query sees all keys, the one before it all but the last");
    // expect: [holds] a query that sees nothing: 0, and lse -infinity; no NaN
    claim(std::all_of(many.out.begin(), many.out.begin() + 3 * D, [](float y) { return y == 0; }) &&
              many.lse[2] == -infinity,
          "a query that sees nothing: 0, and lse -infinity; no NaN");
}

void results(const options& o, claims& claim) {
    const attention_sizes is{o.length, o.length, 2, 1, D};
    const operands x = drawn(is);
    const plain_attention plain(is, x.q, x.k, x.v, x.dout);
    const auto within = [&](const std::string& name, const answer& a) {
        const double worst = std::max(plain.worst(a.out, &plain_attention::tensors::out),
                                      plain.worst(a.lse, &plain_attention::tensors::lse));
        std::printf("%-24s %11.1f%%\n", name.c_str(), 100 * worst);
        claim(worst <= 1, name + ": within its bound of the plain loop");
    };
    std::printf("\n%-24s %12s\n", mpt::join("T ", is.Tq, ", out and lse").c_str(), "of the bound");
    // expect: [holds] a thread a query: within its bound of the plain loop
    within("a thread a query", attend(is, x, [&](const attention_args<float>& y) {
               mpt::launch<thread_a_query>({dim3(tiles_of(y.Tq, 32), 2), 32}, y,
                                           o.sabotage != "no-rescale", o.sabotage != "no-barrier",
                                           false);
           }));
    const auto tiles = [](const attention_args<float>& y) { attention_forward(y, nullptr); };
    const answer all = attend(is, x, tiles);
    // expect: [holds] tiles of 64 x 32: within its bound of the plain loop
    within("tiles of 64 x 32", all);

    operands copies = x, last = x;
    copies.k.clear(), copies.v.clear();
    for (std::size_t j = 0; j < x.k.size(); j += D)
        for (int head = 0; head < 2; ++head) {
            copies.k.insert(copies.k.end(), x.k.begin() + long(j), x.k.begin() + long(j) + D);
            copies.v.insert(copies.v.end(), x.v.begin() + long(j), x.v.begin() + long(j) + D);
        }
    // expect: [holds] two query heads that share keys and values: the bits of two copies
    claim(attend({is.Tq, is.Tk, 2, 2, D}, copies, tiles) == all,
          "two query heads that share keys and values: the bits of two copies");
    last.q.erase(last.q.begin(), last.q.end() - 2 * D);
    // expect: [holds] the last query alone, against all keys: the bits of the last row
    claim(attend({1, is.Tk, 2, 1, D}, last, tiles).out ==
              std::vector<float>(all.out.end() - 2 * D, all.out.end()),
          "the last query alone, against all keys: the bits of the last row");

    //! [backward]
    const on_device d(is, x);
    const array<float> dout(x.dout), dq(x.q.size()), dk(x.k.size()), dv(x.v.size());
    const array<char> scratch(attention_backward_bytes(1, is.heads, is.Tq));
    attention_backward_args<float> y;
    y.forward = d.args(), y.dout = dout.data(), y.scratch = scratch.data();
    y.dq = dq.data(), y.dk = dk.data(), y.dv = dv.data();
    attention_forward(y.forward, nullptr); // leaves out and lse
    if (o.sabotage == "no-lse")
        ok(cudaMemset(d.lse.data(), 0, d.lse.size() * sizeof(float)), "cudaMemset");
    attention_backward(y, nullptr);
    //! [backward]
    const double worst = std::max({plain.worst(dq.read(), &plain_attention::tensors::dq),
                                   plain.worst(dk.read(), &plain_attention::tensors::dk),
                                   plain.worst(dv.read(), &plain_attention::tensors::dv)});
    std::printf("%-24s %11.1f%%\n", "gradients", 100 * worst);
    // expect: [holds] gradients, made again from lse: within their bounds
    claim(worst <= 1, "gradients, made again from lse: within their bounds of the plain loop");
}

void forms(const options& o, claims& claim) {
    curve apart{"four kernels", {}}, together{"tiles of 64 x 32", {}};
    bool as_formula = true;
    double times = 0;
    if (on_gpu)
        std::printf("\n%-16s %6s %10s %10s\n", "2 heads of 32", "T", "ms", "times");
    else
        std::printf("\n%-16s %6s %8s %9s %8s %9s %9s %10s\n", "2 heads of 32", "T", "loads",
                    "sectors", "stores", "sectors", "KB asked", "scratch");
    for (const int T : {o.longest / 4, o.longest / 2, o.longest}) {
        const attention_sizes is{T, T, 2, 1, D};
        const on_device d(is, drawn(is));
        const std::size_t n = std::size_t(T), before = held();
        const array<float> scores(2 * n * n);
        const std::size_t squared = held() - before;
        const costs a = cost_of([&] { unfused(d.args(), scores.data()); });
        const costs b = cost_of([&] { attention_forward(d.args(), nullptr); });
        const std::size_t straight = d.lse.size() * sizeof(float);
        as_formula = as_formula && squared == 2 * n * n * 4 && straight == 2 * n * 4;
        const auto row = [&](const char* name, const costs& c, std::size_t scratch) {
            const double asked = 32 * double(c.global_load_sectors + c.global_store_sectors);
            if (on_gpu)
                std::printf("%-16s %6d %10.4f %10.2f\n", name, T, c.seconds * 1e3,
                            a.seconds / c.seconds);
            else
                std::printf("%-16s %6d %8llu %9llu %8llu %9llu %9.1f %10zu\n", name, T,
                            c.global_load_requests, c.global_load_sectors, c.global_store_requests,
                            c.global_store_sectors, asked / 1024, scratch);
            return asked;
        };
        const double first = row("four kernels", a, squared), second = row("tiles", b, straight);
        apart.points.push_back({T, first / 1024 / T}),
            together.points.push_back({T, second / 1024 / T});
        times = first / second;
    }
    if (on_gpu) return;
    // expect: [holds] scratch: T squared a head, or T
    claim(as_formula, "scratch: T squared a head, or T");
    // expect: [holds] at the greatest length tiles ask for less than a fifth of the bytes
    claim(times > 5, "at the greatest length tiles ask for less than a fifth of the bytes");
    const plot p{"Causal attention: bytes asked of memory",
                 "T, queries and keys",
                 "KB a query",
                 {apart, together},
                 false,
                 true};
    mpt::check(o.plot.empty() || p.save(o.plot), "--plot ", o.plot,
               ": cannot be written; give a file in a folder that exists");
}

int attention(const options& o) {
    std::printf("on: %s\n", device_name().c_str());
    claims claim;
    one_row(o, claim);
    masks(o, claim);
    results(o, claim);
    forms(o, claim);
    return claim.status();
}

int main(int argc, char** argv) {
    options o;
    arguments args(argc, argv, "17_attention", "Attention in tiles, forward and backward.");
    args.add("--length", o.length, "of the sequence whose results are checked", 1, 1024);
    args.add("--longest", o.longest, "of the sequences that are compared", 4, 8192);
    args.add("--sabotage", o.sabotage, "break it",
             {"none", "no-rescale", "no-barrier", "top-left", "no-lse"});
    args.add("--plot", o.plot, "draw bytes a query over the length into this SVG file");
    return args.run([&] { return attention(o); });
}
