// n elements of one value, given as its bits.

extern "C" __global__ void __launch_bounds__(128) vx_fill(T* __restrict__ out, i64 n, u64 bits) {
  const i64 at = thread_of_grid();
  if (at < n) out[at] = (T)bits;
}
