// CUDA on a CPU, for tests: threads of a block are fibers that change at barriers and shuffles, blocks of a cluster are
// threads of the host. Slow, exact about who waits for whom, and strict: a shuffle in a warp that lost a lane aborts.
#pragma once
#include <setjmp.h>
#include <ucontext.h>

#include <barrier>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#define RUNNER extern "C" __attribute__((visibility("default")))
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __shared__ static thread_local

struct uint3 { unsigned x, y, z; };
struct alignas(16) uint4 { unsigned x, y, z, w; };
struct alignas(16) float4 { float x, y, z, w; };

namespace host {

constexpr size_t STACK = 128 << 10;
constexpr int MOST = 1024;

struct Meeting {  // of those that are still there
  int there = 0, arrived = 0;
  unsigned long long round = 0;
  int gathering = 0, gathered = 0;
};

struct Block;
inline thread_local Block* block;
inline thread_local uint3 threadIdx, blockIdx, blockDim, gridDim;

struct Fiber {
  jmp_buf at;
  uint3 index;
  bool done = false;
  std::unique_ptr<char[]> stack;
};

struct Block {
  Fiber fibers[MOST];
  Meeting all, warps[MOST / 32];
  unsigned long long slots[MOST];
  std::vector<uint4> dynamic;
  jmp_buf scheduler;
  int current = 0, ran = 0;
  void (*body)(void*);
  void* context;
  std::barrier<>* cluster = nullptr;
  Block** peers = nullptr;
  char* anchor = nullptr;  // of this host thread's copies of __shared__ variables
};

inline void fail(const char* why) {
  std::fprintf(stderr, "host_cuda: %s\n", why);
  std::abort();
}

__attribute__((noinline)) inline void yield() {
  Fiber& me = block->fibers[block->current];
  if (_setjmp(me.at) == 0) _longjmp(block->scheduler, 1);
  threadIdx = me.index;
}

inline void release(Meeting& m) {
  m.arrived = 0;
  m.gathered = m.gathering;
  m.gathering = 0;
  ++m.round;
}

// Returns the sum of what all gave.
__attribute__((noinline)) inline int meet(Meeting& m, int given = 0) {
  const auto round = m.round;
  m.gathering += given;
  if (++m.arrived == m.there) release(m);
  else while (m.round == round) yield();
  return m.gathered;
}

inline void leave(Meeting& m) {
  if (--m.there > 0 && m.arrived == m.there) release(m);
}

inline void fiber_main() {
  Fiber& me = block->fibers[block->current];
  threadIdx = me.index;
  block->body(block->context);
  me.done = true;
  leave(block->warps[block->current / 32]);
  leave(block->all);
  _longjmp(block->scheduler, 1);
}

inline void run_block(int threads, size_t shared, void (*body)(void*), void* context) {
  Block& b = *block;
  b.body = body;
  b.context = context;
  b.dynamic.assign(shared / 16 + 1, uint4{~0u, ~0u, ~0u, ~0u});
  b.all = Meeting{threads};
  for (int w = 0; w < MOST / 32; ++w) b.warps[w] = Meeting{};
  for (int i = 0; i < threads; ++i) {
    ++b.warps[i / 32].there;
    b.fibers[i].done = false;
    b.fibers[i].index = {(unsigned)i, 0, 0};
    if (!b.fibers[i].stack) b.fibers[i].stack = std::make_unique<char[]>(STACK);
  }
  ucontext_t back, fresh;
  for (volatile int i = 0; i < threads; i = i + 1) {
    b.current = i;
    if (_setjmp(b.scheduler) != 0) continue;
    getcontext(&fresh);
    fresh.uc_stack.ss_sp = b.fibers[i].stack.get();
    fresh.uc_stack.ss_size = STACK;
    fresh.uc_link = &back;
    makecontext(&fresh, fiber_main, 0);
    setcontext(&fresh);
  }
  for (volatile bool going = true; going;) {
    going = false;
    for (volatile int i = 0; i < threads; i = i + 1) {
      if (b.fibers[i].done) continue;
      going = true;
      b.current = i;
      if (_setjmp(b.scheduler) == 0) _longjmp(b.fibers[i].at, 1);
    }
  }
}

inline thread_local char anchor_of_thread;

template <typename... Args, size_t... I>
void apply(void (*kernel)(Args...), void** args, std::index_sequence<I...>) {
  kernel(*(std::remove_cv_t<Args>*)args[I]...);
}

template <typename... Args>
void launch(void (*kernel)(Args...), void** args, const unsigned* grid, unsigned threads, size_t shared, int ranks) {
  struct Call {
    void (*kernel)(Args...);
    void** args;
  } call{kernel, args};
  auto body = [](void* context) {
    auto* c = (Call*)context;
    apply(c->kernel, c->args, std::index_sequence_for<Args...>{});
  };
  std::vector<std::unique_ptr<Block>> blocks;
  std::vector<Block*> peers;
  for (int r = 0; r < ranks; ++r) peers.push_back((blocks.emplace_back(std::make_unique<Block>())).get());
  std::barrier<> cluster(ranks);
  auto work = [&](int rank) {
    block = peers[rank];
    block->cluster = ranks > 1 ? &cluster : nullptr;
    block->peers = peers.data();
    block->anchor = &anchor_of_thread;
    if (ranks > 1) cluster.arrive_and_wait();
    // From the last to the first: nothing may rest on the order of blocks.
    for (unsigned z = grid[2]; z-- > 0;)
      for (unsigned y = grid[1]; y-- > 0;)
        for (unsigned group = grid[0] / ranks; group-- > 0;) {
          blockIdx = {group * ranks + rank, y, z};
          blockDim = {threads, 1, 1};
          gridDim = {grid[0], grid[1], grid[2]};
          run_block((int)threads, shared, body, &call);
          if (ranks > 1) cluster.arrive_and_wait();
        }
  };
  std::vector<std::thread> others;
  for (int r = 1; r < ranks; ++r) others.emplace_back(work, r);
  std::thread first(work, 0);
  first.join();
  for (auto& t : others) t.join();
}

template <typename W> W shuffle_xor(W x, int offset) {
  const int me = block->current, warp = me / 32;
  if (block->warps[warp].there != 32) fail("a shuffle in a warp that lost a lane");
  std::memcpy(&block->slots[me], &x, sizeof(W));
  meet(block->warps[warp]);
  W its;
  std::memcpy(&its, &block->slots[me ^ offset], sizeof(W));
  meet(block->warps[warp]);
  return its;
}

}  // namespace host

using host::blockDim;
using host::blockIdx;
using host::gridDim;
using host::threadIdx;

inline void __syncthreads() { host::meet(host::block->all); }
inline int __syncthreads_count(int x) { return host::meet(host::block->all, x != 0); }
inline int __syncthreads_or(int x) { return host::meet(host::block->all, x != 0) != 0; }
template <typename W> W __shfl_xor_sync(unsigned, W x, int offset) { return host::shuffle_xor(x, offset); }

inline float __uint_as_float(unsigned x) { float y; std::memcpy(&y, &x, 4); return y; }
inline unsigned __float_as_uint(float x) { unsigned y; std::memcpy(&y, &x, 4); return y; }
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fsqrt_rn(float x) { return std::sqrt(x); }
inline void sincospif(float x, float* s, float* c) {
  *s = (float)std::sin(M_PI * (double)x);
  *c = (float)std::cos(M_PI * (double)x);
}
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) {
  return (unsigned long long)(((unsigned __int128)a * b) >> 64);
}
inline unsigned long long __double2ull_rn(double x) { return (unsigned long long)std::nearbyint(x); }
inline unsigned long long __double2ull_ru(double x) { return (unsigned long long)std::ceil(x); }
inline int min(int a, int b) { return a < b ? a : b; }
inline unsigned long long max(unsigned long long a, unsigned long long b) { return a > b ? a : b; }
inline unsigned long long atomicCAS(unsigned long long* at, unsigned long long was, unsigned long long now) {
  __atomic_compare_exchange_n(at, &was, now, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);
  return was;
}

// In place of cuda/device.cu.
typedef signed char i8;
typedef unsigned char u8;
typedef unsigned short u16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;
struct f16 { u16 bits; };
struct bf16 { u16 bits; };
inline float half_to_float(u16 bits) { _Float16 x; std::memcpy(&x, &bits, 2); return (float)x; }
inline u16 float_to_half(float x) { const _Float16 y = (_Float16)x; u16 bits; std::memcpy(&bits, &y, 2); return bits; }
inline uint4 load_streaming(const void* from) { return *(const uint4*)from; }
inline void* dynamic_shared() { return host::block->dynamic.data(); }
#define CLUSTER(ranks)
#define CLUSTER_RANKS(ranks) (ranks)
inline void cluster_sync() {
  host::meet(host::block->all);
  if (host::block->current == 0) host::block->cluster->arrive_and_wait();
  host::meet(host::block->all);
}
inline float cluster_load(const float* mine, int rank) {
  return *(const float*)(host::block->peers[rank]->anchor + ((const char*)mine - host::block->anchor));
}
