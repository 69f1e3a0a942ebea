// x / sqrt(mean(x^2) + eps) * weight: a block for every row; each thread keeps its first pack in registers.

constexpr int COUNT = 16 / sizeof(T);

template <int N> __device__ __forceinline__ float squares(Pack<T, N> x) {
  float sum = 0.0f;
#pragma unroll
  for (int i = 0; i < N; ++i) sum += wide(x.at[i]) * wide(x.at[i]);
  return sum;
}

template <int N>
__device__ __forceinline__ Pack<T, N> scaled(Pack<T, N> x, Pack<T, N> weight, float rms) {
  Pack<T, N> y;
#pragma unroll
  for (int i = 0; i < N; ++i) y.at[i] = narrow<T>(wide(x.at[i]) / rms * wide(weight.at[i]));
  return y;
}

template <int N>
__device__ __forceinline__ void normalise(const T* x_row, const T* weight_row, T* out_row, int width, float eps) {
  const auto* x = (const Pack<T, N>*)x_row;
  const auto* weight = (const Pack<T, N>*)weight_row;
  auto* out = (Pack<T, N>*)out_row;
  const int packs = width / N, mine = threadIdx.x;
  Pack<T, N> kept, its_weight;
  float sum = 0.0f;
  if (mine < packs) {
    kept = x[mine];
    its_weight = weight[mine];  // on its way while the block adds up
    sum = squares<N>(kept);
  }
  for (int i = mine + blockDim.x; i < packs; i += blockDim.x) sum += squares<N>(x[i]);
  const float rms = __fsqrt_rn(block_sum(sum) / (float)width + eps);
  if (mine < packs) out[mine] = scaled<N>(kept, its_weight, rms);
  for (int i = mine + blockDim.x; i < packs; i += blockDim.x) out[i] = scaled<N>(x[i], weight[i], rms);
}

extern "C" __global__ void __launch_bounds__(1024) vx_rmsnorm(
    const T* __restrict__ x, const T* __restrict__ weight, T* __restrict__ out, int width, float eps) {
  const i64 start = (i64)blockIdx.x * width;
  if (width % COUNT == 0 && aligned<COUNT>(x) && aligned<COUNT>(weight) && aligned<COUNT>(out))
    normalise<COUNT>(x + start, weight, out + start, width, eps);
  else
    normalise<1>(x + start, weight, out + start, width, eps);
}
