// SPDX-License-Identifier: MIT
// Reductions: sums, softmax and layer norm step by step; the same bits in any order of threads.
//
// broken: --sabotage no-barrier => Race reported between
// broken: --sabotage no-barrier => chapters/15_reductions.cpp:53
// broken: --sabotage atomics => [FAILS] in a fixed order: the same bits in 4 orders of threads
// with: --rows 32 --columns 512 => [holds] softmax: 24, 16 and 2 times the bytes of a row
// cuda: --rows 16 --columns 256
#include "common/args.hpp"       // arguments: the flags
#include "common/claims.hpp"     // claims: what is proved
#include "common/cost_table.hpp" // cost_table: a line a kernel
#include "common/device.hpp"     // array, cost_of, set_order: the emulator or a GPU

#include "mpt/kernels/layernorm.cuh" // layernorm_forward, layernorm_backward, ..._apart
#include "mpt/kernels/reduce.cuh"    // sum, sum_partials_kernel
#include "mpt/kernels/softmax.cuh"   // softmax_naive, softmax_online, softmax_forward

#include <cmath>
#include <cstring>
#include <functional>
#include <set>

struct options {
    std::string sabotage = "none";
    int rows = on_gpu ? 16384 : 64, columns = on_gpu ? 1024 : 256;
};

//! [sums]
// Version 1: every thread adds its element to one and the same number.
__global__ void sum_atomic(float* total, const float* x, unsigned n) {
    const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) atomicAdd(total, x[i]);
}
// Each thread sums its share in a register, each block leaves one number, and a second kernel of
// one block adds these. Version 2: a tree in shared memory. Version 3: shuffles.
template <bool tree>
__global__ void sum_blocks(float* partial, const float* x, unsigned n) {
    __shared__ float room[256];
    float sum = 0;
    for (unsigned i = blockIdx.x * 256 + threadIdx.x; i < n; i += gridDim.x * 256) sum += x[i];
    sum = tree ? block_sum_tree(sum, room) : block_sum(sum);
    if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}
//! [sums]

//! [twice]
// Two sums with one room for the warps' numbers. Without the second barrier a fast warp overwrites
// what a slow one has not read yet.
__global__ void mean_and_square(float* y, const float* x, bool wait) {
    __shared__ float of_warp[8];
    for (int power = 1; power <= 2; ++power) {
        const float v = x[threadIdx.x], sum = warp_sum(power == 1 ? v : v * v);
        if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = sum;
        __syncthreads();
        float all = 0;
        for (int w = 0; w < 8; ++w) all += of_warp[w];
        if (wait) __syncthreads();
        if (threadIdx.x == 0) y[power - 1] = all / 256;
    }
}
//! [twice]

// Run in four orders of threads: how many different results are there?
template <class T>
std::size_t results(const array<T>& y, const std::function<void()>& run) {
    std::set<std::string> seen;
    for (unsigned seed = 0; seed < 4; ++seed) {
        set_order(seed);
        run();
        const std::vector<T> v = y.read();
        seen.emplace(reinterpret_cast<const char*>(v.data()), v.size() * sizeof(T));
    }
    set_order(0);
    return seen.size();
}

void sums(const options& o, claims& claim) {
    const unsigned n = unsigned(o.rows) * unsigned(o.columns), blocks = partial_blocks(n);
    const std::vector<float> host = random_numbers(n, false);
    const array<float> x(host), partial(blocks), total(1);
    const array<double> wide(1);
    const array<char> scratch(sum_bytes(n));
    const auto atomic = [&] {
        ok(cudaMemsetAsync(total.data(), 0, sizeof(float)), "cudaMemset");
        mpt::launch<sum_atomic>({blocks_for(n, 256), 256}, total.data(), x.data(), n);
    };
    const auto add_up = [&] {
        mpt::launch<sum_partials_kernel<float>>({1, 256}, total.data(),
                                                static_cast<const float*>(partial.data()), blocks);
    };
    const auto tree = [&] {
        mpt::launch<sum_blocks<true>>({blocks, 256}, partial.data(), x.data(), n), add_up();
    };
    const auto shuffles = [&] {
        mpt::launch<sum_blocks<false>>({blocks, 256}, partial.data(), x.data(), n), add_up();
    };
    const auto packs = [&] { sum(wide.data(), x.data(), n, scratch.data(), nullptr); };

    double exact = 0, size = 0; // plainly, in fp64
    for (const float v : host) exact += double(v), size += std::fabs(double(v));
    // every addition of fp32 rounds by 2^-24 of a partial sum, which is at most `size`
    const auto near = [&](double sum, double additions) {
        return std::fabs(sum - exact) <= additions * 0x1p-24 * size;
    };
    const cost_table t(mpt::join("sum of ", n), 4 * std::size_t(n));
    const double longest = n / (256. * blocks) + 8 + blocks / 256. + 12;
    bool right = true;
    const costs c1 = cost_of(atomic);
    if (!on_gpu) right = near(total.read()[0], n); // there it ran several times
    const costs c2 = cost_of(tree);
    right = right && near(total.read()[0], longest);
    const costs c3 = cost_of(shuffles);
    right = right && near(total.read()[0], longest);
    const costs c4 = cost_of(packs);
    right = right && near(wide.read()[0], 0x1p-20);
    t.row("1 atomics", c1), t.row("2 tree", c2), t.row("3 shuffles", c3);
    t.row("4 packs, fp64", c4);
    // expect: [holds] four ways to sum: the plain sum, to rounding
    claim(right, "four ways to sum: the plain sum, to rounding");
    const std::size_t ordered = o.sabotage == "atomics" ? results(total, atomic)
                                                        : results(total, tree) *
                                                              results(total, shuffles) *
                                                              results(wide, packs);
    // expect: [holds] in a fixed order: the same bits in 4 orders of threads
    claim(ordered == 1, "in a fixed order: the same bits in 4 orders of threads");
    if (on_gpu) return;
    // expect: [holds] by float atomics: other bits in another order
    claim(results(total, atomic) > 1, "by float atomics: other bits in another order");
    // expect: [holds] barriers a block of 256 threads: tree 10, shuffles 2
    claim(c2.barriers == 10 * blocks + 2 && c3.barriers == 2 * blocks + 2 &&
              c1.atomic_turns == n,
          "barriers a block of 256 threads: tree 10, shuffles 2; atomics wait for each other");
}

//! [softmax]
void softmaxes(const options& o, claims& claim) {
    const auto rows = std::size_t(o.rows), columns = std::size_t(o.columns), n = rows * columns;
    std::vector<float> host = random_numbers(n, false);
    for (float& v : host) v = 100 + 8 * v; // e^100 is past the largest float
    const array<float> x(host), y(n);
    std::vector<double> plain(n);
    for (std::size_t r = 0; r < rows; ++r) {
        const float* const row = host.data() + r * columns;
        double sum = 0;
        for (std::size_t i = 0; i < columns; ++i) sum += std::exp(double(row[i]) - 100);
        for (std::size_t i = 0; i < columns; ++i)
            plain[r * columns + i] = std::exp(double(row[i]) - 100) / sum;
    }
    const cost_table t(mpt::join("softmax, ", rows, " x ", columns), 8 * n);
    bool right = true;
    const auto step = [&](const char* name, const std::function<void()>& run) {
        const costs c = cost_of(run);
        t.row(name, c);
        const std::vector<float> got = y.read();
        // x - maximum rounds by 2^-24 of 32 at most, expf by 2 ulps; then the sum and its rescaling
        const double relative = (2 * 32 + 8 + 6 * double(columns)) * 0x1p-24;
        for (std::size_t i = 0; i < n; ++i)
            right = right && std::fabs(double(got[i]) - plain[i]) <= relative * plain[i] + 1e-45;
        return c;
    };
    const costs c1 = step("1 naive, a thread a row", [&] {
        softmax_naive<float>(y.data(), x.data(), o.rows, o.columns, nullptr);
    });
    const costs c2 = step("2 online", [&] {
        softmax_online<float>(y.data(), x.data(), o.rows, o.columns, nullptr);
    });
    const auto warps = [&] {
        softmax_forward<float>(y.data(), x.data(), o.rows, o.columns, nullptr);
    };
    const costs c3 = step("3 a warp a row", warps);
    // expect: [holds] softmax of rows around 100: as in fp64, to rounding
    claim(right, "softmax of rows around 100: as in fp64, to rounding");
    // expect: [holds] softmax in 4 orders of threads: the same bits
    claim(results<float>(y, warps) == 1, "softmax in 4 orders of threads: the same bits");
    if (on_gpu || o.columns > row_of_a_warp || o.columns % 4 || o.rows % 32) return;
    // expect: [holds] softmax: 24, 16 and 2 times the bytes of a row are asked for
    const auto of_x = [&](const costs& c) { return double(8 * c.global_load_sectors) / double(n); };
    claim(of_x(c1) == 24 && of_x(c2) == 16 && of_x(c3) == 2,
          "softmax: 24, 16 and 2 times the bytes of a row are asked for");
}
//! [softmax]

void layernorms(const options& o, claims& claim) {
    const std::size_t C = std::size_t(o.columns), n = std::size_t(o.rows) * C;
    const std::vector<float> host = random_numbers(n, false);
    const array<float> x(host), dy(host), y(n), dx(n), dx_apart(n), mean(std::size_t(o.rows)),
        rstd(std::size_t(o.rows)), gamma(std::vector<float>(C, 0.5f)),
        beta(std::vector<float>(C, 1.0f)), dgamma(C), dbeta(C);
    const array<char> scratch(layernorm_backward_bytes(o.rows, o.columns));
    const auto forward = [&] {
        layernorm_forward<float>({y.data(), mean.data(), rstd.data(), x.data(), gamma.data(),
                                  beta.data(), o.rows, o.columns},
                                 nullptr);
    };
    const auto arguments_for = [&](const array<float>& to) {
        return layernorm_backward_args<float>{
            to.data(),   dgamma.data(), dbeta.data(), dy.data(), x.data(), gamma.data(),
            mean.data(), rstd.data(),   o.rows,       o.columns, false,    scratch.data()};
    };
    const auto apart = [&] { layernorm_backward_apart<float>(arguments_for(dx_apart), nullptr); };
    const auto fused = [&] { layernorm_backward<float>(arguments_for(dx), nullptr); };
    const cost_table t(mpt::join("layer norm, ", o.rows, " x ", C), 8 * n);
    t.row("forward", cost_of(forward));
    const cost_table t2("backward", 12 * n);
    const costs c1 = cost_of(apart), c2 = cost_of(fused);
    t2.row("1 dx, then columns", c1);
    t2.row("2 in one kernel", c2);

    bool right = true;
    const std::vector<float> got = y.read();
    for (std::size_t r = 0; r < n; r += C) {
        double sum = 0, squares = 0;
        for (std::size_t i = r; i < r + C; ++i) sum += double(host[i]);
        for (std::size_t i = r; i < r + C; ++i)
            squares += (double(host[i]) - sum / double(C)) * (double(host[i]) - sum / double(C));
        const double scale = 1 / std::sqrt(squares / double(C) + 1e-5);
        for (std::size_t i = r; i < r + C; ++i) // |x - mean| scale < 4; sums of C numbers
            right = right && std::fabs((double(host[i]) - sum / double(C)) * scale / 2 + 1 -
                                       double(got[i])) < 4 * double(C) * 0x1p-24;
    }
    // expect: [holds] layer norm: as in fp64, to rounding
    claim(right, "layer norm: as in fp64, to rounding");
    // expect: [holds] backward in one kernel: the same bits of dx as in two
    claim(dx.read() == dx_apart.read(), "backward in one kernel: the same bits of dx as in two");
    // expect: [holds] dgamma, summed over all rows: the same bits in 4 orders of threads
    claim(results<float>(dgamma, fused) == 1,
          "dgamma, summed over all rows: the same bits in 4 orders of threads");
    if (on_gpu) return;
    // expect: [holds] ... and x and dy are read twice, not three times
    claim(c1.global_load_sectors > 5 * n / 8 && c2.global_load_sectors < c1.global_load_sectors,
          "... and x and dy are read twice, not three times");
}

int reductions(const options& o) {
    std::printf("on: %s\n", device_name().c_str());
    claims claim;
    sums(o, claim);
    const array<float> y(2), x(random_numbers(256, false));
    mpt::launch<mean_and_square>({1, 256}, y.data(), x.data(), o.sabotage != "no-barrier");
    softmaxes(o, claim);
    layernorms(o, claim);
    return claim.status();
}

int main(int argc, char** argv) {
    options o;
    arguments args(argc, argv, "15_reductions", "Reductions, softmax and layer norm.");
    args.add("--rows", o.rows, "of softmax and layer norm; the sum takes all", 1, 65536);
    args.add("--columns", o.columns, "of a row", 1, 8192);
    args.add("--sabotage", o.sabotage, "break it", {"none", "no-barrier", "atomics"});
    return args.run([&] { return reductions(o); });
}
