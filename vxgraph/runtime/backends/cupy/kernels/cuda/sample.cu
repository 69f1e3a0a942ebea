// The next token, by one block. Greedy: the first of the largest logits (of NaNs, if there is one).
//
// Otherwise the nucleus is found without sorting. Ids fall in order of a 32-bit key that rises with the logit, ids of one
// key in order of the id. A probability is a whole number of 2^-60 (from f64), so that sums are exact in any order. To find
// the shortest prefix whose mass reaches a need, the key's 4-bit digits are fixed one by one, highest first: eight passes.
// This is done for top_p, which gives the nucleus' mass, then for the draw. The id is the reference's, save where a need
// meets a running sum within the rounding of either (2^-44 of the mass), or where two logits have one f64 probability.

constexpr int THREADS = 1024;
constexpr double QUANTA = 1152921504606846976.0;  // 2^60
constexpr u64 EVERYTHING = ~0ull;

__device__ __forceinline__ u32 key_of(float x) {
  if (x != x) return 0xffffffffu;
  if (x == 0.0f) return 0x80000000u;  // of both signs
  const u32 bits = __float_as_uint(x);
  return bits >> 31 ? ~bits : bits | 0x80000000u;
}

__device__ __forceinline__ float logit_of(u32 key) {
  return __uint_as_float(key >> 31 ? key & 0x7fffffffu : ~key);
}

__device__ __forceinline__ u64 block_largest(u64 x) {
  __shared__ u64 largest[THREADS / 32];
#pragma unroll
  for (int offset = 16; offset; offset >>= 1) x = max(x, __shfl_xor_sync(0xffffffffu, x, offset));
  if ((threadIdx.x & 31) == 0) largest[threadIdx.x >> 5] = x;
  __syncthreads();
  x = largest[threadIdx.x & 31];
#pragma unroll
  for (int offset = 16; offset; offset >>= 1) x = max(x, __shfl_xor_sync(0xffffffffu, x, offset));
  return x;
}

struct Softmax {
  double temperature, top, quanta;
  __device__ __forceinline__ double weight(float logit) const { return exp((double)logit / temperature - top); }
  __device__ __forceinline__ u64 mass(float logit) const { return __double2ull_rn(weight(logit) * quanta); }
};

struct Found {
  u32 key;
  u64 need;   // not more than all mass
  u64 above;  // mass of larger keys
};

// The key at which the mass of keys from the largest down reaches `need`.
__device__ Found search(const T* logits, int n, const Softmax& softmax, u64 need) {
  __shared__ u64 of_warps[THREADS / 32][16];
  __shared__ u64 at_least[17];
  const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5;
  u64 key = 0, above = 0;
  for (int shift = 28; shift >= 0; shift -= 4) {
    u64 mass[16] = {};
    for (int i = threadIdx.x; i < n; i += THREADS) {
      const float logit = wide(logits[i]);
      const u64 its_key = key_of(logit);
      if (its_key >> (shift + 4) != key) continue;
      const u64 m = softmax.mass(logit);
      const int its_digit = (int)(its_key >> shift & 15);
#pragma unroll
      for (int digit = 0; digit < 16; ++digit) mass[digit] += its_digit >= digit ? m : 0;
    }
#pragma unroll
    for (int digit = 0; digit < 16; ++digit) {
      const u64 sum = warp_sum(mass[digit]);
      if (lane == 0) of_warps[warp][digit] = sum;
    }
    __syncthreads();
    if (threadIdx.x < 17) {
      u64 sum = 0;
      if (threadIdx.x < 16)
        for (int w = 0; w < THREADS / 32; ++w) sum += of_warps[w][threadIdx.x];
      at_least[threadIdx.x] = sum;
    }
    __syncthreads();
    if (shift == 28 && need > at_least[0]) need = at_least[0];
    int digit = 15;
    while (digit > 0 && above + at_least[digit] < need) --digit;
    above += at_least[digit + 1];
    key = key << 4 | digit;
  }
  return {(u32)key, need, above};
}

// How many ids of the found key stand before the one where the need is met.
__device__ __forceinline__ u64 rank_of(const Found& found, u64 mass) { return (found.need - found.above - 1) / mass; }

// The id that has `rank` ids of its key before it.
__device__ int id_of(const T* logits, int n, u32 key, u64 rank) {
  __shared__ int id;
  u64 before = 0;
  for (int base = 0; base < n; base += THREADS) {
    const int i = base + threadIdx.x;
    const int here = __syncthreads_count(i < n && key_of(wide(logits[i])) == key);
    if (before + here <= rank) {
      before += here;
      continue;
    }
    if (threadIdx.x == 0)
      for (id = base; key_of(wide(logits[id])) != key || before++ != rank; ++id) {}
    break;
  }
  __syncthreads();
  return id;
}

__device__ int from_nucleus(const T* logits, int n, float largest, double temperature, double top_p, u64 random) {
  Softmax softmax{temperature, (double)largest / temperature, 0.0};
  double sum = 0.0;
  for (int i = threadIdx.x; i < n; i += THREADS) sum += softmax.weight(wide(logits[i]));
  sum = block_sum(sum);
  if (!(sum >= 1.0)) return 0;  // NaN: as the reference's sort leaves it
  softmax.quanta = QUANTA / sum;
  const u64 need = top_p > 0.0 ? (top_p < 1.0 ? __double2ull_ru(top_p * QUANTA) : EVERYTHING)
                               : (top_p <= 0.0 ? 1 : EVERYTHING);
  const Found last = search(logits, n, softmax, need);
  const u64 its_mass = softmax.mass(logit_of(last.key));
  const u64 nucleus = last.above + (rank_of(last, its_mass) + 1) * its_mass;
  // random / 2^53 of the nucleus, and a quantum more: the running sum must exceed it.
  const Found drawn = search(logits, n, softmax, __umul64hi(random << 11, nucleus) + 1);
  return id_of(logits, n, drawn.key, rank_of(drawn, softmax.mass(logit_of(drawn.key))));
}

// The top 53 bits of splitmix64 (Steele, Lea and Flood, 2014).
__device__ __forceinline__ u64 random_of(i64 seed, int position) {
  u64 z = (u64)seed * 0xD1342543DE82EF95ull + (u64)(i64)position + 0x9E3779B97F4A7C15ull;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ull;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBull;
  return (z ^ (z >> 31)) >> 11;
}

extern "C" __global__ void __launch_bounds__(THREADS) vx_sample(
    const T* __restrict__ logits, const float* temperature, const float* top_p, const i64* seed, const int* position,
    int* out, int n) {
  u64 best = 0;
#pragma unroll 8
  for (int i = threadIdx.x; i < n; i += THREADS) {
    const u64 one = (u64)key_of(wide(logits[i])) << 32 | (u32)~i;
    best = max(best, one);
  }
  best = block_largest(best);
  int id = (int)~(u32)best;
  if (!(*temperature <= 0.0f))
    id = from_nucleus(logits, n, wide(logits[id]), *temperature, *top_p, random_of(*seed, *position));
  if (threadIdx.x == 0) *out = id;
}
