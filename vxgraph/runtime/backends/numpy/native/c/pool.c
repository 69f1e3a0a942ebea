#define _GNU_SOURCE
#include "pool.h"
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>

#ifdef __linux__
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#if defined(__x86_64__)
#define RELAX() __builtin_ia32_pause()
#elif defined(__aarch64__)
#define RELAX() __asm__ volatile("yield")
#else
#define RELAX() ((void)0)
#endif

typedef struct { _Alignas(64) _Atomic uint64_t word; } Share; /* sequence number : 32, log2 of grain : 8, units left : 24 */
typedef struct { _Alignas(64) Worker worker; Pool *pool; pthread_t thread; } Thread;

struct Pool {
    _Alignas(64) _Atomic uint32_t sequence; /* of the kernel that is open */
    _Alignas(64) _Atomic int32_t undone;    /* its units */
    _Alignas(64) _Atomic int sleepers;
    _Atomic int closing, declined;
    int threads, spin;
    const Kernel *kernels;
    uint32_t base; /* sequence number of kernels[0] */
    int count, reached; /* kernels in the list, and the one that it ended at */
    int64_t scratch, shared; /* bytes */
    pthread_mutex_t turn;    /* one list at a time */
#ifndef __linux__
    pthread_mutex_t lock;
    pthread_cond_t changed;
#endif
    Share shares[MAX_THREADS];
    Thread team[MAX_THREADS];
};

static long share_start(const Kernel *k, int threads, int share) { return (long)((int64_t)k->rows * share / threads); }

static long share_units(const Kernel *k, int threads, int share) {
    long length = share_start(k, threads, share + 1) - share_start(k, threads, share);
    return (length + k->streams - 1) / k->streams;
}

#ifdef __linux__
static void futex(Pool *p, int op, uint32_t value) { syscall(SYS_futex, &p->sequence, op | FUTEX_PRIVATE_FLAG, value, 0, 0, 0); }

static void wake(Pool *p) { futex(p, FUTEX_WAKE, MAX_THREADS); }

static void sleep_while(Pool *p, uint32_t sequence) {
    while (atomic_load(&p->sequence) == sequence) futex(p, FUTEX_WAIT, sequence);
}
#else
static void wake(Pool *p) {
    pthread_mutex_lock(&p->lock);
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

static void sleep_while(Pool *p, uint32_t sequence) {
    pthread_mutex_lock(&p->lock);
    while (atomic_load(&p->sequence) == sequence) pthread_cond_wait(&p->changed, &p->lock);
    pthread_mutex_unlock(&p->lock);
}
#endif

/* Opens kernel number `sequence`, the one after it where it has no rows, or none after the last one. Those who sleep are
   woken for more than one bit of work, and after the last one where it may be the caller of `pool_run` who sleeps. */
static void open_kernel(Pool *p, uint32_t sequence, int by_caller) {
    uint32_t at = sequence - p->base;
    while (at < (uint32_t)p->count && !p->kernels[at].rows) at++;
    sequence = p->base + at;
    const Kernel *k = at < (uint32_t)p->count ? &p->kernels[at] : NULL;
    int32_t all = 0;
    for (int s = 0; k && s < p->threads; s++) all += (int32_t)share_units(k, p->threads, s);
    atomic_store_explicit(&p->undone, all, memory_order_relaxed);
    for (int s = 0; s < p->threads; s++) {
        uint64_t left = k ? (uint64_t)share_units(k, p->threads, s) : 0, grain = k ? (uint64_t)k->grain : 0;
        atomic_store_explicit(&p->shares[s].word, (uint64_t)sequence << 32 | grain << 24 | left, memory_order_release);
    }
    /* Both in the one order of all: a sleeper sees the new number, or is seen here. */
    atomic_store_explicit(&p->sequence, sequence, memory_order_seq_cst);
    int wanted = k ? all >> k->grain > 1 : !by_caller;
    if (wanted && atomic_load_explicit(&p->sleepers, memory_order_seq_cst)) wake(p);
}

/* After the last unit of kernel number `sequence`. */
static void close_kernel(Pool *p, uint32_t sequence, int by_caller) {
    if (!atomic_load_explicit(&p->declined, memory_order_relaxed)) {
        open_kernel(p, sequence + 1, by_caller);
        return;
    }
    p->reached = (int)(sequence - p->base);
    open_kernel(p, p->base + (uint32_t)p->count, by_caller);
}

/* Takes units of a share of kernel `sequence` until none is left; opens the next kernel after the last of all. */
static void work_on(Pool *p, Worker *w, uint32_t sequence, int s) {
    uint64_t word = atomic_load_explicit(&p->shares[s].word, memory_order_acquire);
    for (;;) {
        uint64_t left = word & 0xFFFFFF;
        if ((uint32_t)(word >> 32) != sequence || !left) return;
        uint64_t take = 1ull << (word >> 24 & 0xFF);
        if (take > left) take = left;
        if (!atomic_compare_exchange_weak_explicit(&p->shares[s].word, &word, word - take, memory_order_acq_rel, memory_order_acquire)) continue;
        /* The kernel stays open while units of it are held, so it can be looked at from here on only. */
        const Kernel *k = &p->kernels[sequence - p->base];
        long base = share_start(k, p->threads, s), length = share_start(k, p->threads, s + 1) - base;
        long first = share_units(k, p->threads, s) - (long)left;
        k->run(k->args, w, sequence, base, length, first, first + (long)take);
        if (atomic_fetch_sub_explicit(&p->undone, (int32_t)take, memory_order_acq_rel) == (int32_t)take) {
            close_kernel(p, sequence, w->index == 0);
            return;
        }
        word -= take;
    }
}

static void await_change(Pool *p, uint32_t sequence) {
    for (int i = 0; i < p->spin; i++) {
        if (atomic_load_explicit(&p->sequence, memory_order_acquire) != sequence) return;
        RELAX();
    }
    atomic_fetch_add(&p->sleepers, 1);
    sleep_while(p, sequence);
    atomic_fetch_sub(&p->sleepers, 1);
}

static void work(Pool *p, Worker *w, uint32_t sequence) {
    for (int i = 0; i < p->threads; i++) {
        if (i && atomic_load_explicit(&p->sequence, memory_order_acquire) != sequence) return;
        work_on(p, w, sequence, (w->index + i) % p->threads);
    }
}

static void *live(void *arg) {
    Thread *t = arg;
    Pool *p = t->pool;
    await_change(p, 0); /* the first list begins when all threads are there */
    while (!atomic_load(&p->closing)) {
        uint32_t sequence = atomic_load_explicit(&p->sequence, memory_order_acquire);
        work(p, &t->worker, sequence);
        if (atomic_load_explicit(&p->sequence, memory_order_acquire) == sequence) await_change(p, sequence);
    }
    return NULL;
}

int pool_run(Pool *p, const Kernel *kernels, int count) {
    pthread_mutex_lock(&p->turn);
    uint32_t last = atomic_load(&p->sequence);
    /* Number 0 is nobody's: a worker's `tag` of 0 says that its scratch holds nothing. */
    p->base = UINT32_MAX - last > (uint32_t)count + 1 ? last + 1 : 1;
    p->kernels = kernels;
    p->count = p->reached = count;
    atomic_store_explicit(&p->declined, 0, memory_order_relaxed);
    uint32_t end = p->base + (uint32_t)count, sequence = p->base;
    open_kernel(p, sequence, 1);
    while ((sequence = atomic_load_explicit(&p->sequence, memory_order_acquire)) != end) {
        work(p, &p->team[0].worker, sequence);
        if (atomic_load_explicit(&p->sequence, memory_order_acquire) == sequence) await_change(p, sequence);
    }
    int reached = p->reached;
    pthread_mutex_unlock(&p->turn);
    return reached;
}

static void *aligned(int64_t nbytes) { return aligned_alloc(64, (size_t)(nbytes + 63) / 64 * 64); }

/* Puts a larger block in the place of one of `had` bytes; what the old one held is gone. */
static int grow(void **block, int64_t nbytes) {
    void *larger = aligned(nbytes);
    if (!larger) return -1;
    free(*block);
    *block = larger;
    return 0;
}

int pool_reserve(Pool *p, int64_t scratch, int64_t shared) {
    int failed = 0;
    pthread_mutex_lock(&p->turn);
    if (scratch > p->scratch) {
        for (int i = 0; i < p->threads && !failed; i++) {
            void *block = p->team[i].worker.scratch;
            failed = grow(&block, scratch);
            p->team[i].worker.scratch = block;
            p->team[i].worker.tag = 0;
        }
        if (!failed) p->scratch = scratch;
    }
    if (!failed && shared > p->shared) {
        void *block = p->team[0].worker.shared;
        failed = grow(&block, shared);
        for (int i = 0; i < p->threads; i++) p->team[i].worker.shared = block;
        if (!failed) p->shared = shared;
    }
    pthread_mutex_unlock(&p->turn);
    return failed;
}

/* Signals are for the threads that there were before: a handler may expect what those have. */
static void start(Pool *p, int threads) {
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    pthread_mutex_lock(&p->turn);
    for (p->threads = 1; p->threads < threads; p->threads++) {
        Thread *t = &p->team[p->threads];
        if (pthread_create(&t->thread, NULL, live, t)) break;
    }
    pthread_mutex_unlock(&p->turn);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

Pool *pool_open(int threads, int spin) {
    Pool *p = aligned((int64_t)sizeof(Pool));
    if (!p) return NULL;
    *p = (Pool){.threads = 1, .spin = spin};
    pthread_mutex_init(&p->turn, NULL);
#ifndef __linux__
    pthread_mutex_init(&p->lock, NULL);
    pthread_cond_init(&p->changed, NULL);
#endif
    for (int i = 0; i < MAX_THREADS; i++) {
        p->team[i].pool = p;
        p->team[i].worker = (Worker){.index = i, .declined = &p->declined};
    }
    start(p, threads < MAX_THREADS ? threads : MAX_THREADS);
    return p;
}

int pool_threads(const Pool *p) { return p->threads; }

void pool_close(Pool *p) {
    pthread_mutex_lock(&p->turn);
    atomic_store(&p->closing, 1);
    p->count = 0;
    p->base = atomic_load(&p->sequence) + 1;
    open_kernel(p, p->base, 0);
    for (int i = 1; i < p->threads; i++) pthread_join(p->team[i].thread, NULL);
    for (int i = 0; i < p->threads; i++) free(p->team[i].worker.scratch);
    free(p->team[0].worker.shared);
    pthread_mutex_unlock(&p->turn);
    free(p);
}
