// SPDX-License-Identifier: MIT
#include "exercise.hpp"

#include "exercises/harness/grade.hpp"

#include <vector>

using namespace grade;

namespace {

// A copier that is as late as it may be: a buffer is read when somebody waits for it.
struct late_host {
    explicit late_host(int parts)
        : device(std::size_t(parts), -1), updates(std::size_t(parts)), copies(std::size_t(parts)) {
        h.update = [this](int part, int b) {
            in_range(part, b, "update");
            if (part > 0) under += reading[(b + 1) % 2] == part - 1 || reading[b] == part - 1;
            buffer[b] = value(part);
            ++updates[std::size_t(part)];
        };
        h.start_copy = [this](int part, int b) {
            in_range(part, b, "start_copy");
            h.wait(b); // the copier does one thing after the other
            reading[b] = part;
            ++copies[std::size_t(part)];
        };
        h.wait = [this](int b) {
            in_range(0, b, "wait");
            if (reading[b] >= 0) device[std::size_t(reading[b])] = buffer[b];
            reading[b] = -1;
        };
    }
    static int value(int part) { return 1000 + 7 * part; }
    void in_range(int part, int b, const char* call) const {
        if (part < 0 || part >= int(device.size()) || b < 0 || b > 1)
            equals(mpt::join(call, "(", part, ", ", b, ") of ", device.size(), " parts"), 0, 1,
                   "parts from 0, buffers 0 and 1");
    }

    host h;
    std::vector<int> device, updates, copies;
    int buffer[2] = {-1, -1}, reading[2] = {-1, -1};
    int under = 0; // updates while the part before was on its way
};
const int sizes[] = {1, 2, 3, 4, 9, 16};

} // namespace

PART("the device has every part's new weights", 4) {
    for (const int parts : sizes) {
        late_host l(parts);
        step(l.h, parts);
        l.h.wait(0), l.h.wait(1);
        for (int k = 0; k < parts; ++k) {
            equals(mpt::join("updates of part ", k, " of ", parts), l.updates[std::size_t(k)], 1,
                   "each part once");
            equals(mpt::join("weights of part ", k, " of ", parts), l.device[std::size_t(k)],
                   late_host::value(k), "no buffer is written to before its weights have left");
        }
    }
}
PART("each part travels while the next is updated", 4) {
    for (const int parts : sizes) {
        late_host l(parts);
        step(l.h, parts);
        equals(mpt::join("updates under which the part before travels, ", parts, " parts"), l.under,
               parts - 1, "who waits for a copy at once has no use for a second buffer");
    }
}
PART("when the step returns nothing is on its way", 2) {
    for (const int parts : sizes) {
        late_host l(parts);
        step(l.h, parts);
        int left = 0;
        for (const int c : l.copies) left += c;
        equals(mpt::join("copies of ", parts, " parts"), left, parts, "each part once");
        for (const int b : {0, 1})
            equals(mpt::join("the part that still leaves buffer ", b), l.reading[b], -1,
                   "the next forward reads all weights: -1 is none");
    }
}
