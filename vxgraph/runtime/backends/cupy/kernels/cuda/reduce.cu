// A reduction over the middle of [outer, n, inner]: a block for a row where inner is 1, else a thread for a column.
// `Reducer` is one of Sum, Mean, Max and ArgMax; Wide is what T computes in, Total what sums of it are kept in.

struct Sum {
  typedef Total State;
  static __device__ __forceinline__ State nothing() { return (State)0; }
  static __device__ __forceinline__ State taken(Wide x, i64 at) { return (State)x; }
  static __device__ __forceinline__ State both(State a, State b) { return a + b; }
  static __device__ __forceinline__ Out result(State s, i64 n) { return narrow<Out>(s); }
};

struct Mean : Sum {
  static __device__ __forceinline__ Out result(State s, i64 n) { return narrow<Out>(s / (float)n); }
};

// The first of equals, the first NaN if there is one.
struct Largest {
  struct State {
    Wide value;
    i64 at;
  };
  static __device__ __forceinline__ State nothing() { return {(Wide)0, -1}; }
  static __device__ __forceinline__ State taken(Wide x, i64 at) { return {x, at}; }
  static __device__ __forceinline__ State both(State a, State b) {
    if (a.at < 0 || b.at < 0) return a.at < 0 ? b : a;
    const bool a_nan = a.value != a.value, b_nan = b.value != b.value;
    if (a_nan != b_nan) return a_nan ? a : b;
    if (!a_nan && a.value != b.value) return a.value > b.value ? a : b;
    return a.at < b.at ? a : b;
  }
};

struct Max : Largest {
  static __device__ __forceinline__ Out result(State s, i64 n) { return narrow<Out>(s.value); }
};

struct ArgMax : Largest {
  static __device__ __forceinline__ Out result(State s, i64 n) { return narrow<Out>(s.at); }
};

typedef Reducer::State State;

// blockDim.x is a power of 2, at most 1024.
extern "C" __global__ void __launch_bounds__(1024) vx_reduce_rows(const T* __restrict__ x, Out* __restrict__ out, i64 n) {
  __shared__ State states[1024];
  x += blockIdx.x * n;
  State s = Reducer::nothing();
#pragma unroll 4
  for (i64 i = threadIdx.x; i < n; i += blockDim.x) s = Reducer::both(s, Reducer::taken(wide(x[i]), i));
  states[threadIdx.x] = s;
  __syncthreads();
  for (int half = blockDim.x / 2; half; half /= 2) {
    if ((int)threadIdx.x < half) states[threadIdx.x] = Reducer::both(states[threadIdx.x], states[threadIdx.x + half]);
    __syncthreads();
  }
  if (threadIdx.x == 0) out[blockIdx.x] = Reducer::result(states[0], n);
}

extern "C" __global__ void __launch_bounds__(128) vx_reduce_columns(
    const T* __restrict__ x, Out* __restrict__ out, i64 outer, i64 n, i64 inner) {
  const i64 column = thread_of_grid();
  if (column >= outer * inner) return;
  x += column / inner * n * inner + column % inner;
  State s = Reducer::nothing();
  for (i64 i = 0; i < n; ++i) s = Reducer::both(s, Reducer::taken(wide(x[i * inner]), i));
  out[column] = Reducer::result(s, n);
}
