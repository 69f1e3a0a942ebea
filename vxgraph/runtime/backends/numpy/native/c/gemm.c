/* y = x w for many rows: six rows of x against sixteen columns of y.

   A unit is a few panels of sixteen columns. Their part of w is widened and laid as the tiles read it, for a block of k
   at a time that stays in the L2 cache while all rows of x come by. Nothing is kept from one unit to the next. */
#include "kernels.h"
#include "tile.h"

#define BLOCK 320        /* of k, at most: a panel of it fills half of the L1 cache */
#define ROW (BLOCK + 16) /* floats from one row of x's tile to the next: no power of two, for the L1 cache's sake */
#define PANELS 4         /* at most, in a unit */
#define WIDTH (PANELS * PANEL)
#define CHUNK 240 /* rows of x whose sums are held at once */

INLINE void pack_columns(int type, const void *w, long n, long column, long columns, long at, long k, float *out) {
    for (long i = 0; i < k; i++) {
        long from = (at + i) * n + column;
        if (columns == PANEL) {
            store8(out + i * PANEL, load8_as(type, w, from));
            store8(out + i * PANEL + 8, load8_as(type, w, from + 8));
        } else
            for (long j = 0; j < PANEL; j++) out[i * PANEL + j] = j < columns ? load1_as(type, w, from + j) : 0;
    }
}

/* `columns` of w from `column` on, k elements of each from `at` on, as panels [k][16] that are BLOCK apart. */
INLINE void pack(const Product *p, int by_columns, long column, long columns, long at, long k, float *out) {
    for (long j = 0; j < columns; j += PANEL, out += BLOCK * PANEL) {
        long some = columns - j < PANEL ? columns - j : PANEL;
        if (by_columns) {
            WITH_TYPE(p->w_type, pack_columns(TYPE, p->w, p->n, column + j, some, at, k, out))
        } else {
            pack_rows(p->w_type, p->w, (column + j) * p->k + at, p->k, some, k, out);
        }
    }
}

/* sums[rows][WIDTH] += x[row...][at...] by the panels */
INLINE void multiply(const Product *p, long row, long rows, long columns, long at, long k, const float *panels, float *sums) {
    float tile[TILE * ROW];
    for (long r = 0; r < rows; r += TILE) {
        long some = rows - r < TILE ? rows - r : TILE;
        for (long i = 0; i < some; i++)
            widen(p->x_type, p->x, (row + r + i) * p->k + at, tile + i * ROW, k);
        for (long j = 0; j < columns; j += PANEL)
            multiply_tile(some, tile, ROW, panels + j * BLOCK, PANEL, k, sums + r * WIDTH + j, WIDTH);
    }
}

INLINE void store(const Product *p, long row, long rows, long column, long columns, float *sums) {
    for (long r = 0; r < rows; r++) {
        float *s = sums + r * WIDTH;
        for (long j = 0; p->scale && j < columns; j++) s[j] *= load1_as(F32, p->scale, column + j);
        narrow(p->y_type, s, p->y, (row + r) * p->n + column, columns);
    }
}

static void gemm(const Product *p, int by_columns, long unit) {
    float panels[PANELS * BLOCK * PANEL], sums[CHUNK * WIDTH];
    long column = unit * p->panels * PANEL, left = p->n - column;
    long columns = left < p->panels * PANEL ? left : p->panels * PANEL;
    long blocks = (p->k + BLOCK - 1) / BLOCK, block = blocks ? (p->k / blocks + 7) / 8 * 8 : 0; /* of one size: no short last one */
    if (block * blocks < p->k) block += 8;
    for (long row = 0; row < p->rows; row += CHUNK) {
        long rows = p->rows - row < CHUNK ? p->rows - row : CHUNK;
        memset(sums, 0, sizeof *sums * (size_t)(rows * WIDTH));
        for (long at = 0; at < p->k; at += block) {
            long k = p->k - at < block ? p->k - at : block;
            pack(p, by_columns, column, columns, at, k, panels);
            multiply(p, row, rows, columns, at, k, panels, sums);
        }
        store(p, row, rows, column, columns, sums);
    }
}

KERNEL(gemm_nk) {
    UNUSED;
    for (long u = base + first; u < base + last; u++) gemm(args, 0, u);
}

KERNEL(gemm_kn) {
    UNUSED;
    for (long u = base + first; u < base + last; u++) gemm(args, 1, u);
}
