/* y = W x for one row x: W is [n, k] in f32, bf16, f16 or int8 with a scale per row (or per 32 of a row).

   A thread's share of the rows is walked as four streams a quarter of it apart: four places of memory are read at once,
   which takes the memory bus further than one does. A row's sum is the same whoever computes it. */
#include "kernels.h"

/* The sums of four rows. LOAD8 and LOAD1 give weights as f32. */
#define DOT4(NAME, T, LOAD8, LOAD1)                                                                                     \
    INLINE void NAME(const void *const w[4], const float *x, long k, float s[4]) {                                      \
        const T *a = w[0], *b = w[1], *c = w[2], *d = w[3];                                                             \
        v8f a0 = splat8(0), a1 = a0, b0 = a0, b1 = a0, c0 = a0, c1 = a0, d0 = a0, d1 = a0;                              \
        long i = 0;                                                                                                     \
        for (; i + 16 <= k; i += 16) {                                                                                  \
            v8f x0 = load8(x + i), x1 = load8(x + i + 8);                                                               \
            a0 += LOAD8(a + i) * x0; b0 += LOAD8(b + i) * x0; c0 += LOAD8(c + i) * x0; d0 += LOAD8(d + i) * x0;         \
            a1 += LOAD8(a + i + 8) * x1; b1 += LOAD8(b + i + 8) * x1;                                                   \
            c1 += LOAD8(c + i + 8) * x1; d1 += LOAD8(d + i + 8) * x1;                                                   \
        }                                                                                                               \
        sum8x4(a0 + a1, b0 + b1, c0 + c1, d0 + d1, s);                                                                  \
        for (; i < k; i++) {                                                                                            \
            s[0] += LOAD1(a + i) * x[i]; s[1] += LOAD1(b + i) * x[i];                                                   \
            s[2] += LOAD1(c + i) * x[i]; s[3] += LOAD1(d + i) * x[i];                                                   \
        }                                                                                                               \
    }

INLINE float load_f32(const float *p) { return *p; }
INLINE float load_i8(const int8_t *p) { return (float)*p; }

DOT4(dot4_f32, float, load8, load_f32)
DOT4(dot4_bf16, uint16_t, load8_bf16, load_bf16)
DOT4(dot4_f16, _Float16, load8_f16, load_f16)
DOT4(dot4_i8, int8_t, load8_i8, load_i8)

/* int8 with a scale for each 32 of a row; k is a multiple of 32. */
INLINE void dot4_i8g(const void *const w[4], const float *const g[4], const float *x, long k, float s[4]) {
    v8f sum[4] = {splat8(0), splat8(0), splat8(0), splat8(0)};
    for (long i = 0; i < k; i += 32) {
        v8f x0 = load8(x + i), x1 = load8(x + i + 8), x2 = load8(x + i + 16), x3 = load8(x + i + 24);
        for (int r = 0; r < 4; r++) {
            const int8_t *p = (const int8_t *)w[r] + i;
            v8f t = load8_i8(p) * x0;
            t += load8_i8(p + 8) * x1;
            t += load8_i8(p + 16) * x2;
            t += load8_i8(p + 24) * x3;
            sum[r] += t * splat8(g[r][i / 32]);
        }
    }
    sum8x4(sum[0], sum[1], sum[2], sum[3], s);
}

INLINE void dot4(int type, const Matrix *const m[4], const long row[4], const float *x, long k, float s[4]) {
    static const int size[] = {4, 2, 2, 1, 1};
    const void *w[4];
    for (int r = 0; r < 4; r++) w[r] = (const char *)m[r]->w + row[r] * k * size[type];
    switch (type) {
    case F32: dot4_f32(w, x, k, s); break;
    case BF16: dot4_bf16(w, x, k, s); break;
    case F16: dot4_f16(w, x, k, s); break;
    case I8: dot4_i8(w, x, k, s); for (int r = 0; r < 4; r++) s[r] *= m[r]->scale[row[r]]; break;
    default: {
        const float *g[4];
        for (int r = 0; r < 4; r++) g[r] = m[r]->scale + row[r] * (k / 32);
        dot4_i8g(w, g, x, k, s);
    }
    }
}

/* x, or x normalised in the thread's scratch: once per kernel and thread, every thread the same. */
INLINE const float *source(const Gemv *g, Worker *worker, uint32_t tag) {
    if (!g->gain) return g->x;
    if (worker->tag != tag) {
        rms_row(g->x, g->gain, worker->scratch, g->k, g->eps);
        worker->tag = tag;
    }
    return worker->scratch;
}

INLINE void gemv(int type, const Gemv *g, const float *x, long base, long length, long first, long last) {
    long q = (length + 3) / 4;
    const Matrix *m[4];
    long row[4];
    for (int r = 0; r < 4; r++) {
        m[r] = g->m;
        for (row[r] = base + first + r * q; m[r] < g->m + 2 && row[r] >= m[r]->n; m[r]++) row[r] -= m[r]->n;
    }
    for (long i = first; i < last; i++) {
        float s[4];
        /* The last quarter may be shorter: then its row is the first one's again, and not stored. */
        int short_of = 0;
        while (i + (3 - short_of) * q >= length) short_of++;
        for (int r = 4 - short_of; r < 4; r++) m[r] = m[0], row[r] = row[0];
        dot4(type, m, row, x, g->k, s);
        for (int r = 0; r < 4; r++) {
            if (r < 4 - short_of) m[r]->y[row[r]] = g->add ? g->add[row[r]] + s[r] : s[r];
        }
        for (int r = 0; r < 4; r++)
            if (++row[r] == m[r]->n) m[r]++, row[r] = 0;
    }
}

/* y = silu(W0 x) * (W1 x): a row of both matrices, and one half of the share further on another. */
INLINE void gated(int type, const Gemv *g, const float *x, long base, long length, long first, long last) {
    long half = (length + 1) / 2;
    for (long i = first; i < last; i++) {
        long a = base + i, b = i + half < length ? a + half : a;
        const Matrix *m[4] = {&g->m[0], &g->m[0], &g->m[1], &g->m[1]};
        const long row[4] = {a, b, a, b};
        float s[4];
        dot4(type, m, row, x, g->k, s);
        v8f gate = {s[0], s[1]}, y = silu8(gate);
        g->m[0].y[a] = y[0] * s[2];
        g->m[0].y[b] = y[1] * s[3];
    }
}

#define ENTRY(NAME, BODY, TYPE)                                                                                         \
    void NAME(const void *args, Worker *worker, uint32_t tag, long base, long length, long first, long last) {          \
        const Gemv *g = args;                                                                                           \
        BODY(TYPE, g, source(g, worker, tag), base, length, first, last);                                               \
    }

ENTRY(gemv_f32, gemv, F32)
ENTRY(gemv_bf16, gemv, BF16)
ENTRY(gemv_f16, gemv, F16)
ENTRY(gemv_i8, gemv, I8)
ENTRY(gemv_i8g, gemv, I8G)
ENTRY(gated_f32, gated, F32)
ENTRY(gated_bf16, gated, BF16)
ENTRY(gated_f16, gated, F16)
ENTRY(gated_i8, gated, I8)
ENTRY(gated_i8g, gated, I8G)

/* y[n] = x[k] W, W [k, n] f32: columns are rows of work, 64 a unit of work's length; the sums go over k in order. */
void gemv_kn_f32(const void *args, Worker *worker, uint32_t tag, long base, long length, long first, long last) {
    const Gemv *g = args;
    const float *x = source(g, worker, tag), *w = g->m[0].w;
    long n = g->m[0].n, from = (base + first) * 64, to = (base + last) * 64;
    (void)length;
    float *y = g->m[0].y;
    if (to > n) to = n;
    for (long j = from; j < to; j++) y[j] = 0;
    for (long i = 0; i + 4 <= g->k; i += 4) {
        const float *a = w + i * n, *b = a + n, *c = b + n, *d = c + n;
        v8f xa = splat8(x[i]), xb = splat8(x[i + 1]), xc = splat8(x[i + 2]), xd = splat8(x[i + 3]);
        for (long j = from; j < to; j += 8)
            store8(y + j, load8(y + j) + ((load8(a + j) * xa + load8(b + j) * xb) + (load8(c + j) * xc + load8(d + j) * xd)));
    }
}
