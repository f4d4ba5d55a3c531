// SPDX-License-Identifier: MIT
// Any text is read or refused; what is read can be written and read again, the same.
#include "mpt/base/json.hpp" // parse, quote

#include <cstdint>
#include <cstdlib>

static std::string written(const mpt::json::value& v) {
    using mpt::json::type;
    std::string out;
    switch (v.type) {
    case type::null:
        return "null";
    case type::boolean:
        return v.boolean ? "true" : "false";
    case type::number:
        return v.text;
    case type::string:
        return mpt::json::quote(v.text);
    case type::array:
        for (const auto& item : v.items) out += (out.empty() ? "" : ",") + written(item);
        return '[' + out + ']';
    case type::object:
        for (const auto& m : v.members)
            out += (out.empty() ? "" : ",") + mpt::json::quote(m.key) + ':' + written(m.value);
        return '{' + out + '}';
    }
    return out;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    const std::string text(reinterpret_cast<const char*>(data), size);
    try {
        const std::string once = written(mpt::json::parse(text));
        if (written(mpt::json::parse(once)) != once) std::abort();
    } catch (const mpt::error& e) {
        if (std::string(e.what()).find('\n') != std::string::npos) std::abort();
    }
    return 0;
}
