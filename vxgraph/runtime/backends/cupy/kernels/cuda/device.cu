// What the language has no word for: conversions of halves, streaming loads, blocks that share memory in a cluster.

typedef signed char i8;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;

struct f16 { u16 bits; };
struct bf16 { u16 bits; };

__device__ __forceinline__ float half_to_float(u16 bits) {
  float x;
  asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(bits));
  return x;
}

__device__ __forceinline__ u16 float_to_half(float x) {
  u16 bits;
  asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(x));
  return bits;
}

// 16 bytes that are read once: they leave the caches first.
__device__ __forceinline__ uint4 load_streaming(const void* from) { return __ldcs((const uint4*)from); }

__device__ __forceinline__ void* dynamic_shared() {
  extern __shared__ uint4 dynamic_shared_memory[];
  return dynamic_shared_memory;
}

// A cluster (compute capability 9.0) is RANKS blocks along x that read one another's shared memory. Before 9.0 a block
// is alone: blocks with blockIdx.x > 0 must return at once, and block 0 does the work of all.
#if __CUDA_ARCH__ >= 900
#define CLUSTER(ranks) __cluster_dims__(ranks, 1, 1)
#define CLUSTER_RANKS(ranks) (ranks)

__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release.aligned;\n\tbarrier.cluster.wait.acquire.aligned;" ::: "memory");
}

// The float that stands in block `rank` of the cluster where `mine` stands in this block.
__device__ __forceinline__ float cluster_load(const float* mine, int rank) {
  float x;
  u32 theirs;
  asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(theirs) : "r"((u32)__cvta_generic_to_shared(mine)), "r"(rank));
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(x) : "r"(theirs) : "memory");
  return x;
}
#else
#define CLUSTER(ranks)
#define CLUSTER_RANKS(ranks) ((void)(ranks), 1)

__device__ __forceinline__ void cluster_sync() { __syncthreads(); }

__device__ __forceinline__ float cluster_load(const float* mine, int rank) { return *mine; }
#endif
