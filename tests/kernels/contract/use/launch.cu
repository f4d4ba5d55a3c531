// SPDX-License-Identifier: MIT
#include "theirs/kernels/launch.cuh"
#include "user.cuh"

template <class T>
__global__ void backwards(T* y, const T* x, int n) {
    T* const kept = theirs::dynamic_shared<T>();
    const int i = int(threadIdx.x);
    kept[i] = x[i];
    __syncthreads();
    y[i] = kept[n - 1 - i];
}

int main() {
    user::buffer<float> x({1, 2, 3}), y(3);
    theirs::launch<backwards<float>>({1, 3, 3 * sizeof(float), user::stream()}, y.p,
                                     static_cast<const float*>(x.p), 3);
    if (int wrong = user::same(y, {3, 2, 1})) return wrong;
    try { // what CUDA refuses is told, with its numbers
        theirs::launch<backwards<float>>({1, 2000, 0, user::stream()}, y.p,
                                         static_cast<const float*>(x.p), 3);
    } catch (const std::runtime_error& e) {
        return std::string(e.what()).find("block 2000x1x1") == std::string::npos;
    }
    return 1;
}
