/* Pairs turned by position * frequency, with cos and sin from a table that all kernels of one frequency share. */
#include "kernels.h"

#define DEEPEST 1024 /* see rope.py */

enum { EMPTY, CLAIMED, READY };

/* cos[depth / 2] and sin[depth / 2] of a position: in the table where it has them, else in `room`, and in the table for
   the next one who asks. */
INLINE const float *turns(const Rope *r, long position, float *room) {
    long half = r->depth / 2;
    int inside = position >= 0 && position < r->longest;
    float *row = inside ? r->table + position * r->depth : NULL;
    if (inside && __atomic_load_n(&r->state[position], __ATOMIC_ACQUIRE) == READY) return row;
    for (long i = 0; i < half; i++) {
        double angle = (double)position * r->frequencies[i];
        room[i] = (float)cos(angle);
        room[half + i] = (float)sin(angle);
    }
    uint8_t state = EMPTY;
    if (inside && __atomic_compare_exchange_n(&r->state[position], &state, CLAIMED, 0, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
        memcpy(row, room, sizeof *row * (size_t)r->depth);
        __atomic_store_n(&r->state[position], READY, __ATOMIC_RELEASE);
    }
    return room;
}

/* Four pairs (2i, 2i + 1) at a time. */
INLINE void turn_pairs(int type, const Rope *r, long from, const float *c, const float *s, long half) {
    long i = 0;
    for (; i + 4 <= half; i += 4) {
        v4f c4, s4;
        memcpy(&c4, c + i, sizeof c4);
        memcpy(&s4, s + i, sizeof s4);
        v8f x = load8_as(type, r->x, from + 2 * i), swapped = __builtin_shufflevector(x, x, 1, 0, 3, 2, 5, 4, 7, 6);
        v8f cc = __builtin_shufflevector(c4, c4, 0, 0, 1, 1, 2, 2, 3, 3), ss = __builtin_shufflevector(s4, -s4, 4, 0, 5, 1, 6, 2, 7, 3);
        store8_as(type, r->y, from + 2 * i, x * cc + swapped * ss);
    }
    for (; i < half; i++) {
        float a = load1_as(type, r->x, from + 2 * i), b = load1_as(type, r->x, from + 2 * i + 1);
        store1_as(type, r->y, from + 2 * i, a * c[i] - b * s[i]);
        store1_as(type, r->y, from + 2 * i + 1, a * s[i] + b * c[i]);
    }
}

/* Pairs (i, i + half). */
INLINE void turn_halves(int type, const Rope *r, long from, const float *c, const float *s, long half) {
    long i = 0;
    for (; i + 8 <= half; i += 8) {
        v8f a = load8_as(type, r->x, from + i), b = load8_as(type, r->x, from + half + i), cc = load8(c + i), ss = load8(s + i);
        store8_as(type, r->y, from + i, a * cc - b * ss);
        store8_as(type, r->y, from + half + i, a * ss + b * cc);
    }
    for (; i < half; i++) {
        float a = load1_as(type, r->x, from + i), b = load1_as(type, r->x, from + half + i);
        store1_as(type, r->y, from + i, a * c[i] - b * s[i]);
        store1_as(type, r->y, from + half + i, a * s[i] + b * c[i]);
    }
}

INLINE void turn_heads(int type, const Rope *r, long row, const float *c, const float *s) {
    for (long h = 0; h < r->heads; h++) {
        long from = (row * r->heads + h) * r->depth;
        if (r->interleaved) turn_pairs(type, r, from, c, s, r->depth / 2);
        else turn_halves(type, r, from, c, s, r->depth / 2);
    }
}

/* A unit is one position. */
KERNEL(rope) {
    UNUSED;
    const Rope *r = args;
    for (long row = base + first; row < base + last; row++) {
        float room[DEEPEST];
        int64_t position = 0;
        int32_t narrow = 0;
        if (r->wide) memcpy(&position, (const char *)r->positions + 8 * row, sizeof position);
        else memcpy(&narrow, (const char *)r->positions + 4 * row, sizeof narrow), position = narrow;
        const float *c = turns(r, position, room);
        WITH_FLOAT(r->type, turn_heads(TYPE, r, row, c, c + r->depth / 2))
    }
}
