// SPDX-License-Identifier: MIT
#include "mpt/dist/offload_place.hpp"

#include <doctest/doctest.h>

#include "mpt/train/adam.hpp"
#include "mpt/train/adam8bit.hpp"
#include "mpt/train/adamw.hpp"
#include "mpt/train/adamw_bf16.hpp"
#include "mpt/train/lamb.hpp"
#include "mpt/train/sgd.hpp"
#include "offload_rig.hpp"

using namespace mpt;
using rig::refusal;
using rig::says;

TEST_CASE("the words of --offload") {
    CHECK(parse_offload("none", "") == offload_to::none);
    CHECK(parse_offload("host", "") == offload_to::host);
    CHECK(parse_offload("file", "/fast") == offload_to::file);
    CHECK(refusal([] { parse_offload("disk", ""); }) ==
          "--offload disk: wanted none, host or file");
    CHECK(says(refusal([] { parse_offload("file", ""); }), "Give --offload-dir DIR"));
    CHECK(says(refusal([] { parse_offload("host", "/fast"); }),
               "--offload-dir /fast with --offload host: nothing is kept there"));
}

TEST_CASE("optimizers that cannot be offloaded are refused by name") {
    const auto said = []<class Rule>(Rule, const char* name) {
        return refusal([&] { require_offloadable<Rule, bf16>(name); });
    };
    CHECK(said(adamw{}, "adamw") == "nothing");
    CHECK(said(adam{}, "adam") == "nothing");
    CHECK(said(sgd{}, "sgd") == "nothing");
    CHECK(says(said(lamb{}, "lamb"), "--offload with lamb: it needs a whole tensor"));
    CHECK(says(said(adam8bit{}, "adam8bit"), "--offload with adam8bit: "));
    CHECK(says(said(adamw_bf16{}, "adamw, moments in bf16"), "adamw, moments in bf16: "));
}

TEST_CASE("a store for each word") {
    const layout map = rig::edges();
    memory mem;
    const rig::folder here;
    std::vector<bf16> w(map.size());
    const pieces<bf16> mine = rig::by_unit(map, w.data());
    const file_settings files{.folder = here.path, .part = 1024};
    CHECK(make_states<bf16>(offload_to::none, mem, map, mine, 2, files) == nullptr);
    const auto host = make_states<bf16>(offload_to::host, mem, map, mine, 2, files);
    CHECK(mem.books.total(place::host) == 12 * map.size());
    CHECK(host->largest() == 1024);
    const auto file = make_states<bf16>(offload_to::file, mem, map, mine, 1, files);
    CHECK(mem.books.total(place::file) == 8 * map.size());
    CHECK(file->parts().size() == host->parts().size());
}
