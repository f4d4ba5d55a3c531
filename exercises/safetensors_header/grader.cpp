// SPDX-License-Identifier: MIT
#include "exercise.hpp"

#include "exercises/harness/grade.hpp"

using namespace grade;

namespace {

void accepts(const char* what, std::vector<tensor> t, std::uint64_t data) {
    try {
        check_layout(std::move(t), data);
    } catch (const exercise::todo&) {
        throw;
    } catch (const std::exception& e) {
        throw wrong{what,       "", mpt::join("refused: ", e.what()),
                    "no error", "", "this file is right"};
    }
}
void fails(const char* what, std::vector<tensor> t, std::uint64_t data, const char* word,
           const char* why) {
    refuses(
        what, [&] { check_layout(t, data); }, word, why);
}

} // namespace

PART("files that are right", 2) {
    accepts("an empty file", {}, 0);
    accepts("two tensors, named in the other order",
            {{"b", 32, {3}, 8, 20}, {"a", 16, {2, 2}, 0, 8}}, 20);
    accepts("a number without a shape, and a shape with 0",
            {{"s", 64, {}, 0, 8}, {"z", 32, {5, 0}, 8, 8}}, 8);
    accepts("numbers of 4 bits", {{"f", 4, {6}, 0, 3}}, 3);
}
PART("holes and overlaps", 2) {
    fails("a hole at the beginning", {{"a", 8, {4}, 1, 5}}, 5, "hole",
          "bytes that no tensor has hide things");
    fails("a hole between two", {{"a", 8, {4}, 0, 4}, {"b", 8, {4}, 5, 9}}, 9, "hole", "as above");
    fails("two on the same bytes", {{"a", 8, {4}, 0, 4}, {"b", 8, {4}, 2, 6}}, 6, "overlap",
          "one would change the other");
    fails("one inside another", {{"a", 8, {8}, 0, 8}, {"b", 8, {2}, 2, 4}}, 8, "overlap",
          "one would change the other");
}
PART("lengths", 2) {
    fails("a byte too few", {{"a", 16, {4}, 0, 7}}, 7, "length", "4 numbers of 2 bytes are 8");
    fails("an end before the beginning", {{"a", 8, {4}, 0, 4}, {"b", 8, {}, 4, 3}}, 4, "length",
          "end - begin is a huge number");
    fails("half a byte", {{"f", 4, {5}, 0, 2}}, 2, "length", "20 bits are no whole bytes");
    fails("bytes behind the last", {{"a", 8, {4}, 0, 4}}, 5, "bytes left",
          "a file ends with its last tensor");
    fails("data that are cut off", {{"a", 8, {4}, 0, 4}}, 3, "bytes left",
          "the last bytes are missing");
}
PART("products that overflow", 2) {
    const std::uint64_t huge = std::uint64_t(1) << 62;
    fails("a shape of 2^62 x 4 bytes-wide numbers", {{"a", 32, {huge}, 0, 0}}, 0, "overflow",
          "2^62 * 32 bits is 2^67: as 64 bits it is 0");
    fails("a shape of 2^32 x 2^32",
          {{"a", 8, {std::uint64_t(1) << 32, std::uint64_t(1) << 32}, 0, 0}}, 0, "overflow",
          "2^64 elements are 0 in 64 bits");
}
