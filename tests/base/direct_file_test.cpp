// SPDX-License-Identifier: MIT
#include "mpt/base/direct_file.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <sys/stat.h>

using namespace mpt;

namespace {

constexpr std::size_t page = direct_file::alignment;

struct pages { // aligned memory
    explicit pages(std::size_t n, int fill = 0)
        : room(static_cast<std::byte*>(std::aligned_alloc(page, n * page))), size(n * page) {
        std::fill_n(room, size, std::byte(fill));
    }
    ~pages() { std::free(room); }
    pages(const pages&) = delete;
    pages& operator=(const pages&) = delete;
    std::span<std::byte> span() { return {room, size}; }
    bool all(int value) const {
        return std::all_of(room, room + size, [&](std::byte b) { return b == std::byte(value); });
    }
    std::byte* room;
    std::size_t size;
};

template <class F>
std::string refusal(F f) {
    try {
        f();
    } catch (const error& e) {
        return e.what();
    }
    return "nothing";
}
bool says(const std::string& line, const std::string& part) {
    return line.find(part) != std::string::npos;
}

const std::string path = "direct_file_test.states";

} // namespace

TEST_CASE("what was written is read, by O_DIRECT and by the cache") {
    for (const bool cached : {false, true}) {
        direct_file f("states", path, real_disk, cached);
        if (cached) CHECK(!f.direct());
        pages a(1, 1), b(2, 2), back(3);
        f.write(page, b.span());
        f.write(0, a.span());
        f.read(0, back.span());
        CHECK(std::equal(back.room, back.room + page, a.room));
        CHECK(std::equal(back.room + page, back.room + 3 * page, b.room));
    }
    CHECK(!std::filesystem::exists(path));
}

#if defined(O_DIRECT)
TEST_CASE("a file system without O_DIRECT: the same bytes") {
    disk d = real_disk;
    d.open = [](const char* p, int flags) {
        const int f = real_disk.open(p, flags & ~O_DIRECT); // as some do: made, and then refused
        if (!(flags & O_DIRECT)) return f;
        real_disk.close(f);
        errno = EINVAL;
        return -1;
    };
    direct_file f("states", path, d);
    CHECK(!f.direct());
    pages a(1, 7), back(1);
    f.write(0, a.span());
    f.read(0, back.span());
    CHECK(back.all(7));
}
#endif

TEST_CASE("calls that do a part of it, or are interrupted, are gone on with") {
    disk d = real_disk;
    int calls = 0;
    d.pwrite = [&](int f, const void* from, std::size_t n, off_t at) -> ssize_t {
        if (++calls % 2) return errno = EINTR, -1;
        return real_disk.pwrite(f, from, std::min(n, page), at);
    };
    d.pread = [&](int f, void* to, std::size_t n, off_t at) -> ssize_t {
        if (++calls % 2) return errno = EINTR, -1;
        return real_disk.pread(f, to, std::min(n, page), at);
    };
    direct_file f("states", path, d);
    pages a(5, 9), back(5);
    f.write(0, a.span());
    f.read(0, back.span());
    CHECK(back.all(9));
    CHECK(calls >= 20);
}

TEST_CASE("two runs with one name keep the bytes of their own") {
    auto first = std::make_unique<direct_file>("states", path);
    pages a(1, 1), b(1, 2), back(1);
    first->write(0, a.span());
    direct_file second("states", path);
    second.write(0, b.span());
    first->read(0, back.span());
    CHECK(back.all(1));
    first.reset(); // takes the name with it
    second.read(0, back.span());
    CHECK(back.all(2));
}

TEST_CASE("faults of the disk and of the caller, in a line each") {
    direct_file f("states x", path);
    pages a(2, 1), back(2);
    f.write(0, a.span());
    std::filesystem::resize_file(path, 2 * page - 1);
    CHECK(says(refusal([&] { f.read(0, back.span()); }), "states x: ends at byte 8191, wanted 1"));
    std::filesystem::resize_file(path, 0);
    CHECK(says(refusal([&] { f.read(0, back.span()); }), "states x: ends at byte 0, wanted 8192"));
    CHECK(says(refusal([&] { f.write(1, a.span()); }), "states x: 8192 bytes at 1 of memory"));
    CHECK(says(refusal([&] { f.write(0, a.span().first(100)); }), "100 bytes at 0"));
    CHECK(says(refusal([&] { f.write(0, a.span().subspan(64, page)); }), "multiples of 4096"));
    CHECK(says(refusal([&] { direct_file("states x", "no/such/folder/f"); }),
               "states x: cannot be made (No such file or directory)"));

    disk full = real_disk;
    full.pwrite = [](int, const void*, std::size_t, off_t) -> ssize_t {
        return errno = ENOSPC, -1;
    };
    direct_file g("states y", path, full);
    CHECK(says(refusal([&] { g.write(page, a.span()); }),
               "states y: cannot be written at byte 4096 (No space left on device)"));
    disk nothing = real_disk;
    nothing.pwrite = [](int, const void*, std::size_t, off_t) -> ssize_t { return 0; };
    direct_file h("states z", path, nothing);
    CHECK(says(refusal([&] { h.write(0, a.span()); }), "No space left on device"));
    disk worn = real_disk;
    worn.pread = [](int, void*, std::size_t, off_t) -> ssize_t { return errno = EIO, -1; };
    direct_file i("states w", path, worn);
    CHECK(says(refusal([&] { i.read(0, back.span()); }), "states w: cannot be read at byte 0 ("));
}
