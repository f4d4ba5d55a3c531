// SPDX-License-Identifier: MIT
// mutant: a bucket takes the layer that does not fit
// fails: which layers go together
//< plan
        if (all.empty() || held > limit) {
            all.push_back({layer, layer});
            held = 0;
        }
        all.back().first = layer;
        held += size;
