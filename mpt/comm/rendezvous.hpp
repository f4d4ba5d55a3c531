// SPDX-License-Identifier: MIT
/// @file rendezvous.hpp
/// How ranks that know only a host and a port come by the same few bytes.  tier 2, needs:
/// base/error.hpp comm/launch_environment.hpp comm/rendezvous_host.hpp comm/rendezvous_words.hpp
/// comm/tcp.hpp comm/timeout.hpp
///
/// Idea     NCCL's ranks begin with the same 128 bytes, which rank 0 has made. Without MPI somebody
///          must carry them: rank 0 listens at MASTER_PORT, and the others come and ask. They may
///          be started before it, so they try again: after 50 ms, 100 ms, ... every second.
/// Costs    one connection a rank, once a run
/// Breaks   retries without an end: a rank 0 that never comes is told of after MPT_TIMEOUT_S
/// Source   NCCL user guide, ncclGetUniqueId; what PyTorch uses its TCPStore for
/// See      rendezvous_host.hpp (rank 0), rendezvous_file.hpp (by a shared folder),
///          tests/comm/rendezvous_test.cpp
#pragma once
#include "mpt/base/error.hpp"              // check, error, join
#include "mpt/comm/launch_environment.hpp" // launch
#include "mpt/comm/rendezvous_host.hpp"    // host
#include "mpt/comm/rendezvous_words.hpp"   // hello
#include "mpt/comm/tcp.hpp"                // connect_to, send_all, recv_all
#include "mpt/comm/timeout.hpp"            // timeout_seconds

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <thread>

namespace mpt {

namespace rendezvous {

/// One attempt of another rank. Empty: `blob` is there; else why not yet. Throws where rank 0 says
/// no, and where somebody else has its port.
inline std::string ask(const struct launch& my, std::span<std::byte> blob,
                       tcp::clock::time_point until) {
    std::string why;
    const auto all = tcp::addresses(my.master_addr, my.master_port, why);
    tcp::socket s;
    for (const addrinfo* a = all.get(); a && !s; a = a->ai_next) {
        s = tcp::connect_to(*a, std::min(until, tcp::in_seconds(10)));
        if (!s) why = std::strerror(errno);
    }
    if (!s) return why;
    const hello mine{version,
                     std::uint32_t(my.rank),
                     std::uint32_t(my.world_size),
                     std::uint32_t(blob.size()),
                     my.run_id,
                     host_name()};
    const auto answered = until + std::chrono::seconds(1); // rank 0 says before who is missing
    std::string said(answer_head, ' ');
    if (!tcp::send_all(s, bytes(mine.packed()), until) ||
        !tcp::recv_all(s, std::as_writable_bytes(std::span(said)), answered))
        return tcp::clock::now() < until ? "the connection was closed without an answer"
                                         : "somebody is there, and does not answer";
    const bool ours = said.compare(0, magic.size(), magic) == 0, yes = take(said, 8) == 1;
    const std::size_t size = take(said, 12);
    check(ours && (yes ? size == blob.size() : size <= 65536), "rendezvous: who answers at ",
          my.master_addr, " port ", my.master_port,
          " is no rank 0 of mpt; another program has that "
          "port: set MASTER_PORT to a free one, the same for all ranks");
    std::string text(yes ? 0 : size, ' ');
    const std::span<std::byte> rest = yes ? blob : std::as_writable_bytes(std::span(text));
    if (!tcp::recv_all(s, rest, answered)) return "the answer was cut short";
    check(yes, "rendezvous: rank 0 at ", my.master_addr, " port ", my.master_port, " turns rank ",
          my.rank, " away: ", text);
    return {};
}

} // namespace rendezvous

/// What rank 0 has in `blob` is in `blob` of every rank when it returns; all have the same size.
/// Throws where the others, or rank 0, have not come in `timeout` seconds, and where rank 0 turns
/// this one away: who is missing, or what differs, with ranks and hosts.
inline void share_by_tcp(const struct launch& my, std::span<std::byte> blob,
                         double timeout = timeout_seconds()) {
    if (my.world_size == 1) return;
    check(!my.master_addr.empty(), "rendezvous: nobody says where rank 0 is; set MASTER_ADDR and "
                                   "MASTER_PORT");
    if (my.rank == 0) {
        const std::string_view mine(reinterpret_cast<const char*>(blob.data()), blob.size());
        return rendezvous::host(my, mine, timeout).serve();
    }
    const auto until = tcp::in_seconds(timeout);
    auto pause = std::chrono::milliseconds(50);
    for (;;) {
        const std::string why = rendezvous::ask(my, blob, until);
        if (why.empty()) return;
        check(tcp::clock::now() + pause < until, "rendezvous: rank ", my.rank, " on ",
              rendezvous::host_name(), " finds no rank 0 at ", my.master_addr, " port ",
              my.master_port, " in ", timeout, " s (", why,
              "); is it started, is MASTER_ADDR its machine, is the port open? Raise MPT_TIMEOUT_S "
              "if it starts later");
        std::this_thread::sleep_for(pause);
        pause = std::min(2 * pause, std::chrono::milliseconds(1000));
    }
}

} // namespace mpt
