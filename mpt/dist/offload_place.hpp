// SPDX-License-Identifier: MIT
/// @file offload_place.hpp
/// Where a run keeps states, or weights: none, host or file.               tier 6, needs:
/// base/error.hpp base/memory.hpp dist/file_states.hpp dist/file_weights.hpp
/// dist/host_states.hpp dist/host_weights.hpp dist/offload.hpp dist/state_store.hpp
/// dist/weight_place.hpp nn/params.hpp train/estimate.hpp
///
/// Idea     The words of --offload, and the store that each means. Not every optimizer can: those
///          that cannot are refused by their name, before anything is allocated.
/// Breaks   states in a folder in memory (tmpfs): the host's memory again, by a longer way
/// See      offload.hpp, tests/dist/offload_place_test.cpp
#pragma once
#include "mpt/base/error.hpp"        // error, join
#include "mpt/base/memory.hpp"       // memory
#include "mpt/dist/file_states.hpp"  // file_states, file_settings
#include "mpt/dist/file_weights.hpp" // file_weights
#include "mpt/dist/host_states.hpp"  // host_states
#include "mpt/dist/host_weights.hpp" // host_weights
#include "mpt/dist/offload.hpp"      // updates_in_parts
#include "mpt/dist/state_store.hpp"  // state_store
#include "mpt/dist/weight_place.hpp" // weight_place
#include "mpt/nn/params.hpp"         // layout, pieces
#include "mpt/train/estimate.hpp"    // offload_to

#include <memory>
#include <string>
#include <string_view>

namespace mpt {

/// Throws for other words, and where `file` has no folder, or another has one.
inline offload_to parse_offload(std::string_view word, std::string_view folder) {
    const auto found = word == "none"   ? offload_to::none
                       : word == "host" ? offload_to::host
                       : word == "file"
                           ? offload_to::file
                           : throw error(join("--offload ", word, ": wanted none, host or file"));
    if (found == offload_to::file)
        check(!folder.empty(), "--offload file: in which folder? Give --offload-dir DIR, on a disk "
                               "with room for 12 bytes a parameter, and for weights in stage 3");
    else
        check(folder.empty(), "--offload-dir ", folder, " with --offload ", word,
              ": nothing is kept there; choose --offload file");
    return found;
}

/// Throws one line unless an optimizer of this kind, called `name`, can be offloaded.
template <class Rule, class T>
void require_offloadable(std::string_view name) {
    check(updates_in_parts<Rule, T>, "--offload with ", name,
          ": it needs a whole tensor before it moves a weight, or keeps moments in other forms "
          "than fp32; choose adamw, adam or sgd, or --offload none");
}

/// The states of what this rank owns; nullptr for none.
template <class T>
std::unique_ptr<state_store<T>> make_states(offload_to where, memory& mem, const layout& map,
                                            const pieces<T>& mine, int moments,
                                            const file_settings& files) {
    if (where == offload_to::none) return nullptr;
    if (where == offload_to::host)
        return std::make_unique<host_states<T>>(mem, mine, moments, files.part);
    return std::make_unique<file_states<T>>(mem, map, mine, moments, files);
}

/// The weights of what this rank owns, for zero3 and offload; nullptr for none: on the device.
template <class T>
std::unique_ptr<weight_place<T>> make_weights(offload_to where, memory& mem, const layout& map,
                                              const partition& cut, int rank, transfers& copies,
                                              const file_settings& files) {
    if (where == offload_to::none) return nullptr;
    if (where == offload_to::host) return std::make_unique<host_weights<T>>(mem, cut, rank, copies);
    return std::make_unique<file_weights<T>>(mem, map, cut, rank, copies, files);
}

} // namespace mpt
