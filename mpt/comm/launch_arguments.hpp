// SPDX-License-Identifier: MIT
/// @file launch_arguments.hpp
/// A rank's place, said on the command line.                               tier 2, needs:
/// base/error.hpp
///
/// Idea     What a person or a launcher gives by hand: --rank 1 --world-size 4 --local-rank 1
///          --master-addr host --master-port 29500, also with '=' in between. DeepSpeed's launcher
///          adds --local_rank=1 to every program's arguments, asked for or not: so these words are
///          taken out, and the program's own options never see them.
/// Breaks   a number read up to its first wrong letter: --rank 1O would be rank 1
/// See      launch_environment.hpp, tests/comm/launch_environment_test.cpp
#pragma once
#include "mpt/base/error.hpp" // check

#include <charconv>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace mpt {

/// `text` as a whole number from low to high; `name` is what it was given by.
inline int launch_number(std::string_view name, std::string_view text, int low, int high) {
    int value = 0;
    const auto [stop, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
    check(fault == std::errc() && stop == text.data() + text.size() && value >= low &&
              value <= high,
          name, " is \"", text, "\"; wanted a whole number from ", low, " to ", high);
    return value;
}

inline constexpr int most_ranks = 1 << 20;

struct launch_arguments {
    std::optional<int> rank, world_size, local_rank, master_port;
    std::optional<std::string> master_addr;
};

/// Takes the words of a launch out of `args` and leaves the others in their order. Behind "--"
/// nothing is taken. Throws where a value is missing, wrong, or given twice and not alike.
inline launch_arguments take_launch_arguments(std::vector<std::string>& args) {
    launch_arguments found;
    std::vector<std::string> rest;
    const auto set = [](auto& field, const auto& value, const std::string& name) {
        check(!field || *field == value, name, " is given twice, as ", *field, " and as ", value,
              "; give it once");
        field = value;
    };
    for (std::size_t i = 0; i < args.size(); ++i) {
        if (args[i] == "--") {
            rest.insert(rest.end(), args.begin() + std::ptrdiff_t(i), args.end());
            break;
        }
        const std::size_t equals = args[i].find('=');
        const std::string name = args[i].substr(0, equals);
        const bool ours = name == "--rank" || name == "--world-size" || name == "--local-rank" ||
                          name == "--local_rank" || name == "--master-addr" ||
                          name == "--master-port";
        if (!ours) {
            rest.push_back(args[i]);
            continue;
        }
        check(equals != name.npos || i + 1 < args.size(), name, " stands without a value; wanted ",
              name, " VALUE");
        const std::string value = equals != name.npos ? args[i].substr(equals + 1) : args[++i];
        if (name == "--master-addr") {
            check(!value.empty(), "--master-addr is empty; wanted a host's name or address");
            set(found.master_addr, value, name);
        } else if (name == "--master-port") {
            set(found.master_port, launch_number(name, value, 1, 65535), name);
        } else if (name == "--world-size") {
            set(found.world_size, launch_number(name, value, 1, most_ranks), name);
        } else {
            auto& field = name == "--rank" ? found.rank : found.local_rank;
            set(field, launch_number(name, value, 0, most_ranks - 1), name);
        }
    }
    args = rest;
    return found;
}

} // namespace mpt
