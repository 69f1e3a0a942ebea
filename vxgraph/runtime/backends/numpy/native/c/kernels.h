/* The kernels' arguments: addresses that are bound once, and sizes. What changes from run to run (positions, lengths,
   ids) is read from memory. A kernel does the units [base + first, base + last) of its work; which thread does a unit,
   and how many threads there are, changes no bit of a result. */
#pragma once
#include "pool.h"
#include "simd.h"

#define KERNEL(NAME) void NAME(const void *args, Worker *worker, uint32_t tag, long base, long length, long first, long last)
#define UNUSED ((void)worker, (void)tag, (void)length)

typedef struct { /* y [rows, n] = x [rows, k] by w, [n, k] or [k, n]; i8 weights have a scale for each n */
    const void *x, *w;
    const float *scale;
    void *y;
    int64_t rows, k, n;
    int32_t x_type, w_type, y_type, panels; /* panels of 16 columns in a unit of a gemm */
} Product;

typedef struct { const void *x, *gain; void *y; int64_t k; float eps; int32_t type; } Norm;

typedef struct { /* rows of cos and sin [positions][2][depth / 2], filled as they are asked for */
    const void *x;
    void *y;
    const void *positions;
    const double *frequencies; /* [depth / 2], radians per position */
    float *table;
    uint8_t *state; /* of each row of the table */
    int64_t heads, depth, longest;
    int32_t type, interleaved, wide; /* wide: positions are i64, else i32 */
} Rope;

typedef struct { /* q [queries, heads, depth], k [keys, kv, depth], v [keys, kv, width] */
    const void *q, *k, *v;
    void *out;
    const int32_t *valid; /* how many keys there are; null: all */
    int64_t queries, keys, heads, kv, depth, width;
    float scale;
    int32_t type, causal, step; /* heads in a unit, where there is one query */
} Attention;

typedef struct { const void *from; void *to; int64_t nbytes; } Copy;

typedef struct { /* `from` is null where the cache is written in place */
    const void *from, *rows;
    void *cache;
    const int32_t *at;
    int64_t count, capacity, row_bytes;
} Append;

typedef struct { const void *table, *ids; void *y; int64_t count, rows, row_bytes; int32_t wide; } Embed;

typedef struct { const void *x; int32_t *y; const float *temperature; int64_t n; int32_t type; } ArgMax; /* temperature may be null */

#define MAX_OPERANDS 8
#define MAX_CODE 64

typedef struct { /* an expression in reverse Polish notation, element by element */
    const void *operands[MAX_OPERANDS];
    int64_t sizes[MAX_OPERANDS]; /* of each operand, which repeats to fill n */
    void *y;
    int64_t n;
    int32_t type, y_type, code_length;
    uint8_t code[MAX_CODE];
} Elements;
