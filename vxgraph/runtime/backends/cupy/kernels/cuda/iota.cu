// 0, 1, 2, ...

extern "C" __global__ void __launch_bounds__(128) vx_iota(T* __restrict__ out, i64 n) {
  const i64 at = thread_of_grid();
  if (at < n) out[at] = narrow<T>(at);
}
