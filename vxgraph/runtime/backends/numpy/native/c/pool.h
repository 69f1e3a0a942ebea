/* Threads that are kept alive, and lists of kernels that they walk together.

   A kernel is rows of work. Each thread owns a share of them and takes it bit by bit; who is done takes from the others'
   shares. The thread that finishes a kernel's last row opens the next kernel: nobody waits for a thread that does not run.
   Who finds nothing to take spins for a while and then sleeps in the kernel. */
#pragma once
#include <stdatomic.h>
#include <stdint.h>

#define MAX_THREADS 64

typedef struct { /* what a kernel may use of the thread that runs it, and of the pool */
    int index;
    uint32_t tag;  /* the `tag` of the kernel that `scratch` was prepared for; 0 for none */
    float *scratch; /* the thread's own, 64-byte aligned, of the size that the call asked for */
    void *shared;   /* all threads': what one call of a launch leaves for the next ones */
    _Atomic int *declined;
} Worker;

/* Units [first, last) of the share of `length` rows that begins at row `base`. With one stream a unit is a row; with
   s streams unit i is the rows i, i + q, i + 2 q, ... of the share, q = ceil(length / s), those that are inside it.
   `tag` is another one for each kernel that is run, and never 0. */
typedef void (*Run)(const void *args, Worker *worker, uint32_t tag, long base, long length, long first, long last);

/* What a kernel that finds its operands' values beyond it does instead of writing: NumPy's kernel runs in its place, and
   the list goes on after it. */
static inline void decline(Worker *worker) { atomic_store_explicit(worker->declined, 1, memory_order_relaxed); }

typedef struct {
    Run run;
    const void *args;
    int32_t rows;    /* of work in all */
    int32_t streams; /* rows that are walked side by side: a unit of work is one row of each */
    int32_t grain;   /* log2 of the units taken at once */
    int32_t pad;
} Kernel;

typedef struct Pool Pool;

Pool *pool_open(int threads, int spin);                        /* NULL where there is no memory */
int pool_threads(const Pool *pool);                            /* fewer than asked for where the system has no more */
int pool_reserve(Pool *pool, int64_t scratch, int64_t shared); /* bytes; -1 where there is no memory */
int pool_run(Pool *pool, const Kernel *kernels, int count);    /* the index of the one that declined, else `count` */
void pool_close(Pool *pool);
