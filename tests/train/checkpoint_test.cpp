// SPDX-License-Identifier: MIT
#include "mpt/base/json_write.hpp"     // number
#include "mpt/numeric/fp16.hpp"        // fp16
#include "mpt/train/checkpoint.hpp"    // save_checkpoint, newest_checkpoint
#include "mpt/train/saved_tensors.hpp" // add_tensors, tensor_reads, scalar

#include <doctest/doctest.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <sys/wait.h>
#include <unistd.h>

using namespace mpt;
namespace fs = std::filesystem;

// Two tensors, and a gap of padding between them.
static std::vector<named_tensor> tensors(std::size_t channels) {
    return {{"wte.weight", {5, channels}, 0, 5 * channels},
            {"ln.bias", {channels}, 5 * channels + 3, channels},
            {"empty", {0}, 0, 0}};
}
struct run {
    std::vector<fp16> weights;
    std::vector<float> master, m, v;
    explicit run(std::size_t n, float first = 0) : weights(n), master(n), m(n), v(n) {
        for (std::size_t i = 0; i < n; ++i) {
            master[i] = first + float(i) / 3;
            weights[i] = fp16(master[i]);
            m[i] = -first - float(i) / 7;
            v[i] = first + float(i) * 1e-30f;
        }
    }
    std::vector<checkpoint_file> files(const std::vector<named_tensor>& list) const {
        std::vector<checkpoint_file> out{{"weights", {}}, {"master", {}}, {"moments", {}}};
        add_tensors(out[0].tensors, list, "", std::span(weights));
        add_tensors(out[1].tensors, list, "", std::span(master));
        add_tensors(out[2].tensors, list, "adam.m.", std::span(m));
        add_tensors(out[2].tensors, list, "adam.v.", std::span(v));
        return out;
    }
    // As a program loads: all is asked for before any of it is read.
    void load(const checkpoint& c, const std::vector<named_tensor>& list,
              const safetensors::metadata& options = {}) {
        const safetensors::reader w(c.path("weights"), "checkpoint"),
            f(c.path("master"), "checkpoint"), a(c.path("moments"), "checkpoint");
        const std::string how = advice(c.list.state, options);
        tensor_reads rw(w, how), rf(f, how), ra(a, how);
        rw.want(list, "", std::span(weights));
        rf.want(list, "", std::span(master));
        ra.want(list, "adam.m.", std::span(m));
        ra.want(list, "adam.v.", std::span(v));
        for (const tensor_reads* r : {&rw, &rf, &ra}) r->nothing_else();
        for (const tensor_reads* r : {&rw, &rf, &ra}) r->read();
    }
};
template <class T>
static bool same(const std::vector<T>& a, const std::vector<T>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
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
static bool has(const std::string& text, const std::string& part) {
    return text.find(part) != text.npos;
}
static std::string contents(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}
static void put(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary | std::ios::trunc) << bytes;
}
static std::string newest(const std::string& dir) {
    return refusal([&] { newest_checkpoint(dir); });
}
// A fresh folder with checkpoints of steps 10 and 20.
static std::string two(const std::string& dir, std::size_t n = 27) {
    fs::remove_all(dir);
    save_checkpoint(dir, 10, run(n, 1).files(tensors(4)), {{"step", "10"}, {"channels", "4"}});
    save_checkpoint(dir, 20, run(n, 2).files(tensors(4)), {{"step", "20"}, {"channels", "4"}});
    return dir;
}

TEST_CASE("saved and loaded: every bit of every buffer, padding left alone, state exact") {
    fs::remove_all("ck");
    run a(5 * 4 + 3 + 4);
    a.master[1] = std::bit_cast<float>(0x7fc12345u); // a NaN keeps its payload
    a.m[2] = -0.0f;
    const float scale = 0.1f;
    const safetensors::metadata state{
        {"steps", "12345678901"}, {"loss_scale", json::number(scale)}, {"data", "a \"name\"\n"}};
    CHECK(save_checkpoint("ck", 12, a.files(tensors(4)), state) == "ck/step-00000012");

    run b(a.master.size(), 99);
    const run untouched = b;
    const checkpoint c = newest_checkpoint("ck");
    CHECK(c.list.state == state);
    CHECK(c.list.step == 12);
    b.load(c, tensors(4));
    CHECK(scalar<long>(c.list.state, "steps") == 12345678901);
    CHECK(scalar<float>(c.list.state, "loss_scale") == scale);
    for (std::size_t i = 20; i < 23; ++i) {
        CHECK(b.master[i] == untouched.master[i]); // the gap
        b.master[i] = a.master[i], b.m[i] = a.m[i], b.v[i] = a.v[i], b.weights[i] = a.weights[i];
    }
    CHECK(same(a.weights, b.weights));
    CHECK(same(a.master, b.master));
    CHECK(same(a.m, b.m));
    CHECK(same(a.v, b.v));
    b.v[3] = std::nextafter(b.v[3], 1.0f); // sabotage: one bit is seen
    CHECK_FALSE(same(a.v, b.v));

    const safetensors::reader file(c.path("weights")); // what other tools see
    CHECK(file.find("wte.weight")->shape == safetensors::shape{5, 4});
    CHECK(file.find("wte.weight")->dtype == "F16");
    CHECK(contents("ck/latest") == "step-00000012 " + hex8(c.list.crc) + "\n");
}

TEST_CASE("the two newest stay, a second of the same step is newer, later steps give way") {
    two("keep");
    CHECK(checkpoints_in("keep") == std::vector<std::string>{"step-00000020", "step-00000010"});
    save_checkpoint("keep", 30, run(27).files(tensors(4)), {});
    CHECK(checkpoints_in("keep") == std::vector<std::string>{"step-00000030", "step-00000020"});
    save_checkpoint("keep", 30, run(27, 5).files(tensors(4)), {{"second", "yes"}});
    CHECK(checkpoints_in("keep") == std::vector<std::string>{"step-00000030-2", "step-00000030"});
    CHECK(newest_checkpoint("keep").list.state.count("second") == 1);
    // a run that went back to step 10 leaves the future it came from
    save_checkpoint("keep", 12, run(27, 6).files(tensors(4)), {}, 1);
    CHECK(checkpoints_in("keep") == std::vector<std::string>{"step-00000012"});
    CHECK(newest("keep") == "accepted");
    save_checkpoint("keep", 1'000'000'000, run(27).files(tensors(4)), {}); // nine digits
    CHECK(checkpoints_in("keep") == std::vector<std::string>{"step-1000000000", "step-00000012"});
    for (const char* no :
         {"step-", "step-1x", "step-1-", "step--1", "step-00000010.tmp", "latest"}) {
        std::pair<std::uint64_t, std::uint64_t> n;
        CHECK_FALSE(step_of(no, n));
    }
}

TEST_CASE("what is none of its own stays: folders that a link leads to, folders of other names") {
    for (const char* dir : {"links", "theirs"}) fs::remove_all(dir);
    save_checkpoint("theirs", 5, run(27).files(tensors(4)), {});
    fs::create_directories("links/mine.tmp");
    put("links/mine.tmp/notes", "x");
    fs::create_symlink("../theirs/step-00000005", "links/step-00000005");
    fs::create_symlink("../theirs/step-00000005", "links/step-00000007.tmp");
    CHECK(newest_checkpoint("links").list.step == 5);
    save_checkpoint("links", 6, run(27).files(tensors(4)), {}, 1);
    CHECK(checkpoints_in("links") == std::vector<std::string>{"step-00000006"});
    CHECK_FALSE(fs::is_symlink("links/step-00000007.tmp"));
    CHECK(newest("theirs") == "accepted");
    CHECK(contents("links/mine.tmp/notes") == "x");
}

TEST_CASE("names that a reader would refuse are refused before anything is written") {
    for (const char* no : {"", ".w", "a/b", "a b", "weights"}) { // the last is there twice
        std::vector<checkpoint_file> files{{"weights", {}}, {no, {}}};
        CHECK(has(refusal([&] { save_checkpoint("names", 1, files, {}); }),
                  join("checkpoint names: a file called ", json::quote(no), "; wanted letters")));
        CHECK_FALSE(fs::exists("names"));
    }
}

TEST_CASE("momentum alone is saved and loaded, and is not taken for Adam's two") {
    fs::remove_all("momentum");
    const run a(27, 1);
    std::vector<checkpoint_file> files{{"moments", {}}};
    add_tensors(files[0].tensors, tensors(4), "m.", std::span(a.m));
    save_checkpoint("momentum", 1, std::move(files), {});
    run b(27, 50);
    const safetensors::reader file(newest_checkpoint("momentum").path("moments"), "checkpoint");
    tensor_reads one(file, "end"), both(file, "end");
    one.want(tensors(4), "m.", std::span(b.m));
    one.nothing_else();
    one.read();
    CHECK(b.m[4] == a.m[4]);
    CHECK(b.v[4] != a.v[4]);
    both.want(tensors(4), "m.", std::span(b.m));
    CHECK(has(refusal([&] { both.want(tensors(4), "v.", std::span(b.v)); }),
              "has no v.wte.weight, this run wants it with shape (5,4); end"));
}

TEST_CASE("a checkpoint of another shape is refused before anything is read") {
    two("shape");
    const checkpoint c = newest_checkpoint("shape");
    run b(5 * 6 + 3 + 6, 7);
    const run before = b;
    const auto load = [&](const std::vector<named_tensor>& list) {
        return refusal([&] { b.load(c, list, {{"channels", "6"}, {"step", "20"}}); });
    };
    CHECK(load(tensors(6)) == "checkpoint shape/step-00000020/weights.safetensors: wte.weight has "
                              "shape (5,4), this run wants (5,6); pass --channels 4 or another "
                              "--out");
    std::vector<named_tensor> list = tensors(4);
    list[1].name = "ln_f.bias";
    CHECK(has(load(list), "has no ln_f.bias, this run wants it with shape (4)"));
    list = tensors(4);
    list.erase(list.begin() + 1);
    CHECK(has(load(list), "has ln.bias with shape (4), this run has no such tensor"));
    list = tensors(4);
    list[0].shape = {4, 5}; // as many elements
    CHECK(has(load(list), "wte.weight has shape (5,4), this run wants (4,5)"));
    CHECK(same(b.master, before.master));
    CHECK(same(b.m, before.m));
    CHECK(load(tensors(4)) == "accepted");

    std::vector<float> wide(27); // of another type
    const safetensors::reader file(c.path("weights"), "checkpoint");
    tensor_reads reads(file, "end");
    CHECK(has(refusal([&] { reads.want(tensors(4), "", std::span(wide)); }),
              "wte.weight has type F16, this run wants F32; end"));
    CHECK_THROWS_AS(run(26).files(tensors(4)), error); // a buffer that the list does not fit
}

TEST_CASE("what is damaged is named, with found and expected, and the newest that is whole") {
    const std::string whole = "; the newest checkpoint that is whole is bad/step-00000010";
    const std::string of20 = "checkpoint bad/step-00000020/";
    two("bad");
    const std::string master = contents("bad/step-00000020/master.safetensors");
    fs::resize_file("bad/step-00000020/master.safetensors", 100); // cut short
    CHECK(newest("bad") == of20 + "master.safetensors: has 100 bytes, its manifest says " +
                               std::to_string(master.size()) + "; it was cut short or exchanged" +
                               whole);
    std::string changed = master; // one byte changed
    changed[changed.size() - 5] ^= 1;
    put("bad/step-00000020/master.safetensors", changed);
    CHECK(has(newest("bad"), of20 + "master.safetensors: its CRC-32C is "));
    CHECK(has(newest("bad"), "; its bytes were changed" + whole));
    fs::remove("bad/step-00000020/master.safetensors"); // missing
    CHECK(has(newest("bad"), of20 + "master.safetensors: cannot be opened (No such file"));
    CHECK(has(newest("bad"), whole));
    fs::remove("bad/step-00000020/manifest.json");
    CHECK(has(newest("bad"), of20 + "manifest.json: cannot be opened"));
    CHECK(has(newest("bad"), whole));
    fs::remove_all("bad/step-00000020"); // the whole folder
    CHECK(newest("bad") == "checkpoint bad/latest: names \"step-00000020\", which is not in this "
                           "folder; it was removed, or a byte was changed" +
                               whole);
    fs::remove("bad/latest"); // by hand: then the newest is what is there
    CHECK(newest("bad") == "accepted");

    two("bad"); // of a newer version
    const std::string body = R"({"format":"mpt checkpoint","version":2)";
    put("bad/step-00000020/manifest.json",
        body + manifest_tail(crc32c(std::as_bytes(std::span(body)))));
    CHECK(newest("bad") == of20 +
                               "manifest.json: is of version 2, this program reads up to 1; "
                               "use the newer program that wrote it" +
                               whole);

    two("bad"); // exchanged for another whole one
    fs::remove_all("bad/step-00000020");
    fs::copy("bad/step-00000010", "bad/step-00000020");
    CHECK(has(newest("bad"), "checkpoint bad/latest: holds \"step-00000020 "));
    CHECK(has(newest("bad"), whole));
    fs::remove("bad/latest"); // and nobody knows which one it was: the name alone is not believed
    CHECK(newest("bad") == of20 +
                               "manifest.json: is of step 10, its folder is called step-00000020; "
                               "it was renamed or exchanged" +
                               whole);
    put("bad/step-00000010/weights.safetensors", "");
    put("bad/step-00000020/weights.safetensors", "");
    CHECK(has(newest("bad"), "; no checkpoint in bad is whole"));
    CHECK(newest("no_such_folder") == "checkpoint no_such_folder: none is there; wanted a folder "
                                      "with step-N in it");
}

// Any byte of any file, changed to any other value.
TEST_CASE("a crash after the newest one's name: the pointer and the older ones are put in order") {
    two("half");
    const std::string pointer = contents("half/latest");
    const checkpoint older = open_checkpoint("half/step-00000010");
    put("half/latest", "step-00000010 " + hex8(older.list.crc) + "\n");
    fs::copy("half/step-00000010", "half/step-00000003");
    const checkpoint newest = newest_checkpoint("half");
    CHECK(newest.folder == "half/step-00000020");
    CHECK(contents("half/latest") != pointer); // reading alone changes nothing
    finish_checkpoint("half", newest);
    CHECK(contents("half/latest") == pointer);
    CHECK(checkpoints_in("half") ==
          std::vector<std::string>{"step-00000020", "step-00000010"});
    fs::remove("half/latest"); // a crash during the very first save
    finish_checkpoint("half", newest);
    CHECK(contents("half/latest") == pointer);
    const auto written = fs::last_write_time("half/latest");
    finish_checkpoint("half", newest); // nothing is missing: nothing is written
    CHECK(fs::last_write_time("half/latest") == written);
}

TEST_CASE("flipped bytes: every one is detected") {
    two("flip");
    std::vector<std::string> files{"flip/latest"};
    for (const auto& entry : fs::directory_iterator("flip/step-00000020"))
        files.push_back(entry.path().string());
    REQUIRE(files.size() == 5);
    std::uint64_t bytes = 0;
    for (const std::string& f : files) bytes += fs::file_size(f);
    std::uint64_t x = 1;
    int seen = 0;
    const int tries = 10000;
    for (int i = 0; i < tries; ++i) {
        x = x * 6364136223846793005 + 1442695040888963407;
        std::uint64_t at = (x >> 33) % bytes;
        std::size_t f = 0;
        while (at >= fs::file_size(files[f])) at -= fs::file_size(files[f++]);
        std::fstream file(files[f], std::ios::in | std::ios::out | std::ios::binary);
        file.seekg(std::streamoff(at));
        const char was = char(file.get());
        const auto write = [&](char c) { file.seekp(std::streamoff(at)).put(c).flush(); };
        write(char(was ^ (1 + (x >> 20) % 255)));
        const std::string said = newest("flip");
        seen +=
            said != "accepted" && has(said, "; the newest checkpoint that is whole is flip/step-");
        write(was);
    }
    CHECK(seen == tries);
    CHECK(newest("flip") == "accepted"); // so it was the flips that were seen
    MESSAGE(seen, " of ", tries, " flipped bytes detected");
}

TEST_CASE("folders: a file, without the right to write; state: missing, no number") {
    put("a_file", "x");
    const run a(27);
    for (const std::string dir : {"a_file/ck", "/proc/ck", "a_file"}) {
        const std::string said = refusal([&] { save_checkpoint(dir, 1, a.files(tensors(4)), {}); });
        CHECK_MESSAGE(said.find("checkpoint " + dir) == 0, said);
        CHECK(has(said, "choose a folder that exists and can be written; no checkpoint in "));
        CHECK_FALSE(has(said, "\n"));
    }
    fs::create_directories("closed/ck");
    fs::permissions("closed/ck", fs::perms::owner_read | fs::perms::owner_exec |
                                     fs::perms::others_read | fs::perms::others_exec);
    const pid_t child = fork();
    if (child == 0) { // root may write anywhere: be nobody
        if (getuid() == 0 && setuid(65534) != 0) _exit(2);
        const std::string said =
            refusal([&] { save_checkpoint("closed/ck", 1, a.files(tensors(4)), {}); });
        if (has(said, "closed/ck/step-00000001.tmp: cannot be made (Permission denied)")) _exit(2);
        fprintf(stderr, "%s\n", said.c_str());
        _exit(3);
    }
    int status = 0;
    REQUIRE(waitpid(child, &status, 0) == child);
    CHECK(WEXITSTATUS(status) == 2);
    fs::permissions("closed/ck", fs::perms::owner_all);

    CHECK(has(refusal([&] { scalar<int>({{"x", "1"}}, "y"); }), "has no \"y\""));
    for (const char* bad : {"", "one", "1.5", "1 ", "99999999999"})
        CHECK(refusal([&] { scalar<int>({{"x", bad}}, "x"); }) != "accepted");
    CHECK_THROWS_AS(save_checkpoint("keep", 1, {}, {}, 0), error);
}
