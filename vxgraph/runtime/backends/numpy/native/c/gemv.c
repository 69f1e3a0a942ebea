/* y = x w for one row x.

   With w [n, k] a thread's share of the rows is walked as four streams a quarter of it apart: four places of memory are
   read at once, which takes the memory bus further than one does. A row's sum is the same whoever computes it. */
#include "kernels.h"

#define WIDEST 16384 /* elements of a half x, which is widened on the stack; see linear.py */
#define COLUMNS 64   /* of w [k, n] in a unit */
#define BLOCK 128    /* of k that is summed by itself: shorter chains of sums, smaller errors */

INLINE const float *source(const Product *p, float *wide) {
    if (p->x_type == F32) return p->x;
    if (p->x_type == BF16) widen_row(BF16, p->x, 0, wide, p->k);
    else widen_row(F16, p->x, 0, wide, p->k);
    return wide;
}

/* The sums of four rows. */
INLINE void dot4(int type, const void *const w[4], const float *x, long k, float s[4]) {
    const void *a = w[0], *b = w[1], *c = w[2], *d = w[3];
    v8f a0 = splat8(0), a1 = a0, b0 = a0, b1 = a0, c0 = a0, c1 = a0, d0 = a0, d1 = a0;
    long i = 0;
    for (; i + 16 <= k; i += 16) {
        v8f x0 = load8(x + i), x1 = load8(x + i + 8);
        a0 += load8_as(type, a, i) * x0, a1 += load8_as(type, a, i + 8) * x1;
        b0 += load8_as(type, b, i) * x0, b1 += load8_as(type, b, i + 8) * x1;
        c0 += load8_as(type, c, i) * x0, c1 += load8_as(type, c, i + 8) * x1;
        d0 += load8_as(type, d, i) * x0, d1 += load8_as(type, d, i + 8) * x1;
    }
    if (i < k) { /* in the same way, and so with the same rounding, whichever of the four a row is */
        float rest[5][16] = {{0}};
        widen_row(F32, x, i, rest[4], k - i);
        for (int r = 0; r < 4; r++) widen_row(type, w[r], i, rest[r], k - i);
        v8f x0 = load8(rest[4]), x1 = load8(rest[4] + 8);
        a0 += load8(rest[0]) * x0, a1 += load8(rest[0] + 8) * x1;
        b0 += load8(rest[1]) * x0, b1 += load8(rest[1] + 8) * x1;
        c0 += load8(rest[2]) * x0, c1 += load8(rest[2] + 8) * x1;
        d0 += load8(rest[3]) * x0, d1 += load8(rest[3] + 8) * x1;
    }
    sum8x4(a0 + a1, b0 + b1, c0 + c1, d0 + d1, s);
}

INLINE void store_sum(const Product *p, long row, float s) {
    if (p->scale) s *= load1_as(F32, p->scale, row);
    if (p->y_type == F32) store1_as(F32, p->y, row, s);
    else if (p->y_type == BF16) store1_as(BF16, p->y, row, s);
    else store1_as(F16, p->y, row, s);
}

INLINE void gemv(int type, const Product *p, long base, long length, long first, long last) {
    float wide[WIDEST];
    const float *x = source(p, wide);
    long quarter = (length + 3) / 4, stride = p->k * size_of(type);
    for (long i = first; i < last; i++) {
        const void *w[4];
        float s[4];
        for (int r = 0; r < 4; r++) /* the last quarters may be shorter: then the first one's row again, not stored */
            w[r] = (const char *)p->w + (base + (i + r * quarter < length ? i + r * quarter : i)) * stride;
        dot4(type, w, x, p->k, s);
        for (int r = 0; r < 4; r++)
            if (i + r * quarter < length) store_sum(p, base + i + r * quarter, s[r]);
    }
}

KERNEL(gemv_f32) { (void)worker, (void)tag; gemv(F32, args, base, length, first, last); }
KERNEL(gemv_bf16) { (void)worker, (void)tag; gemv(BF16, args, base, length, first, last); }
KERNEL(gemv_f16) { (void)worker, (void)tag; gemv(F16, args, base, length, first, last); }
KERNEL(gemv_i8) { (void)worker, (void)tag; gemv(I8, args, base, length, first, last); }

/* s[64] of the columns from j on, 8 at a time; `some` of them are there. */
INLINE void columns(int type, const Product *p, const float *x, long j, long some, float *s) {
    long n = p->n, groups = some / 8;
    for (long at = 0; at < p->k; at += BLOCK) {
        long end = at + BLOCK < p->k ? at + BLOCK : p->k;
        if (groups == COLUMNS / 8) {
            v8f sum[COLUMNS / 8];
            for (int g = 0; g < COLUMNS / 8; g++) sum[g] = splat8(0);
            for (long i = at; i < end; i++) {
                v8f xi = splat8(load1_as(F32, x, i));
                for (int g = 0; g < COLUMNS / 8; g++) sum[g] += load8_as(type, p->w, i * n + j + 8 * g) * xi;
            }
            for (int g = 0; g < COLUMNS / 8; g++) store8(s + 8 * g, load8(s + 8 * g) + sum[g]);
            continue;
        }
        for (long c = 0; c < some; c++) {
            float sum = 0;
            for (long i = at; i < end; i++) sum += load1_as(type, p->w, i * n + j + c) * load1_as(F32, x, i);
            s[c] += sum;
        }
    }
}

/* w [k, n]; a unit is 64 columns. */
KERNEL(gemv_kn) {
    UNUSED;
    const Product *p = args;
    float wide[WIDEST];
    const float *x = source(p, wide);
    for (long u = base + first; u < base + last; u++) {
        float s[COLUMNS] = {0};
        long j = u * COLUMNS, some = p->n - j < COLUMNS ? p->n - j : COLUMNS;
        WITH_FLOAT(p->w_type, columns(TYPE, p, x, j, some, s))
        WITH_FLOAT(p->y_type, narrow_row(TYPE, s, p->y, j, some))
    }
}
