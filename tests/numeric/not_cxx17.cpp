// SPDX-License-Identifier: MIT
// Sabotage: C++20, so a check that numeric/ is C++17 must refuse it.
template <class T>
concept scalar = sizeof(T) <= 8;
template <scalar T>
T twice(T x) {
    return x + x;
}
