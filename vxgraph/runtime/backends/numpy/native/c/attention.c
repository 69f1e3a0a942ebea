/* Grouped-query attention over the valid keys, in blocks of keys with a running maximum (Milakov and Gimelshein, 2018):
   scores are never held for all keys. Blocks begin at multiples of 64 keys whoever computes them. */
#include "kernels.h"
#include "tile.h"

#define KEYS 64      /* in a block */
#define ROWS 48      /* query rows in a unit of a prompt */
#define DEEPEST 256  /* depth and width, see attention.py */
#define MOST_HEADS 8 /* in a unit of one query */

/* The valid keys; -1 where they are not there, or leave a query row without one. */
INLINE long valid_keys(const Attention *a, Worker *worker) {
    int32_t valid = 0;
    if (a->valid) memcpy(&valid, a->valid, sizeof valid);
    long keys = a->valid ? valid : a->keys;
    long needed = a->causal ? a->queries : a->queries > 0;
    if (keys >= 0 && keys <= a->keys && keys >= needed) return keys;
    decline(worker);
    return -1;
}

/* scores[64] -> exp(scores - the maximum so far) in place; `top` and `sum` are brought up to date.
   Gives what the sums so far are multiplied by. */
static float exponentiate(float *scores, float *top, float *sum) {
    v8f most = load8(scores);
    for (int i = 8; i < KEYS; i += 8) {
        v8f s = load8(scores + i);
        most = select8(s > most, s, most);
    }
    float now = *top;
    for (int i = 0; i < 8; i++) now = most[i] > now ? most[i] : now;
    float from = now == -INFINITY ? 0 : now; /* -inf - -inf would be NaN where later keys have a score */
    v8f all = splat8(0);
    for (int i = 0; i < KEYS; i += 8) {
        v8f e = exp8(load8(scores + i) - splat8(from));
        store8(scores + i, e);
        all += e;
    }
    float keep = exp8(splat8(*top - from))[0];
    *sum = *sum * keep + sum8(all);
    *top = now;
    return keep;
}

/* The products of q[depth] with four rows of k, which are `stride` apart. */
INLINE void dot4(int type, const float *q, const void *k, long from, long stride, long depth, float *scores) {
    v8f s[4] = {splat8(0), splat8(0), splat8(0), splat8(0)};
    long i = 0;
    for (; i + 8 <= depth; i += 8)
        for (int r = 0; r < 4; r++) s[r] += load8(q + i) * load8_as(type, k, from + r * stride + i);
    if (i < depth) {
        float rest[5][8] = {{0}};
        widen_row(F32, q, i, rest[4], depth - i);
        for (int r = 0; r < 4; r++) {
            widen_row(type, k, from + r * stride + i, rest[r], depth - i);
            s[r] += load8(rest[4]) * load8(rest[r]);
        }
    }
    sum8x4(s[0], s[1], s[2], s[3], scores);
}

/* out[8 N] = out keep + weights[keys] by v's columns from `from` on. */
INLINE void mix(int N, int type, const float *weights, const void *v, long from, long stride, long keys, float keep, float *out) {
    v8f s[8];
    for (int j = 0; j < N; j++) s[j] = load8(out + 8 * j) * splat8(keep);
    for (long p = 0; p < keys; p++) {
        v8f w = splat8(weights[p]);
        for (int j = 0; j < N; j++) s[j] += w * load8_as(type, v, from + p * stride + 8 * j);
    }
    for (int j = 0; j < N; j++) store8(out + 8 * j, s[j]);
}

INLINE void mix_row(int type, const float *weights, const void *v, long from, long stride, long keys, long width, float keep, float *out) {
    long j = 0;
    for (; j + 64 <= width; j += 64) mix(8, type, weights, v, from + j, stride, keys, keep, out + j);
    for (; j + 8 <= width; j += 8) mix(1, type, weights, v, from + j, stride, keys, keep, out + j);
    for (; j < width; j++) {
        float s = out[j] * keep;
        for (long p = 0; p < keys; p++) s += weights[p] * load1_as(type, v, from + p * stride + j);
        out[j] = s;
    }
}

/* One query row of the heads [head, head + heads), which share a key head. */
INLINE void attend(int type, const Attention *a, long valid, long head, long heads) {
    float q[MOST_HEADS * DEEPEST], out[MOST_HEADS * DEEPEST], top[MOST_HEADS], sum[MOST_HEADS];
    long d = a->depth, w = a->width, shared = head / (a->heads / a->kv);
    for (long h = 0; h < heads; h++) {
        widen_row(type, a->q, (head + h) * d, q + h * DEEPEST, d);
        for (long i = 0; i < d; i++) q[h * DEEPEST + i] *= a->scale;
        memset(out + h * DEEPEST, 0, sizeof *out * (size_t)w);
        top[h] = -INFINITY, sum[h] = 0;
    }
    for (long at = 0; at < valid; at += KEYS) {
        long keys = valid - at < KEYS ? valid - at : KEYS;
        for (long h = 0; h < heads; h++) {
            float scores[KEYS + 3];
            for (long p = 0; p < keys; p += 4) /* of the last keys the same one four times: what follows is not there */
                for (long r = p; r < keys && (r == p || p + 4 > keys); r++)
                    dot4(type, q + h * DEEPEST, a->k, ((at + r) * a->kv + shared) * d, p + 4 > keys ? 0 : a->kv * d, d, scores + r);
            for (long p = keys; p < KEYS; p++) scores[p] = -INFINITY;
            float keep = exponentiate(scores, &top[h], &sum[h]);
            mix_row(type, scores, a->v, (at * a->kv + shared) * w, a->kv * w, keys, w, keep, out + h * DEEPEST);
        }
    }
    for (long h = 0; h < heads; h++) {
        for (long i = 0; i < w; i++) out[h * DEEPEST + i] /= sum[h];
        narrow_row(type, out + h * DEEPEST, a->out, (head + h) * w, w);
    }
}

/* One query; a unit is `step` heads of a group. */
KERNEL(attend_row) {
    (void)tag, (void)length;
    const Attention *a = args;
    long valid = valid_keys(a, worker);
    if (valid < 0) return;
    for (long u = base + first; u < base + last; u++) WITH_FLOAT(a->type, attend(TYPE, a, valid, u * a->step, a->step))
}

/* Where the rows of a unit stand: those of one key head, by query and then by head. */
typedef struct { long shared, group, first, rows; } Rows;

INLINE long query_of(const Rows *r, long row) { return (r->first + row) / r->group; }
INLINE long element_of(const Attention *a, const Rows *r, long row, long depth) {
    return (query_of(r, row) * a->heads + r->shared * r->group + (r->first + row) % r->group) * depth;
}

/* out[ROWS][DEEPEST] of one block: scores by tiles, the mask, the running softmax, and the values' share. */
INLINE void add_block(const Attention *a, const Rows *r, long valid, long at, long keys, const float *q, const float *k, const float *v,
                      float *top, float *sum, float *out) {
    float scores[ROWS * KEYS];
    long wide = (a->width + PANEL - 1) / PANEL * PANEL;
    memset(scores, 0, sizeof *scores * (size_t)(r->rows * KEYS));
    for (long t = 0; t < r->rows; t += TILE)
        for (long j = 0; j < keys; j += PANEL)
            multiply_tile(r->rows - t < TILE ? r->rows - t : TILE, q + t * DEEPEST, DEEPEST, k + j * a->depth, PANEL, a->depth,
                       scores + t * KEYS + j, KEYS);
    for (long row = 0; row < r->rows; row++) {
        long seen = (a->causal ? query_of(r, row) + valid - a->queries + 1 : valid) - at;
        for (long p = seen < 0 ? 0 : seen; p < KEYS; p++) scores[row * KEYS + p] = -INFINITY;
        float keep = exponentiate(scores + row * KEYS, top + row, sum + row);
        for (long i = 0; i < wide; i += 8) store8(out + row * DEEPEST + i, load8(out + row * DEEPEST + i) * splat8(keep));
    }
    for (long t = 0; t < r->rows; t += TILE)
        for (long j = 0; j < wide; j += PANEL)
            multiply_tile(r->rows - t < TILE ? r->rows - t : TILE, scores + t * KEYS, KEYS, v + j, wide, keys, out + t * DEEPEST + j, DEEPEST);
}

static void attend_tile(const Attention *a, long valid, const Rows *r) {
    float q[ROWS * DEEPEST], out[ROWS * DEEPEST], k[KEYS * DEEPEST], v[KEYS * DEEPEST], top[ROWS], sum[ROWS];
    long d = a->depth, w = a->width, wide = (w + PANEL - 1) / PANEL * PANEL;
    for (long row = 0; row < r->rows; row++) {
        widen(a->type, a->q, element_of(a, r, row, d), q + row * DEEPEST, d);
        for (long i = 0; i < d; i++) q[row * DEEPEST + i] *= a->scale;
        memset(out + row * DEEPEST, 0, sizeof *out * (size_t)wide);
        top[row] = -INFINITY, sum[row] = 0;
    }
    long seen = a->causal ? query_of(r, r->rows - 1) + valid - a->queries + 1 : valid;
    for (long at = 0; at < seen; at += KEYS) {
        long keys = seen - at < KEYS ? seen - at : KEYS;
        for (long j = 0; j < keys; j += PANEL)
            pack_rows(a->type, a->k, ((at + j) * a->kv + r->shared) * d, a->kv * d, keys - j < PANEL ? keys - j : PANEL, d, k + j * d);
        for (long p = 0; p < keys; p++) {
            widen(a->type, a->v, ((at + p) * a->kv + r->shared) * w, v + p * wide, w);
            for (long i = w; i < wide; i++) v[p * wide + i] = 0;
        }
        add_block(a, r, valid, at, keys, q, k, v, top, sum, out);
    }
    for (long row = 0; row < r->rows; row++) {
        for (long i = 0; i < w; i++) out[row * DEEPEST + i] /= sum[row];
        narrow(a->type, out + row * DEEPEST, a->out, element_of(a, r, row, w), w);
    }
}

/* Many queries; a unit is 48 rows of a key head. */
KERNEL(attend_rows) {
    (void)tag, (void)length;
    const Attention *a = args;
    long valid = valid_keys(a, worker), group = a->heads / a->kv, all = a->queries * group;
    if (valid < 0 || !all || !a->width) return;
    long units = (all + ROWS - 1) / ROWS;
    for (long u = base + first; u < base + last; u++) {
        long at = u % units * ROWS;
        Rows r = {u / units, group, at, all - at < ROWS ? all - at : ROWS};
        attend_tile(a, valid, &r);
    }
}
