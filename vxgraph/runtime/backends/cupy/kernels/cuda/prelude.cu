// Shared by all kernels: dtypes and their arithmetic, 16-byte packs, sums over a block, and how a fault is reported.

// Halves compute in float, everything else in itself.
__device__ __forceinline__ float wide(f16 x) { return half_to_float(x.bits); }
__device__ __forceinline__ float wide(bf16 x) { return __uint_as_float((u32)x.bits << 16); }
__device__ __forceinline__ float wide(float x) { return x; }
__device__ __forceinline__ int wide(int x) { return x; }
__device__ __forceinline__ i64 wide(i64 x) { return x; }
__device__ __forceinline__ i8 wide(i8 x) { return x; }
__device__ __forceinline__ u8 wide(u8 x) { return x; }
__device__ __forceinline__ bool wide(bool x) { return x; }

// To nearest even; NaN stays NaN.
__device__ __forceinline__ bf16 to_bf16(float x) {
  const u32 bits = __float_as_uint(x);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return bf16{(u16)((bits >> 16) | 0x40u)};
  return bf16{(u16)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16)};
}

template <typename To> struct Narrow {
  template <typename From> static __device__ __forceinline__ To of(From x) { return (To)x; }
};
template <> struct Narrow<bool> {
  template <typename From> static __device__ __forceinline__ bool of(From x) { return x != 0; }
};
template <> struct Narrow<f16> {
  template <typename From> static __device__ __forceinline__ f16 of(From x) { return f16{float_to_half((float)x)}; }
};
template <> struct Narrow<bf16> {
  template <typename From> static __device__ __forceinline__ bf16 of(From x) { return to_bf16((float)x); }
};
template <typename To, typename From> __device__ __forceinline__ To narrow(From x) { return Narrow<To>::of(x); }

// Rounded to a dtype, and wide again: what an op leaves in memory for the next.
template <typename T, typename W> __device__ __forceinline__ W rounded(W x) { return wide(narrow<T>(x)); }

// Floats: one rounding per op, never contracted, so that fused ops give the bits of ops that are not. Integers wrap.
__device__ __forceinline__ float op_add(float a, float b) { return __fadd_rn(a, b); }
__device__ __forceinline__ int op_add(int a, int b) { return (int)((u32)a + (u32)b); }
__device__ __forceinline__ i64 op_add(i64 a, i64 b) { return (i64)((u64)a + (u64)b); }
__device__ __forceinline__ i8 op_add(i8 a, i8 b) { return (i8)(a + b); }
__device__ __forceinline__ u8 op_add(u8 a, u8 b) { return (u8)(a + b); }
__device__ __forceinline__ float op_sub(float a, float b) { return __fsub_rn(a, b); }
__device__ __forceinline__ int op_sub(int a, int b) { return (int)((u32)a - (u32)b); }
__device__ __forceinline__ i64 op_sub(i64 a, i64 b) { return (i64)((u64)a - (u64)b); }
__device__ __forceinline__ i8 op_sub(i8 a, i8 b) { return (i8)(a - b); }
__device__ __forceinline__ u8 op_sub(u8 a, u8 b) { return (u8)(a - b); }
__device__ __forceinline__ float op_mul(float a, float b) { return __fmul_rn(a, b); }
__device__ __forceinline__ int op_mul(int a, int b) { return (int)((u32)a * (u32)b); }
__device__ __forceinline__ i64 op_mul(i64 a, i64 b) { return (i64)((u64)a * (u64)b); }
__device__ __forceinline__ i8 op_mul(i8 a, i8 b) { return (i8)(a * b); }
__device__ __forceinline__ u8 op_mul(u8 a, u8 b) { return (u8)(a * b); }
__device__ __forceinline__ float op_div(float a, float b) { return __fdiv_rn(a, b); }
__device__ __forceinline__ float op_neg(float x) { return -x; }
template <typename W> __device__ __forceinline__ W op_neg(W x) { return op_sub((W)0, x); }
template <typename W> __device__ __forceinline__ W op_maximum(W a, W b) { return a != a || a > b ? a : b; }
template <typename W> __device__ __forceinline__ W op_minimum(W a, W b) { return a != a || a < b ? a : b; }
template <typename W> __device__ __forceinline__ W op_relu(W x) { return op_maximum(x, (W)0); }
__device__ __forceinline__ float op_exp(float x) { return expf(x); }
__device__ __forceinline__ float op_sqrt(float x) { return __fsqrt_rn(x); }
__device__ __forceinline__ float op_rsqrt(float x) { return __fdiv_rn(1.0f, __fsqrt_rn(x)); }
__device__ __forceinline__ float op_silu(float x) { return __fdiv_rn(x, __fadd_rn(1.0f, expf(-x))); }
// 1 + erf(x/sqrt(2)) as erfc(-x/sqrt(2)), which does not cancel where x is far below 0.
__device__ __forceinline__ float op_gelu(float x) { return 0.5f * x * erfcf(-0.70710678118654752f * x); }

__device__ __forceinline__ float infinity() { return __uint_as_float(0x7f800000u); }

// COUNT elements that are loaded and stored as one where their address allows.
template <typename T, int COUNT> struct alignas(sizeof(T) * COUNT) Pack { T at[COUNT]; };

template <int COUNT, typename T> __device__ __forceinline__ bool aligned(const T* p) {
  return ((size_t)p & (sizeof(T) * COUNT - 1)) == 0;
}

// 16 bytes of T as floats.
template <typename T> __device__ __forceinline__ void unpack(uint4 bits, float (&to)[16 / sizeof(T)]) {
  const u32 words[4] = {bits.x, bits.y, bits.z, bits.w};
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    if constexpr (sizeof(T) == 4) {
      to[i] = __uint_as_float(words[i]);
    } else {
      to[2 * i] = wide(T{(u16)words[i]});
      to[2 * i + 1] = wide(T{(u16)(words[i] >> 16)});
    }
  }
}

// Copies n elements with `threads` threads, of which this is number `thread`.
template <typename T> __device__ __forceinline__ void copy_span(T* to, const T* from, i64 n, i64 thread, i64 threads) {
  constexpr int COUNT = 16 / sizeof(T);
  i64 done = 0;
  if (aligned<COUNT>(to) && aligned<COUNT>(from)) {
    const i64 packs = n / COUNT;
    for (i64 i = thread; i < packs; i += threads) ((uint4*)to)[i] = ((const uint4*)from)[i];
    done = packs * COUNT;
  }
  for (i64 i = done + thread; i < n; i += threads) to[i] = from[i];
}

__device__ __forceinline__ i64 thread_of_grid() { return blockIdx.x * (i64)blockDim.x + threadIdx.x; }
__device__ __forceinline__ i64 threads_of_grid() { return gridDim.x * (i64)blockDim.x; }

template <typename W> __device__ __forceinline__ W warp_sum(W x) {
#pragma unroll
  for (int offset = 16; offset; offset >>= 1) x += __shfl_xor_sync(0xffffffffu, x, offset);
  return x;
}

__device__ __forceinline__ float warp_max(float x) {
#pragma unroll
  for (int offset = 16; offset; offset >>= 1) x = op_maximum(x, __shfl_xor_sync(0xffffffffu, x, offset));
  return x;
}

// The sum over a block of whole warps, in every thread; the same order in every run.
template <typename W> __device__ __forceinline__ W block_sum(W x) {
  __shared__ W sums[32];
  const int warps = blockDim.x >> 5;
  x = warp_sum(x);
  __syncthreads();  // the last call's sums have been read
  if ((threadIdx.x & 31) == 0) sums[threadIdx.x >> 5] = x;
  __syncthreads();
  x = (int)(threadIdx.x & 31) < warps ? sums[threadIdx.x & 31] : (W)0;
  return warp_sum(x);
}

__device__ __forceinline__ float block_max(float x) {
  __shared__ float largest[32];
  const int warps = blockDim.x >> 5;
  x = warp_max(x);
  __syncthreads();
  if ((threadIdx.x & 31) == 0) largest[threadIdx.x >> 5] = x;
  __syncthreads();
  x = (int)(threadIdx.x & 31) < warps ? largest[threadIdx.x & 31] : -infinity();
  return warp_max(x);
}

// The first fault since the host last looked: its code, where it was, and what was found.
__device__ __forceinline__ void report(u64* fault, i64 site, u64 code, i64 a, i64 b, i64 c) {
  if (atomicCAS(fault, 0ull, code) != 0ull) return;
  fault[1] = (u64)site;
  fault[2] = (u64)a;
  fault[3] = (u64)b;
  fault[4] = (u64)c;
}
