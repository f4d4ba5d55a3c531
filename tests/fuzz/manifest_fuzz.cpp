// SPDX-License-Identifier: MIT
// A manifest's text is read or refused. A fuzzer cannot guess a sum, so it is also put right: what
// is accepted then is written and read again as the same.
#include "mpt/train/manifest.hpp" // parse_manifest, write_manifest

#include <cstdlib>

static void read(const std::string& text) {
    try {
        mpt::manifest m = mpt::parse_manifest(text, "fuzz");
        for (const mpt::manifest_file& f : m.files)
            if (f.name.find('/') != std::string::npos || f.name[0] == '.') std::abort();
        const std::string once = mpt::write_manifest(m);
        mpt::manifest again = mpt::parse_manifest(once, "fuzz");
        if (mpt::write_manifest(again) != once) std::abort();
    } catch (const mpt::error& e) {
        if (std::string(e.what()).find('\n') != std::string::npos) std::abort();
    }
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string text(reinterpret_cast<const char*>(data), size);
    read(text);
    read(text + mpt::manifest_tail(mpt::crc32c(std::as_bytes(std::span(text)))));
    return 0;
}
