// SPDX-License-Identifier: MIT
#include "mpt/comm/rendezvous.hpp"

#include "mpt/comm/rendezvous_file.hpp"

#include <doctest/doctest.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <vector>

#include <netinet/in.h>
#include <sys/wait.h>

using namespace mpt;

namespace {

using blob = std::vector<std::byte>;

blob made(std::size_t n = 128) { // rank 0's
    blob b(n);
    for (std::size_t i = 0; i < n; ++i) b[i] = std::byte(i * 37 + 11);
    return b;
}

launch rank_of(int rank, int world_size, int port, const char* addr = "127.0.0.1") {
    launch my;
    my.rank = rank, my.world_size = world_size;
    my.master_addr = addr, my.master_port = port;
    my.run_id = "one";
    return my;
}

// A port that is free now, by letting the kernel choose one.
int free_port() {
    std::string why;
    const auto at = tcp::addresses("127.0.0.1", 0, why);
    const tcp::socket s = tcp::listen_at(*at);
    sockaddr_in bound{};
    socklen_t size = sizeof bound;
    getsockname(s.file(), reinterpret_cast<sockaddr*>(&bound), &size);
    return ntohs(bound.sin_port);
}

tcp::socket connected(int port) {
    std::string why;
    const auto at = tcp::addresses("127.0.0.1", port, why);
    for (int i = 0; i < 200; ++i) {
        if (tcp::socket s = tcp::connect_to(*at, tcp::in_seconds(1))) return s;
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    return {};
}

// What a call says when it throws; "" where it does not.
std::string said(const std::function<void()>& call) {
    try {
        call();
    } catch (const error& e) {
        return e.what();
    }
    return "";
}
std::future<std::string> later(std::function<void()> call) {
    return std::async(std::launch::async, [call] { return said(call); });
}
// The same of a rank, with what it ends up with.
struct outcome {
    std::string error;
    bool same;
};
std::future<outcome> rank_later(launch my, double timeout, std::size_t bytes = 128) {
    return std::async(std::launch::async, [=] {
        blob mine = my.rank == 0 ? made(bytes) : blob(bytes);
        const std::string why = said([&] { share_by_tcp(my, mine, timeout); });
        return outcome{why, mine == made(bytes)};
    });
}

bool has(const std::string& text, const std::string& part) {
    return text.find(part) != std::string::npos;
}

} // namespace

TEST_CASE("every rank ends up with the bytes of rank 0, whoever comes first") {
    for (const char* addr : {"127.0.0.1", "::1", "[::1]", "localhost"})
        for (const bool first : {true, false}) {
            std::string why;
            if (!tcp::addresses(addr, 1, why)) {
                MESSAGE(addr << " is no address here: " << why);
                continue;
            }
            CAPTURE(addr);
            const int port = free_port(), n = 5;
            std::vector<std::future<outcome>> all;
            if (first) all.push_back(rank_later(rank_of(0, n, port, addr), 30));
            for (int r = 1; r < n; ++r) all.push_back(rank_later(rank_of(r, n, port, addr), 30));
            if (!first) {
                std::this_thread::sleep_for(std::chrono::milliseconds(120)); // they try again
                all.push_back(rank_later(rank_of(0, n, port, addr), 30));
            }
            for (auto& one : all) {
                const outcome o = one.get();
                CHECK(o.error == "");
                CHECK(o.same);
            }
        }
    launch alone = rank_of(0, 1, 1);
    blob b = made();
    share_by_tcp(alone, b, 1); // nobody to meet
}

TEST_CASE("processes") {
    const int port = free_port(), n = 4;
    std::vector<pid_t> others;
    for (int r = 1; r < n; ++r) {
        const pid_t child = fork();
        if (child == 0) {
            blob mine(128);
            const std::string why = said([&] { share_by_tcp(rank_of(r, n, port), mine, 30); });
            _exit(why.empty() && mine == made() ? 0 : 1);
        }
        others.push_back(child);
    }
    blob mine = made();
    share_by_tcp(rank_of(0, n, port), mine, 30);
    for (const pid_t child : others) {
        int status = 1;
        waitpid(child, &status, 0);
        CHECK(status == 0);
    }
}

TEST_CASE("who is no rank of this run is turned away, and the others meet") {
    const int port = free_port(), n = 3;
    auto zero = rank_later(rank_of(0, n, port), 30);
    auto one = rank_later(rank_of(1, n, port), 30);

    const tcp::socket silent = connected(port); // says nothing, and keeps nobody waiting
    REQUIRE(silent);
    {
        const tcp::socket rubbish = connected(port);
        tcp::send_all(rubbish, rendezvous::bytes("GET / HTTP/1.1\r\n\r\n"), tcp::in_seconds(1));
        std::byte nothing[1];
        CHECK(!tcp::recv_all(rubbish, nothing, tcp::in_seconds(10))); // it is closed
        const tcp::socket slow = connected(port);                     // half a hello, then gone
        tcp::send_all(slow, rendezvous::bytes("MPTR\1\0"), tcp::in_seconds(1));
        // lengths that no hello has: it is not waited for
        std::string endless("MPTR");
        for (const std::uint32_t x : {1u, 1u, 3u, 128u, 0xffffffffu, 0u})
            rendezvous::put(endless, x);
        const tcp::socket greedy = connected(port);
        tcp::send_all(greedy, rendezvous::bytes(endless), tcp::in_seconds(1));
        CHECK(!tcp::recv_all(greedy, nothing, tcp::in_seconds(10)));
    }
    blob mine(128);
    const auto refused = [&](launch my, std::size_t bytes = 128) {
        mine.resize(bytes);
        return said([&] { share_by_tcp(my, mine, 30); });
    };
    CHECK(has(refused(rank_of(2, 4, port)), "says that there are 4 ranks, rank 0 on "));
    CHECK(has(refused(rank_of(7, 3, port)), "rank 7 on "));
    CHECK(has(refused(rank_of(2, 3, port), 64), "wants 64 bytes, rank 0 has 128"));
    launch other = rank_of(2, n, port);
    other.run_id = "another";
    CHECK(has(refused(other), "is of run \"another\", this one is \"one\""));
    other.run_id = std::string(300, 'x');
    CHECK(has(refused(other), "the run id has 300 letters"));

    mine.resize(128);
    share_by_tcp(rank_of(2, n, port), mine, 30);
    CHECK(mine == made());
    CHECK(zero.get().error == "");
    CHECK(one.get().error == "");
}

TEST_CASE("whoever is missing is named, to all, in time") {
    const int port = free_port(), n = 4;
    auto zero = rank_later(rank_of(0, n, port), 1.5);
    auto two = rank_later(rank_of(2, n, port), 20);
    const std::string why = zero.get().error;
    CAPTURE(why);
    CHECK(has(why, "waited 1.5 s at port "));
    CHECK(has(why, "for rank 1, 3 of 4"));
    const std::string told = two.get().error; // not after 20 s of its own
    CAPTURE(told);
    CHECK(has(told, "turns rank 2 away: rendezvous: rank 0 on "));
    CHECK(has(told, "for rank 1, 3 of 4"));

    blob mine(128);
    const std::string none = said([&] { share_by_tcp(rank_of(1, 2, free_port()), mine, 0.3); });
    CAPTURE(none);
    CHECK(has(none, "finds no rank 0 at 127.0.0.1 port "));
    CHECK(has(none, "in 0.3 s (Connection refused)"));
    const std::string nowhere =
        said([&] { share_by_tcp(rank_of(1, 2, 29500, "no.such.host.invalid"), mine, 0.3); });
    CAPTURE(nowhere);
    CHECK(has(nowhere, "finds no rank 0 at no.such.host.invalid"));
}

TEST_CASE("a port that another program has") {
    std::string why;
    const int port = free_port();
    const tcp::socket taken = tcp::listen_at(*tcp::addresses("127.0.0.1", port, why));
    REQUIRE(taken);
    blob mine = made();
    const std::string zero = said([&] { share_by_tcp(rank_of(0, 2, port), mine, 5); });
    CAPTURE(zero);
    CHECK(has(zero, "cannot listen at port "));
    CHECK(has(zero, "(Address already in use)"));
    CHECK(has(zero, "Set MASTER_PORT to a free port, the same for all ranks"));

    auto one = rank_later(rank_of(1, 2, port), 5); // and who speaks there is no rank 0
    int file = -1;
    while (file < 0) file = accept(taken.file(), nullptr, nullptr);
    const tcp::socket s(file);
    tcp::send_all(s, rendezvous::bytes("220 mail.example ESMTP ready\r\n"), tcp::in_seconds(1));
    CHECK(has(one.get().error, "is no rank 0 of mpt; another program has that port"));
}

TEST_CASE("a rank that dies while it waits makes room for the one that takes its place") {
    const int port = free_port(), n = 3;
    auto zero = rank_later(rank_of(0, n, port), 30);
    {
        const tcp::socket dies = connected(port);
        const rendezvous::hello h{1, 1, 3, 128, "one", "somewhere"};
        tcp::send_all(dies, rendezvous::bytes(h.packed()), tcp::in_seconds(1));
        blob mine(128); // its twin is turned away
        const std::string twin = said([&] { share_by_tcp(rank_of(1, n, port), mine, 30); });
        CAPTURE(twin);
        CHECK(has(twin, "rank 1 on "));
        CHECK(has(twin, " is there already, on somewhere; every rank is started once"));
    }
    std::string why = "?";
    blob mine(128);
    auto two = rank_later(rank_of(2, n, port), 30);
    for (int i = 0; i < 100 && !why.empty(); ++i) { // until rank 0 has seen it go
        why = said([&] { share_by_tcp(rank_of(1, n, port), mine, 30); });
        if (!why.empty()) std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    CHECK(why == "");
    CHECK(mine == made());
    CHECK(two.get().same);
    CHECK(zero.get().error == "");
}

// ---- by file ---------------------------------------------------------------------------------

namespace {

struct folder {
    folder() {
        std::string name = (std::filesystem::temp_directory_path() / "mpt-rendezvous-XXXXXX");
        path = mkdtemp(name.data());
    }
    ~folder() { std::filesystem::remove_all(path); }
    std::size_t files() const {
        return std::size_t(std::distance(std::filesystem::directory_iterator(path), {}));
    }
    std::string path;
};

} // namespace

TEST_CASE("by a file: it is whole or not there, and gone at the end") {
    const folder f;
    std::vector<std::future<std::string>> others;
    for (int r = 1; r < 4; ++r)
        others.push_back(later([&f, r] {
            blob mine(128);
            const shared_file kept = share_by_file(rank_of(r, 4, 0), mine, f.path, 30);
            check(mine == made(), "other bytes");
        }));
    {
        blob mine = made();
        const shared_file kept = share_by_file(rank_of(0, 4, 0), mine, f.path, 30);
        CHECK(f.files() == 1);
        for (auto& o : others) CHECK(o.get() == "");
        blob again = made();
        CHECK(has(said([&] { (void)share_by_file(rank_of(0, 4, 0), again, f.path, 1); }),
                  "it is there already. Another run has the id one"));
    }
    CHECK(f.files() == 0);
}

TEST_CASE("by a file: of another run, of other ranks, damaged, or none") {
    const folder f;
    blob mine = made(), theirs(128);
    launch other = rank_of(0, 2, 0);
    other.run_id = "before";
    const shared_file stale = share_by_file(other, mine, f.path, 1); // of a run that has crashed
    const auto reads = [&](launch my, std::size_t bytes = 128) {
        theirs.assign(bytes, std::byte(0));
        return said([&] { (void)share_by_file(my, theirs, f.path, 0.3); });
    };
    const std::string none = reads(rank_of(1, 2, 0));
    CAPTURE(none);
    CHECK(has(none, "it is not there, after 0.3 s of rank 1 on "));

    const shared_file kept = share_by_file(rank_of(0, 2, 0), mine, f.path, 1);
    CHECK(reads(rank_of(1, 2, 0)) == "");
    CHECK(has(reads(rank_of(1, 3, 0)), "rank 0 says that there are 2 ranks, rank 1 on "));
    CHECK(has(reads(rank_of(1, 2, 0), 64), "it holds 128 bytes, rank 1 wants 64"));
    launch nameless = rank_of(1, 2, 0);
    nameless.run_id.clear();
    CHECK(has(reads(nameless), "this run has no id"));

    const std::string path = f.path + "/" + rendezvous::file_name("one");
    const auto damaged = [&](std::size_t at, std::size_t keep) {
        std::string whole;
        {
            std::ifstream in(path, std::ios::binary);
            whole.assign(std::istreambuf_iterator<char>(in), {});
        }
        std::string bad = whole.substr(0, keep);
        if (at < bad.size()) bad[at] = char(bad[at] ^ 1);
        std::ofstream(path, std::ios::binary).write(bad.data(), std::streamsize(bad.size()));
        const std::string why = reads(rank_of(1, 2, 0));
        std::ofstream(path, std::ios::binary).write(whole.data(), std::streamsize(whole.size()));
        return why;
    };
    CHECK(has(damaged(999, 10), "it is cut short"));
    CHECK(has(damaged(999, 100), "it is cut short"));
    CHECK(has(damaged(0, 148), "it is of another program or version"));
    CHECK(has(damaged(100, 148), "its check sum is not that of its bytes"));
    CHECK(reads(rank_of(1, 2, 0)) == "");

    // Names that are no paths, and differ where the ids do.
    CHECK(!has(rendezvous::file_name("../a/b"), "/"));
    CHECK(rendezvous::file_name("a/b") != rendezvous::file_name("a_b"));
}
