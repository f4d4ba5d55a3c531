// SPDX-License-Identifier: MIT
#include "mpt/base/json_write.hpp"  // number
#include "mpt/train/checkpoint.hpp" // save_checkpoint, load_checkpoint, scalar

#include <doctest/doctest.h>

#include <bit>
#include <csignal>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <vector>

#include <sys/resource.h>
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
    std::vector<float> master, m, v;
    explicit run(std::size_t n, float first = 0) : master(n), m(n), v(n) {
        for (std::size_t i = 0; i < n; ++i) {
            master[i] = first + float(i) / 3;
            m[i] = -first - float(i) / 7;
            v[i] = first + float(i) * 1e-30f;
        }
    }
    run_state<float> state() { return {master, m, v}; }
    run_state<const float> state() const { return {master, m, v}; }
};
static bool same(const std::vector<float>& a, const std::vector<float>& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
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

TEST_CASE("saved and loaded: every bit of every buffer, padding left alone, scalars exact") {
    fs::create_directories("ck");
    run a(5 * 4 + 3 + 4);
    a.master[1] = std::bit_cast<float>(0x7fc12345u); // a NaN keeps its payload
    a.m[2] = -0.0f;
    const float scale = 0.1f;
    const safetensors::metadata scalars{
        {"steps", "12345678901"}, {"loss_scale", json::number(scale)}, {"data", "a \"name\"\n"}};
    save_checkpoint("ck", tensors(4), std::as_const(a).state(), scalars);

    run b(a.master.size(), 99);
    const run untouched = b;
    CHECK(load_checkpoint("ck", tensors(4), b.state()) == scalars);
    CHECK(checkpoint_scalars("ck") == scalars);
    CHECK(scalar<long>(scalars, "steps") == 12345678901);
    CHECK(scalar<float>(scalars, "loss_scale") == scale);
    for (std::size_t i = 20; i < 23; ++i) CHECK(b.master[i] == untouched.master[i]); // the gap
    for (std::size_t i = 20; i < 23; ++i)
        b.master[i] = a.master[i], b.m[i] = a.m[i], b.v[i] = a.v[i];
    CHECK(same(a.master, b.master));
    CHECK(same(a.m, b.m));
    CHECK(same(a.v, b.v));
    b.v[3] = std::nextafter(b.v[3], 1.0f); // sabotage: one bit is seen
    CHECK_FALSE(same(a.v, b.v));

    const safetensors::reader file("ck/checkpoint.safetensors"); // what other tools see
    CHECK(file.tensors().size() == 9);
    CHECK(file.find("wte.weight")->shape == safetensors::shape{5, 4});
    CHECK(file.find("adam.v.ln.bias")->dtype == "F32");
}

TEST_CASE("a program that only runs the model reads the weights alone") {
    fs::create_directories("ck");
    const run a(27, 1);
    save_checkpoint("ck", tensors(4), a.state(), {});
    run b(27, 50);
    const run before = b;
    load_checkpoint("ck", tensors(4), {b.master, {}, {}});
    CHECK(b.master[4] == a.master[4]);
    CHECK(same(b.m, before.m));
    save_checkpoint("ck", tensors(4), {a.master, {}, {}}, {}); // of an optimizer without moments
    load_checkpoint("ck", tensors(4), {b.master, {}, {}});
    CHECK(refusal([&] { load_checkpoint("ck", tensors(4), b.state()); }) ==
          "checkpoint ck/checkpoint.safetensors: has no adam.m.wte.weight, this run wants it with "
          "shape (5,4); resume with the options it was saved with or another --out");
}

TEST_CASE("momentum alone is saved as sgd.m., and is no Adam's") {
    fs::create_directories("ck");
    run a(27, 1), b(27, 50);
    save_checkpoint("ck", tensors(4), {a.master, a.m, {}}, {});
    load_checkpoint("ck", tensors(4), {b.master, b.m, {}});
    CHECK(b.m[4] == a.m[4]);
    CHECK(b.v[4] != a.v[4]);
    load_checkpoint("ck", tensors(4), {b.master, {}, {}}); // the model alone
    CHECK(refusal([&] {
              load_checkpoint("ck", tensors(4), b.state());
          }).find("has no adam.m.wte.weight") != std::string::npos);
    save_checkpoint("ck", tensors(4), std::as_const(a).state(), {});
    CHECK(refusal([&] {
              load_checkpoint("ck", tensors(4), {b.master, b.m, {}});
          }).find("has no sgd.m.wte.weight") != std::string::npos);
    CHECK(refusal([&] {
              save_checkpoint("ck", tensors(4), {a.master, {}, a.v}, {});
          }).find("moments v of 27 elements without m; pass both") != std::string::npos);
}

TEST_CASE("a checkpoint of another shape is refused before anything is read") {
    fs::create_directories("ck");
    const run a(5 * 4 + 3 + 4);
    save_checkpoint("ck", tensors(4), a.state(), {{"channels", "4"}, {"heads", "2"}, {"lr", "1"}});
    run b(5 * 6 + 3 + 6, 7);
    const run before = b;
    const safetensors::metadata options{{"channels", "6"}, {"heads", "2"}};
    const auto load = [&](const std::vector<named_tensor>& list) {
        return refusal([&] { load_checkpoint("ck", list, b.state(), options); });
    };
    CHECK(load(tensors(6)) ==
          "checkpoint ck/checkpoint.safetensors: wte.weight has shape (5,4), this run wants (5,6); "
          "pass --channels 4 or another --out");
    std::vector<named_tensor> list = tensors(4);
    list[1].name = "ln_f.bias";
    CHECK(load(list).find("has no ln_f.bias, this run wants it with shape (4)") !=
          std::string::npos);
    list = tensors(4);
    list.erase(list.begin() + 1);
    CHECK(load(list).find("has adam.m.ln.bias with shape (4), this run has no such tensor") !=
          std::string::npos);
    list = tensors(4);
    list[0].shape = {4, 5}; // as many elements
    CHECK(load(list).find("wte.weight has shape (5,4), this run wants (4,5)") != std::string::npos);
    CHECK(same(b.master, before.master));
    CHECK(same(b.m, before.m));
    CHECK(load(tensors(4)) == "accepted");

    const std::vector<std::uint16_t> half(20);
    safetensors::write("ck/checkpoint.safetensors",
                       {{"wte.weight", "F16", {5, 4}, std::as_bytes(std::span(half))}});
    CHECK(load(tensors(4)).find("wte.weight has type F16, this run wants F32") !=
          std::string::npos);
}

TEST_CASE("folders: missing, a file, without the right to write; scalars: missing, no number") {
    const run a(27);
    for (const std::string folder : {"no_such_folder", "/dev/null", "/proc"}) {
        const std::string said =
            refusal([&] { save_checkpoint(folder, tensors(4), a.state(), {}); });
        CHECK(said.find("checkpoint " + folder + "/checkpoint.safetensors: cannot be written (") ==
              0);
        CHECK(said.find('\n') == said.npos);
    }
    run b(27);
    CHECK(refusal([&] {
              load_checkpoint("no_such_folder", tensors(4), b.state());
          }).find("cannot be opened (No such file or directory)") != std::string::npos);
    CHECK(refusal([&] {
              scalar<int>({{"x", "1"}}, "y");
          }).find("has no \"y\"") != std::string::npos);
    for (const char* bad : {"", "one", "1.5", "1 ", "99999999999"})
        CHECK(refusal([&] { scalar<int>({{"x", bad}}, "x"); }) != "accepted");
}

TEST_CASE("a buffer that the list does not fit, or half of the moments, is refused") {
    run a(26); // one short
    CHECK_THROWS_AS(save_checkpoint("ck", tensors(4), std::as_const(a).state(), {}), error);
    CHECK_THROWS_AS(save_checkpoint("ck", tensors(4), {a.master, a.m, {}}, {}), error);
}

TEST_CASE("a save that fails at any byte, or is killed, leaves the checkpoint before it") {
    fs::create_directories("ck2");
    const run old(27, 1), next(27, 2);
    save_checkpoint("ck2", tensors(4), old.state(), {{"step", "1"}});
    const std::size_t bytes = fs::file_size("ck2/checkpoint.safetensors");
    const auto loads = [&](const run& want) {
        run b(27, 9);
        load_checkpoint("ck2", tensors(4), b.state());
        return b.master[0] == want.master[0] && b.v[26] == want.v[26];
    };
    for (std::size_t room = 0; room <= bytes; ++room) {
        const pid_t child = fork();
        if (child == 0) {
            if (room % 2) // half of the failures are errors, the other half kill
                std::signal(SIGXFSZ, SIG_IGN);
            const rlimit none{0, 0}, limit{room, room};
            setrlimit(RLIMIT_CORE, &none);
            setrlimit(RLIMIT_FSIZE, &limit);
            const std::string said = refusal([&] {
                save_checkpoint("ck2", tensors(4), next.state(), {{"step", "2"}});
            });
            _exit(said == "accepted"                                      ? 0
                  : said.find("cannot be written past byte") != said.npos ? 1
                                                                          : 2);
        }
        int status = 0;
        REQUIRE(waitpid(child, &status, 0) == child);
        if (room < bytes) {
            CHECK(room % 2 ? WIFEXITED(status) && WEXITSTATUS(status) == 1 : WIFSIGNALED(status));
            CHECK(loads(old));
        } else {
            CHECK(status == 0);
            CHECK(loads(next)); // so the failures above were the limit's
        }
    }
    CHECK(fs::file_size("ck2/checkpoint.safetensors") == bytes);
}
