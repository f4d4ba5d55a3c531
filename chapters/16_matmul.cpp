// SPDX-License-Identifier: MIT
// A matrix product in five steps: the same sums, fetched from memory less and less often.
//
// broken: --sabotage no-barrier => Race reported between
// broken: --sabotage no-barrier => chapters/16_matmul.cpp:38
// broken: --sabotage fp16-sums --depth 32 => [FAILS] fp16: within its bound of the plain loop
// broken: --size 160 => --size 160: wanted a multiple of 128
// with: --depth 32 --plot steps.svg => [holds] a tile of side t: t / 4 operations a byte
// cuda: --size 128 --depth 64
#include "common/args.hpp"           // arguments: the flags
#include "common/bars.hpp"           // bars: operations a byte
#include "common/claims.hpp"         // claims: what is proved
#include "common/cublas_product.hpp" // cublas_seconds: what a GPU's own library takes
#include "common/device.hpp"         // array, cost_of: the emulator or a GPU
#include "common/products.hpp"       // product: operands, the plain loop, the bound

#include "mpt/kernels/matmul_wmma.cuh" // matmul_naive, ..., matmul_wmma
#include "mpt/kernels/scalar.cuh"      // to_float, from_float

struct options {
    std::string sabotage = "none", plot;
    int size = on_gpu ? 2048 : 128, depth = on_gpu ? 2048 : 64; // c (size,size); k
};

//! [tiles]
// Step 3. A block of 32 x 32 threads fetches a tile of each operand once, together. Each of the
// 32 * 32 numbers of a tile is then read 32 times, from shared memory.
__global__ void tiles_of_32(float* c, const float* a, const float* b, unsigned n, unsigned k,
                            bool wait) {
    __shared__ float u[32][32], v[32][32];
    const unsigned across = threadIdx.x, down = threadIdx.y;
    const unsigned i = blockIdx.y * 32 + down, j = blockIdx.x * 32 + across;
    float sum = 0;
    for (unsigned p0 = 0; p0 < k; p0 += 32) {
        u[down][across] = a[i * k + p0 + across];
        v[down][across] = b[(p0 + down) * n + j];
        __syncthreads(); // the tiles are whole
        for (unsigned p = 0; p < 32; ++p) sum += u[down][p] * v[p][across];
        if (wait) __syncthreads(); // all are done with them
    }
    c[i * n + j] = sum;
}
//! [tiles]

//! [fp16 sums]
// What "fp32 sums" are for: here the sum is rounded to fp16 after each addition.
__global__ void sums_in_fp16(__half* c, const __half* a, const __half* b, unsigned n, unsigned k) {
    const unsigned i = blockIdx.y * blockDim.y + threadIdx.y;
    const unsigned j = blockIdx.x * blockDim.x + threadIdx.x;
    __half sum = from_float<__half>(0.0f);
    for (unsigned p = 0; p < k; ++p)
        sum = from_float<__half>(to_float(sum) + to_float(a[i * k + p]) * to_float(b[p * n + j]));
    c[i * n + j] = sum;
}
//! [fp16 sums]

//! [steps]
template <int R>
void registers(const matmul_args<float>& x) { // step 4 with tiles of 16 R
    mpt::launch<matmul_registers_kernel<float, R>>(
        {{tiles_of(x.n, 16 * R), tiles_of(x.m, 16 * R)}, 256, 0, nullptr}, with_leading(x));
}
template <int Tile, class T>
void tensor_cores(const matmul_args<T>& x) { // step 5
    launch_matmul_wmma<T, Tile>(with_leading(x), nullptr);
}
//! [steps]

// What the steps cost, a line each.
class ladder {
public:
    explicit ladder(const std::string& what) {
        std::printf("\n%-25s", what.c_str());
        if (on_gpu)
            std::printf(" %9s %9s %10s %8s\n", "ms", "TFLOP/s", "of cuBLAS", "error");
        else
            std::printf(" %7s %8s %7s %7s %10s %9s %7s %7s\n", "loads", "sectors", "a load",
                        "waves", "conflicts", "barriers", "FLOP/B", "error");
    }
    // tensor: its fragments lie in shared memory's banks as the hardware has it: not counted.
    template <class T, class Run>
    void row(const std::string& name, const product<T>& x, bool tensor, Run run) {
        const costs c = cost_of([&] { run(x.args()); });
        // tensor cores may cut off what their adders do not hold: a bit less
        const double error = x.worst(x.result(), tensor ? 0x1p-23 : 0x1p-24);
        right = right && error <= 1;
        counts.push_back(c);
        per_byte.push_back(x.operations() / std::max(1.0, 32 * double(c.global_load_sectors)));
        std::printf("%-25s", name.c_str());
        if (on_gpu) {
            std::printf(" %9.4f %9.2f %9.1f%% %7.1f%%\n", c.seconds * 1e3,
                        x.operations() / c.seconds * 1e-12,
                        100 * cublas_seconds(x.args()) / c.seconds, 100 * error);
            return;
        }
        const auto shared = [&](unsigned long long count) {
            return tensor ? std::string("-") : std::to_string(count);
        };
        std::printf(" %7llu %8llu %7.1f %7s %10s %9llu %7.2f %6.1f%%\n", c.global_load_requests,
                    c.global_load_sectors, c.sectors_a_load(),
                    shared(c.shared_load_wavefronts + c.shared_store_wavefronts).c_str(),
                    shared(c.shared_load_conflicts + c.shared_store_conflicts).c_str(), c.barriers,
                    per_byte.back(), 100 * error);
    }
    bool right = true; // all within their bounds
    std::vector<costs> counts;
    std::vector<double> per_byte; // operations for each byte that is asked of memory
};

void steps(const options& o, claims& claim) {
    const product<float> x(o.size, o.depth);
    const product<__half> h(o.size, o.depth);
    ladder t(mpt::join("c (", x.m, ",", x.n, "), k ", x.k));
    //! [ladder]
    t.row("1 naive", x, false, [](auto y) { matmul_naive(y, nullptr); });
    t.row("2 coalesced", x, false, [](auto y) { matmul_coalesced(y, nullptr); });
    t.row("3 tiles, 32 x 32", x, false, [&](auto y) {
        mpt::launch<tiles_of_32>({dim3(tiles_of(y.n, 32), tiles_of(y.m, 32)), dim3(32, 32)}, y.c,
                                 y.a, y.b, unsigned(y.n), unsigned(y.k),
                                 o.sabotage != "no-barrier");
    });
    t.row("4 registers, 64 x 64", x, false, registers<4>);
    t.row("4 registers, 128 x 128", x, false, registers<8>);
    t.row("5 tensor cores, 64 x 64", h, true, tensor_cores<64, __half>);
    t.row("5 tensor cores, 128 x 128", h, true, tensor_cores<128, __half>);
    //! [ladder]
    // expect: [holds] every step: within its bound of the plain loop
    claim(t.right, "every step: within its bound of the plain loop");
    if (on_gpu) return;
    // expect: [holds] naive: 33 sectors for two loads of a warp; coalesced: 5
    claim(t.counts[0].sectors_a_load() == 16.5 && t.counts[1].sectors_a_load() == 2.5,
          "naive: 33 sectors for two loads of a warp; coalesced: 5");
    // expect: [holds] a tile of side t: t / 4 operations a byte of fp32, t / 2 of fp16
    claim(std::vector<double>(t.per_byte.begin() + 2, t.per_byte.end()) ==
              std::vector<double>{8, 16, 32, 32, 64},
          "a tile of side t: t / 4 operations a byte of fp32, t / 2 of fp16");
    unsigned long long conflicts = 0;
    for (int step = 2; step < 5; ++step)
        conflicts += t.counts[std::size_t(step)].shared_load_conflicts +
                     t.counts[std::size_t(step)].shared_store_conflicts;
    // expect: [holds] tiles and registers: no bank is asked for two words at a time
    claim(conflicts == 0, "tiles and registers: no bank is asked for two words at a time");
    if (o.plot.empty()) return;
    bars p{"Operations for each byte asked of memory", "FLOP a byte", {"fp32", "fp16"}, {}};
    const char* const names[][2] = {{"naive", ""},
                                    {"coalesced", ""},
                                    {"tiles", "32 x 32"},
                                    {"registers", "64 x 64"},
                                    {"registers", "128 x 128"},
                                    {"tensor cores", "64 x 64"},
                                    {"tensor cores", "128 x 128"}};
    for (std::size_t i = 0; i < t.per_byte.size(); ++i) {
        char text[16];
        std::snprintf(text, sizeof text, "%.3g", t.per_byte[i]);
        const double v = t.per_byte[i];
        p.all.push_back({names[i][0], names[i][1], text, {i < 5 ? v : 0, i < 5 ? 0 : v}});
    }
    mpt::check(p.save(o.plot), "--plot ", o.plot,
               ": cannot be written; give a file in a folder that exists");
}

//! [formats]
void formats(const options& o, claims& claim) {
    const product<float> full(o.size, o.depth), tf32(o.size, o.depth, true);
    const product<__half> fp16(o.size, o.depth);
    const product<__nv_bfloat16> bf16(o.size, o.depth);
    std::printf("\n%-24s %14s %22s\n", "operands, sums in fp32", "of its bound",
                "off the fp32 operands'");
    const auto row = [&](const std::string& name, const auto& x, bool tensor, auto run) {
        run(x.args());
        const double error = x.worst(x.result(), tensor ? 0x1p-23 : 0x1p-24);
        std::printf("%-24s %13.1f%% %22.1e\n", name.c_str(), 100 * error, full.off(x.result()));
        claim(error <= 1, name + ": within its bound of the plain loop");
    };
    // expect: [holds] fp32: within its bound of the plain loop
    row("fp32", full, false, registers<4>);
    // expect: [holds] tf32: within its bound of the plain loop
    row("tf32", tf32, true, tensor_cores<64, float>);
    // expect: [holds] fp16: within its bound of the plain loop
    row("fp16", fp16, true, [&](const matmul_args<__half>& y) {
        if (o.sabotage != "fp16-sums") return tensor_cores<64>(y);
        mpt::launch<sums_in_fp16>({dim3(tiles_of(y.n, 32), tiles_of(y.m, 8)), dim3(32, 8)}, y.c,
                                  y.a, y.b, unsigned(y.n), unsigned(y.k));
    });
    // expect: [holds] bf16: within its bound of the plain loop
    row("bf16", bf16, true, tensor_cores<64, __nv_bfloat16>);
}
//! [formats]

int products(const options& o) {
    std::printf("on: %s\n", device_name().c_str());
    mpt::check(o.size % 128 == 0, "--size ", o.size, ": wanted a multiple of 128, a tile's side");
    mpt::check(o.depth % 32 == 0, "--depth ", o.depth, ": wanted a multiple of 32, a tile's depth");
    claims claim;
    steps(o, claim);
    formats(o, claim);
    return claim.status();
}

int main(int argc, char** argv) {
    options o;
    arguments args(argc, argv, "16_matmul", "A matrix product in five steps.");
    args.add("--size", o.size, "rows and columns of the product", 128, 8192);
    args.add("--depth", o.depth, "what is summed over", 32, 8192);
    args.add("--sabotage", o.sabotage, "break it", {"none", "no-barrier", "fp16-sums"});
    args.add("--plot", o.plot, "draw operations a byte over the steps into this SVG file");
    return args.run([&] { return products(o); });
}
