// SPDX-License-Identifier: MIT
/// @file tcp.hpp
/// TCP between machines, with a deadline on every call.              tier 2, needs: std only
///
/// Idea     No call waits in the kernel: sockets do not block, and poll() waits no longer than the
///          deadline. Reads and writes go on until all bytes are through: one recv() of 128 bytes
///          may well bring 64.
/// Breaks   a name that has an address of IPv6 and one of IPv4, of which only one is listened on:
///          all are tried, one after the other
/// Source   getaddrinfo(3), RFC 6724 (the order of addresses)
/// See      rendezvous.hpp (its user), tests/comm/rendezvous_test.cpp
#pragma once
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

namespace mpt::tcp {

using clock = std::chrono::steady_clock;

inline clock::time_point in_seconds(double s) {
    return clock::now() +
           std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(s));
}
/// For poll(): 0 where the deadline is over.
inline int milliseconds_to(clock::time_point until) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - clock::now()).count();
    return int(std::clamp<long long>(left, 0, 60'000));
}

/// A socket that is closed with its owner.
class socket {
public:
    socket() = default;
    explicit socket(int file) : file_(file) { // it never blocks
        if (file_ < 0) return;
        fcntl(file_, F_SETFL, fcntl(file_, F_GETFL) | O_NONBLOCK);
        fcntl(file_, F_SETFD, FD_CLOEXEC);
    }
    socket(socket&& other) noexcept : file_(std::exchange(other.file_, -1)) {}
    socket& operator=(socket&& other) noexcept {
        std::swap(file_, other.file_);
        return *this;
    }
    ~socket() {
        if (file_ >= 0) close(file_);
    }
    int file() const { return file_; }
    explicit operator bool() const { return file_ >= 0; }

private:
    int file_ = -1;
};

/// The addresses of a host, or those to listen on where `host` is empty. None: `why` not.
inline std::shared_ptr<addrinfo> addresses(std::string host, int port, std::string& why) {
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') // [::1]
        host = host.substr(1, host.size() - 2);
    addrinfo want{};
    want.ai_family = AF_UNSPEC;
    want.ai_socktype = SOCK_STREAM;
    want.ai_flags = AI_NUMERICSERV | (host.empty() ? AI_PASSIVE : 0);
    addrinfo* found = nullptr;
    const std::string service = std::to_string(port);
    const int fault =
        getaddrinfo(host.empty() ? nullptr : host.c_str(), service.c_str(), &want, &found);
    if (fault != 0) {
        why = gai_strerror(fault);
        return nullptr;
    }
    return {found, freeaddrinfo};
}

/// "10.0.0.7" or "::1": who is at the other end.
inline std::string name_of(const sockaddr* address, socklen_t size) {
    char host[NI_MAXHOST] = "?";
    getnameinfo(address, size, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
    return host;
}

/// Of an address by which only this machine is reached.
inline bool is_loopback(const std::string& name) {
    return name.rfind("127.", 0) == 0 || name == "::1";
}

/// Listens on every address of this machine, or on one. Empty with errno where it cannot.
inline socket listen_at(const addrinfo& a) {
    socket s(::socket(a.ai_family, a.ai_socktype, a.ai_protocol));
    if (!s) return {};
    const int yes = 1, no = 0;
    setsockopt(s.file(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes); // of a run that has ended
    if (a.ai_family == AF_INET6) setsockopt(s.file(), IPPROTO_IPV6, IPV6_V6ONLY, &no, sizeof no);
    if (bind(s.file(), a.ai_addr, a.ai_addrlen) != 0 || listen(s.file(), 1024) != 0) return {};
    return s;
}

/// Empty with errno where nobody answers there until then.
inline socket connect_to(const addrinfo& a, clock::time_point until) {
    socket s(::socket(a.ai_family, a.ai_socktype, a.ai_protocol));
    if (!s) return {};
    if (connect(s.file(), a.ai_addr, a.ai_addrlen) == 0) return s;
    if (errno != EINPROGRESS && errno != EINTR) return {};
    pollfd p{s.file(), POLLOUT, 0};
    while (poll(&p, 1, milliseconds_to(until)) < 0 && errno == EINTR) {
    }
    int fault = ETIMEDOUT;
    socklen_t size = sizeof fault;
    if (p.revents) getsockopt(s.file(), SOL_SOCKET, SO_ERROR, &fault, &size);
    errno = fault;
    return fault == 0 ? std::move(s) : socket();
}

/// All of the bytes, or false: the other end is gone, or it is too late.
inline bool send_all(const socket& s, std::span<const std::byte> bytes, clock::time_point until) {
    while (!bytes.empty()) {
        const ssize_t n = send(s.file(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
        if (n > 0) bytes = bytes.subspan(std::size_t(n));
        if (n > 0 || (n < 0 && errno == EINTR)) continue;
        if (n < 0 && errno != EAGAIN && errno != EWOULDBLOCK) return false;
        pollfd p{s.file(), POLLOUT, 0};
        if (milliseconds_to(until) == 0 ||
            (poll(&p, 1, milliseconds_to(until)) < 0 && errno != EINTR))
            return false;
    }
    return true;
}
inline bool recv_all(const socket& s, std::span<std::byte> bytes, clock::time_point until) {
    while (!bytes.empty()) {
        const ssize_t n = recv(s.file(), bytes.data(), bytes.size(), 0);
        if (n > 0) bytes = bytes.subspan(std::size_t(n));
        if (n > 0 || (n < 0 && errno == EINTR)) continue;
        if (n == 0 || (errno != EAGAIN && errno != EWOULDBLOCK)) return false;
        pollfd p{s.file(), POLLIN, 0};
        if (milliseconds_to(until) == 0 ||
            (poll(&p, 1, milliseconds_to(until)) < 0 && errno != EINTR)) {
            errno = ETIMEDOUT;
            return false;
        }
    }
    return true;
}

} // namespace mpt::tcp
