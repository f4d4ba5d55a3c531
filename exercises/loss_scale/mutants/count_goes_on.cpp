// SPDX-License-Identifier: MIT
// mutant: the count of clean steps goes on after an overflow
// fails: an overflow between clean steps begins the count again
//< update
if (!finite) {
    s.value = std::max(s.value / 2, minimum);
    ++s.skipped;
    return false;
}
if (++s.clean == interval) {
    s.clean = 0;
    if (std::isfinite(s.value * 2)) s.value *= 2;
}
return true;
