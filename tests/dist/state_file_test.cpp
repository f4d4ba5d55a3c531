// SPDX-License-Identifier: MIT
#include "mpt/dist/state_file.hpp"

#include <doctest/doctest.h>

#include "offload_rig.hpp"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <vector>

using namespace mpt;
using rig::refusal;
using rig::says;

namespace {

struct record { // aligned memory
    explicit record(std::size_t payload)
        : bytes(state_file::record_bytes(payload)), payload(payload),
          room(static_cast<std::byte*>(std::aligned_alloc(direct_file::alignment, bytes))) {}
    ~record() { std::free(room); }
    record(const record&) = delete;
    record& operator=(const record&) = delete;
    std::span<std::byte> span() { return {room, bytes}; }
    std::span<std::byte> data() { return span().subspan(state_file::seal_bytes, payload); }
    std::size_t bytes, payload;
    std::byte* room;
};

void fill(record& r, int with) {
    for (std::size_t i = 0; i < r.payload; ++i) r.data()[i] = std::byte(i * 7 + std::size_t(with));
}

} // namespace

TEST_CASE("a record's size: seal, payload, and what is missing to a multiple of 4096") {
    CHECK(state_file::record_bytes(0) == 4096);
    CHECK(state_file::record_bytes(4096 - 128) == 4096);
    CHECK(state_file::record_bytes(4096 - 127) == 8192);
}

TEST_CASE("payloads of any length come back, and nothing else") {
    const rig::folder here;
    std::vector<std::size_t> sizes;
    for (const std::size_t n : {1, 511, 512, 513, 4095, 4097}) sizes.push_back(12 * n);
    const state_file f(here.path + "/f", 1, sizes);
    for (std::size_t k = 0; k < sizes.size(); ++k) {
        record r(sizes[k]);
        fill(r, int(k));
        f.write({"x", k, 1}, r.span());
    }
    for (std::size_t k = sizes.size(); k-- > 0;) {
        record r(sizes[k]), want(sizes[k]);
        fill(want, int(k));
        f.read({"x", k, 1}, r.span());
        CHECK(std::equal(r.data().begin(), r.data().end(), want.data().begin()));
    }
}

TEST_CASE("another record than wanted is told by what it is") {
    const rig::folder here;
    const std::string path = here.path + "/f";
    const state_file f(path, 5, {100, 100, 200});
    record r(100), longer(200);
    fill(r, 1);
    f.write({"states of a", 0, 3}, r.span());
    f.write({"states of b", 1, 3}, r.span());
    const auto reading = [&](const record_id& id) {
        return refusal([&] { f.read(id, r.span()); });
    };
    CHECK(reading({"states of a", 0, 3}) == "nothing");
    CHECK(says(reading({"states of a", 0, 4}),
               "states " + path + ": record 0 (states of a) was written 3 times, wanted 4"));
    CHECK(says(reading({"states of a", 1, 3}), "record 1 (states of a) holds record 1, 100 bytes "
                                               "of states of b, wanted 100 bytes"));
    CHECK(says(reading({"states of a, too", 0, 3}), "of states of a, wanted")); // all of the name
    CHECK(says(refusal([&] {
                   f.read({"states of c", 2, 3}, longer.span());
               }),
               "(states of c)")); // never written: the file ends
}

TEST_CASE("no byte of a record can change unseen") {
    const rig::folder here;
    const std::string path = here.path + "/f";
    const state_file f(path, 5, {1000});
    record r(1000), back(1000);
    fill(r, 1);
    const record_id id{"states of a", 0, 1};
    f.write(id, r.span());
    for (std::size_t at = 0; at < r.bytes; ++at) {
        std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
        file.seekg(long(at));
        const char was = char(file.get());
        file.seekp(long(at));
        file.put(char(was ^ 4));
        file.close();
        const std::string said = refusal([&] { f.read(id, back.span()); });
        const bool padding = at >= state_file::seal_bytes + 1000; // which nobody reads
        CHECK((said == "nothing") == padding);
        if (!padding) CHECK(says(said, "states " + path + ": record 0 (states of a) "));
        std::ofstream(path, std::ios::in | std::ios::binary).seekp(long(at)).put(was);
    }
    f.read(id, back.span()); // all as it was
}
