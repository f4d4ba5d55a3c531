// SPDX-License-Identifier: MIT
/// @file rendezvous_host.hpp
/// Rank 0's side of a rendezvous: who has come, who is turned away.        tier 2, needs:
/// base/error.hpp comm/launch_environment.hpp comm/rendezvous_words.hpp comm/tcp.hpp
///
/// Idea     Anybody may connect: another run's rank, a port scanner, a rank twice. All are heard at
///          once, by poll(), so that one who says nothing keeps nobody waiting; whoever is no rank
///          of this run is turned away, in words if it is a rank of another. Answers go out when
///          all are there: none goes on without the others.
/// Breaks   whoever reaches the port may take a rank's place: for networks that one trusts
/// See      rendezvous.hpp, tests/comm/rendezvous_test.cpp
#pragma once
#include "mpt/base/error.hpp"              // check, error, join
#include "mpt/comm/launch_environment.hpp" // launch
#include "mpt/comm/rendezvous_words.hpp"   // hello, answer
#include "mpt/comm/tcp.hpp"                // socket, send_all

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <poll.h>
#include <sys/socket.h>

namespace mpt::rendezvous {

/// Whoever has connected to rank 0.
struct guest {
    tcp::socket socket;
    std::string from;             // its address
    tcp::clock::time_point until; // by when it must have said who it is
    std::string heard = {};
    int rank = -1; // once it has
    std::string host = {};
};

/// Rank 0's side.
class host {
public:
    host(const struct launch& my, std::string_view blob, double timeout)
        : my_(my), blob_(blob), timeout_(timeout), until_(tcp::in_seconds(timeout)) {
        listen();
    }

    /// Returns when every rank has its answer.
    void serve() {
        while (int(ranks()) < my_.world_size - 1) {
            if (tcp::clock::now() > until_) give_up();
            wait();
        }
        for (const guest& g : guests_)
            if (g.rank >= 0) tcp::send_all(g.socket, bytes(answer(true, blob_)), until_);
    }

private:
    void listen() {
        std::string why;
        auto at = tcp::addresses(my_.master_addr, my_.master_port, why);
        // Hidden from other machines where all ranks are on this one.
        if (!at || !tcp::is_loopback(tcp::name_of(at->ai_addr, at->ai_addrlen)))
            at = tcp::addresses("", my_.master_port, why);
        for (int family : {AF_INET6, AF_INET}) // of IPv6 first: it hears IPv4, too
            for (const addrinfo* a = at.get(); a && !door_; a = a->ai_next)
                if (a->ai_family == family) {
                    door_ = tcp::listen_at(*a);
                    if (!door_) why = std::strerror(errno);
                }
        check(bool(door_), "rendezvous: rank 0 cannot listen at port ", my_.master_port, " (", why,
              "); is another run at it? Set MASTER_PORT to a free port, the same for all ranks");
    }

    std::size_t ranks() const {
        return std::size_t(std::count_if(guests_.begin(), guests_.end(),
                                         [](const guest& g) { return g.rank >= 0; }));
    }

    void wait() {
        std::vector<pollfd> files{{door_.file(), POLLIN, 0}};
        for (const guest& g : guests_) files.push_back({g.socket.file(), POLLIN, 0});
        poll(files.data(), nfds_t(files.size()), std::min(tcp::milliseconds_to(until_), 500));
        const auto now = tcp::clock::now();
        for (std::size_t i = 0; i < guests_.size(); ++i) {
            guest& g = guests_[i];
            if (files[i + 1].revents)
                hear(g);
            else if (g.rank < 0 && now > g.until)
                turn_away(g, "it said nothing", false);
        }
        std::erase_if(guests_, [](const guest& g) { return !g.socket; });
        if (files[0].revents) welcome();
    }

    void welcome() {
        sockaddr_storage from{};
        socklen_t size = sizeof from;
        auto* const address = reinterpret_cast<sockaddr*>(&from);
        tcp::socket s(accept(door_.file(), address, &size));
        if (s) guests_.push_back({std::move(s), tcp::name_of(address, size), tcp::in_seconds(10)});
    }

    void hear(guest& g) {
        char some[head + 2 * longest];
        const ssize_t n = recv(g.socket.file(), some, sizeof some, 0);
        if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR)) return;
        if (n <= 0) { // a rank that has died makes room for the one that takes its place
            if (g.rank < 0) turn_away(g, "it closed the connection", false);
            g.socket = {};
            g.rank = -1;
            return;
        }
        g.heard.append(some, std::size_t(n));
        const std::size_t known = std::min(g.heard.size(), magic.size());
        if (g.rank >= 0 || g.heard.substr(0, known) != magic.substr(0, known))
            return turn_away(g, "it is no rank of mpt", false);
        if (g.heard.size() < head) return;
        const std::size_t run = take(g.heard, 20), name = take(g.heard, 24);
        if (run > longest || name > longest) return turn_away(g, "it is no rank of mpt", false);
        if (g.heard.size() < head + run + name) return;
        admit(g, {take(g.heard, 4), take(g.heard, 8), take(g.heard, 12), take(g.heard, 16),
                  g.heard.substr(head, run), g.heard.substr(head + run, name)});
    }

    void admit(guest& g, const hello& h) {
        const std::string who = join("rank ", h.rank, " on ", h.host);
        const auto no = [&](const auto&... why) { turn_away(g, join(who, ' ', why...), true); };
        if (h.version != version) return no("speaks version ", h.version, ", rank 0 ", version);
        if (h.run_id != my_.run_id)
            return no("is of run \"", h.run_id, "\", this one is \"", my_.run_id, '"');
        if (int(h.world_size) != my_.world_size)
            return no("says that there are ", h.world_size, " ranks, rank 0 on ", host_name(),
                      " says ", my_.world_size);
        if (h.rank == 0 || int(h.rank) >= my_.world_size)
            return no("of ", my_.world_size, ": wanted 1 to ", my_.world_size - 1,
                      ", rank 0 is on ", host_name());
        if (h.bytes != blob_.size())
            return no("wants ", h.bytes, " bytes, rank 0 has ", blob_.size());
        for (const guest& other : guests_)
            if (other.rank == int(h.rank))
                return no("is there already, on ", other.host, "; every rank is started once");
        g.rank = int(h.rank);
        g.host = h.host;
    }

    void turn_away(guest& g, const std::string& why, bool rank) {
        if (rank) tcp::send_all(g.socket, bytes(answer(false, why)), tcp::in_seconds(1));
        if (refused_.size() < 1000)
            refused_ += join(refused_.empty() ? "" : "; ", why, " (from ", g.from, ')');
        g.socket = {};
        g.rank = -1;
    }

    [[noreturn]] void give_up() {
        std::string missing;
        for (int r = 1; r < my_.world_size; ++r)
            if (std::none_of(guests_.begin(), guests_.end(),
                             [&](const guest& g) { return g.rank == r; }))
                missing += join(missing.empty() ? "" : ", ", r);
        const std::string why =
            join("rendezvous: rank 0 on ", host_name(), " waited ", timeout_, " s at port ",
                 my_.master_port, " for rank ", missing, " of ", my_.world_size,
                 refused_.empty() ? "" : "; turned away: ", refused_,
                 "; raise MPT_TIMEOUT_S if they start later");
        for (const guest& g : guests_)
            if (g.rank >= 0) tcp::send_all(g.socket, bytes(answer(false, why)), tcp::in_seconds(1));
        throw error(why);
    }

    const struct launch& my_;
    std::string_view blob_;
    double timeout_;
    tcp::clock::time_point until_;
    tcp::socket door_;
    std::vector<guest> guests_;
    std::string refused_;
};

} // namespace mpt::rendezvous
