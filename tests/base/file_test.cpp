// SPDX-License-Identifier: MIT
#include "mpt/base/file.hpp" // input_file, output_file

#include <doctest/doctest.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

using namespace mpt;
namespace fs = std::filesystem;

static std::string contents(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}
static void put(const std::string& path, const std::string& text) {
    output_file f("note", path);
    f.write(text);
    f.commit();
}
template <class F>
static std::string refusal(F f) {
    try {
        f();
    } catch (const error& e) {
        return e.what();
    }
    return "accepted";
}
// Exit status of a child that runs f.
template <class F>
static int in_child(F f) {
    const pid_t child = fork();
    if (child == 0) _exit(f());
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

TEST_CASE("a file has its old bytes until commit, then the new ones") {
    put("a.txt", "old");
    {
        output_file f("note", "a.txt");
        f.write("new");
        f.write(" bytes");
        CHECK(contents("a.txt") == "old");
        f.commit();
        CHECK(contents("a.txt") == "new bytes");
    }
    CHECK(contents("a.txt") == "new bytes");
    CHECK_FALSE(fs::exists("a.txt.tmp"));
}

TEST_CASE("without commit nothing is left") {
    put("b.txt", "old");
    { output_file("note", "b.txt").write("half"); }
    CHECK(contents("b.txt") == "old");
    CHECK_FALSE(fs::exists("b.txt.tmp"));
}

TEST_CASE("a kill between any two writes leaves the old file") {
    put("c.txt", "old");
    for (int stop = 0; stop <= 3; ++stop) {
        CHECK(in_child([&] {
                  output_file f("note", "c.txt");
                  for (int i = 0; i < stop; ++i) f.write("part");
                  raise(SIGKILL);
                  return 0;
              }) == 128 + SIGKILL);
        CHECK(contents("c.txt") == "old");
    }
    CHECK(fs::exists("c.txt.tmp")); // what the kill left is in nobody's way
    put("c.txt", "new");
    CHECK(contents("c.txt") == "new");
    CHECK_FALSE(fs::exists("c.txt.tmp"));
}

TEST_CASE("a write that fails at any byte leaves the old file, and says so in one line") {
    put("d.txt", "old");
    const std::string text(300, 'x');
    for (std::size_t room = 0; room <= text.size(); ++room) {
        const int status = in_child([&] {
            std::signal(SIGXFSZ, SIG_IGN); // a write past the limit is short, then EFBIG
            const rlimit limit{room, room};
            setrlimit(RLIMIT_FSIZE, &limit);
            const std::string said = refusal([&] { put("d.txt", text); });
            if (said == "accepted") return 1;
            const std::string want = join("note d.txt: cannot be written past byte ", room, " (");
            return said.find(want) == 0 && said.find('\n') == said.npos ? 2 : 3;
        });
        CHECK(status == (room < text.size() ? 2 : 1)); // with room for all it is written
        CHECK(contents("d.txt") == (room < text.size() ? "old" : text));
        CHECK_FALSE(fs::exists("d.txt.tmp"));
    }
}

TEST_CASE("folders that are missing, are files, or cannot be written are refused in one line") {
    put("file", "x");
    for (const std::string path : {"no_such_folder/e.txt", "file/e.txt", "/proc/e.txt", ""}) {
        const std::string said = refusal([&] { put(path, "x"); });
        CHECK_MESSAGE(said.find("note " + path + ": cannot ") == 0, said);
        CHECK(said.find("choose a folder that exists and can be written") != said.npos);
        CHECK(said.find('\n') == said.npos);
    }
    fs::create_directories("folder/inner");
    CHECK(refusal([] { put("folder", "x"); }) ==
          "note folder: is a folder, wanted a file or a free name; choose another");
    CHECK_FALSE(fs::exists("folder.tmp"));
    REQUIRE((fs::exists("pipe") || mkfifo("pipe", 0666) == 0)); // a device as well, e.g. /dev/null
    CHECK(refusal([] { put("pipe", "x"); }) ==
          "note pipe: is no regular file, wanted a file or a free name; choose another");
    CHECK(fs::is_fifo("pipe"));
    CHECK_FALSE(fs::exists("pipe.tmp"));

    fs::create_directories("closed");
    put("closed/f.txt", "old");
    fs::permissions("closed", fs::perms::owner_read | fs::perms::owner_exec |
                                  fs::perms::others_read | fs::perms::others_exec);
    const int status = in_child([] {
        if (getuid() == 0 && setuid(65534) != 0) return 0; // root may write anywhere: be nobody
        const std::string said = refusal([] { put("closed/f.txt", "new"); });
        return said.find("note closed/f.txt: cannot be written (Permission denied)") == 0 ? 2 : 3;
    });
    CHECK(status == 2);
    CHECK(contents("closed/f.txt") == "old");
    fs::permissions("closed", fs::perms::owner_all);
}

TEST_CASE("parts of a file are read; what is missing is named") {
    put("g.txt", "0123456789");
    const input_file f("note", "g.txt");
    CHECK(f.size() == 10);
    CHECK(f.name() == "note g.txt");
    std::string part(4, '?');
    f.read(3, std::as_writable_bytes(std::span(part)));
    CHECK(part == "3456");
    f.read(10, {});
    CHECK(refusal([&] { f.read(8, std::as_writable_bytes(std::span(part))); }) ==
          "note g.txt: ends at byte 10, wanted 2 bytes more; it was cut short, get it anew");
    CHECK(refusal([] { input_file("note", "nothing"); }) ==
          "note nothing: cannot be opened (No such file or directory); "
          "give a file that exists and can be read");
    CHECK(refusal([] { input_file("note", "."); }).find("is a folder, wanted a file") !=
          std::string::npos);
    CHECK(refusal([] { input_file("note", "/dev/null"); }).find("is no regular file") !=
          std::string::npos);
}

TEST_CASE("sabotage: writing in place loses the old file where the write fails") {
    put("h.txt", "old");
    const int status = in_child([] {
        std::signal(SIGXFSZ, SIG_IGN);
        const rlimit limit{2, 2};
        setrlimit(RLIMIT_FSIZE, &limit);
        std::ofstream("h.txt", std::ios::trunc) << "new";
        return 0;
    });
    CHECK(status == 0);
    CHECK(contents("h.txt") != "old");
}
