// out[N] = w[N, K] x[K]: a warp for every ROWS rows, weights in 16-byte streaming loads, UNROLL of each row in flight.

constexpr int COUNT = 16 / sizeof(T);

__device__ __forceinline__ void dot_packs(const T* x, const T* const (&rows)[ROWS], int k, float (&sum)[ROWS]) {
  const int lane = threadIdx.x & 31;
  const int packs = k / COUNT;
  for (int base = 0; base < packs; base += 32 * UNROLL) {
    uint4 weights[ROWS][UNROLL];
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      const int pack = base + u * 32 + lane;
#pragma unroll
      for (int r = 0; r < ROWS; ++r)
        weights[r][u] = pack < packs ? load_streaming(rows[r] + (i64)pack * COUNT) : uint4{0, 0, 0, 0};
    }
#pragma unroll
    for (int u = 0; u < UNROLL; ++u) {
      const int pack = base + u * 32 + lane;
      if (pack >= packs) continue;
      float xs[COUNT], ws[COUNT];
      unpack<T>(((const uint4*)x)[pack], xs);
#pragma unroll
      for (int r = 0; r < ROWS; ++r) {
        unpack<T>(weights[r][u], ws);
#pragma unroll
        for (int i = 0; i < COUNT; ++i) sum[r] += xs[i] * ws[i];
      }
    }
  }
}

__device__ __forceinline__ void dot_elements(const T* x, const T* const (&rows)[ROWS], int k, float (&sum)[ROWS]) {
  for (int i = threadIdx.x & 31; i < k; i += 32) {
    const float xi = wide(x[i]);
#pragma unroll
    for (int r = 0; r < ROWS; ++r) sum[r] += xi * wide(rows[r][i]);
  }
}

extern "C" __global__ void __launch_bounds__(128) vx_gemv(
    const T* __restrict__ x, const T* __restrict__ w, T* __restrict__ out, int n, int k) {
  const i64 first = (thread_of_grid() >> 5) * ROWS;
  if (first >= n) return;
  const T* rows[ROWS];
  float sum[ROWS];
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    rows[r] = w + (first + r < n ? first + r : first) * k;
    sum[r] = 0.0f;
  }
  if (k % COUNT == 0 && aligned<COUNT>(x) && aligned<COUNT>(w))
    dot_packs(x, rows, k, sum);
  else
    dot_elements(x, rows, k, sum);
#pragma unroll
  for (int r = 0; r < ROWS; ++r) {
    const float total = warp_sum(sum[r]);
    if ((threadIdx.x & 31) == 0 && first + r < n) out[first + r] = narrow<T>(total);
  }
}
