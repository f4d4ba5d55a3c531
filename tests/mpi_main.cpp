// SPDX-License-Identifier: MIT
// The main of test programs that mpirun starts: every process runs every test, rank 0 tells most.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include "mpi_job.hpp"

#include <cstdio>
#include <exception>

namespace {
mpt::mpi_process* process = nullptr;
}
mpt::mpi_process& job() { return *process; }

int main(int argc, char** argv) {
    try {
        mpt::mpi_process mine;
        process = &mine;
        doctest::Context tests(argc, argv);
        if (mine.rank() > 0) tests.setOption("minimal", true);
        const int status = tests.run();
        if (status != 0) mine.end_job("its tests failed", status); // the others may wait for it
        return status;
    } catch (const std::exception& e) {
        std::fprintf(stderr, "%s\n", e.what());
        return 1;
    }
}
