#include "tile.h"

INLINE void micro(int R, const float *a, long lda, const float *b, long ldb, long k, float *c, long ldc) {
    v8f s[TILE][2];
    for (int r = 0; r < R; r++) s[r][0] = s[r][1] = splat8(0);
    for (long i = 0; i < k; i++) {
        v8f b0 = load8(b + i * ldb), b1 = load8(b + i * ldb + 8);
#pragma GCC unroll 6
        for (int r = 0; r < R; r++) {
            v8f w = splat8(a[r * lda + i]);
            s[r][0] += w * b0;
            s[r][1] += w * b1;
        }
    }
    for (int r = 0; r < R; r++) {
        store8(c + r * ldc, load8(c + r * ldc) + s[r][0]);
        store8(c + r * ldc + 8, load8(c + r * ldc + 8) + s[r][1]);
    }
}

void multiply_tile(long rows, const float *a, long lda, const float *b, long ldb, long k, float *c, long ldc) {
    switch (rows) {
    case 6: micro(6, a, lda, b, ldb, k, c, ldc); break;
    case 5: micro(5, a, lda, b, ldb, k, c, ldc); break;
    case 4: micro(4, a, lda, b, ldb, k, c, ldc); break;
    case 3: micro(3, a, lda, b, ldb, k, c, ldc); break;
    case 2: micro(2, a, lda, b, ldb, k, c, ldc); break;
    default: micro(1, a, lda, b, ldb, k, c, ldc);
    }
}

INLINE void pack_as(int type, const void *x, long from, long stride, long rows, long k, float *out) {
    for (long half = 0; half < PANEL; half += 8) {
        long some = rows - half < 8 ? rows - half : 8, i = 0;
        for (; i + 8 <= k; i += 8) {
            v8f t[8];
            for (int r = 0; r < 8; r++)
                t[r] = r < some ? load8_as(type, x, from + (half + r) * stride + i) : splat8(0);
            transpose8(t);
            for (int r = 0; r < 8; r++) store8(out + (i + r) * PANEL + half, t[r]);
        }
        for (; i < k; i++)
            for (int r = 0; r < 8; r++)
                out[i * PANEL + half + r] = r < some ? load1_as(type, x, from + (half + r) * stride + i) : 0;
    }
}

void pack_rows(int type, const void *x, long from, long stride, long rows, long k, float *out) {
    WITH_TYPE(type, pack_as(TYPE, x, from, stride, rows, k, out))
}

void widen(int type, const void *x, long from, float *y, long n) { WITH_TYPE(type, widen_row(TYPE, x, from, y, n)) }

void narrow(int type, const float *x, void *y, long from, long n) { WITH_FLOAT(type, narrow_row(TYPE, x, y, from, n)) }
