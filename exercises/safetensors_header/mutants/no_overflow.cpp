// SPDX-License-Identifier: MIT
// mutant: the product may wrap around
// fails: products that overflow
//< check
        if (t.begin > at) throw std::runtime_error(t.name + ": hole before it");
        if (t.begin < at) throw std::runtime_error(t.name + ": overlap with the one before");
        std::uint64_t bits = t.bits;
        for (const std::uint64_t n : t.shape) bits *= n;
        if (bits % 8 != 0 || t.end < t.begin || t.end - t.begin != bits / 8)
            throw std::runtime_error(t.name + ": length is not that of its shape");
        at = t.end;
