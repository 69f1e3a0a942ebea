/* The arguments of the kernels: addresses that are bound once, and sizes. Positions are read from memory at run time. */
#pragma once
#include "pool.h"
#include "simd.h"

enum { F32, BF16, F16, I8, I8G };

typedef struct { const void *w; const float *scale; float *y; int64_t n; } Matrix; /* w [n, k] -> y [n] */
typedef struct { const float *x, *gain, *add; Matrix m[3]; int64_t k; float eps; } Gemv;
typedef struct { const float *x, *gain; float *y; int64_t rows, k; float eps; } Norm;
typedef struct { const float *a, *b; float *y; int64_t n; } Pair;
typedef struct { float *x; const float *cos, *sin; const int32_t *at; int64_t heads, depth; } Rope; /* pairs 2i, 2i + 1 */
typedef struct { const float *row; float *cache; const int32_t *at; int64_t width; } Append;
typedef struct {
    float *q, *k, *v, *out, *keys, *values; /* k and v are appended when they are given, q and k turned when cos is */
    const float *cos, *sin;
    const int32_t *at;
    int64_t heads, kv, depth;
    float scale;
} Attend;
typedef struct { const float *x; int32_t *y; int64_t n; } Argmax;
typedef struct { const float *table; const int32_t *token; float *y; int64_t k; } Embed;
typedef struct { int32_t *at; } Count;
/* Y [rows, n] = X [rows, k] W^T over panels of 16 rows of X, laid [k][16]; `gate`: silu(X W0^T) * (X W1^T). */
typedef struct { const float *panels, *add; Matrix m[3]; int64_t k, rows, stride, gate; int32_t type; } Gemm;
typedef struct { const float *x, *gain; float *panels; int64_t rows, k; float eps; } Pack;
typedef struct { float *q, *k, *v, *out, *keys, *values; const float *cos, *sin; int64_t rows, heads, kv, depth, start; float scale; } Prompt;

INLINE float inverse_rms(const float *x, long k, float eps) {
    v8f a = splat8(0), b = a;
    long i = 0;
    for (; i + 16 <= k; i += 16) {
        v8f u = load8(x + i), v = load8(x + i + 8);
        a += u * u;
        b += v * v;
    }
    float s = sum8(a + b);
    for (; i < k; i++) s += x[i] * x[i];
    return 1.0f / sqrtf(s / (float)k + eps);
}

INLINE void rms_row(const float *x, const float *gain, float *y, long k, float eps) {
    float r = inverse_rms(x, k, eps);
    for (long i = 0; i < k; i++) y[i] = x[i] * r * gain[i];
}

/* scores -> exp(scores - max) in place; their sum */
float exponentiate(float *s, long n);
