// SPDX-License-Identifier: MIT
#include "theirs/kernels/random.cuh"
#include "user.cuh"

__global__ void draw(unsigned* words) {
    const theirs::kernels::random4 r = theirs::kernels::philox({{0, 0, 0, 0}}, 0, 0);
    words[threadIdx.x] = r.x[threadIdx.x];
}

int main() { // Random123's known answer for counter 0 and key 0, as doubles
    user::buffer<unsigned> words(4);
    draw<<<1, 4, 0, user::stream()>>>(words.p);
    return words.host() != std::vector<unsigned>{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
}
