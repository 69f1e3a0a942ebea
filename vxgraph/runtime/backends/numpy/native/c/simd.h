/* Vectors of eight f32, by GCC's vector extensions: AVX2 and FMA where -march=native has them, else what there is. */
#pragma once
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#if defined(__F16C__) || defined(__AVX2__)
#include <immintrin.h>
#endif

typedef float v8f __attribute__((vector_size(32)));
typedef int32_t v8i __attribute__((vector_size(32)));
typedef uint32_t v8u __attribute__((vector_size(32)));
typedef uint16_t v8h __attribute__((vector_size(16)));
typedef int8_t v8b __attribute__((vector_size(8)));

#define INLINE static inline __attribute__((always_inline))

INLINE v8f load8(const float *p) { v8f v; memcpy(&v, p, sizeof v); return v; }
INLINE void store8(float *p, v8f v) { memcpy(p, &v, sizeof v); }
INLINE v8f splat8(float s) { return (v8f){s, s, s, s, s, s, s, s}; }

INLINE v8f load8_bf16(const uint16_t *p) {
    v8h h;
    memcpy(&h, p, sizeof h);
#ifdef __AVX2__ /* GCC widens in two halves otherwise, at half the speed */
    return (v8f)((v8u)_mm256_cvtepu16_epi32((__m128i)h) << 16);
#else
    return (v8f)(__builtin_convertvector(h, v8u) << 16);
#endif
}

INLINE float load_bf16(const uint16_t *p) {
    uint32_t bits = (uint32_t)*p << 16;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f;
}

INLINE float load_f16(const _Float16 *p) { return (float)*p; }

INLINE v8f load8_f16(const _Float16 *p) {
#ifdef __F16C__
    return (v8f)_mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)p));
#else
    v8f v;
    for (int i = 0; i < 8; i++) v[i] = (float)p[i];
    return v;
#endif
}

INLINE v8f load8_i8(const int8_t *p) {
    v8b b;
    memcpy(&b, p, sizeof b);
#ifdef __AVX2__
    return (v8f)_mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64((const __m128i *)p)));
#else
    return __builtin_convertvector(__builtin_convertvector(b, v8i), v8f);
#endif
}

/* The sum of the lanes, always in the same order. */
INLINE float sum8(v8f v) {
    typedef float v4f __attribute__((vector_size(16)));
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
    s[0] = sum8(a); s[1] = sum8(b); s[2] = sum8(c); s[3] = sum8(d);
#endif
}

INLINE v8f select8(v8i mask, v8f yes, v8f no) { return (v8f)(((v8i)yes & mask) | ((v8i)no & ~mask)); }

/* e^x to 2 ulp (Cephes expf): 0 below -103.9, inf above 88.7, NaN for NaN; results below 2^-126 are flushed to 0. */
INLINE v8f exp8(v8f x) {
    v8f y = select8(x > splat8(88.3762626647950f), splat8(88.3762626647950f), x);
    y = select8(y < splat8(-87.3365447504019f), splat8(-87.3365447504019f), y);
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
    v8i scale = (((v8i)t - (v8i)shifter) + 127) << 23;
    v8f e = p * (v8f)scale;
    e = select8(x > splat8(88.3762626647950f), splat8(INFINITY), e);
    e = select8(x < splat8(-87.3365447504019f), splat8(0.0f), e);
    return select8(x != x, x, e);
}

INLINE v8f silu8(v8f x) { return x / (splat8(1.0f) + exp8(-x)); }

/* Eight vectors as the rows of a matrix -> its columns. */
INLINE void transpose8(v8f r[8]) {
    v8f t[8], u[8];
    for (int i = 0; i < 8; i += 2) {
        t[i] = __builtin_shuffle(r[i], r[i + 1], (v8i){0, 8, 2, 10, 4, 12, 6, 14});
        t[i + 1] = __builtin_shuffle(r[i], r[i + 1], (v8i){1, 9, 3, 11, 5, 13, 7, 15});
    }
    for (int h = 0; h < 8; h += 4)
        for (int i = h; i < h + 2; i++) {
            u[i] = __builtin_shuffle(t[i], t[i + 2], (v8i){0, 1, 8, 9, 4, 5, 12, 13});
            u[i + 2] = __builtin_shuffle(t[i], t[i + 2], (v8i){2, 3, 10, 11, 6, 7, 14, 15});
        }
    for (int i = 0; i < 4; i++) {
        r[i] = __builtin_shuffle(u[i], u[i + 4], (v8i){0, 1, 2, 3, 8, 9, 10, 11});
        r[i + 4] = __builtin_shuffle(u[i], u[i + 4], (v8i){4, 5, 6, 7, 12, 13, 14, 15});
    }
}
