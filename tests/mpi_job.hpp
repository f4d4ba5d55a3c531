// SPDX-License-Identifier: MIT
// The job that this test program is a process of.
#pragma once
#include "mpt/comm/mpi.hpp"

mpt::mpi_process& job();
