// SPDX-License-Identifier: MIT
#include "exercise.hpp"

#include "exercises/harness/grade.hpp"

#include <map>
#include <optional>

using namespace grade;

namespace {

struct lost {}; // the power

// Remembers what is certain and what is only hoped for; goes out at call `last`.
struct weak_disk : disk {
    int last = 1 << 20, calls = 0;
    // what programs see, by name: which bytes; and what is on the disk
    std::map<std::string, int> seen, stored;
    std::map<int, std::string> bytes;
    std::map<int, bool> flushed;
    int next = 0;

    void call() {
        if (++calls > last) throw lost{};
    }
    void write(const std::string& name, const std::string& b) override {
        call();
        if (const auto old = seen.find(name); old != seen.end()) {
            bytes[old->second] = b; // over it: the old bytes are gone, the new not certain
            flushed[old->second] = false;
        } else {
            seen[name] = next, bytes[next] = b, flushed[next] = false;
            ++next;
        }
    }
    void flush(const std::string& name) override {
        call();
        flushed[seen.at(name)] = true;
    }
    void rename(const std::string& from, const std::string& to) override {
        call();
        const int file = seen.at(from);
        seen.erase(from);
        seen[to] = file;
    }
    void flush_folder() override {
        call();
        stored = seen;
    }
    void remove(const std::string& name) override {
        call();
        seen.erase(name);
    }

    // What the file may hold after the power has come back: names as on the disk or as seen, bytes
    // that were not flushed may be missing.
    std::vector<std::string> after(const std::string& name) const {
        std::vector<std::string> may;
        for (const auto* names : {&stored, &seen}) {
            const auto f = names->find(name);
            if (f == names->end()) {
                may.push_back("(no file)");
                continue;
            }
            may.push_back(bytes.at(f->second));
            if (!flushed.at(f->second)) may.push_back("(half a file)");
        }
        return may;
    }
};

weak_disk with_old() {
    weak_disk d;
    d.write("state", "old");
    d.flush("state");
    d.flush_folder();
    d.calls = 0;
    return d;
}

} // namespace

PART("the new bytes are there for certain", 3) {
    weak_disk d = with_old();
    save(d, "state", "new");
    for (const std::string& may : d.after("state"))
        equals("what `state` may hold after save() has returned", may, std::string("new"),
               "bytes are certain after a flush, a name after the folder's");
}
PART("a crash at any call leaves the old bytes or the new", 4) {
    weak_disk whole = with_old();
    save(whole, "state", "new");
    for (int last = 0; last <= whole.calls; ++last) {
        weak_disk d = with_old();
        d.last = last;
        try {
            save(d, "state", "new");
        } catch (const lost&) {
        }
        for (const std::string& may : d.after("state"))
            equals(mpt::join("is what `state` may hold after a crash behind call ", last, " (\"",
                             may, "\") whole"),
                   may == "old" || may == "new", true,
                   "old or new, never half of one, never nothing");
    }
}
PART("the first save, and nothing left over", 1) {
    weak_disk d;
    save(d, "state", "first");
    equals("`state` after the first save", d.bytes.at(d.seen.at("state")), std::string("first"),
           "there was no old one");
    equals("files after it", d.seen.size(), std::size_t(1), "no temporary one is left");
}
