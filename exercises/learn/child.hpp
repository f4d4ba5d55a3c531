// SPDX-License-Identifier: MIT
// child.hpp -- a grader's part in a process of its own: limits, a clock, and a private pipe.
//
// The verdict comes through a pipe whose number and nonce only the grader's main() was told. What
// the answer prints, or an exit of its own, earns nothing: without a line with the nonce the part
// is lost.
#pragma once
#include "mpt/base/error.hpp" // check, join
#include "mpt/base/json.hpp"  // parse

#include <chrono>
#include <csignal>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

struct verdict {
    std::string status; // right, wrong, todo, error, crash, timeout
    std::string what, where, found, expected, tolerance, why;
    std::string printed; // the end of what the answer wrote
    double seconds = 0, cpu_seconds = 0; // that passed; that it computed
    bool right() const { return status == "right"; }
};

struct limits {
    double seconds = 10; // of wall clock
    int megabytes = 2048;
};

namespace children {

inline std::string fresh_nonce() {
    std::random_device device;
    std::string nonce;
    for (int i = 0; i < 4; ++i) nonce += mpt::join(std::hex, device(), '-');
    return nonce;
}

struct result {
    int status = 0; // of waitpid
    bool late = false;
    std::string said, printed; // through the pipe; on stdout and stderr
    double seconds = 0, cpu_seconds = 0;
};

/// `arguments` with "--fd N" appended; all that it started ends with it.
inline result run(std::vector<std::string> arguments, const limits& most) {
    int line[2], out[2];
    mpt::check(pipe(line) == 0 && pipe(out) == 0, "learn: no pipe (", std::strerror(errno), ")");
    for (const int end : {line[0], out[0]}) fcntl(end, F_SETFD, FD_CLOEXEC);
    arguments.push_back("--fd");
    arguments.push_back(std::to_string(line[1]));
    std::vector<char*> argv;
    for (std::string& a : arguments) argv.push_back(a.data());
    argv.push_back(nullptr);
    const std::string wait = std::to_string(most.seconds / 2);

    const auto began = std::chrono::steady_clock::now();
    const pid_t child = fork();
    mpt::check(child >= 0, "learn: no process (", std::strerror(errno), ")");
    if (child == 0) {
        setpgid(0, 0);
        const rlim_t bytes = rlim_t(most.megabytes) << 20;
        const rlimit memory{bytes, bytes}, core{0, 0};
        setrlimit(RLIMIT_AS, &memory);
        setrlimit(RLIMIT_CORE, &core);
        // Ranks that hang say which, before the clock does. What was freed holds rubbish (glibc):
        // an answer that goes on reading it is wrong here, not on the next machine.
        setenv("MPT_TIMEOUT_S", wait.c_str(), 1);
        setenv("GLIBC_TUNABLES", "glibc.malloc.perturb=165:glibc.malloc.tcache_count=0", 1);
        const int nothing = open("/dev/null", O_RDONLY);
        dup2(nothing, 0);
        dup2(out[1], 1);
        dup2(out[1], 2);
        close(out[1]);
        execv(argv[0], argv.data());
        _exit(127);
    }
    setpgid(child, child);
    close(line[1]);
    close(out[1]);
    result r;
    pollfd ends[2] = {{line[0], POLLIN, 0}, {out[0], POLLIN, 0}};
    std::string* texts[2] = {&r.said, &r.printed};
    for (int open = 2; open > 0;) {
        const std::chrono::duration<double> past = std::chrono::steady_clock::now() - began;
        const double left = most.seconds - past.count();
        if (left <= 0) {
            r.late = true;
            break;
        }
        if (poll(ends, 2, int(left * 1000) + 1) < 0 && errno != EINTR) break;
        for (int i = 0; i < 2; ++i) {
            if (!(ends[i].revents & (POLLIN | POLLHUP))) continue;
            char room[4096];
            const ssize_t n = read(ends[i].fd, room, sizeof room);
            if (n > 0) {
                texts[i]->append(room, std::size_t(n));
                if (texts[i]->size() > 65536) texts[i]->erase(0, texts[i]->size() - 65536);
            } else {
                ends[i].fd = -1; // poll leaves it out
                --open;
            }
        }
    }
    kill(-child, SIGKILL);
    rusage used{};
    wait4(child, &r.status, 0, &used);
    const auto of = [](const timeval& t) { return double(t.tv_sec) + 1e-6 * double(t.tv_usec); };
    r.cpu_seconds = of(used.ru_utime) + of(used.ru_stime);
    close(line[0]);
    close(out[0]);
    const std::chrono::duration<double> took = std::chrono::steady_clock::now() - began;
    r.seconds = took.count();
    return r;
}

} // namespace children

/// Part `number` of the grader `program`.
inline verdict run_part(const std::string& program, int number, const std::string& seed,
                        const std::map<std::string, long>& parameters, const limits& most) {
    const std::string nonce = children::fresh_nonce();
    std::vector<std::string> arguments{program,  "--part", std::to_string(number), "--nonce", nonce,
                                       "--seed", seed};
    for (const auto& [name, value] : parameters) {
        arguments.push_back("--parameter");
        arguments.push_back(mpt::join(name, '=', value));
    }
    const children::result r = children::run(arguments, most);
    verdict v;
    v.seconds = r.seconds, v.cpu_seconds = r.cpu_seconds;
    v.printed = r.printed;
    const std::size_t end = r.said.find('\n');
    if (end != std::string::npos && end + 1 == r.said.size()) {
        try {
            const mpt::json::value said = mpt::json::parse(r.said.substr(0, end), "verdict");
            const auto word = [&](const char* key) {
                const auto* x = said.find(key);
                return x ? x->text : std::string();
            };
            if (word("nonce") == nonce) {
                v.status = word("status");
                v.what = word("what"), v.where = word("where");
                v.found = word("found"), v.expected = word("expected");
                v.tolerance = word("tolerance"), v.why = word("why");
            }
        } catch (const std::exception&) { // half a line: a crash
        }
    }
    if (!v.status.empty() && !r.late) return v;
    v = {};
    v.seconds = r.seconds, v.cpu_seconds = r.cpu_seconds;
    v.printed = r.printed;
    v.status = r.late ? "timeout" : "crash";
    if (r.late)
        v.what = mpt::join("no answer within ", most.seconds,
                           " s: a loop that does not end, or ranks that wait for each other");
    else if (WIFSIGNALED(r.status))
        v.what = mpt::join("the program ended by signal ", WTERMSIG(r.status), " (",
                           strsignal(WTERMSIG(r.status)), ")");
    else
        v.what = mpt::join("the program ended with status ", WEXITSTATUS(r.status),
                           " before its grader was done");
    return v;
}

struct part_info {
    int points;
    std::string name;
};

inline std::vector<part_info> parts_of(const std::string& program) {
    int out[2];
    mpt::check(pipe(out) == 0, "learn: no pipe (", std::strerror(errno), ")");
    const pid_t child = fork();
    if (child == 0) {
        dup2(out[1], 1);
        execl(program.c_str(), program.c_str(), "--list", static_cast<char*>(nullptr));
        _exit(127);
    }
    close(out[1]);
    std::string text;
    char room[4096];
    for (ssize_t n; (n = read(out[0], room, sizeof room)) > 0;) text.append(room, std::size_t(n));
    close(out[0]);
    waitpid(child, nullptr, 0);
    std::vector<part_info> parts;
    for (std::size_t at = 0, end; (end = text.find('\n', at)) != std::string::npos; at = end + 1) {
        const std::string row = text.substr(at, end - at);
        const std::size_t space = row.find(' ');
        parts.push_back({std::atoi(row.c_str()), row.substr(space + 1)});
    }
    mpt::check(!parts.empty(), "learn: ", program, " lists no parts; build it anew");
    return parts;
}
