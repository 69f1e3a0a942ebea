/* What works on rows: norms, moves, look-ups, the largest. */
#include "kernels.h"

#define WIDEST 16384 /* elements of a row of halves, which is widened on the stack; see norm.py */
#define PIECE 65536  /* bytes in a unit of a copy */

INLINE float sum_of_squares(const float *x, long k) {
    v8f a = splat8(0), b = a;
    long i = 0;
    for (; i + 16 <= k; i += 16) {
        v8f u = load8(x + i), v = load8(x + i + 8);
        a += u * u, b += v * v;
    }
    float s = sum8(a + b);
    for (; i < k; i++) {
        float f = load1_as(F32, x, i);
        s += f * f;
    }
    return s;
}

INLINE void norm_row(int type, const Norm *n, long row) {
    float wide[WIDEST];
    const float *x = (const float *)n->x + row * n->k;
    if (type != F32) {
        widen_row(type, n->x, row * n->k, wide, n->k);
        x = wide;
    }
    v8f root = splat8(sqrtf(sum_of_squares(x, n->k) / (float)n->k + n->eps));
    long i = 0;
    for (; i + 8 <= n->k; i += 8)
        store8_as(type, n->y, row * n->k + i, load8(x + i) / root * load8_as(type, n->gain, i));
    for (; i < n->k; i++)
        store1_as(type, n->y, row * n->k + i, load1_as(F32, x, i) / root[0] * load1_as(type, n->gain, i));
}

KERNEL(norm_rows) {
    UNUSED;
    const Norm *n = args;
    for (long row = base + first; row < base + last; row++) WITH_FLOAT(n->type, norm_row(TYPE, n, row))
}

KERNEL(copy) {
    UNUSED;
    const Copy *c = args;
    for (long u = base + first; u < base + last; u++) {
        long at = u * PIECE, some = c->nbytes - at < PIECE ? c->nbytes - at : PIECE;
        memcpy((char *)c->to + at, (const char *)c->from + at, (size_t)some);
    }
}

INLINE long integer(const void *p, long i, int wide) {
    int64_t l = 0;
    int32_t s = 0;
    if (wide) memcpy(&l, (const char *)p + 8 * i, sizeof l);
    else memcpy(&s, (const char *)p + 4 * i, sizeof s);
    return wide ? l : s;
}

/* One unit: the rows are few, and lie together. */
KERNEL(append) {
    UNUSED, (void)base, (void)first, (void)last;
    const Append *a = args;
    long at = integer(a->at, 0, 0);
    if (at < 0 || at > a->capacity - a->count) {
        decline(worker);
        return;
    }
    if (a->from) memcpy(a->cache, a->from, (size_t)(a->capacity * a->row_bytes));
    memcpy((char *)a->cache + at * a->row_bytes, a->rows, (size_t)(a->count * a->row_bytes));
}

KERNEL(embed) {
    UNUSED;
    const Embed *e = args;
    for (long i = 0; i < e->count; i++) { /* all of them: who declines has written nothing */
        long id = integer(e->ids, i, e->wide);
        if (id < 0 || id >= e->rows) {
            decline(worker);
            return;
        }
    }
    for (long i = base + first; i < base + last; i++) {
        long id = integer(e->ids, i, e->wide);
        memcpy((char *)e->y + i * e->row_bytes, (const char *)e->table + id * e->row_bytes, (size_t)e->row_bytes);
    }
}

/* The first of the largest; a NaN is larger than all, and the first of them counts. n is less than 2^31. */
INLINE int32_t largest(int type, const void *x, long from, long n) {
    v8f top = splat8(-INFINITY);
    v8i at = {0, 1, 2, 3, 4, 5, 6, 7}, found = at, nan = at * 0 + INT32_MAX;
    long i = 0;
    for (; i + 8 <= n; i += 8, at += 8) {
        v8f v = load8_as(type, x, from + i);
        v8i more = v > top, first = (v != v) & (at < nan);
        top = select8(more, v, top);
        found = (at & more) | (found & ~more);
        nan = (at & first) | (nan & ~first);
    }
    float most = -INFINITY;
    int32_t best = 0, bad = INT32_MAX;
    for (int j = 0; j < 8 && i; j++) {
        if (top[j] > most || (top[j] == most && found[j] < best)) most = top[j], best = found[j];
        bad = nan[j] < bad ? nan[j] : bad;
    }
    for (; i < n; i++) {
        float v = load1_as(type, x, from + i);
        if (v > most) most = v, best = (int32_t)i;
        if (v != v && bad == INT32_MAX) bad = (int32_t)i;
    }
    return bad < INT32_MAX ? bad : best;
}

KERNEL(argmax) {
    UNUSED;
    const ArgMax *a = args;
    float temperature = a->temperature ? load1_as(F32, a->temperature, 0) : 0;
    if (!(temperature <= 0)) { /* a draw is NumPy's */
        decline(worker);
        return;
    }
    for (long row = base + first; row < base + last; row++) {
        int32_t found = 0;
        WITH_FLOAT(a->type, found = largest(TYPE, a->x, row * a->n, a->n))
        memcpy((char *)a->y + 4 * row, &found, sizeof found);
    }
}
