// SPDX-License-Identifier: MIT
// cost_table.hpp -- what the steps of a kernel cost, a line each: on the emulator what they ask of
// the memory, on a GPU their time beside that of a copy of as many bytes.
#pragma once
#include "device.hpp" // costs, cost_of, array, on_gpu

#include <cstdio>
#include <string>

class cost_table {
public:
    // bytes: that must be read and written, if each is touched once.
    cost_table(const std::string& what, std::size_t bytes) : bytes_(double(bytes)) {
        if (on_gpu) {
            const array<char> from(bytes / 2), to(bytes / 2);
            const auto kind = cudaMemcpyDeviceToDevice;
            copy_ = cost_of([&] {
                        ok(cudaMemcpyAsync(to.data(), from.data(), to.size(), kind), "a copy");
                    }).seconds;
            std::printf("\n%-26s %10s %10s %10s\n", what.c_str(), "ms", "GB/s", "of a copy");
        } else
            std::printf("\n%-26s %7s %8s %7s %8s %7s %9s %8s %8s\n", what.c_str(), "loads",
                        "sectors", "stores", "sectors", "waves", "conflicts", "barriers",
                        "atomics");
    }

    //! [row]
    void row(const std::string& name, const costs& c) const {
        if (on_gpu)
            std::printf("%-26s %10.4f %10.1f %9.1f%%\n", name.c_str(), c.seconds * 1e3,
                        bytes_ / c.seconds * 1e-9, 100 * copy_ / c.seconds);
        else
            std::printf("%-26s %7llu %8llu %7llu %8llu %7llu %9llu %8llu %8llu\n", name.c_str(),
                        c.global_load_requests, c.global_load_sectors, c.global_store_requests,
                        c.global_store_sectors,
                        c.shared_load_wavefronts + c.shared_store_wavefronts,
                        c.shared_load_conflicts + c.shared_store_conflicts, c.barriers,
                        c.global_atomic_requests + c.shared_atomic_requests);
    }
    //! [row]

private:
    double bytes_, copy_ = 0;
};
