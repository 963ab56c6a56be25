/* Work that takes torch several passes over memory, in one: float32, shared among torch's threads. */

#include "elements.h"

#define BLOCK 64 /* numbers whose random bytes are made together */

INLINE uint64_t mixed(uint64_t z) { /* Steele, Lea and Flood (2014): the finalizer of SplitMix */
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* y = base (null: 0) + x * scale where a random byte is at least `dropped`. The seed and a number's place decide its byte. */
void drop(int64_t n, const float *restrict x, const float *restrict base, float *restrict y, uint64_t seed, int64_t dropped,
          float scale, int64_t threads) {
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t first = 0; first < n; first += BLOCK) {
        uint64_t words[BLOCK / 8];
        uint8_t bytes[BLOCK];
        for (int64_t i = 0; i < BLOCK / 8; i++)
            words[i] = mixed(seed + (uint64_t)(first / 8 + i + 1) * 0x9e3779b97f4a7c15u);
        memcpy(bytes, words, BLOCK);
        const int64_t count = n - first < BLOCK ? n - first : BLOCK;
        const float *from = x + first;
        float *to = y + first;
        if (count == BLOCK)
            for (int64_t i = 0; i < BLOCK; i++) to[i] = bytes[i] >= dropped ? from[i] * scale : 0.0f;
        else
            for (int64_t i = 0; i < count; i++) to[i] = bytes[i] >= dropped ? from[i] * scale : 0.0f;
        if (base)
            for (int64_t i = 0; i < count; i++) to[i] += base[first + i];
    }
}

/* From logits without their bias (null: there is none) to the losses of the rows and, in place of the logits, the slopes:
 * softmax - smoothing / vocab - (1 - smoothing) at the target. A row stays in the cache meanwhile. */
void slopes(int64_t rows, int64_t vocab, float *logits, const float *bias, const int64_t *targets, double smoothing,
            double *losses, int64_t threads) {
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t row = 0; row < rows; row++) {
        float *x = logits + row * vocab, top = -INFINITY, sum = 0.0f, all = 0.0f;
        if (bias)
            for (int64_t i = 0; i < vocab; i++) x[i] += bias[i];
#pragma omp simd reduction(max : top)
        for (int64_t i = 0; i < vocab; i++) top = x[i] > top ? x[i] : top;
        const double right = (double)x[targets[row]] - top;
        if (smoothing != 0.0) {
#pragma omp simd reduction(+ : all)
            for (int64_t i = 0; i < vocab; i++) all += x[i] - top;
        }
#pragma omp simd reduction(+ : sum)
        for (int64_t i = 0; i < vocab; i++) {
            x[i] = exponential(x[i] - top);
            sum += x[i];
        }
        const float share = 1.0f / sum, even = (float)(smoothing / (double)vocab);
        for (int64_t i = 0; i < vocab; i++) x[i] = x[i] * share - even;
        x[targets[row]] -= (float)(1.0 - smoothing);
        losses[row] = log(sum) - (1.0 - smoothing) * right;
        if (smoothing != 0.0) losses[row] -= smoothing / (double)vocab * all;
    }
}

enum { RELU, GELU, GELU_TANH }; /* as passes.py numbers them */

INLINE float inner(float x) { /* 1 / (1 + exp(2 u)) with the u whose tanh GPT-2's gelu has */
    const float u = 1.595769122f * x * (1.0f + 0.044715f * x * x);
    return 1.0f / (1.0f + exponential(u > 80.0f ? 80.0f : u)); /* no smaller numbers than processors are quick with */
}

INLINE float bent(const int kind, float x) {
    if (kind == RELU) return x <= 0.0f ? 0.0f : x; /* what is not a number stays that */
    if (kind == GELU) return 0.5f * x * (1.0f + error_function(0.707106781f * x));
    return x - x * inner(x);
}

INLINE float bend_slope(const int kind, float x) {
    if (kind == RELU) return x <= 0.0f ? 0.0f : 1.0f;
    if (kind == GELU) return 0.5f + 0.5f * error_function(0.707106781f * x) + 0.398942280f * x * exponential(-0.5f * x * x);
    const float s = inner(x);
    return (1.0f - s) * (1.0f + x * s * 1.595769122f * (1.0f + 0.134145f * x * x));
}

INLINE void bend_rows(const int kind, int64_t first, int64_t last, int64_t n, float *h, const float *bias, float *y) {
    for (int64_t row = first; row < last; row++) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            const float x = h[row * n + i] + bias[i];
            h[row * n + i] = x;
            y[row * n + i] = bent(kind, x);
        }
    }
}

/* h = h + bias, y = act(h). For relu, y may be h: its slope follows from the result. */
void bend(int64_t kind, int64_t rows, int64_t n, float *h, const float *bias, float *y, int64_t threads) {
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t part = 0; part < threads; part++) {
        const int64_t first = rows * part / threads, last = rows * (part + 1) / threads;
        if (kind == RELU) bend_rows(RELU, first, last, n, h, bias, y);
        else if (kind == GELU) bend_rows(GELU, first, last, n, h, bias, y);
        else bend_rows(GELU_TANH, first, last, n, h, bias, y);
    }
}

INLINE void slope_rows(const int kind, int64_t first, int64_t last, int64_t n, const float *restrict slope, const float *restrict h,
                       float *restrict d, float *restrict sum) {
    for (int64_t row = first; row < last; row++) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            const float here = slope[row * n + i] * bend_slope(kind, h[row * n + i]);
            d[row * n + i] = here;
            sum[i] += here;
        }
    }
}

/* d = slope act'(h), and its sums over each thread's rows. */
void unbend(int64_t kind, int64_t rows, int64_t n, const float *slope, const float *h, float *d, float *sums, int64_t threads) {
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t part = 0; part < threads; part++) {
        const int64_t first = rows * part / threads, last = rows * (part + 1) / threads;
        if (kind == RELU) slope_rows(RELU, first, last, n, slope, h, d, sums + part * n);
        else if (kind == GELU) slope_rows(GELU, first, last, n, slope, h, d, sums + part * n);
        else slope_rows(GELU_TANH, first, last, n, slope, h, d, sums + part * n);
    }
}
