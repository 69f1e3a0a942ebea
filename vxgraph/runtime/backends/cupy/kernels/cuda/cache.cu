// A cache [capacity, width] with rows at..at+count-1 replaced. In place, nothing else is touched.

constexpr u64 FAULT_APPEND = 1;

extern "C" __global__ void __launch_bounds__(128) vx_cache_append(
    const T* cache, const T* __restrict__ rows, const int* __restrict__ at, T* out, i64 count, i64 capacity, i64 width,
    u64* fault, i64 site) {
  const i64 start = *at, me = thread_of_grid(), all = threads_of_grid();
  if (start < 0 || start + count > capacity) {
    if (me == 0) report(fault, site, FAULT_APPEND, start, count, capacity);
    return;
  }
  copy_span(out + start * width, rows, count * width, me, all);
  if (IN_PLACE) return;
  copy_span(out, cache, start * width, me, all);
  const i64 end = (start + count) * width;
  copy_span(out + end, cache + end, capacity * width - end, me, all);
}
