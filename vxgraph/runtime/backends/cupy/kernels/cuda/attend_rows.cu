// Attention for few query rows: keys are split over the subwarps of RANKS blocks, which share their sums in a cluster.
//
// A block serves HEADS query heads of one key head and every RANKS-th part of the keys. A subwarp (the lanes that hold one
// row of k in 16-byte packs) keeps UNROLL keys in flight and its own maximum, sum and mix; these meet by shuffles, then in
// shared memory, then over the cluster, always in the same order. What a launch does depends on `length` in device memory
// alone: it can be captured once and replayed at every length.

constexpr int RANKS = 8;

__device__ constexpr int ceil_div(int a, int b) { return (a + b - 1) / b; }
__device__ constexpr int at_least_1(int a) { return a > 0 ? a : 1; }
__device__ constexpr int larger(int a, int b) { return a > b ? a : b; }
__device__ constexpr int lanes_for(int packs) {
  int lanes = 1;
  while (lanes < packs && lanes < 32) lanes *= 2;
  return lanes;
}

__shared__ float mixes[WARPS][HEADS][DV];
__shared__ float tops[WARPS][HEADS];
__shared__ float sums[WARPS][HEADS];
__shared__ float top_of_block[HEADS];
__shared__ float sum_of_block[HEADS];

template <int COUNT, int PACKS, int LANES>
__device__ __forceinline__ void load_row(Pack<T, COUNT> (&to)[PACKS], const T* row, int part, int width, bool on) {
#pragma unroll
  for (int i = 0; i < PACKS; ++i) {
    const int pack = part + i * LANES;
    if (on && pack < width / COUNT) to[i] = ((const Pack<T, COUNT>*)row)[pack];
    else to[i] = Pack<T, COUNT>{};
  }
}

// One warp's share of one query row: into mixes, tops and sums.
template <int COUNT>
__device__ __forceinline__ void attend_warp(
    const T* q, const T* k, const T* v, int seen, int kv_heads, float scale, int rank, int ranks) {
  constexpr int LANES = lanes_for(larger(D / COUNT, DV / COUNT)), KEYS = 32 / LANES;
  constexpr int NQ = at_least_1(ceil_div(D / COUNT, LANES)), NV = at_least_1(ceil_div(DV / COUNT, LANES));
  const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, part = lane % LANES;
  const int slot = (rank * WARPS + warp) * KEYS + lane / LANES, slots = ranks * WARPS * KEYS;
  float query[HEADS][NQ * COUNT], mix[HEADS][NV * COUNT], top[HEADS], sum[HEADS];
#pragma unroll
  for (int h = 0; h < HEADS; ++h) {
    Pack<T, COUNT> packs[NQ];
    load_row<COUNT, NQ, LANES>(packs, q + h * D, part, D, true);
#pragma unroll
    for (int i = 0; i < NQ * COUNT; ++i) query[h][i] = wide(packs[i / COUNT].at[i % COUNT]) * scale;
#pragma unroll
    for (int i = 0; i < NV * COUNT; ++i) mix[h][i] = 0.0f;
    top[h] = -infinity();
    sum[h] = 0.0f;
  }
  for (int base = 0; base < seen; base += slots * UNROLL) {
    Pack<T, COUNT> keys[UNROLL][NQ], values[UNROLL][NV];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      const int j = base + u * slots + slot;
      load_row<COUNT, NQ, LANES>(keys[u], k + (i64)j * kv_heads * D, part, D, j < seen);
      load_row<COUNT, NV, LANES>(values[u], v + (i64)j * kv_heads * DV, part, DV, j < seen);
    }
#pragma unroll
    for (int h = 0; h < HEADS; ++h) {
      float score[UNROLL], largest = top[h];
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) {
        float s = 0.0f;
#pragma unroll
        for (int i = 0; i < NQ * COUNT; ++i) s += query[h][i] * wide(keys[u][i / COUNT].at[i % COUNT]);
#pragma unroll
        for (int offset = LANES / 2; offset; offset >>= 1) s += __shfl_xor_sync(0xffffffffu, s, offset);
        score[u] = base + u * slots + slot < seen ? s : -infinity();
        largest = fmaxf(largest, score[u]);
      }
      const float old = rescale(top[h], largest);
      top[h] = largest;
      sum[h] *= old;
#pragma unroll
      for (int i = 0; i < NV * COUNT; ++i) mix[h][i] *= old;
#pragma unroll
      for (int u = 0; u < UNROLL; ++u) {
        const float weight = weight_of(score[u], largest);
        sum[h] += weight;
#pragma unroll
        for (int i = 0; i < NV * COUNT; ++i) mix[h][i] += weight * wide(values[u][i / COUNT].at[i % COUNT]);
      }
    }
  }
#pragma unroll
  for (int h = 0; h < HEADS; ++h) {
#pragma unroll
    for (int offset = LANES; offset < 32; offset <<= 1) {
      const float other = __shfl_xor_sync(0xffffffffu, top[h], offset), largest = fmaxf(top[h], other);
      const float mine = rescale(top[h], largest), its = rescale(other, largest);
      top[h] = largest;
      sum[h] = sum[h] * mine + __shfl_xor_sync(0xffffffffu, sum[h], offset) * its;
#pragma unroll
      for (int i = 0; i < NV * COUNT; ++i)
        mix[h][i] = mix[h][i] * mine + __shfl_xor_sync(0xffffffffu, mix[h][i], offset) * its;
    }
    if (lane < LANES) {
#pragma unroll
      for (int i = 0; i < NV * COUNT; ++i) {
        const int column = (part + i / COUNT * LANES) * COUNT + i % COUNT;
        if (column < DV) mixes[warp][h][column] = mix[h][i];
      }
    }
    if (lane == 0) {
      tops[warp][h] = top[h];
      sums[warp][h] = sum[h];
    }
  }
}

// The warps' shares as the block's: into mixes[0], top_of_block and sum_of_block.
__device__ __forceinline__ void gather_block() {
  __syncthreads();
  for (int at = threadIdx.x; at < HEADS * DV; at += WARPS * 32) {
    const int h = at / DV, column = at % DV;
    float top = -infinity(), sum = 0.0f, mix = 0.0f;
    for (int w = 0; w < WARPS; ++w) top = fmaxf(top, tops[w][h]);
    for (int w = 0; w < WARPS; ++w) {
      const float worth = rescale(tops[w][h], top);
      sum += sums[w][h] * worth;
      mix += mixes[w][h][column] * worth;
    }
    mixes[0][h][column] = mix;
    if (column == 0) {
      top_of_block[h] = top;
      sum_of_block[h] = sum;
    }
  }
}

// The blocks' shares as the result; each block writes a part of it.
__device__ __forceinline__ void gather_cluster(T* out, int rank, int ranks) {
  cluster_sync();
  for (int at = rank * WARPS * 32 + threadIdx.x; at < HEADS * DV; at += ranks * WARPS * 32) {
    const int h = at / DV, column = at % DV;
    float top = -infinity(), sum = 0.0f, mix = 0.0f;
    for (int r = 0; r < ranks; ++r) top = fmaxf(top, cluster_load(&top_of_block[h], r));
    for (int r = 0; r < ranks; ++r) {
      const float worth = rescale(cluster_load(&top_of_block[h], r), top);
      sum += cluster_load(&sum_of_block[h], r) * worth;
      mix += cluster_load(&mixes[0][h][column], r) * worth;
    }
    out[at] = narrow<T>(mix / sum);
  }
  cluster_sync();  // nobody leaves, or goes on to another row, while others read its memory
}

// Grid (RANKS, query heads / HEADS, query rows).
extern "C" __global__ void CLUSTER(RANKS) __launch_bounds__(WARPS * 32) vx_attend_rows(
    const T* __restrict__ q, const T* __restrict__ k, const T* __restrict__ v, const int* __restrict__ length,
    T* __restrict__ out, int queries, int capacity, int kv_heads, float scale, u64* fault, i64 site) {
  constexpr int COUNT = 16 / sizeof(T);
  const int rank = blockIdx.x, ranks = CLUSTER_RANKS(RANKS);
  if (rank >= ranks) return;
  const int valid = valid_rows(length, queries, capacity, fault, site);
  if (valid < 0) return;
  const int first = blockIdx.y * HEADS, heads = gridDim.y * HEADS, kv = first / GROUP;
  for (int row = blockIdx.z; row < queries; row += gridDim.z) {
    const int seen = CAUSAL ? row + 1 + valid - queries : valid;
    const T* query = q + ((i64)row * heads + first) * D;
    bool whole = false;
    if constexpr (D % COUNT == 0 && DV % COUNT == 0) {
      whole = aligned<COUNT>(q) && aligned<COUNT>(k) && aligned<COUNT>(v);
      if (whole) attend_warp<COUNT>(query, k + (i64)kv * D, v + (i64)kv * DV, seen, kv_heads, scale, rank, ranks);
    }
    if (!whole) attend_warp<1>(query, k + (i64)kv * D, v + (i64)kv * DV, seen, kv_heads, scale, rank, ranks);
    gather_block();
    gather_cluster(out + ((i64)row * heads + first) * DV, rank, ranks);
  }
}
