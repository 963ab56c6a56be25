/* Functions of one number that the compiler vectorizes. */

#ifndef MIRADA_ELEMENTS
#define MIRADA_ELEMENTS

#include <math.h>
#include <stdint.h>
#include <string.h>

#define INLINE static inline __attribute__((always_inline))

INLINE float exponential(float x) { /* 2^n times a polynomial, to float's last digits */
    x = x < -87.3f ? -87.3f : x > 88.3f ? 88.3f : x;
    const float shifted = x * 1.44269504f + 12582912.0f, n = shifted - 12582912.0f; /* rounds to an integer */
    const float r = (x - n * 0.693145752f) - n * 1.42860677e-6f;
    float p = 1.38889e-3f;
    p = p * r + 8.3333333e-3f;
    p = p * r + 4.16666679e-2f;
    p = p * r + 1.66666667e-1f;
    p = p * r + 0.5f;
    p = p * r + 1.0f;
    p = p * r + 1.0f;
    uint32_t bits; /* the lowest bits of `shifted` are n; a cast would be undefined for NaN */
    memcpy(&bits, &shifted, 4);
    bits = (bits + 127u) << 23;
    float power;
    memcpy(&power, &bits, 4);
    return p * power;
}

INLINE float error_function(float x) { /* Abramowitz and Stegun, 7.1.26: off by 1.5e-7 at most */
    const float a = fabsf(x), t = 1.0f / (1.0f + 0.3275911f * a);
    const float p = ((((1.061405429f * t - 1.453152027f) * t + 1.421413741f) * t - 0.284496736f) * t + 0.254829592f) * t;
    return copysignf(1.0f - p * exponential(-a * a), x);
}

INLINE uint64_t mixed(uint64_t z) { /* Steele, Lea and Flood (2014): the finalizer of SplitMix */
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

#endif
