// The CUDA kernels on a CPU: a thread of C++ for each of a block's, so that they are tested where there is no GPU.

#include <barrier>
#include <cmath>
#include <memory>
#include <thread>
#include <vector>

#define __global__
#define __device__
#define __constant__ static
#define __shared__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __fdividef(a, b) ((a) / (b))

struct alignas(16) float4 {
  float x, y, z, w;
};
static float4 memory[1 << 16];
struct Index {
  unsigned x;
};
static thread_local Index threadIdx, blockIdx;
static std::unique_ptr<std::barrier<>> block;
static std::vector<std::unique_ptr<std::barrier<>>> warps;
static float exchanged[1024];

static void __syncthreads() { block->arrive_and_wait(); }
static float __shfl_xor_sync(unsigned, float value, int mask) {
  exchanged[threadIdx.x] = value;
  warps[threadIdx.x / 32]->arrive_and_wait();
  const float found = exchanged[threadIdx.x ^ mask];
  warps[threadIdx.x / 32]->arrive_and_wait();
  return found;
}
using std::fmaf;

#include "runge_kutta.cuh"
#include "pull.cuh"

template <class Kernel>
static void launch(int blocks, Kernel kernel) {
  for (unsigned b = 0; b < unsigned(blocks); ++b) {
    block = std::make_unique<std::barrier<>>(THREADS);
    warps.clear();
    for (int w = 0; w < WARPS; ++w) warps.push_back(std::make_unique<std::barrier<>>(32));
    std::vector<std::thread> threads;
    for (unsigned t = 0; t < THREADS; ++t)
      threads.emplace_back([=] {
        threadIdx = {t}, blockIdx = {b};
        kernel();
      });
    for (auto& thread : threads) thread.join();
  }
}

extern "C" {
int shared_bytes() { return 4 * (FORWARD_FLOATS < BACKWARD_FLOATS ? BACKWARD_FLOATS : FORWARD_FLOATS); }

void run_runge_kutta(int groups, const Batch* batch, float* states, float* slopes) {
  launch(groups * batch->blocks, [=] { runge_kutta(*batch, states, slopes); });
}

void run_pull(int groups, const Batch* batch, const Pull* p) {
  launch(groups * batch->blocks, [=] { pull(*batch, *p); });
}
}
