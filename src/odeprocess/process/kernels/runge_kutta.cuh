// The way along the steps; see products.cuh.

#include "products.cuh"

// states[batch][count + 1][STATE] at the ends of the steps, slopes[batch][count · STAGES + 1][STATE] at every stage.
__global__ void __launch_bounds__(THREADS, 1) runge_kutta(Batch all, float* states, float* slopes) {
  extern __shared__ float4 memory[];
  float* first = reinterpret_cast<float*>(memory);
  float *second = first + FIRST, *last = second + SECOND, *places = last + THIRD, *offset = places + TILE * PLACE;
  for (int i = threadIdx.x; i < FORWARD_FLOATS; i += THREADS) first[i] = 0.0f;
  __syncthreads();
  const Batch b = all.of_group();
  copy<WIDTH, STATE + 1, 0, STATE + 1, apart(X), 1>(first, b.first);
  copy<WIDTH, WIDTH + 1, 0, WIDTH + 1, apart(Y), 1>(second, b.second);
  copy<OUT, COLUMNS, 0, WIDTH + 1, apart(LAST), 1>(last, b.last);
  if (SKIP) copy<OUT, COLUMNS, WIDTH + 1, STATE + 1, apart(LAST), 1>(last + Y, b.last);
  ones(places, TILE);
  __syncthreads();
  const Owner me;
  const Chain<X, apart(X), KEEP> into_first(first);
  const Chain<Y, apart(Y), KEEP> into_second(second);
  const long before = long(blockIdx.x / b.blocks) * b.batch;

#pragma unroll 1
  for (long begin = long(blockIdx.x % b.blocks) * TILE; begin < b.batch; begin += long(b.blocks) * TILE) {
    __syncthreads();
    offsets(offset, b, begin);
    float state[HAS][KINDS], ahead[STAGES][HAS][KINDS] = {}, shift[HAS];  // ahead: sums of slopes for the rows to come
    bool mine[HAS];
#pragma unroll
    for (int h = 0; h < HAS; ++h) {
      const long t = begin + me.rows[h];
      mine[h] = me.there && me.part == 0 && t < b.batch;
      shift[h] = SKIP && t < b.batch ? b.skip_offset[t * OUT + me.out] : 0.0f;
#pragma unroll
      for (int c = 0; c < KINDS; ++c) state[h][c] = t < b.batch ? b.start[t * STATE + c * OUT + me.out] : 0.0f;
    }
#pragma unroll 1
    for (int e = 0; e <= b.count * STAGES; ++e) {
      const int s = e / STAGES, stage = e % STAGES;
      float now[HAS][KINDS];
#pragma unroll
      for (int h = 0; h < HAS; ++h) {
        float* x = places + me.rows[h] * PLACE + 2 * Y;
#pragma unroll
        for (int c = 0; c < KINDS; ++c) {
          now[h][c] = fmaf(b.step, ahead[0][h][c], state[h][c]);
          if (me.there && me.part == 0) x[c * OUT + me.out] = now[h][c];
          if (stage == 0) state[h][c] = now[h][c];
          if (stage == 0 && mine[h])
            states[((before + begin + me.rows[h]) * (b.count + 1) + s) * STATE + c * OUT + me.out] = now[h][c];
        }
        if (me.there && me.part == 0 && me.out == 0) x[STATE] = fmaf(nodes[stage], b.step, fmaf(float(s), b.step, b.t0));
      }
      __syncthreads();
      into_first(places + 2 * Y, PLACE, places,
                 [=](int row, int n, float sum) { return tanh_of(sum + offset[row * NEURONS + n]); });
      __syncthreads();
      into_second(places, PLACE, places + Y, [](int, int, float sum) { return tanh_of(sum); });
      __syncthreads();
      float sum[HAS];
      me.dots<LAST>(last + me.out * apart(LAST), places + Y, PLACE, sum);
#pragma unroll
      for (int h = 0; h < HAS; ++h)
#pragma unroll
        for (int c = 0; c < KINDS; ++c) {
          const float slope = c == KINDS - 1 ? sum[h] + shift[h] : now[h][KINDS - 1];
          if (mine[h])
            slopes[((before + begin + me.rows[h]) * (b.count * STAGES + 1) + e) * STATE + c * OUT + me.out] = slope;
#pragma unroll
          for (int i = 0; i < STAGES; ++i)
            ahead[i][h][c] = fmaf(tableau[stage + 1 + i][stage], slope, i + 1 < STAGES ? ahead[i + 1][h][c] : 0.0f);
        }
      if (SKIP) __syncthreads();  // the inputs were read
    }
  }
}
