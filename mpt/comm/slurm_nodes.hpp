// SPDX-License-Identifier: MIT
/// @file slurm_nodes.hpp
/// Slurm's short lists, written out: of hosts, and of tasks a host.        tier 2, needs:
/// base/error.hpp
///
/// Idea     Slurm names a thousand hosts in one variable by ranges in brackets. Zeros in front
///          belong to a name, and of several brackets every combination is meant, the last one
///          changing fastest.
/// Formula  gpu[08-10],login -> gpu08 gpu09 gpu10 login;   4(x2),1 -> 4 4 1
/// Breaks   a list cut at its first comma: gpu[08 is no host
/// Source   srun(1), SLURM_STEP_NODELIST and SLURM_STEP_TASKS_PER_NODE
/// See      launch_environment.hpp (who asks), tests/comm/launch_environment_test.cpp
#pragma once
#include "mpt/base/error.hpp" // check, join

#include <charconv>
#include <cstddef>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace mpt {

namespace slurm {

inline constexpr std::size_t most = 100000; // names; a longer list is a mistake

/// All of `text` as a number that is not negative; `of` is what the message shows.
inline long number(std::string_view text, std::string_view of) {
    long value = -1;
    const auto [stop, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
    check(fault == std::errc() && stop == text.data() + text.size() && value >= 0 &&
              text[0] != '-' && text[0] != '+',
          "Slurm's list ", of, ": \"", text, "\" is no number");
    return value;
}

/// What stands between commas that are not in brackets.
inline std::vector<std::string_view> between_commas(std::string_view list) {
    std::vector<std::string_view> items;
    int depth = 0;
    std::size_t begin = 0;
    for (std::size_t i = 0; i <= list.size(); ++i) {
        if (i == list.size() || (list[i] == ',' && depth == 0)) {
            items.push_back(list.substr(begin, i - begin));
            check(!items.back().empty(), "Slurm's list ", list,
                  ": nothing before or after a comma");
            begin = i + 1;
        } else {
            depth += list[i] == '[' ? 1 : list[i] == ']' ? -1 : 0;
            check(depth == 0 || depth == 1, "Slurm's list ", list, ": brackets do not match");
        }
    }
    check(depth == 0, "Slurm's list ", list, ": a bracket is not closed");
    return items;
}

/// One item: a name with any number of brackets.
inline std::vector<std::string> expand(std::string_view item, std::string_view list) {
    const std::size_t open = item.find('[');
    if (open == item.npos) return {std::string(item)};
    const std::size_t close = item.find(']', open);
    const std::string_view head = item.substr(0, open);
    const std::vector<std::string> tails = expand(item.substr(close + 1), list);
    std::vector<std::string> names;
    for (const std::string_view range : between_commas(item.substr(open + 1, close - open - 1))) {
        const std::size_t dash = range.find('-');
        const std::string_view first = range.substr(0, dash);
        const long low = number(first, list);
        const long high = dash == range.npos ? low : number(range.substr(dash + 1), list);
        check(low <= high, "Slurm's list ", list, ": the range ", range, " runs backwards");
        check(std::size_t(high - low) < most && names.size() < most, "Slurm's list ", list,
              ": more than ", most, " hosts");
        for (long i = low; i <= high; ++i) {
            std::string digits = std::to_string(i);
            if (digits.size() < first.size()) digits.insert(0, first.size() - digits.size(), '0');
            for (const std::string& tail : tails) names.push_back(join(head, digits, tail));
        }
    }
    return names;
}

} // namespace slurm

/// The hosts of a list as Slurm writes it, in its order.
inline std::vector<std::string> slurm_hosts(std::string_view list) {
    std::vector<std::string> hosts;
    for (const std::string_view item : slurm::between_commas(list))
        for (std::string& host : slurm::expand(item, list)) hosts.push_back(std::move(host));
    return hosts;
}

/// Tasks on host 0, 1, ...: "4(x2),1" is {4, 4, 1}.
inline std::vector<int> slurm_tasks(std::string_view list) {
    std::vector<int> tasks;
    for (const std::string_view item : slurm::between_commas(list)) {
        const std::size_t open = item.find("(x");
        long times = 1;
        if (open != item.npos) {
            check(item.back() == ')', "Slurm's list ", list, ": \"", item,
                  "\"; wanted such as 4(x2)");
            times = slurm::number(item.substr(open + 2, item.size() - open - 3), list);
        }
        const long each = slurm::number(item.substr(0, open), list);
        check(times <= long(slurm::most) && each <= long(slurm::most), "Slurm's list ", list,
              ": more than ", slurm::most, " tasks");
        tasks.insert(tasks.end(), std::size_t(times), int(each));
    }
    return tasks;
}

} // namespace mpt
