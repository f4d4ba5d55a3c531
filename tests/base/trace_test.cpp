// SPDX-License-Identifier: MIT
#include "mpt/base/json.hpp"  // parse: the judge of what was written
#include "mpt/base/trace.hpp" // trace, range, trace_instant, trace_counter

#include <doctest/doctest.h>

#include <csignal>
#include <fstream>
#include <iterator>
#include <limits>
#include <string>
#include <thread>
#include <vector>

#include <sys/resource.h>
#include <sys/wait.h>

using namespace mpt;

static std::string contents(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}
// The events of one phase.
static std::vector<json::value> events(const std::string& text, const std::string& phase) {
    std::vector<json::value> out;
    for (const json::value& e : json::parse(text, "trace").items)
        if (e.find("ph")->text == phase) out.push_back(e);
    return out;
}
static double number(const json::value& e, const char* key) {
    double x = -1;
    REQUIRE(e.find(key));
    REQUIRE(e.find(key)->to(x));
    return x;
}

TEST_CASE("ranges, moments and counters are what Perfetto expects") {
    {
        trace t("trace_a.json", 3);
        {
            range outer(&t, lane::compute, "forward \"x\"\n");
            range inner(&t, lane::comm, "all_reduce");
            inner.args = "\"bytes\":64";
        }
        t.instant(lane::host, "overflow", "\"scale\":1024");
        t.counter("loss scale", 65536);
        t.counter("loss", std::numeric_limits<double>::quiet_NaN());
        CHECK(t.ok());
    }
    const std::string text = contents("trace_a.json");
    const auto names = events(text, "M"), bars = events(text, "X"), marks = events(text, "i"),
               curves = events(text, "C");
    REQUIRE(names.size() == 5);
    CHECK(names[0].find("name")->text == "process_name");
    CHECK(names[0].find("args")->find("name")->text == "rank 3");
    CHECK(names[2].find("args")->find("name")->text == "comm");
    CHECK(number(names[2], "tid") == 1);
    REQUIRE(bars.size() == 2); // the inner one ends first
    CHECK(bars[0].find("name")->text == "all_reduce");
    CHECK(bars[0].find("args")->find("bytes")->text == "64");
    CHECK(bars[1].find("name")->text == "forward \"x\"\n");
    for (const json::value& b : bars) CHECK(number(b, "pid") == 3);
    CHECK(number(bars[0], "tid") == 1);
    CHECK(number(bars[1], "tid") == 0);
    CHECK(number(bars[1], "ts") <= number(bars[0], "ts"));
    CHECK(number(bars[1], "ts") + number(bars[1], "dur") + 0.002 >=
          number(bars[0], "ts") + number(bars[0], "dur"));
    REQUIRE(marks.size() == 1);
    CHECK(marks[0].find("s")->text == "t");
    CHECK(marks[0].find("args")->find("scale")->text == "1024");
    REQUIRE(curves.size() == 1); // NaN leaves no point
    CHECK(curves[0].find("args")->find("value")->text == "65536");
}

TEST_CASE("ranks share a file: threads here, a process there, each its own rows") {
    const auto some = [](trace& t) {
        for (int i = 0; i < 200; ++i) range r(&t, i % 2 ? lane::comm : lane::compute, "work");
    };
    {
        trace first("trace_shared.json", 0, true);
        std::thread second([&] {
            trace t("trace_shared.json", 1, first.start());
            some(t);
            t.leave();
            t.instant(lane::host, "too late");
        });
        const pid_t child = fork();
        if (child == 0) {
            {
                trace t("trace_shared.json", 2, first.start());
                some(t);
            }
            _exit(0);
        }
        some(first);
        second.join();
        waitpid(child, nullptr, 0);
        first.finish(); // the others have written their last
        first.instant(lane::host, "too late");
    }
    const std::string text = contents("trace_shared.json");
    int bars[3] = {};
    for (const json::value& e : events(text, "X")) {
        ++bars[int(number(e, "pid"))];
        CHECK(number(e, "ts") >= 0); // by one clock
        CHECK(number(e, "ts") < 60e6);
    }
    for (const int n : bars) CHECK(n == 200);
    CHECK(events(text, "M").size() == 15);
    CHECK(events(text, "i").empty());
    CHECK_THROWS_WITH(trace("no_such_trace.json", 1, 0.0),
                      doctest::Contains("no_such_trace.json: cannot be written"));
}

TEST_CASE("time is in microseconds of a clock that does not go back") {
    {
        trace t("trace_time.json");
        range r(&t, lane::host, "sleep");
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
    }
    const auto bars = events(contents("trace_time.json"), "X");
    REQUIRE(bars.size() == 1);
    CHECK(number(bars[0], "dur") >= 20000);
    CHECK(number(bars[0], "dur") < 5e6);
}

TEST_CASE("a trace that is off takes every call") {
    range r(nullptr, lane::compute, "nothing");
    trace_instant(nullptr, lane::host, "nothing");
    trace_counter(nullptr, "nothing", 1);
}

TEST_CASE("the file of a killed program is whole up to its last event") {
    const pid_t child = fork();
    if (child == 0) {
        trace t("trace_killed.json");
        for (int i = 0;; ++i) {
            range r(&t, lane::compute, "step");
            t.counter("i", i);
            if (i == 100) raise(SIGKILL);
        }
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    REQUIRE(WIFSIGNALED(status));
    const std::string text = contents("trace_killed.json");
    CHECK(events(text + "]", "C").size() == 101);
    CHECK(events(text + "]", "X").size() == 100);
    CHECK_THROWS_AS(json::parse(text), error); // sabotage: only the bracket is missing
}

TEST_CASE("events of several threads do not mix") {
    {
        trace t("trace_threads.json");
        std::vector<std::thread> threads;
        for (int n = 0; n < 4; ++n)
            threads.emplace_back([&t, n] {
                for (int i = 0; i < 200; ++i) range r(&t, lane(n), "a name of some length");
            });
        for (std::thread& th : threads) th.join();
    }
    CHECK(events(contents("trace_threads.json"), "X").size() == 800);
}

TEST_CASE("a file that cannot be written is refused in one line") {
    for (const char* path : {"no_such_folder/trace.json", "/", ""}) {
        std::string line;
        try {
            trace t(path);
        } catch (const error& e) {
            line = e.what();
        }
        CHECK(line.find(std::string("trace ") + path + ": cannot be written (") == 0);
        CHECK(line.find('\n') == std::string::npos);
    }
}

TEST_CASE("a full disk ends the trace between two events, not the run") {
    const pid_t child = fork();
    if (child == 0) {
        signal(SIGXFSZ, SIG_IGN); // a write past the limit is then EFBIG
        const rlimit limit{2000, 2000};
        setrlimit(RLIMIT_FSIZE, &limit);
        bool ended = false;
        {
            trace t("trace_full.json");
            for (int i = 0; i < 100; ++i) t.instant(lane::host, "an event");
            ended = !t.ok();
        }
        _exit(ended ? 0 : 1);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(status == 0);
    const std::string text = contents("trace_full.json");
    CHECK(text.size() <= 2000);
    CHECK(events(text + "]", "i").size() >= 10);
}
