// SPDX-License-Identifier: MIT
#include "mpt/comm/mailbox.hpp"

#include "../train/rig.hpp"

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

using namespace mpt;
using rig::refusal;
using rig::says;

namespace {

struct pair { // two ranks that one thread plays
    explicit pair(double timeout = 60)
        : run(std::make_shared<run_state>(2, timeout)), box(run, {0, 1}) {}
    mailbox::ticket send(const int& x, std::size_t n = 1) {
        return box.post(0, {verb::send, element::int32, &x, nullptr, n, 1}, book);
    }
    mailbox::ticket recv(int& x, std::size_t n = 1) {
        return box.post(1, {verb::recv, element::int32, nullptr, &x, n, 0}, none);
    }
    std::shared_ptr<run_state> run;
    mailbox box;
    traffic book, none;
};

} // namespace

TEST_CASE("a send meets a recv, whichever is first") {
    for (const bool sends_first : {true, false}) {
        pair p;
        int x = 7, y = 0;
        const mailbox::ticket a = sends_first ? p.send(x) : p.recv(y);
        CHECK(y == 0);
        const mailbox::ticket b = sends_first ? p.recv(y) : p.send(x);
        CHECK(y == 7); // the second has copied
        p.box.wait(a);
        p.box.wait(b);
        CHECK(p.book.of(verb::send) == sent{0, 1, 4, 1});
        CHECK(p.none.total() == sent{});
    }
}

TEST_CASE("the k-th send meets the k-th recv, whatever is waited for first") {
    pair p(2);
    const int x[3] = {1, 2, 3};
    int y[3] = {};
    const mailbox::ticket a = p.recv(y[0]), b = p.recv(y[1]), c = p.recv(y[2]);
    for (const int& one : x) p.send(one);
    p.box.wait(c), p.box.wait(a), p.box.wait(b);
    CHECK(y[0] == 1);
    CHECK(y[1] == 2);
    CHECK(y[2] == 3);
}

TEST_CASE("both must say the same") {
    pair p;
    const int x[2] = {1, 2};
    int y = 0;
    const mailbox::ticket a = p.send(x[0], 2);
    CHECK(refusal([&] { p.recv(y); }) ==
          "rank 1: recv from rank 0, message 1: rank 0 sends 2 int32, rank 1 receives 1 int32; "
          "both must say the same");
    CHECK(says(refusal([&] { p.box.wait(a); }), "rank 0: send to rank 1, message 1: ended by "));
    CHECK(y == 0);
}

TEST_CASE("a message that nobody takes is told at the deadline, and taken back") {
    pair p(0.05);
    int y = 0;
    {
        const int x = 7;
        const mailbox::ticket a = p.send(x);
        CHECK(refusal([&] { p.box.wait(a); }) ==
              "rank 0: send to rank 1, message 1: waited 0.05 s for rank 1, which computes or is "
              "stuck after 0 recvs; if ranks are only slow, raise MPT_TIMEOUT_S");
    }
    CHECK(says(refusal([&] { p.recv(y); }), "ended by rank 0")); // x is gone
    CHECK(y == 0);
}

TEST_CASE("what is dropped is taken back, and the run ends") {
    pair p;
    int y = 0;
    {
        const int x = 7;
        p.box.drop(p.send(x));
    }
    CHECK(p.run->failed() == "rank 0: send to rank 1, message 1: dropped before wait()");
    CHECK(says(refusal([&] { p.recv(y); }), "ended by rank 0"));
    pair q;
    {
        const int x = 7;
        q.send(x);
        q.box.leave(0); // its communicator ends
    }
    CHECK(q.run->failed() == "rank 0: send to rank 1, message 1: dropped before wait()");
    pair r;
    const int x = 7;
    r.send(x);
    r.recv(y);
    r.box.leave(0); // sabotage: with nothing on its way this is no fault
    CHECK(r.run->failed() == "");
}
