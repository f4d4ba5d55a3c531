// SPDX-License-Identifier: MIT
/// @file rendezvous_file.hpp
/// How ranks with a shared folder come by the same few bytes.              tier 2, needs:
/// base/crc32c.hpp base/error.hpp base/file.hpp comm/launch_environment.hpp
/// comm/rendezvous_words.hpp comm/timeout.hpp
///
/// Idea     Where no port is open between machines they often share a file system. Rank 0 writes a
///          file that appears whole or not at all, and removes it when the run ends. The run's id
///          is in its name: the file of another run is never read.
/// Formula  "MPTF", version, world size, length, CRC-32C of the bytes; the bytes
/// Costs    one small file; ranks look for it every 50 ms at first, later every second
/// Breaks   a fixed name and a sleep: the file that the last run has left is read
/// See      rendezvous.hpp (by TCP), base/file.hpp, tests/comm/rendezvous_test.cpp
#pragma once
#include "mpt/base/crc32c.hpp"             // crc32c
#include "mpt/base/error.hpp"              // check, join
#include "mpt/base/file.hpp"               // input_file, output_file
#include "mpt/comm/launch_environment.hpp" // launch
#include "mpt/comm/rendezvous_words.hpp"   // put, take, bytes
#include "mpt/comm/timeout.hpp"            // timeout_seconds

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>

#include <unistd.h>

namespace mpt {

/// Rank 0's file, for as long as this lives; in other ranks nothing.
class shared_file {
public:
    explicit shared_file(std::string path = {}) : path_(std::move(path)) {}
    shared_file(shared_file&& other) noexcept : path_(std::exchange(other.path_, {})) {}
    shared_file& operator=(shared_file&&) = delete;
    ~shared_file() {
        if (!path_.empty()) unlink(path_.c_str());
    }

private:
    std::string path_;
};

namespace rendezvous {

inline constexpr std::string_view file_magic = "MPTF";
inline constexpr std::size_t file_head = 20; // bytes

/// Letters that are no path, and as many as a name may have.
inline std::string file_name(const std::string& run_id) {
    std::string safe;
    for (const char c : run_id.substr(0, 100))
        safe += std::string_view("/ \t\n\\").find(c) == std::string_view::npos ? c : '_';
    return join("mpt-", safe, '-', crc32c(bytes(run_id)), ".rendezvous");
}

/// Empty: `blob` is there; else why not yet. Throws where it is of other ranks.
inline std::string look(const struct launch& my, std::span<std::byte> blob,
                        const std::string& path) {
    if (access(path.c_str(), R_OK) != 0) return "it is not there";
    const input_file file("rendezvous", path);
    if (file.size() < file_head) return "it is cut short";
    std::string head(file_head, ' ');
    file.read(0, std::as_writable_bytes(std::span(head)));
    if (head.substr(0, 4) != file_magic || take(head, 4) != version)
        return "it is of another program or version";
    check(int(take(head, 8)) == my.world_size, file.name(), ": rank 0 says that there are ",
          take(head, 8), " ranks, rank ", my.rank, " on ", host_name(), " says ", my.world_size);
    check(take(head, 12) == blob.size(), file.name(), ": it holds ", take(head, 12),
          " bytes, rank ", my.rank, " wants ", blob.size());
    if (file.size() != file_head + blob.size()) return "it is cut short";
    file.read(file_head, blob);
    return crc32c(blob) == take(head, 16) ? "" : "its check sum is not that of its bytes";
}

} // namespace rendezvous

/// What rank 0 has in `blob` is in `blob` of every rank when it returns. All ranks give the same
/// folder; rank 0 keeps what is returned until all have the bytes. Throws where the run has no id,
/// where a file of this id is there already, and where none comes in `timeout` seconds.
[[nodiscard]] inline shared_file share_by_file(const struct launch& my, std::span<std::byte> blob,
                                               const std::string& folder,
                                               double timeout = timeout_seconds()) {
    check(!my.run_id.empty(),
          "rendezvous by file: this run has no id, so a file of another could "
          "be taken for its own; set MPT_RUN_ID, the same for all ranks and new for each run");
    const std::string path = join(folder, '/', rendezvous::file_name(my.run_id));
    if (my.rank == 0) {
        check(access(path.c_str(), F_OK) != 0, "rendezvous ", path,
              ": it is there already. Another "
              "run has the id ",
              my.run_id, ", or has crashed: set another MPT_RUN_ID, or remove it");
        std::string head(rendezvous::file_magic);
        for (const std::uint32_t x : {rendezvous::version, std::uint32_t(my.world_size),
                                      std::uint32_t(blob.size()), crc32c(blob)})
            rendezvous::put(head, x);
        output_file file("rendezvous", path);
        file.write(head);
        file.write(blob);
        file.commit();
        return shared_file(path);
    }
    const auto begun = std::chrono::steady_clock::now();
    auto pause = std::chrono::milliseconds(50);
    for (;;) {
        const std::string why = rendezvous::look(my, blob, path);
        if (why.empty()) return shared_file();
        check(std::chrono::steady_clock::now() + pause <
                  begun + std::chrono::duration<double>(timeout),
              "rendezvous ", path, ": ", why, ", after ", timeout, " s of rank ", my.rank, " on ",
              rendezvous::host_name(),
              "; is rank 0 started, is the folder shared? Raise MPT_TIMEOUT_S if it "
              "starts later");
        std::this_thread::sleep_for(pause);
        pause = std::min(2 * pause, std::chrono::milliseconds(1000));
    }
}

} // namespace mpt
