// Attention for many query rows: a block takes TILE rows of one query head over tiles of TILE keys (Dao et al., 2022).
//
// 16 x 16 threads; thread (ty, tx) has the scores of rows ty + 16a and keys tx + 16b, and the mix of rows ty + 16a and
// columns 4tx + 64c. Tiles stand in shared memory as floats; rows are padded so that 16-byte reads of eight rows meet no
// bank twice. Keys that no row of the tile sees are not loaded, and rows beyond the valid ones are zeros.

constexpr int ROWS = TILE / 16;
constexpr int DEPTH = (D + 3) / 4 * 4;
constexpr int COLUMNS = (DV + 63) / 64;
constexpr int PITCH = DEPTH + 4;
constexpr int WIDTH = COLUMNS * 64;

// Rows `first` to first + TILE - 1 (zeros from `end` on) of [rows, stride], `width` of them, as floats at `pitch`.
__device__ __forceinline__ void load_tile(
    float* to, int pitch, const T* from, i64 stride, int first, int end, int width, int padded, float scale) {
  for (int at = threadIdx.x; at < TILE * (padded / 4); at += 256) {
    const int row = at / (padded / 4), column = at % (padded / 4) * 4;
    float4 x = {0.0f, 0.0f, 0.0f, 0.0f};
    if (first + row < end) {
      const T* p = from + (first + row) * stride + column;
      if (column + 4 <= width && aligned<4>(p)) {
        const auto pack = *(const Pack<T, 4>*)p;
        x = {wide(pack.at[0]), wide(pack.at[1]), wide(pack.at[2]), wide(pack.at[3])};
      } else {
        if (column < width) x.x = wide(p[0]);
        if (column + 1 < width) x.y = wide(p[1]);
        if (column + 2 < width) x.z = wide(p[2]);
        if (column + 3 < width) x.w = wide(p[3]);
      }
    }
    *(float4*)(to + row * pitch + column) = {x.x * scale, x.y * scale, x.z * scale, x.w * scale};
  }
}

// Grid (ceil(queries / TILE), query heads), 256 threads.
extern "C" __global__ void __launch_bounds__(256) vx_attend_tiles(
    const T* __restrict__ q, const T* __restrict__ k, const T* __restrict__ v, const int* __restrict__ length,
    T* __restrict__ out, int queries, int capacity, int kv_heads, float scale, u64* fault, i64 site) {
  float* query = (float*)dynamic_shared();                             // [TILE][PITCH]
  float* keys = query + TILE * PITCH;                                  // [TILE][PITCH], then values [TILE][WIDTH]
  float* weights = keys + TILE * (PITCH > WIDTH ? PITCH : WIDTH);      // [TILE][TILE + 4]
  const int valid = valid_rows(length, queries, capacity, fault, site);
  if (valid < 0) return;
  const int tx = threadIdx.x % 16, ty = threadIdx.x / 16;
  const int head = blockIdx.y, heads = gridDim.y, kv = head / GROUP;
  const int first = (gridDim.x - 1 - blockIdx.x) * TILE;  // the longest first
  const int last = min(first + TILE, queries);
  const int seen = CAUSAL ? last + valid - queries : valid;
  load_tile(query, PITCH, q + head * D, (i64)heads * D, first, last, D, DEPTH, scale);

  float top[ROWS], sum[ROWS];
  float4 mix[ROWS][COLUMNS];
#pragma unroll
  for (int a = 0; a < ROWS; ++a) {
    top[a] = -infinity();
    sum[a] = 0.0f;
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) mix[a][c] = {0.0f, 0.0f, 0.0f, 0.0f};
  }
  for (int base = 0; base < seen; base += TILE) {
    __syncthreads();  // the last tile's values have been read
    load_tile(keys, PITCH, k + (i64)kv * D, (i64)kv_heads * D, base, seen, D, DEPTH, 1.0f);
    __syncthreads();
    float score[ROWS][ROWS] = {};
    for (int d = 0; d < DEPTH; d += 4) {
      float4 left[ROWS], right[ROWS];
#pragma unroll
      for (int a = 0; a < ROWS; ++a) {
        left[a] = *(const float4*)(query + (ty + 16 * a) * PITCH + d);
        right[a] = *(const float4*)(keys + (tx + 16 * a) * PITCH + d);
      }
#pragma unroll
      for (int a = 0; a < ROWS; ++a)
#pragma unroll
        for (int b = 0; b < ROWS; ++b)
          score[a][b] += left[a].x * right[b].x + left[a].y * right[b].y + left[a].z * right[b].z + left[a].w * right[b].w;
    }
#pragma unroll
    for (int a = 0; a < ROWS; ++a) {
      const int row = first + ty + 16 * a;
      float largest = top[a];
#pragma unroll
      for (int b = 0; b < ROWS; ++b) {
        const int key = base + tx + 16 * b;
        if (key >= seen || (CAUSAL && key > row + valid - queries)) score[a][b] = -infinity();
        largest = fmaxf(largest, score[a][b]);
      }
#pragma unroll
      for (int offset = 8; offset; offset >>= 1) largest = fmaxf(largest, __shfl_xor_sync(0xffffffffu, largest, offset));
      const float old = rescale(top[a], largest);
      float added = 0.0f;
#pragma unroll
      for (int b = 0; b < ROWS; ++b) {
        const float weight = weight_of(score[a][b], largest);
        weights[(ty + 16 * a) * (TILE + 4) + tx + 16 * b] = weight;
        added += weight;
      }
#pragma unroll
      for (int offset = 8; offset; offset >>= 1) added += __shfl_xor_sync(0xffffffffu, added, offset);
      top[a] = largest;
      sum[a] = sum[a] * old + added;
#pragma unroll
      for (int c = 0; c < COLUMNS; ++c)
        mix[a][c] = {mix[a][c].x * old, mix[a][c].y * old, mix[a][c].z * old, mix[a][c].w * old};
    }
    __syncthreads();  // the keys have been read
    load_tile(keys, WIDTH, v + (i64)kv * DV, (i64)kv_heads * DV, base, seen, DV, WIDTH, 1.0f);
    __syncthreads();
    for (int j = 0; j < TILE; ++j) {
      float4 value[COLUMNS];
#pragma unroll
      for (int c = 0; c < COLUMNS; ++c) value[c] = *(const float4*)(keys + j * WIDTH + 4 * tx + 64 * c);
#pragma unroll
      for (int a = 0; a < ROWS; ++a) {
        const float weight = weights[(ty + 16 * a) * (TILE + 4) + j];
#pragma unroll
        for (int c = 0; c < COLUMNS; ++c) {
          mix[a][c].x += weight * value[c].x;
          mix[a][c].y += weight * value[c].y;
          mix[a][c].z += weight * value[c].z;
          mix[a][c].w += weight * value[c].w;
        }
      }
    }
  }
#pragma unroll
  for (int a = 0; a < ROWS; ++a) {
    const int row = first + ty + 16 * a;
    if (row >= last) continue;
    T* to = out + ((i64)row * heads + head) * DV;
#pragma unroll
    for (int c = 0; c < COLUMNS; ++c) {
      const float columns[4] = {mix[a][c].x, mix[a][c].y, mix[a][c].z, mix[a][c].w};
#pragma unroll
      for (int i = 0; i < 4; ++i)
        if (4 * tx + 64 * c + i < DV) to[4 * tx + 64 * c + i] = narrow<T>(columns[i] / sum[a]);
    }
  }
}
