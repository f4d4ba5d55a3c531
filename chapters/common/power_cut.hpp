// SPDX-License-Identifier: MIT
// power_cut.hpp -- what a disk may hold after the power went: a model of what POSIX promises.
//
// Real calls go through `recording`, which keeps a journal. cut(n, ...) builds, in another folder,
// what may be left if the power goes after the first n of them. Only what was flushed is sure: the
// bytes of a file by its fsync, the names in a folder by the folder's fsync. Anything later may be
// there or not; bytes that were written and not flushed may be there, missing or zeros.
#pragma once
#include "mpt/base/disk.hpp"
#include "mpt/base/error.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <string>
#include <vector>

class power_cut {
public:
    // What becomes of everything that was not flushed.
    enum survives { nothing, names, bytes, all, zeros, by_chance };

    explicit power_cut(std::string root) : root_(std::move(root)) {}

    // Calls on the real disk, below the root, and a journal of them. ignore_fsync: a program that
    // forgets to flush.
    mpt::disk recording(bool ignore_fsync = false) {
        mpt::disk d;
        d.open = [this](const char* path, int flags) {
            const int f = mpt::real_disk.open(path, flags);
            if (f < 0) return f;
            open_[f] = path;
            if (flags & O_CREAT) note({op::create, path, ""});
            return f;
        };
        d.write = [this](int f, const void* from, std::size_t n) {
            const ssize_t done = mpt::real_disk.write(f, from, n);
            if (done > 0)
                note({op::write, open_[f], {static_cast<const char*>(from), std::size_t(done)}});
            return done;
        };
        d.fsync = [this, ignore_fsync](int f) {
            if (!ignore_fsync) note({op::fsync, open_[f], ""});
            return 0; // the real disk has its cache still: this power cut is a model
        };
        d.rename = [this](const char* from, const char* to) {
            const int failed = mpt::real_disk.rename(from, to);
            if (!failed) note({op::rename, from, to});
            return failed;
        };
        d.mkdir = [this](const char* path) {
            const int failed = mpt::real_disk.mkdir(path);
            if (!failed) note({op::mkdir, path, ""});
            return failed;
        };
        const auto removing = [this](const std::function<int(const char*)>& call) {
            return [this, call](const char* path) {
                const int failed = call(path);
                if (!failed) note({op::remove, path, ""});
                return failed;
            };
        };
        d.unlink = removing(mpt::real_disk.unlink);
        d.rmdir = removing(mpt::real_disk.rmdir);
        return d;
    }

    std::size_t calls() const { return journal_.size(); }

    // Call number n of the journal, from 0, in words.
    std::string call(std::size_t n) const {
        constexpr const char* words[] = {"create", "write", "fsync", "rename", "mkdir", "remove"};
        std::string path;
        for (const std::string& part : parts(journal_[n].path)) path += '/' + part;
        return std::string(words[journal_[n].what]) + ' ' + (path.empty() ? "/" : path);
    }

    // Build in the folder `to` what may be left after the first n calls.
    void cut(std::size_t n, survives how, const std::string& to, std::uint32_t seed = 1) const {
        node top;
        for (std::size_t i = 0; i < n; ++i) replay(top, journal_[i]);
        std::filesystem::remove_all(to);
        std::filesystem::create_directories(to);
        build(top, how, to, seed);
    }

private:
    struct op {
        enum { create, write, fsync, rename, mkdir, remove } what;
        std::string path, more; // more: bytes written, or the new path
    };
    struct node {
        bool folder = true;
        std::string now, flushed; // bytes of a file
        std::map<std::string, std::shared_ptr<node>> names_now, names_flushed;
    };

    // Below the root: {"checkpoints", "latest"}
    std::vector<std::string> parts(const std::string& path) const {
        std::vector<std::string> out;
        for (const auto& p : std::filesystem::path(path).lexically_relative(root_))
            if (p != "." && !p.empty()) out.push_back(p.string());
        return out;
    }
    void note(op o) {
        const std::vector<std::string> p = parts(o.path);
        if (p.empty() ? o.what == op::fsync : p[0] != "..") journal_.push_back(std::move(o));
    }
    static node* walk(node& top, const std::vector<std::string>& path, std::size_t depth) {
        node* at = &top;
        for (std::size_t i = 0; i < depth; ++i) at = at->names_now.at(path[i]).get();
        return at;
    }
    void replay(node& top, const op& o) const {
        const std::vector<std::string> p = parts(o.path);
        if (o.what == op::write) walk(top, p, p.size())->now += o.more;
        if (o.what == op::fsync) {
            node* const n = walk(top, p, p.size());
            n->flushed = n->now;
            n->names_flushed = n->names_now;
        }
        if (o.what == op::write || o.what == op::fsync) return;
        node* const folder = walk(top, p, p.size() - 1);
        if (o.what == op::create || o.what == op::mkdir) {
            folder->names_now[p.back()] = std::make_shared<node>();
            folder->names_now[p.back()]->folder = o.what == op::mkdir;
        } else if (o.what == op::remove) {
            folder->names_now.erase(p.back());
        } else {
            const std::vector<std::string> q = parts(o.more);
            const std::shared_ptr<node> moved = folder->names_now.at(p.back());
            folder->names_now.erase(p.back());
            walk(top, q, q.size() - 1)->names_now[q.back()] = moved;
        }
    }
    static bool chance(std::uint32_t& seed) { return (seed = seed * 1664525 + 1013904223) >> 31; }
    static void build(const node& n, survives how, const std::string& path, std::uint32_t& seed) {
        if (n.folder) {
            const bool now = how == by_chance ? chance(seed) : how != nothing && how != bytes;
            for (const auto& [name, child] : now ? n.names_now : n.names_flushed) {
                if (child->folder) std::filesystem::create_directory(path + '/' + name);
                build(*child, how, path + '/' + name, seed);
            }
            return;
        }
        std::string text = n.flushed;
        const bool zero = how == zeros || (how == by_chance && chance(seed));
        if (zero && n.now.size() > text.size()) text.resize(n.now.size(), '\0');
        if (how == all || how == bytes || (how == by_chance && !zero && chance(seed))) text = n.now;
        std::ofstream(path, std::ios::binary) << text;
    }

    std::string root_;
    std::map<int, std::string> open_;
    std::vector<op> journal_;
};
