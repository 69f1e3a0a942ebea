/* Vectors of eight f32 by the compiler's vector extensions: AVX2, FMA and F16C where the flags allow them, else what
   there is. GCC 12 and clang 12 or later. Every address may be unaligned. */
#pragma once
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__AVX2__) || defined(__F16C__)
#include <immintrin.h>
#endif
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic ignored "-Wpsabi" /* no vector crosses a call: everything here is inlined */
#endif

typedef float v8f __attribute__((vector_size(32)));
typedef float v4f __attribute__((vector_size(16)));
typedef int32_t v8i __attribute__((vector_size(32)));
typedef uint32_t v8u __attribute__((vector_size(32)));
typedef uint16_t v8h __attribute__((vector_size(16)));
typedef int8_t v8b __attribute__((vector_size(8)));

#define INLINE static inline __attribute__((always_inline))

enum { F32, BF16, F16, I8 }; /* what a tensor's elements are; the same numbers stand in library.py's callers */

INLINE long size_of(int type) { return type == F32 ? 4 : type == I8 ? 1 : 2; }

INLINE v8f load8(const float *p) {
    v8f v;
    memcpy(&v, p, sizeof v);
    return v;
}
INLINE void store8(float *p, v8f v) { memcpy(p, &v, sizeof v); }
INLINE v8f splat8(float s) { return (v8f){s, s, s, s, s, s, s, s}; }
INLINE v8f select8(v8i mask, v8f yes, v8f no) { return (v8f)(((v8i)yes & mask) | ((v8i)no & ~mask)); }

INLINE uint32_t bits_of(float f) {
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}
INLINE float float_of(uint32_t u) {
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

INLINE float widen_f16(uint16_t h) {
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = h & 0x7FFF;
    if (rest >= 0x7C00) return float_of(sign | 0x7F800000 | (rest & 0x3FF) << 13);
    /* The exponent's bias differs by 112; the product is exact, and makes f16's subnormals normal. */
    return float_of(sign | bits_of(float_of(rest << 13) * 0x1p112f));
}

INLINE uint16_t narrow_bf16(float f) {
    uint32_t u = bits_of(f);
    if (f != f) return (uint16_t)(u >> 16 | 0x40);
    return (uint16_t)((u + 0x7FFF + (u >> 16 & 1)) >> 16);
}

INLINE uint16_t narrow_f16(float f) {
    uint32_t u = bits_of(f), sign = u >> 16 & 0x8000, rest = u & 0x7FFFFFFF;
    if (rest > 0x7F800000) return (uint16_t)(sign | 0x7E00);
    if (rest >= 0x477FF000) return (uint16_t)(sign | 0x7C00); /* rounds to 65520 or more */
    if (rest < 0x38800000) /* subnormal: adding 0.5 leaves the rounded value in the last bits */
        return (uint16_t)(sign | (bits_of(float_of(rest) + 0.5f) - bits_of(0.5f)));
    return (uint16_t)(sign | (rest - 0x38000000 + 0xFFF + (rest >> 13 & 1)) >> 13);
}

/* Eight elements from number `i` on, as f32. `type` is a constant where this is called. */
INLINE v8f load8_as(int type, const void *p, long i) {
    if (type == F32) return load8((const float *)p + i);
    if (type == I8) {
        v8b b;
        memcpy(&b, (const int8_t *)p + i, sizeof b);
#ifdef __AVX2__ /* GCC widens in halves otherwise, at half the speed */
        return (v8f)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)((const int8_t *)p + i))));
#else
        return __builtin_convertvector(__builtin_convertvector(b, v8i), v8f);
#endif
    }
    v8h h;
    memcpy(&h, (const char *)p + 2 * i, sizeof h);
    if (type == BF16) {
#ifdef __AVX2__
        return (v8f)((v8u)_mm256_cvtepu16_epi32((__m128i)h) << 16);
#else
        return (v8f)(__builtin_convertvector(h, v8u) << 16);
#endif
    }
#ifdef __F16C__
    return (v8f)_mm256_cvtph_ps((__m128i)h);
#else
    v8f v;
    for (int j = 0; j < 8; j++) v[j] = widen_f16(h[j]);
    return v;
#endif
}

INLINE float load1_as(int type, const void *p, long i) {
    if (type == I8) return (float)((const int8_t *)p)[i];
    if (type == F32) {
        float f;
        memcpy(&f, (const char *)p + 4 * i, sizeof f);
        return f;
    }
    uint16_t h;
    memcpy(&h, (const char *)p + 2 * i, sizeof h);
    return type == BF16 ? float_of((uint32_t)h << 16) : widen_f16(h);
}

INLINE v8h narrow8_bf16(v8f v) {
    v8u u = (v8u)v;
    v8u rounded = (u + 0x7FFF + (u >> 16 & 1)) >> 16, nan = u >> 16 | 0x40;
    v8u mask = (v8u)(v != v);
    return __builtin_convertvector((nan & mask) | (rounded & ~mask), v8h);
}

INLINE v8h narrow8_f16(v8f v) {
#ifdef __F16C__
    return (v8h)_mm256_cvtps_ph((__m256)v, _MM_FROUND_TO_NEAREST_INT);
#else
    v8h h;
    for (int j = 0; j < 8; j++) h[j] = narrow_f16(v[j]);
    return h;
#endif
}

INLINE void store8_as(int type, void *p, long i, v8f v) {
    if (type == F32) {
        store8((float *)p + i, v);
        return;
    }
    v8h h = type == BF16 ? narrow8_bf16(v) : narrow8_f16(v);
    memcpy((char *)p + 2 * i, &h, sizeof h);
}

INLINE void store1_as(int type, void *p, long i, float f) {
    if (type == F32) {
        memcpy((char *)p + 4 * i, &f, sizeof f);
        return;
    }
    uint16_t h = type == BF16 ? narrow_bf16(f) : narrow_f16(f);
    memcpy((char *)p + 2 * i, &h, sizeof h);
}

/* `body` with the type as a constant of its own, so that the loops inside hold no choice. */
#define WITH_TYPE(type, body)                                                                                           \
    switch (type) {                                                                                                     \
    case F32: { enum { TYPE = F32 }; body; } break;                                                                     \
    case BF16: { enum { TYPE = BF16 }; body; } break;                                                                   \
    case F16: { enum { TYPE = F16 }; body; } break;                                                                     \
    default: { enum { TYPE = I8 }; body; }                                                                              \
    }
#define WITH_FLOAT(type, body)                                                                                          \
    switch (type) {                                                                                                     \
    case F32: { enum { TYPE = F32 }; body; } break;                                                                     \
    case BF16: { enum { TYPE = BF16 }; body; } break;                                                                   \
    default: { enum { TYPE = F16 }; body; }                                                                             \
    }

INLINE void widen_row(int type, const void *x, long from, float *y, long n) {
    long i = 0;
    for (; i + 8 <= n; i += 8) store8(y + i, load8_as(type, x, from + i));
    for (; i < n; i++) y[i] = load1_as(type, x, from + i);
}

INLINE void narrow_row(int type, const float *x, void *y, long from, long n) {
    long i = 0;
    for (; i + 8 <= n; i += 8) store8_as(type, y, from + i, load8(x + i));
    for (; i < n; i++) store1_as(type, y, from + i, x[i]);
}

/* The sum of the lanes, always in the same order. */
INLINE float sum8(v8f v) {
    v4f a = {v[0], v[1], v[2], v[3]}, b = {v[4], v[5], v[6], v[7]};
    a += b;
    return (a[0] + a[2]) + (a[1] + a[3]);
}

/* The sums of the lanes of four vectors, each in the order of `sum8`. */
INLINE void sum8x4(v8f a, v8f b, v8f c, v8f d, float s[4]) {
#ifdef __AVX2__
    __m128 p = _mm_add_ps(_mm256_castps256_ps128((__m256)a), _mm256_extractf128_ps((__m256)a, 1));
    __m128 q = _mm_add_ps(_mm256_castps256_ps128((__m256)b), _mm256_extractf128_ps((__m256)b, 1));
    __m128 r = _mm_add_ps(_mm256_castps256_ps128((__m256)c), _mm256_extractf128_ps((__m256)c, 1));
    __m128 t = _mm_add_ps(_mm256_castps256_ps128((__m256)d), _mm256_extractf128_ps((__m256)d, 1));
    _MM_TRANSPOSE4_PS(p, q, r, t);
    _mm_storeu_ps(s, _mm_add_ps(_mm_add_ps(p, r), _mm_add_ps(q, t)));
#else
    s[0] = sum8(a), s[1] = sum8(b), s[2] = sum8(c), s[3] = sum8(d);
#endif
}

INLINE v8f sqrt8(v8f v) {
#ifdef __AVX2__
    return (v8f)_mm256_sqrt_ps((__m256)v);
#else
    for (int j = 0; j < 8; j++) v[j] = sqrtf(v[j]);
    return v;
#endif
}

/* e^x to 2 ulp, subnormal results too (the polynomial of Moshier's Cephes expf): 0 below, inf above, NaN for NaN. */
INLINE v8f exp8(v8f x) {
    v8f y = select8(x > splat8(89.0f), splat8(89.0f), x);
    y = select8(y < splat8(-104.0f), splat8(-104.0f), y);
    v8f shifter = splat8(12582912.0f); /* 1.5 * 2^23: adding it rounds to an integer in the low bits */
    v8f t = y * splat8(1.44269504088896341f) + shifter;
    v8f n = t - shifter;
    v8f r = y - n * splat8(0.693359375f) + n * splat8(2.12194440e-4f);
    v8f p = splat8(1.9875691500e-4f);
    p = p * r + splat8(1.3981999507e-3f);
    p = p * r + splat8(8.3334519073e-3f);
    p = p * r + splat8(4.1665795894e-2f);
    p = p * r + splat8(1.6666665459e-1f);
    p = p * r + splat8(5.0000001201e-1f);
    p = p * r * r + r + splat8(1.0f);
    /* 2^n in two factors: n goes from -151 to 128, beyond what one exponent holds. */
    v8i whole = (v8i)((v8u)(v8i)t - (v8u)(v8i)shifter), half = whole >> 1;
    v8u low = ((v8u)half + 127) << 23, high = ((v8u)(whole - half) + 127) << 23;
    return p * (v8f)low * (v8f)high;
}

INLINE v8f silu8(v8f x) { return x / (splat8(1.0f) + exp8(-x)); }

/* Eight vectors as the rows of a matrix -> its columns. */
INLINE void transpose8(v8f r[8]) {
    v8f t[8], u[8];
    for (int i = 0; i < 8; i += 2) {
        t[i] = __builtin_shufflevector(r[i], r[i + 1], 0, 8, 2, 10, 4, 12, 6, 14);
        t[i + 1] = __builtin_shufflevector(r[i], r[i + 1], 1, 9, 3, 11, 5, 13, 7, 15);
    }
    for (int h = 0; h < 8; h += 4)
        for (int i = h; i < h + 2; i++) {
            u[i] = __builtin_shufflevector(t[i], t[i + 2], 0, 1, 8, 9, 4, 5, 12, 13);
            u[i + 2] = __builtin_shufflevector(t[i], t[i + 2], 2, 3, 10, 11, 6, 7, 14, 15);
        }
    for (int i = 0; i < 4; i++) {
        r[i] = __builtin_shufflevector(u[i], u[i + 4], 0, 1, 2, 3, 8, 9, 10, 11);
        r[i + 4] = __builtin_shufflevector(u[i], u[i + 4], 4, 5, 6, 7, 12, 13, 14, 15);
    }
}
