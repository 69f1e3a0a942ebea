// Rows of a table by id: a block for every id. A wrong id is reported by the first that is wrong, and writes nothing.

constexpr u64 FAULT_ID = 4;

extern "C" __global__ void __launch_bounds__(128) vx_embed(
    const T* __restrict__ table, const Id* __restrict__ ids, T* __restrict__ out, i64 rows, i64 width, u64* fault,
    i64 site) {
  const i64 at = blockIdx.x;
  const i64 id = (i64)ids[at];
  if (id >= 0 && id < rows) {
    copy_span(out + at * width, table + id * width, width, threadIdx.x, blockDim.x);
    return;
  }
  bool earlier = false;
  for (i64 i = threadIdx.x; i < at; i += blockDim.x) earlier |= (i64)ids[i] < 0 || (i64)ids[i] >= rows;
  if (!__syncthreads_or(earlier) && threadIdx.x == 0) report(fault, site, FAULT_ID, id, rows, 0);
}
