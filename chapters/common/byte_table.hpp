// SPDX-License-Identifier: MIT
// byte_table.hpp -- bytes an element that kernels ask of memory, beside those of a formula; on a
// GPU their time beside the limit: as many bytes at the rate of a copy.
#pragma once
#include "device.hpp" // costs, cost_of, array, on_gpu

#include <cstdio>
#include <functional>
#include <string>

class byte_table {
public:
    byte_table(const std::string& what, std::size_t elements) : n_(double(elements)) {
        if (on_gpu) {
            const array<float> from(elements), to(elements);
            seconds_a_byte_ = cost_of([&] {
                                  ok(cudaMemcpyAsync(to.data(), from.data(), 4 * elements,
                                                     cudaMemcpyDeviceToDevice),
                                     "a copy");
                              }).seconds /
                              (8 * n_);
            std::printf("\n%-30s %9s %10s %10s %10s\n", what.c_str(), "formula", "ms", "limit",
                        "of it");
        } else
            std::printf("\n%-30s %8s %8s %8s %11s\n", what.c_str(), "read", "written", "bytes",
                        "formula");
    }

    //! [row]
    // reads, writes: bytes an element, if each is asked for once.
    void row(const std::string& name, double reads, double writes,
             const std::function<void()>& run) {
        const costs c = cost_of(run);
        const traffic t{32. * double(c.global_load_sectors) / n_,
                        32. * double(c.global_store_sectors) / n_, reads, writes, c.seconds};
        show(name, t);
        all.read += t.read, all.written += t.written, all.seconds += t.seconds;
        all.reads += reads, all.writes += writes;
    }
    //! [row]
    void total(const std::string& name) const { show(name, all); }

    // Did the kernels ask for what the formulas say, and for at most `more` bytes an element?
    bool as_formula(double more) const {
        const auto within = [&](double counted, double formula) {
            return counted >= formula && counted <= formula + more;
        };
        return within(all.read, all.reads) && within(all.written, all.writes);
    }
    struct traffic {
        double read = 0, written = 0; // bytes an element, counted; on a GPU 0
        double reads = 0, writes = 0; // by the formula
        double seconds = 0;
    };
    traffic all; // of the rows so far

private:
    void show(const std::string& name, const traffic& t) const {
        const double sum = t.reads + t.writes, limit = sum * n_ * seconds_a_byte_;
        if (on_gpu)
            std::printf("%-30s %9g %10.4f %10.4f %9.1f%%\n", name.c_str(), sum, t.seconds * 1e3,
                        limit * 1e3, 100 * limit / t.seconds);
        else
            std::printf("%-30s %8.2f %8.2f %8.2f %5g + %g\n", name.c_str(), t.read, t.written,
                        t.read + t.written, t.reads, t.writes);
    }
    double n_, seconds_a_byte_ = 0;
};
