// How a thread reads and writes COUNT neighbours: dense, one element for all, or gathered at a stride. `here` of them are in
// the tensor; `whole` says that all are, and that dense ones are aligned as a pack.

template <int N, typename T>
__device__ __forceinline__ Pack<T, N> load_g(const T* from, Index step, int here, bool whole) {
  Pack<T, N> to = {};
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (i < here) to.at[i] = from[i * step];
  return to;
}

template <int N, typename T>
__device__ __forceinline__ Pack<T, N> load_d(const T* from, Index step, int here, bool whole) {
  if (whole) return *(const Pack<T, N>*)from;
  return load_g<N>(from, 1, here, whole);
}

template <int N, typename T>
__device__ __forceinline__ Pack<T, N> load_s(const T* from, Index step, int here, bool whole) {
  Pack<T, N> to;
  const T x = *from;
#pragma unroll
  for (int i = 0; i < N; ++i) to.at[i] = x;
  return to;
}

template <int N, typename T>
__device__ __forceinline__ void store_g(T* to, const Pack<T, N>& from, Index step, int here, bool whole) {
#pragma unroll
  for (int i = 0; i < N; ++i)
    if (i < here) to[i * step] = from.at[i];
}

template <int N, typename T>
__device__ __forceinline__ void store_d(T* to, const Pack<T, N>& from, Index step, int here, bool whole) {
  if (whole) *(Pack<T, N>*)to = from;
  else store_g<N>(to, from, 1, here, whole);
}
