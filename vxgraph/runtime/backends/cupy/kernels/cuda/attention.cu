// What both attention kernels share. Scores are in units of log2(e), so that weights are powers of two.

constexpr u64 FAULT_LENGTH = CAUSAL ? 2 : 3;

// Valid rows of k and v, or -1 where there are not enough: a fault.
__device__ __forceinline__ int valid_rows(const int* length, int queries, int capacity, u64* fault, i64 site) {
  const int valid = length ? *length : capacity;
  const int needed = CAUSAL ? queries : min(queries, 1);
  if (valid >= needed && valid <= capacity) return valid;
  if ((blockIdx.x | blockIdx.y | blockIdx.z | threadIdx.x) == 0)
    report(fault, site, FAULT_LENGTH, valid, queries, capacity);
  return -1;
}

// What was summed with maximum `from` is worth this much when the maximum is `to`; nothing was summed at -inf.
__device__ __forceinline__ float rescale(float from, float to) { return from == to ? 1.0f : exp2f(from - to); }

// A key's weight; a score of -inf has none, also where nothing larger is known yet. NaN stays NaN.
__device__ __forceinline__ float weight_of(float score, float top) {
  return score == -infinity() ? 0.0f : exp2f(score - top);
}
