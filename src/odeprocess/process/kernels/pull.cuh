// The way back: cotangents of states and slopes become those of the inputs; see products.cuh.
//
// A step at a time, from the last. Its stages are known, so the layers of all of them are computed again in one go; then
// cotangents go back from stage to stage, and at the end of the step all stages add to the weights' cotangents at once.

#include "products.cuh"

struct Pull {
  const float *states, *slopes, *to_states, *to_slopes;  // what `runge_kutta` returned, and the cotangents of that
  float *to_weights, *to_offset, *to_skip, *to_start;    // to_weights[groups][blocks][NUMBERS], or null: not wanted
};

// Where the cotangents of a square of weights come from, and where they go.
struct Square {
  int gradient, place, out, in, layer;
  __device__ Square(int i) {
    layer = i < SQUARES_1 ? 0 : i < SQUARES_1 + SQUARES_2 ? 1 : i < ALL_SQUARES ? 2 : 3;
    i -= layer == 0 ? 0 : layer == 1 ? SQUARES_1 : SQUARES_1 + SQUARES_2;
    const int across = (layer == 0 ? X : layer == 1 ? Y : LAST) / 4;
    out = layer == 3 ? 0 : 4 * (i / across), in = layer == 3 ? 0 : 4 * (i % across);
    gradient = out + (layer == 0 ? Y : layer == 1 ? 0 : 2 * Y), place = in + (layer == 0 ? 2 * Y : layer == 1 ? 0 : Y);
  }
  // The place of a number in the weights as they came, or −1 for padding.
  __device__ int number(int i, int j) const {
    const int n = out + i, k = in + j;
    if (layer == 0) return n < WIDTH && k <= STATE ? n * (STATE + 1) + k : -1;
    if (layer == 1) return n < WIDTH && k <= WIDTH ? WIDTH * (STATE + 1) + n * (WIDTH + 1) + k : -1;
    const int column = k <= WIDTH ? k : SKIP && k >= Y && k - Y <= STATE ? WIDTH + 1 + k - Y : -1;
    return layer == 2 && n < OUT && column >= 0 ? NUMBERS - (OUT - n) * COLUMNS + column : -1;
  }
};

__global__ void __launch_bounds__(THREADS, 1) pull(Batch all, Pull p) {
  extern __shared__ float4 memory[];
  float* first = reinterpret_cast<float*>(memory);
  float *second = first + FIRST, *second_back = second + SECOND, *last_back = second_back + SECOND;
  float *first_back = last_back + THIRD_BACK, *places = first_back + FIRST_BACK, *gradients = places + STAGES * TILE * PLACE;
  float* offset = gradients + STAGES * TILE * GRADIENT;
  for (int i = threadIdx.x; i < BACKWARD_FLOATS; i += THREADS) first[i] = 0.0f;
  __syncthreads();
  const Batch b = all.of_group();
  copy<WIDTH, STATE + 1, 0, STATE + 1, apart(X), 1>(first, b.first);
  copy<WIDTH, WIDTH + 1, 0, WIDTH + 1, apart(Y), 1>(second, b.second);
  copy<WIDTH, WIDTH + 1, 0, WIDTH, 1, apart(Y)>(second_back, b.second);
  copy<OUT, COLUMNS, 0, WIDTH, 1, apart(V)>(last_back, b.last);
  copy<WIDTH, STATE + 1, 0, STATE, 1, apart(BACK)>(first_back, b.first);
  if (SKIP) copy<OUT, COLUMNS, WIDTH + 1, STATE, 1, apart(BACK)>(first_back + Y, b.last);
  ones(places, STAGES * TILE);
  __syncthreads();
  const Owner me;
  const Chain<V, apart(V), false> from_last(last_back);
  const Chain<Y, apart(Y), KEEP> from_second(second_back);
  const long before = long(blockIdx.x / b.blocks) * b.batch;
  float squares[SQUARES][4][4] = {};

#pragma unroll 1
  for (long begin = long(blockIdx.x % b.blocks) * TILE; begin < b.batch; begin += long(b.blocks) * TILE) {
    __syncthreads();
    offsets(offset, b, begin);
    constexpr int SHARE = up(TILE * WIDTH, THREADS) / THREADS;
    float to_offset[SHARE] = {}, to_skip[HAS] = {};
    float to_state[HAS][KINDS], behind[STAGES][HAS][KINDS], coming[HAS][KINDS];  // behind: for the stages before this one
    long states[HAS], slopes[HAS];  // where the owner's numbers begin
    bool known[HAS];
#pragma unroll
    for (int h = 0; h < HAS; ++h) {
      const long t = begin + me.rows[h];
      known[h] = t < b.batch;
      states[h] = (before + t) * (b.count + 1) * STATE + me.out;
      slopes[h] = (before + t) * (b.count * STAGES + 1) * STATE + me.out;
#pragma unroll
      for (int c = 0; c < KINDS; ++c) {
        to_state[h][c] = 0.0f;
        coming[h][c] = known[h] ? p.to_slopes[slopes[h] + b.count * STAGES * STATE + c * OUT] : 0.0f;
      }
    }
#pragma unroll 1
    for (int s = b.count; s >= 0; --s) {
      const int evaluations = s == b.count ? 1 : STAGES;
#pragma unroll
      for (int h = 0; h < HAS; ++h)
#pragma unroll
        for (int c = 0; c < KINDS; ++c) {
          float slope[STAGES];
          const long at = states[h] + s * STATE + c * OUT;
          const float state = known[h] ? p.states[at] : 0.0f, to = known[h] ? p.to_states[at] : 0.0f;
#pragma unroll
          for (int i = 0; i + 1 < STAGES; ++i)
            slope[i] = known[h] && i + 1 < evaluations ? p.slopes[slopes[h] + (s * STAGES + i) * STATE + c * OUT] : 0.0f;
#pragma unroll
          for (int stage = 0; stage < STAGES; ++stage) {
            behind[stage][h][c] = evaluations > 1 ? b.step * tableau[STAGES][STAGES - 1 - stage] * to_state[h][c] : 0.0f;
            if (stage >= evaluations || !me.there || me.part) continue;
            float sum = 0.0f;
#pragma unroll
            for (int i = 0; i < stage; ++i) sum = fmaf(tableau[stage][i], slope[i], sum);
            float* x = places + (stage * TILE + me.rows[h]) * PLACE + 2 * Y;
            x[c * OUT + me.out] = fmaf(b.step, sum, state);
            if (me.out == 0) x[STATE] = fmaf(nodes[stage], b.step, fmaf(float(s), b.step, b.t0));
          }
          to_state[h][c] += to;
        }
      __syncthreads();
      product<X, apart(X), MANY, FEW>(first, places + 2 * Y, evaluations * TILE, places, [=](int row, int n, float sum) {
        return tanh_of(sum + offset[row % TILE * NEURONS + n]);
      });
      __syncthreads();
      product<Y, apart(Y), MANY, FEW>(second, places, evaluations * TILE, places + Y,
                                      [](int, int, float sum) { return tanh_of(sum); });

#pragma unroll 1
      for (int stage = evaluations - 1; stage >= 0; --stage) {
        const int e = s * STAGES + stage;
        float *place = places + stage * TILE * PLACE, *gradient = gradients + stage * TILE * GRADIENT;
        float to_slope[HAS][KINDS];
#pragma unroll
        for (int h = 0; h < HAS; ++h) {
#pragma unroll
          for (int c = 0; c < KINDS; ++c) {
            to_slope[h][c] = behind[0][h][c] + coming[h][c];
            coming[h][c] = known[h] && e ? p.to_slopes[slopes[h] + (e - 1) * STATE + c * OUT] : 0.0f;
          }
          to_skip[h] += to_slope[h][KINDS - 1];
          if (me.there && me.part == 0) gradient[me.rows[h] * GRADIENT + 2 * Y + me.out] = to_slope[h][KINDS - 1];
        }
        __syncthreads();
        from_last(gradient + 2 * Y, GRADIENT, gradient, [=](int row, int n, float sum) {
          const float h = place[row * PLACE + Y + n];
          return sum * fmaf(-h, h, 1.0f);
        });
        __syncthreads();
        from_second(gradient, GRADIENT, gradient + Y, [=](int row, int n, float sum) {
          const float h = place[row * PLACE + n];
          return sum * fmaf(-h, h, 1.0f);
        });
        __syncthreads();
#pragma unroll
        for (int c = 0; c < KINDS; ++c) {
          float sum[HAS];
          me.dots<BACK>(first_back + (c * OUT + me.out) * apart(BACK), gradient + Y, GRADIENT, sum);
#pragma unroll
          for (int h = 0; h < HAS; ++h) {
            if (c) sum[h] += to_slope[h][0];  // the position moves by the velocity
            to_state[h][c] += sum[h];
#pragma unroll
            for (int i = 0; i < STAGES; ++i)
              behind[i][h][c] = fmaf(b.step * (i < stage ? tableau[stage][stage - 1 - i] : 0.0f), sum[h],
                                     i + 1 < STAGES ? behind[i + 1][h][c] : 0.0f);
          }
        }
      }
      if (p.to_weights) {
#pragma unroll
        for (int q = 0; q < SQUARES; ++q) {
          const Square square(threadIdx.x + q * THREADS);
          const float *g = gradients + square.gradient, *a = places + square.place;
#pragma unroll 4
          for (int r = 0; r < evaluations * TILE; ++r) {
            const float4 left = four(g + r * GRADIENT), right = four(a + r * PLACE);
            const float x[4] = {left.x, left.y, left.z, left.w}, y[4] = {right.x, right.y, right.z, right.w};
#pragma unroll
            for (int i = 0; i < 4; ++i)
#pragma unroll
              for (int j = 0; j < 4; ++j) squares[q][i][j] = fmaf(x[i], y[j], squares[q][i][j]);
          }
        }
      }
#pragma unroll
      for (int i = 0; i < SHARE; ++i) {
        const int at = threadIdx.x + i * THREADS;
        for (int stage = 0; stage < evaluations && at < TILE * WIDTH; ++stage)
          to_offset[i] += gradients[(stage * TILE + at / WIDTH) * GRADIENT + Y + at % WIDTH];
      }
      __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < SHARE; ++i) {
      const int at = threadIdx.x + i * THREADS;
      if (at < TILE * WIDTH && begin + at / WIDTH < b.batch) p.to_offset[(before + begin) * WIDTH + at] = to_offset[i];
    }
#pragma unroll
    for (int h = 0; h < HAS; ++h) {
      if (!known[h] || !me.there || me.part) continue;
      const long t = before + begin + me.rows[h];
      if (SKIP) p.to_skip[t * OUT + me.out] = to_skip[h];
#pragma unroll
      for (int c = 0; c < KINDS; ++c) p.to_start[t * STATE + c * OUT + me.out] = to_state[h][c];
    }
  }
  if (p.to_weights) {
    float* to = p.to_weights + long(blockIdx.x) * NUMBERS;
#pragma unroll
    for (int q = 0; q < SQUARES; ++q) {
      const Square square(threadIdx.x + q * THREADS);
#pragma unroll
      for (int i = 0; i < 4; ++i)
#pragma unroll
        for (int j = 0; j < 4; ++j)
          if (square.number(i, j) >= 0) to[square.number(i, j)] = squares[q][i][j];
    }
  }
}
