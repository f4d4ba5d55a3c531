// SPDX-License-Identifier: MIT
#include "exercise.hpp"

#include "exercises/harness/grade.hpp"
#include "exercises/harness/kernels.hpp" // counted

#include "mpt/simt/device_buffer.hpp" // device_buffer

using namespace grade;

namespace {

struct outcome {
    std::vector<float> in, out;
    mpt::simt::access_counts counts;
};
outcome run(int rows, int columns) {
    outcome o;
    o.in = any().list(std::size_t(rows * columns));
    mpt::simt::device_buffer<float> in(o.in), out{o.in.size()};
    o.counts = counted([&] { transpose(out.data(), in.data(), rows, columns); });
    o.out = out.read();
    return o;
}

} // namespace

PART("every element is where it belongs", 4) {
    for (const auto& [rows, columns] :
         {std::pair{32, 32}, {1, 1}, {64, 32}, {31, 33}, {40, 70}, {1, 100}}) {
        const outcome o = run(rows, columns);
        for (int r = 0; r < rows; ++r)
            for (int c = 0; c < columns; ++c)
                equals(mpt::join("out[", c, "][", r, "] of ", rows, " x ", columns),
                       o.out[std::size_t(c * rows + r)], o.in[std::size_t(r * columns + c)],
                       "in[r][c] becomes out[c][r]");
    }
}
PART("whole sectors, both ways", 4) {
    const outcome o = run(64, 96);
    equals("sectors read of 64 x 96 numbers", o.counts.global_load_sectors, 64ull * 96 / 8,
           "8 numbers a sector");
    equals("sectors written", o.counts.global_store_sectors, 64ull * 96 / 8,
           "a warp writes 32 numbers that lie side by side: 4 sectors, not 32");
}
PART("no two lanes want one bank", 4) {
    const outcome o = run(64, 64);
    equals("bank conflicts", o.counts.shared_load_conflicts + o.counts.shared_store_conflicts, 0ull,
           "a column of the tile has to lie in 32 banks");
    equals("is the tile used", o.counts.shared_load_requests > 0, true,
           "the turn happens in shared memory");
}
