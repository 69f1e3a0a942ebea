/* What lies between the products, for one row. */
#include "kernels.h"

#define KERNEL(NAME) void NAME(const void *args, Worker *worker, uint32_t tag, long base, long length, long first, long last)
#define UNUSED (void)worker, (void)tag, (void)length

KERNEL(norm_rows) {
    UNUSED;
    const Norm *n = args;
    for (long i = base + first; i < base + last; i++) rms_row(n->x + i * n->k, n->gain, n->y + i * n->k, n->k, n->eps);
}

KERNEL(add) {
    UNUSED; (void)base; (void)first; (void)last;
    const Pair *p = args;
    for (long i = 0; i < p->n; i++) p->y[i] = p->a[i] + p->b[i];
}

KERNEL(silu_mul) { /* units of 8 elements; a multiple of 8 elements in all */
    UNUSED;
    const Pair *p = args;
    for (long i = 8 * (base + first); i < 8 * (base + last); i += 8) store8(p->y + i, silu8(load8(p->a + i)) * load8(p->b + i));
}

INLINE void turn(float *x, const float *c, const float *s, long depth) {
    for (long i = 0; i < depth / 2; i++) {
        float a = x[2 * i], b = x[2 * i + 1];
        x[2 * i] = a * c[i] - b * s[i];
        x[2 * i + 1] = a * s[i] + b * c[i];
    }
}

KERNEL(rope) {
    UNUSED; (void)base; (void)first; (void)last;
    const Rope *r = args;
    long row = *r->at * (r->depth / 2);
    for (long h = 0; h < r->heads; h++) turn(r->x + h * r->depth, r->cos + row, r->sin + row, r->depth);
}

KERNEL(append) {
    UNUSED; (void)base; (void)first; (void)last;
    const Append *a = args;
    memcpy(a->cache + *a->at * a->width, a->row, a->width * sizeof(float));
}

INLINE float dot(const float *a, const float *b, long n) {
    v8f s = splat8(0);
    for (long i = 0; i < n; i += 8) s += load8(a + i) * load8(b + i);
    return sum8(s);
}

/* scores -> exp(scores - max), and their sum */
float exponentiate(float *s, long n) {
    float m = s[0];
    long i = 0;
    v8f top = splat8(m);
    for (; i + 8 <= n; i += 8) { v8f v = load8(s + i); top = select8((v > top) | (v != v), v, top); }
    for (int j = 0; j < 8; j++) if (top[j] > m || top[j] != top[j]) m = top[j];
    for (; i < n; i++) if (s[i] > m || s[i] != s[i]) m = s[i];
    v8f sum = splat8(0);
    for (i = 0; i + 8 <= n; i += 8) { v8f e = exp8(load8(s + i) - splat8(m)); store8(s + i, e); sum += e; }
    float z = sum8(sum);
    for (; i < n; i++) { v8f e = exp8(splat8(s[i] - m)); s[i] = e[0]; z += e[0]; }
    return z;
}

#define MAX_DEPTH 256

/* One query row of the heads that share a key head; a unit is a key head. Depth is a multiple of 8. */
KERNEL(attend) {
    (void)tag; (void)length;
    const Attend *a = args;
    long at = *a->at, d = a->depth, group = a->heads / a->kv, width = a->kv * d;
    const float *c = a->cos ? a->cos + at * (d / 2) : NULL, *s = a->cos ? a->sin + at * (d / 2) : NULL;
    for (long kv = base + first; kv < base + last; kv++) {
        if (a->k) {
            if (c) turn(a->k + kv * d, c, s, d);
            memcpy(a->keys + at * width + kv * d, a->k + kv * d, d * sizeof(float));
            memcpy(a->values + at * width + kv * d, a->v + kv * d, d * sizeof(float));
        }
        for (long h = kv * group; h < (kv + 1) * group; h++) {
            float *q = a->q + h * d, *scores = worker->scratch;
            if (c) turn(q, c, s, d);
            for (long p = 0; p <= at; p++) scores[p] = dot(q, a->keys + p * width + kv * d, d) * a->scale;
            float z = exponentiate(scores, at + 1);
            v8f sum[MAX_DEPTH / 8];
            for (long j = 0; j < d / 8; j++) sum[j] = splat8(0);
            for (long p = 0; p <= at; p++) {
                const float *v = a->values + p * width + kv * d;
                v8f w = splat8(scores[p]);
                for (long j = 0; j < d / 8; j++) sum[j] += w * load8(v + 8 * j);
            }
            for (long j = 0; j < d / 8; j++) store8(a->out + h * d + 8 * j, sum[j] / splat8(z));
        }
    }
    worker->tag = 0; /* the scratch holds scores now */
}

KERNEL(argmax) { /* the first of the greatest; a NaN is greater than all, as NumPy has it */
    UNUSED; (void)base; (void)first; (void)last;
    const Argmax *a = args;
    v8f top = splat8(-INFINITY);
    long n8 = a->n / 8 * 8;
    for (long i = 0; i < n8; i += 8) { v8f v = load8(a->x + i); top = select8((v > top) | (v != v), v, top); }
    float m = -INFINITY;
    for (int j = 0; j < 8; j++) if (top[j] > m || top[j] != top[j]) m = top[j];
    for (long i = n8; i < a->n; i++) if (a->x[i] > m || a->x[i] != a->x[i]) m = a->x[i];
    long i = 0;
    while (i < a->n && !(a->x[i] == m || (m != m && a->x[i] != a->x[i]))) i++;
    *a->y = (int32_t)i;
}

KERNEL(embed) {
    UNUSED; (void)base; (void)first; (void)last;
    const Embed *e = args;
    memcpy(e->y, e->table + *e->token * e->k, e->k * sizeof(float));
}

KERNEL(count) {
    UNUSED; (void)base; (void)first; (void)last;
    ++*((const Count *)args)->at;
}
