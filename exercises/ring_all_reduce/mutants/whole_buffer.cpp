// SPDX-License-Identifier: MIT
// mutant: every round sends the whole of x around, and adds it up
// fails: 2 (N - 1) / N of x is sent, in 2 (N - 1) messages
//< ring
(void)chunk, (void)room;
std::vector<float> sum(x.begin(), x.end()), travels(x.begin(), x.end()), came(x.size());
for (int k = 0; k < N - 1; ++k) {
    pass({travels.data(), travels.size()}, {came.data(), came.size()});
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += came[i];
    travels.swap(came);
}
std::copy(sum.begin(), sum.end(), x.begin());
(void)n;
