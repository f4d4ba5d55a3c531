// SPDX-License-Identifier: MIT
// mutant: holes are let pass
// fails: holes and overlaps
//< check
        if (t.begin < at) throw std::runtime_error(t.name + ": overlap with the one before");
        std::uint64_t bits = t.bits;
        for (const std::uint64_t n : t.shape)
            if (__builtin_mul_overflow(bits, n, &bits))
                throw std::runtime_error(t.name + ": overflow in its shape");
        if (bits % 8 != 0 || t.end < t.begin || t.end - t.begin != bits / 8)
            throw std::runtime_error(t.name + ": length is not that of its shape");
        at = t.end;
