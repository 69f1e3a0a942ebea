// Integer matrix products, which cuBLAS has not: a thread for every element, sums that wrap.

extern "C" __global__ void __launch_bounds__(128) vx_product(
    const T* __restrict__ a, const T* __restrict__ b, T* __restrict__ c, i64 batch, i64 m, i64 n, i64 k,
    i64 stride_a, i64 stride_b, i64 stride_c, i64 offset_a, i64 offset_b, i64 offset_c) {
  const i64 at = thread_of_grid();
  if (at >= batch * m * n) return;
  const i64 column = at % n, row = at / n % m, one = at / n / m;
  const T* left = a + offset_a + one * stride_a + row * k;
  const T* right = b + offset_b + one * stride_b + (TRANSPOSE_B ? column * k : column);
  const i64 step = TRANSPOSE_B ? 1 : n;
  u64 sum = 0;
  for (i64 i = 0; i < k; ++i) sum += (u64)left[i] * (u64)right[i * step];
  c[offset_c + one * stride_c + row * n + column] = (T)sum;
}
