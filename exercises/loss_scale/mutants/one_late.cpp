// SPDX-License-Identifier: MIT
// mutant: S grows one step late
// fails: the scale doubles after `interval` clean steps, not before
//< update
if (!finite) {
    s.value = std::max(s.value / 2, minimum);
    s.clean = 0;
    ++s.skipped;
    return false;
}
if (s.clean++ == interval) {
    s.clean = 0;
    if (std::isfinite(s.value * 2)) s.value *= 2;
}
return true;
