/* act(h + bias) and its backward pass, each in one pass over memory: float32, shared among torch's threads. */

#include "activations.h"

INLINE void activate_rows(const int kind, int64_t first, int64_t last, int64_t n, float *h, const float *bias, float *y) {
    for (int64_t row = first; row < last; row++) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            const float x = h[row * n + i] + bias[i];
            h[row * n + i] = x;
            y[row * n + i] = activated(kind, x);
        }
    }
}

/* h = h + bias, y = act(h). For relu, y may be h: its gradient follows from the result. */
void linear_activation(int64_t kind, int64_t rows, int64_t n, float *h, const float *bias, float *y, int64_t threads) {
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t part = 0; part < threads; part++) {
        const int64_t first = rows * part / threads, last = rows * (part + 1) / threads;
        if (kind == RELU) activate_rows(RELU, first, last, n, h, bias, y);
        else if (kind == GELU) activate_rows(GELU, first, last, n, h, bias, y);
        else activate_rows(GELU_TANH, first, last, n, h, bias, y);
    }
}

INLINE void backward_rows(const int kind, int64_t first, int64_t last, int64_t n, const float *restrict gradient, const float *restrict h,
                          float *restrict d, float *restrict sum) {
    for (int64_t row = first; row < last; row++) {
#pragma omp simd
        for (int64_t i = 0; i < n; i++) {
            const float here = gradient[row * n + i] * activation_gradient(kind, h[row * n + i]);
            d[row * n + i] = here;
            sum[i] += here;
        }
    }
}

/* d = gradient act'(h), and its sums over each thread's rows. */
void linear_activation_backward(int64_t kind, int64_t rows, int64_t n, const float *gradient, const float *h, float *d, float *sums,
                                int64_t threads) {
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t part = 0; part < threads; part++) {
        const int64_t first = rows * part / threads, last = rows * (part + 1) / threads;
        if (kind == RELU) backward_rows(RELU, first, last, n, gradient, h, d, sums + part * n);
        else if (kind == GELU) backward_rows(GELU, first, last, n, gradient, h, d, sums + part * n);
        else backward_rows(GELU_TANH, first, last, n, gradient, h, d, sums + part * n);
    }
}
