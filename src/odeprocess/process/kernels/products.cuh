// The steps of a grid for TILE trajectories at a time, and back: one block, weights and activations in shared memory.
//
// Set by cuda.py when it compiles this: STATE, WIDTH, OUT, SKIP (0 or 1), TILE, STAGES, and the tableau as NODES and ROWS,
// whose last row holds the weights. Names are those of `Layers`.
//
// Products. A warp makes a patch of rows (trajectories) × columns (neurons); a lane a few of each, in registers. Rows in
// shared memory are an odd number of float4 apart, so that the eight rows which a warp reads at once lie in different banks.
// Biases are columns of the weights, next to activations that are always 1; padding is zero on either side.
//
// Owners. The thread that computes an output of a trajectory also keeps the state behind it (with second order two:
// position and velocity), in registers. SPLIT lanes share one product there.
//
// Every sum has a fixed order and no atomics are used: the same inputs give the same bits.

#pragma once

constexpr int up(int n, int to) { return (n + to - 1) / to * to; }
constexpr int apart(int n) { return up(n, 4) / 4 % 2 ? up(n, 4) : up(n, 4) + 4; }
constexpr int power(int n) { return n < 2 ? 1 : 2 * power(n / 2); }  // the largest power of two up to n
constexpr int least(int a, int b) { return a < b ? a : b; }
constexpr int most(int a, int b) { return a < b ? b : a; }

constexpr int X = up(STATE + 1, 4), Y = up(WIDTH + 1, 4), V = up(OUT, 4);  // blocks of a row: inputs, hidden, outputs
constexpr int TALL = up(WIDTH, 4), LAST = Y + SKIP * X, BACK = Y + SKIP * V;
constexpr int PLACE = apart(2 * Y + X);     // a row of activations: first hidden layer, second, inputs
constexpr int GRADIENT = apart(2 * Y + V);  // a row of cotangents: second hidden layer, first, outputs
constexpr int NEURONS = TALL | 1;           // a row of offsets

// Cotangents of the weights: 4 × 4 of them are a square, and a thread has SQUARES of those in registers.
constexpr int SQUARES_1 = TALL / 4 * (X / 4), SQUARES_2 = TALL / 4 * (Y / 4), SQUARES_3 = V / 4 * (LAST / 4);
constexpr int ALL_SQUARES = SQUARES_1 + SQUARES_2 + SQUARES_3;
constexpr int SQUARES = up(ALL_SQUARES, 512) / 512;
constexpr int THREADS = most(up(up(ALL_SQUARES, SQUARES) / SQUARES, 32), up(TALL, 8) * 4), WARPS = THREADS / 32;

constexpr int KINDS = STATE / OUT;
constexpr int HAS = OUT * TILE <= THREADS ? 1 : 2 * power((OUT * TILE - 1) / THREADS);  // trajectories of an owner
constexpr int OWNERS = OUT * TILE / HAS;
constexpr int SPLIT = least(8, power(THREADS / OWNERS));

constexpr int FIRST = TALL * apart(X), SECOND = TALL * apart(Y), THIRD = V * apart(LAST);
constexpr int FIRST_BACK = up(STATE, 4) * apart(BACK), THIRD_BACK = TALL * apart(V);
constexpr int COLUMNS = WIDTH + 1 + SKIP * (STATE + 1);  // of `last`
constexpr int NUMBERS = WIDTH * (STATE + 1) + WIDTH * (WIDTH + 1) + OUT * COLUMNS;
constexpr int FORWARD_FLOATS = FIRST + SECOND + THIRD + TILE * (PLACE + NEURONS);
constexpr int BACKWARD_FLOATS = FIRST + 2 * SECOND + THIRD_BACK + FIRST_BACK + TILE * (STAGES * (PLACE + GRADIENT) + NEURONS);

__constant__ float nodes[STAGES] = NODES;
__constant__ float tableau[2 * STAGES + 1][STAGES] = ROWS;  // zero beyond the weights

// The inputs. Blocks of a group take its tiles in turn.
struct Batch {
  const float *first, *second, *last, *offset, *skip_offset, *start;
  int batch, count, blocks;
  float t0, step;
  __device__ Batch of_group() const {
    const long group = blockIdx.x / blocks, before = group * batch;
    return {first + group * WIDTH * (STATE + 1), second + group * WIDTH * (WIDTH + 1), last + group * OUT * COLUMNS,
            offset + before * WIDTH, skip_offset + before * SKIP * OUT, start + before * STATE, batch, count, blocks, t0, step};
  }
};

// x·P(x²)/Q(x²), our fit: within 3e-7 of tanh, relatively, for every x. One division, by its fast approximation.
__device__ __forceinline__ float tanh_of(float x) {
  x = fminf(fmaxf(x, -9.1f), 9.1f);
  const float u = x * x;
  float p = fmaf(1.317757192254021e-08f, u, 2.0481225874391384e-05f);
  p = fmaf(fmaf(fmaf(p, u, 3.4878135193139315e-03f), u, 0.13374477624893188f), u, 1.0f);
  float q = fmaf(7.704067002123338e-07f, u, 3.27292422298342e-04f);
  q = fmaf(fmaf(fmaf(q, u, 2.584739774465561e-02f), u, 0.46707791090011597f), u, 1.0f);
  return __fdividef(x * p, q);
}

__device__ __forceinline__ float4 four(const float* from) { return *reinterpret_cast<const float4*>(from); }

__device__ __forceinline__ float dot(float4 a, float4 b, float sum) {
  return fmaf(a.w, b.w, fmaf(a.z, b.z, fmaf(a.y, b.y, fmaf(a.x, b.x, sum))));
}

// COUNT columns of a matrix, from FROM on, to shared memory: by rows or (with ACROSS > 1) transposed.
template <int HEIGHT, int WIDE, int FROM, int COUNT, int DOWN, int ACROSS>
__device__ __forceinline__ void copy(float* to, const float* matrix) {
#pragma unroll 4
  for (int i = threadIdx.x; i < HEIGHT * COUNT; i += THREADS)
    to[i / COUNT * DOWN + i % COUNT * ACROSS] = matrix[i / COUNT * WIDE + FROM + i % COUNT];
}

// to[row][column] = value(row, column, sum) for every product of a row of `input` with one of the WIDTH rows of `weight`.
// Values are computed for padding too and only not written, so that nothing branches and they overlap.
template <int LENGTH, int PITCH, int WIDE, int HIGH, class Value>
__device__ __forceinline__ void product(const float* weight, const float* input, int height, float* to, Value value) {
  constexpr int LOW = least(8, TILE), ACROSS = 32 / LOW, GROUPS = (WIDTH + WIDE - 1) / WIDE;
  constexpr int PATCHES = (GROUPS + ACROSS - 1) / ACROSS;
  const int lane = threadIdx.x % 32;
#pragma unroll 1
  for (int patch = threadIdx.x / 32; patch < PATCHES * (height / (LOW * HIGH)); patch += WARPS) {
    const int column = patch % PATCHES * ACROSS + lane / LOW, row = patch / PATCHES * LOW * HIGH + lane % LOW;
    if (column >= GROUPS) continue;
    const float *w = weight + column * PITCH, *x = input + row * PLACE;
    float sum[WIDE][HIGH] = {};
#pragma unroll
    for (int k = 0; k < LENGTH; k += 4) {
      float4 left[WIDE], right[HIGH];
#pragma unroll
      for (int i = 0; i < WIDE; ++i) left[i] = four(w + i * GROUPS * PITCH + k);
#pragma unroll
      for (int j = 0; j < HIGH; ++j) right[j] = four(x + j * LOW * PLACE + k);
#pragma unroll
      for (int i = 0; i < WIDE; ++i)
#pragma unroll
        for (int j = 0; j < HIGH; ++j) sum[i][j] = dot(left[i], right[j], sum[i][j]);
    }
#pragma unroll
    for (int i = 0; i < WIDE; ++i)
#pragma unroll
      for (int j = 0; j < HIGH; ++j) sum[i][j] = value(row + j * LOW, column + i * GROUPS, sum[i][j]);
#pragma unroll
    for (int i = 0; i < WIDE; ++i)
#pragma unroll
      for (int j = 0; j < HIGH; ++j)
        if (column + i * GROUPS < WIDTH) to[(row + j * LOW) * PLACE + column + i * GROUPS] = sum[i][j];
  }
}

struct Owner {
  int out, part, rows[HAS];
  bool there;
  __device__ Owner() {
    const int owner = threadIdx.x / SPLIT;
    there = owner < OWNERS;
    out = there ? owner % OUT : 0, part = threadIdx.x % SPLIT;
#pragma unroll
    for (int h = 0; h < HAS; ++h) rows[h] = (there ? owner / OUT : 0) + h * (TILE / HAS);
  }
  // A row of `weight` times those rows of `input` that are the owner's; all lanes that share it get the sums.
  template <int LENGTH>
  __device__ __forceinline__ void dots(const float* weight, const float* input, int pitch, float (&sum)[HAS]) const {
#pragma unroll
    for (int h = 0; h < HAS; ++h) sum[h] = 0.0f;
#pragma unroll
    for (int i = 0; i < LENGTH; i += 4 * SPLIT) {
      const int k = i + 4 * part;
      if (k >= LENGTH) continue;
      const float4 w = four(weight + k);
#pragma unroll
      for (int h = 0; h < HAS; ++h) sum[h] = dot(w, four(input + rows[h] * pitch + k), sum[h]);
    }
#pragma unroll
    for (int h = 0; h < HAS; ++h)
#pragma unroll
      for (int m = 1; m < SPLIT; m *= 2) sum[h] += __shfl_xor_sync(0xffffffffu, sum[h], m);
  }
};

// The product of TILE rows with the WIDTH rows of a weight, for layers that follow one another: shared memory is what they
// wait for, so a lane has four columns, for half of their length, and keeps its weights in registers where they fit.
template <int LENGTH, int PITCH, bool KEEP>
struct Chain {
  static constexpr int LOW = least(8, TILE), HIGH = TILE / LOW, ACROSS = 16 / LOW, GROUPS = TALL / 4;
  static constexpr int PATCHES = (GROUPS + ACROSS - 1) / ACROSS, QUADS = (LENGTH + 7) / 8;
  static_assert(PATCHES <= WARPS, "a warp has one patch");
  float4 kept[KEEP ? QUADS : 1][4];
  const float* weight;
  int row, column, half;
  bool there;

  __device__ explicit Chain(const float* weights) {
    const int lane = threadIdx.x % 32;
    row = lane % LOW, half = lane / 16, column = threadIdx.x / 32 * ACROSS + lane / LOW % ACROSS;
    there = column < GROUPS;
    if (!there) column = 0;
    weight = weights + column * PITCH + 4 * half;
    if (KEEP)
#pragma unroll
      for (int q = 0; q < QUADS; ++q)
#pragma unroll
        for (int i = 0; i < 4; ++i) kept[q][i] = load(q, i);
  }
  __device__ __forceinline__ float4 load(int q, int i) const {
    return 8 * q + 4 * half < LENGTH ? four(weight + i * GROUPS * PITCH + 8 * q) : float4{0.0f, 0.0f, 0.0f, 0.0f};
  }
  template <class Value>
  __device__ __forceinline__ void operator()(const float* input, int pitch, float* to, Value value) const {
    if (threadIdx.x / 32 >= PATCHES) return;
    float sum[4][HIGH] = {};
#pragma unroll
    for (int q = 0; q < QUADS; ++q) {
      const int k = 8 * q + 4 * half < LENGTH ? 8 * q + 4 * half : 0;  // or the weights are zero
      float4 right[HIGH];
#pragma unroll
      for (int j = 0; j < HIGH; ++j) right[j] = four(input + (row + j * LOW) * pitch + k);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const float4 left = KEEP ? kept[KEEP ? q : 0][i] : load(q, i);
#pragma unroll
        for (int j = 0; j < HIGH; ++j) sum[i][j] = dot(left, right[j], sum[i][j]);
      }
    }
    float whole[2][HIGH];
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int j = 0; j < HIGH; ++j) {  // each half gives away two columns and completes the other two
        const float mine = half ? sum[i + 2][j] : sum[i][j], others = half ? sum[i][j] : sum[i + 2][j];
        whole[i][j] = value(row + j * LOW, column + (2 * half + i) * GROUPS, mine + __shfl_xor_sync(0xffffffffu, others, 16));
      }
#pragma unroll
    for (int i = 0; i < 2; ++i)
#pragma unroll
      for (int j = 0; j < HIGH; ++j) {
        const int n = column + (2 * half + i) * GROUPS;
        if (there && n < WIDTH) to[(row + j * LOW) * pitch + n] = whole[i][j];
      }
  }
};

constexpr int REGISTERS = least(255, 65536 / THREADS);  // of a thread
constexpr bool KEEP = 16 * ((Y + 7) / 8) + 100 <= REGISTERS;
constexpr int FEW = least(4, TILE / least(8, TILE)), MANY = TILE < 8 ? 2 : 4;  // rows and columns of a lane, for all stages at once

// The rows of activations: 1 behind each hidden layer. All of shared memory has been set to zero.
__device__ void ones(float* places, int height) {
  for (int r = threadIdx.x; r < height; r += THREADS) places[r * PLACE + WIDTH] = places[r * PLACE + Y + WIDTH] = 1.0f;
}

__device__ void offsets(float* to, const Batch& b, long begin) {
  for (int i = threadIdx.x; i < TILE * WIDTH; i += THREADS)
    to[i / WIDTH * NEURONS + i % WIDTH] = begin + i / WIDTH < b.batch ? b.offset[begin * WIDTH + i] : 0.0f;
}
