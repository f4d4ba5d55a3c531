// SPDX-License-Identifier: MIT
// Threads, warps and blocks: where a kernel runs, who waits for whom, and how many fit.
//
// broken: --sabotage no-barrier => Race reported between
// broken: --sabotage no-barrier => chapters/13_threads.cpp:42
// broken: --sabotage divergent-barrier => Barrier error detected. Divergent thread(s) in block
// broken: --sabotage divergent-barrier => chapters/13_threads.cpp:41
// broken: --sabotage wrong-mask => lane 16 is named in the mask and has exited
// broken: --sabotage wrong-mask => chapters/13_threads.cpp:52
// with: --block 1024 --registers 33 --plot map.svg => Fermi 2.0 0 0 of 48 0% registers
#include "common/args.hpp"          // arguments: the flags
#include "common/claims.hpp"        // claims: what is proved
#include "common/device.hpp"        // array, cost_of: the emulator or a GPU
#include "common/occupancy_map.hpp" // generations, occupancy_map: the picture

struct options {
    std::string sabotage = "none", plot;
    int block = 256, registers = 40, shared = 0;
};

//! [who]
// A block of two dimensions: which threads of a warp have x = 0? Bit i answers for lane i.
__global__ void who(unsigned* first_of_row) {
    const unsigned thread = threadIdx.x + blockDim.x * threadIdx.y; // x runs first
    const unsigned bits = __ballot_sync(0xFFFFFFFF, threadIdx.x == 0);
    if (thread % 32 == 0) first_of_row[thread / 32] = bits;
}
// Each warp takes the next place in a list when it gets there.
__global__ void arrive(unsigned* warps, unsigned* next) {
    if (threadIdx.x % 32 == 0) warps[atomicAdd(next, 1u)] = threadIdx.x / 32;
}
//! [who]

//! [barrier]
// Turn a row around. All threads must come to the barrier, and wait.
__global__ void turn(float* y, const float* x, unsigned come, bool wait) {
    __shared__ float row[1024];
    const unsigned me = threadIdx.x, last = blockDim.x - 1;
    if (me >= come) return;
    row[me] = x[me];
    if (wait) __syncthreads(); // until all have written
    y[me] = row[last - me];
}
//! [barrier]

//! [shuffle]
// The sum of each warp. `lanes`: how many of its 32 come; the mask says all.
__global__ void sum_warps(float* sums, const float* x, unsigned lanes) {
    const unsigned lane = threadIdx.x % 32;
    if (lane >= lanes) return;
    float sum = x[threadIdx.x];
    for (int other = 16; other > 0; other /= 2) sum += __shfl_xor_sync(0xFFFFFFFF, sum, other);
    if (lane == 0) sums[threadIdx.x / 32] = sum;
}
//! [shuffle]

//! [branch]
// Of each 2 * `together` threads the first ones go one way and the others another.
__global__ void branch(float* a, double* b, unsigned together) {
    const unsigned me = threadIdx.x;
    if (me / together % 2 == 0)
        a[me] = 1;
    else
        b[me] = 2;
}
//! [branch]

void order(claims& claim) {
    std::vector<std::vector<unsigned>> orders;
    for (unsigned seed = 0; seed < 4; ++seed) {
        set_order(seed);
        array<unsigned> warps(32), next(std::vector<unsigned>{0});
        mpt::launch<arrive>({1, 1024}, warps.data(), next.data());
        orders.push_back(warps.read());
        std::printf("order %u: warps", seed);
        for (const unsigned w : orders.back()) std::printf(" %u", w);
        std::printf("\n");
    }
    bool all = true;
    for (auto o : orders) {
        std::sort(o.begin(), o.end());
        for (unsigned w = 0; w < 32; ++w) all = all && o[w] == w;
    }
    // expect: [holds] each of 32 warps came once, in an order that nobody promises
    claim(all && (on_gpu || orders[1] != orders[2]),
          "each of 32 warps came once, in an order that nobody promises");
}

//! [together]
void together(const options& o, claims& claim) {
    const std::vector<float> host = random_numbers(1024, true);
    const array<float> x(host), y(1024), sums(std::vector<float>(32));
    const std::vector<float> turned(host.rbegin(), host.rend());
    bool right = true;
    for (unsigned seed = 0; seed < 4; ++seed) {
        set_order(seed);
        mpt::launch<turn>({1, 1024}, y.data(), x.data(),
                          o.sabotage == "divergent-barrier" ? 512u : 1024u,
                          o.sabotage != "no-barrier");
        right = right && y.read() == turned;
    }
    set_order(0);
    // expect: [holds] behind a barrier the row is turned around in every order
    claim(right, "behind a barrier the row is turned around in every order");

    const unsigned lanes = o.sabotage == "wrong-mask" ? 16 : 32;
    mpt::launch<sum_warps>({1, 1024}, sums.data(), x.data(), lanes);
    std::vector<float> plain(32);
    for (std::size_t i = 0; i < 1024; ++i) plain[i / 32] += host[i];
    // expect: [holds] five shuffles add up a warp, without memory and barrier
    claim(sums.read() == plain, "five shuffles add up a warp, without memory and barrier");
}
//! [together]

void ways(claims& claim) {
    if (on_gpu) return; // counts are the emulator's
    const array<float> a(1024);
    const array<double> b(1024);
    costs of[33];
    std::printf("\n%24s %20s %16s\n", "threads that go together", "divergent branches", "stores");
    for (const unsigned together : {1, 4, 16, 32}) {
        const auto run = [&] { mpt::launch<branch>({1, 1024}, a.data(), b.data(), together); };
        const costs c = of[together] = cost_of(run);
        std::printf("%24u %20llu %16llu\n", together, c.divergent_branches,
                    c.global_store_requests);
    }
    // expect: [holds] a warp whose threads part goes both ways: 64 stores of 32 warps
    claim(of[1].divergent_branches == 32 && of[1].global_store_requests == 64,
          "a warp whose threads part goes both ways: 64 stores of 32 warps");
    // expect: [holds] whole warps that part cost nothing: 32 stores, no divergent branch
    claim(of[32].divergent_branches == 0 && of[32].global_store_requests == 32,
          "whole warps that part cost nothing: 32 stores, no divergent branch");
}

//! [fits]
void fits(const options& o, claims& claim) {
    print_occupancy({o.block, o.registers, std::size_t(o.shared)});
    // expect: [holds] 2.0 holds at most 8 blocks and 48 warps: 1536 threads
    claim(occupancy_on(20, {32, 16, 0}).blocks == 8 && occupancy_on(20, {192, 20, 0}).warps == 48,
          "2.0 holds at most 8 blocks and 48 warps: 1536 threads");
    // expect: [holds] 9.0 holds at most 32 blocks and 64 warps: 2048 threads
    claim(occupancy_on(90, {32, 16, 0}).blocks == 32 && occupancy_on(90, {256, 32, 0}).warps == 64,
          "9.0 holds at most 32 blocks and 64 warps: 2048 threads");
    // expect: [holds] 1024 threads of 33 registers: half of 9.0, and 2.0 cannot run them
    claim(occupancy_on(90, {1024, 33, 0}).warps == 32 &&
              occupancy_on(20, {1024, 33, 0}).blocks == 0,
          "1024 threads of 33 registers: half of 9.0, and 2.0 cannot run them");
    if (on_gpu)
        claim(driver_agrees<turn>(o.block), "blocks that fit on this GPU: as the driver says");
}
//! [fits]

int threads(const options& o) {
    std::printf("on: %s\n", device_name().c_str());
    claims claim;
    const array<unsigned> rows(std::vector<unsigned>(2));
    mpt::launch<who>({1, dim3(16, 4)}, rows.data());
    // expect: [holds] a warp of a block of 16 x 4 is two rows of x: ballot 00010001
    claim(rows.read() == std::vector<unsigned>{0x10001, 0x10001},
          "a warp of a block of 16 x 4 is two rows of x: ballot 00010001");
    order(claim);
    together(o, claim);
    ways(claim);
    fits(o, claim);
    if (!o.plot.empty())
        mpt::check(occupancy_map(o.registers, std::size_t(o.shared)).save(o.plot), "--plot ",
                   o.plot, ": cannot be written; give a file in a folder that exists");
    return claim.status();
}

int main(int argc, char** argv) {
    options o;
    arguments args(argc, argv, "13_threads", "Threads, warps and blocks.");
    args.add("--block", o.block, "threads of a block, in the table", 1, 1024);
    args.add("--registers", o.registers, "registers a thread, in table and picture", 0, 255);
    args.add("--shared", o.shared, "bytes of shared memory a block", 0, 227 * 1024);
    args.add("--sabotage", o.sabotage, "break it",
             {"none", "no-barrier", "divergent-barrier", "wrong-mask"});
    args.add("--plot", o.plot, "draw occupancy over sizes of blocks into this SVG file");
    return args.run([&] { return threads(o); });
}
