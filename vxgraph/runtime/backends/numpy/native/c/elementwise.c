/* Expressions element by element: a little machine that walks its code once per 512 elements, all in the L1 cache.
   Halves are widened, and rounded after every op, as the references do. */
#include "kernels.h"

#define BLOCK 512
#define DEEPEST 8 /* values that wait; see elementwise.py */

enum { ADD = MAX_OPERANDS, SUB, MUL, DIV, MAXIMUM, MINIMUM, NEG, RELU, EXP, SQRT, RSQRT, SILU }; /* below: an operand */

INLINE v8f round8(int type, v8f v) {
    uint16_t h[8];
    if (type == F32) return v;
    store8_as(type, h, 0, v);
    return load8_as(type, h, 0);
}

#define UNARY(OP, RESULT)                                                                                               \
    case OP:                                                                                                            \
        for (long i = 0; i < n; i += 8) {                                                                               \
            v8f x = load8(a + i);                                                                                       \
            store8(y + i, round8(type, RESULT));                                                                        \
        }                                                                                                               \
        break;
#define BINARY(OP, RESULT)                                                                                              \
    case OP:                                                                                                            \
        for (long i = 0; i < n; i += 8) {                                                                               \
            v8f x = load8(a + i), z = load8(b + i);                                                                     \
            store8(y + i, round8(type, RESULT));                                                                        \
        }                                                                                                               \
        break;

/* y = op(a, b); n is a multiple of 8. */
INLINE void apply(int type, int op, const float *a, const float *b, float *y, long n) {
    switch (op) {
        BINARY(ADD, x + z)
        BINARY(SUB, x - z)
        BINARY(MUL, x * z)
        BINARY(DIV, x / z)
        BINARY(MAXIMUM, select8((x > z) | (x != x), x, z))
        BINARY(MINIMUM, select8((x < z) | (x != x), x, z))
        UNARY(NEG, -x)
        UNARY(RELU, select8((x > splat8(0)) | (x != x), x, splat8(0)))
        UNARY(EXP, exp8(x))
        UNARY(SQRT, sqrt8(x))
        UNARY(RSQRT, splat8(1) / sqrt8(x))
        UNARY(SILU, silu8(x))
    }
}

/* Elements [at, at + n) of operand `o`, in f32: where they lie if they can be read eight at a time, else in `room`. */
INLINE const float *operand(int type, const Elements *e, int o, long at, long n, float *room) {
    long size = e->sizes[o], from = at % size;
    if (type == F32 && n % 8 == 0 && from + n <= size) return (const float *)e->operands[o] + from;
    if (size == 1) {
        v8f x = splat8(load1_as(type, e->operands[o], 0));
        for (long i = 0; i < n; i += 8) store8(room + i, x);
        return room;
    }
    for (long i = 0; i < n;) {
        long some = size - from < n - i ? size - from : n - i;
        widen_row(type, e->operands[o], from, room + i, some);
        i += some, from = 0;
    }
    for (long i = n; i % 8; i++) room[i] = 0;
    return room;
}

INLINE void evaluate(int type, const Elements *e, long at, long n) {
    float room[DEEPEST][BLOCK];
    const float *value[DEEPEST];
    int top = -1;
    for (int i = 0; i < e->code_length; i++) {
        int op = e->code[i];
        if (op < ADD) {
            top++;
            value[top] = operand(type, e, op, at, n, room[top]);
            continue;
        }
        const float *b = value[top];
        if (op < NEG) top--;
        apply(type, op, value[top], b, room[top], (n + 7) / 8 * 8);
        value[top] = room[top];
    }
    WITH_FLOAT(e->y_type, narrow_row(TYPE, value[0], e->y, at, n))
}

/* A unit is 512 elements. */
KERNEL(elements) {
    UNUSED;
    const Elements *e = args;
    for (long u = base + first; u < base + last; u++) {
        long at = u * BLOCK, n = e->n - at < BLOCK ? e->n - at : BLOCK;
        WITH_FLOAT(e->type, evaluate(TYPE, e, at, n))
    }
}

INLINE uint32_t whole(const Elements *e, int o, long i) {
    uint32_t u;
    memcpy(&u, (const char *)e->operands[o] + 4 * (i % e->sizes[o]), sizeof u);
    return u;
}

/* The same for i32, which wraps: positions and lengths, a few elements. */
KERNEL(elements_i32) {
    UNUSED;
    const Elements *e = args;
    long end = (base + last) * BLOCK < e->n ? (base + last) * BLOCK : e->n;
    for (long i = (base + first) * BLOCK; i < end; i++) {
        uint32_t value[DEEPEST];
        int top = -1;
        for (int c = 0; c < e->code_length; c++) {
            int op = e->code[c];
            if (op < ADD) {
                value[++top] = whole(e, op, i);
                continue;
            }
            uint32_t b = value[top];
            if (op < NEG) top--;
            uint32_t a = value[top];
            switch (op) {
            case ADD: value[top] = a + b; break;
            case SUB: value[top] = a - b; break;
            case MUL: value[top] = a * b; break;
            case MAXIMUM: value[top] = (int32_t)a > (int32_t)b ? a : b; break;
            case MINIMUM: value[top] = (int32_t)a < (int32_t)b ? a : b; break;
            case NEG: value[top] = 0 - a; break;
            case RELU: value[top] = (int32_t)a > 0 ? a : 0; break;
            }
        }
        memcpy((char *)e->y + 4 * i, &value[0], sizeof value[0]);
    }
}
