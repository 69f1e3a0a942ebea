// exp(x - max) / sum over the middle of [outer, n, inner]: a block for a row where inner is 1, else a thread per column.

extern "C" __global__ void __launch_bounds__(1024) vx_softmax_rows(
    const T* __restrict__ x, T* __restrict__ out, i64 n) {
  x += blockIdx.x * n;
  out += blockIdx.x * n;
  float top = -infinity();
  for (i64 i = threadIdx.x; i < n; i += blockDim.x) top = op_maximum(top, wide(x[i]));
  top = block_max(top);
  float sum = 0.0f;
  for (i64 i = threadIdx.x; i < n; i += blockDim.x) sum += expf(wide(x[i]) - top);
  sum = block_sum(sum);
  for (i64 i = threadIdx.x; i < n; i += blockDim.x) out[i] = narrow<T>(expf(wide(x[i]) - top) / sum);
}

extern "C" __global__ void __launch_bounds__(128) vx_softmax_columns(
    const T* __restrict__ x, T* __restrict__ out, i64 outer, i64 n, i64 inner) {
  const i64 column = thread_of_grid();
  if (column >= outer * inner) return;
  const i64 start = column / inner * n * inner + column % inner;
  x += start;
  out += start;
  float top = -infinity();
  for (i64 i = 0; i < n; ++i) top = op_maximum(top, wide(x[i * inner]));
  float sum = 0.0f;
  for (i64 i = 0; i < n; ++i) sum += expf(wide(x[i * inner]) - top);
  for (i64 i = 0; i < n; ++i) out[i * inner] = narrow<T>(expf(wide(x[i * inner]) - top) / sum);
}
