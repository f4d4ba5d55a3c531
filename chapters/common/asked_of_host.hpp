// SPDX-License-Identifier: MIT
// asked_of_host.hpp -- what a step asks of the host: launches, copies, waits; on a GPU its time.
#pragma once
#include "device.hpp" // cost_of, on_gpu

#include "mpt/nn/device.hpp" // device_queue, host_account

#include <chrono>
#include <cstdio>

struct asked_of_host {
    mpt::host_account by;            // the last step
    unsigned long long launches = 0; // of the last step; on a GPU not counted
    double us = 0;                   // a step of the second half, by the host's clock

    // one(step) for each of so many steps.
    template <class Step>
    asked_of_host(const mpt::device_queue& queue, int steps, Step one) {
        auto began = std::chrono::steady_clock::now();
        for (long step = 0; step < steps; ++step) {
            if (step == steps / 2) queue.wait(), began = std::chrono::steady_clock::now();
            const mpt::host_account before = queue.account;
            if (!on_gpu && step == steps - 1)
                launches = cost_of([&] { one(step); }).launches;
            else
                one(step);
            by = queue.account;
            by.copies_in -= before.copies_in, by.copies_out -= before.copies_out;
            by.waits -= before.waits, by.waits_for_marks -= before.waits_for_marks;
        }
        queue.wait();
        const std::chrono::duration<double, std::micro> took =
            std::chrono::steady_clock::now() - began;
        us = took.count() / (steps - steps / 2);
    }

    static void heading(const char* what) {
        std::printf("\n%-26s %9s %9s %9s %9s %9s\n", what, on_gpu ? "us" : "launches", "copies in",
                    "out", "waits", "for marks");
    }
    void row(const char* name) const {
        on_gpu ? std::printf("%-26s %9.1f", name, us) : std::printf("%-26s %9llu", name, launches);
        std::printf(" %9ld %9ld %9ld %9ld\n", by.copies_in, by.copies_out, by.waits,
                    by.waits_for_marks);
    }
};
