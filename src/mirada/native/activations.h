/* Activations and their gradients, numbered as in structures.py. For inputs that are infinite, NaN or too large for the approximations below,
 * the results are those of PyTorch. */

#ifndef MIRADA_ACTIVATIONS
#define MIRADA_ACTIVATIONS

#include "elements.h"

#define HUGE_INPUT 1e6f /* above it the third power may overflow */

INLINE float gelu_tail(float x) { /* 1 / (1 + exp(2 u)), with u the argument of tanh in GPT-2's gelu */
    const float u = 1.595769122f * x * (1.0f + 0.044715f * x * x);
    return 1.0f / (1.0f + exponential(u > 80.0f ? 80.0f : u)); /* avoids subnormal numbers, which are slow */
}

INLINE float activated(const int kind, float x) {
    if (kind == RELU) return x <= 0.0f ? 0.0f : x; /* NaN stays NaN */
    if (kind == GELU) return 0.5f * x * (1.0f + error_function(0.707106781f * x));
    if (kind == GELU_TANH) {
        const float y = x - x * gelu_tail(x);
        return x > HUGE_INPUT ? x : y; /* infinity - infinity is NaN */
    }
    const float power = exponential(-x); /* silu */
    return x / (1.0f + (x < -88.0f ? INFINITY : power));
}

INLINE float activation_gradient(const int kind, float x) { /* of all but silu, which training leaves to PyTorch */
    if (kind == RELU) return x <= 0.0f ? 0.0f : 1.0f;
    if (kind == GELU) {
        const float square = x * x, power = exponential(-0.5f * square);
        return 0.5f + 0.5f * error_function(0.707106781f * x) + 0.398942280f * x * (square > 1e4f ? 0.0f : power);
    }
    const float s = gelu_tail(x), part = fabsf(x) > HUGE_INPUT ? x * x * 0.0f : x * s;
    return (1.0f - s) * (1.0f + part * 1.595769122f * (1.0f + 0.134145f * x * x));
}

#endif
