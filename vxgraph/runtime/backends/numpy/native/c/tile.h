/* Products of small tiles, and rows of any type as f32: compiled once for gemm.c and attention.c. */
#pragma once
#include "simd.h"

#define TILE 6   /* rows of the left side: 12 sums of 8 fill the registers of AVX2 */
#define PANEL 16 /* columns of the right side */

/* c[rows][16] += a[rows][k] b[k][16]; rows of a are lda apart, b's ldb, c's ldc. */
void multiply_tile(long rows, const float *a, long lda, const float *b, long ldb, long k, float *c, long ldc);

/* Rows of `x` that stand `stride` elements apart, from element `from` on, as the columns of out[k][16]; columns beyond
   `rows` are zeros. */
void pack_rows(int type, const void *x, long from, long stride, long rows, long k, float *out);

void widen(int type, const void *x, long from, float *y, long n);
void narrow(int type, const float *x, void *y, long from, long n);
