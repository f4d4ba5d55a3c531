// SPDX-License-Identifier: MIT
// mutant: S is halved below its minimum
// fails: the scale stays between its minimum and what is finite
//< update
if (!finite) {
    s.value = s.value / 2;
    s.clean = 0;
    ++s.skipped;
    return false;
}
if (++s.clean == interval) {
    s.clean = 0;
    if (std::isfinite(s.value * 2)) s.value *= 2;
}
return true;
