// SPDX-License-Identifier: MIT
/// @file launch_device.hpp
/// A rank's GPU.                                                           tier 2, needs:
/// base/error.hpp comm/launch_environment.hpp
///
/// Idea     The ranks of a machine count themselves from 0, and take its GPUs in turn.
/// Formula  device = local rank mod the GPUs that this process sees
/// Breaks   ranks that all take GPU 0, as without a local rank: they work, share its memory, and
///          only NCCL complains
/// See      launch_environment.hpp, tests/comm/launch_environment_test.cpp
#pragma once
#include "mpt/base/error.hpp"              // check, join
#include "mpt/comm/launch_environment.hpp" // launch

#include <string>

namespace mpt {

/// Of the `devices` GPUs that this process sees: what CUDA_VISIBLE_DEVICES hides is not counted, so
/// where a launcher shows every task one GPU, that is number 0.
inline int launch_device(const struct launch& my, int devices) {
    check(devices >= 1, "launch: rank ", my.rank, " sees no GPU; one is needed here");
    return my.local_rank % devices;
}

/// What to say on a machine with fewer GPUs than ranks; empty: nothing.
inline std::string launch_device_warning(const struct launch& my, int devices) {
    if (my.local_size <= devices || devices <= 1) return {};
    return join(my.local_size, " ranks on a machine with ", devices,
                " GPUs: some share one, which NCCL refuses");
}

/// Ranks of torchrun, Slurm or a shell loop speak NCCL; without a GPU there is none.
inline void require_gpu(const struct launch& my, int devices) {
    check(my.world_size == 1 || my.mpi || devices >= 1, "launch: ", my.world_size, " ranks by ",
          my.said, ", and rank ", my.rank,
          " sees no GPU. On CPUs processes are MPI's: use mpirun -np ", my.world_size,
          ", or --ranks ", my.world_size, " for threads of one process");
}

} // namespace mpt
