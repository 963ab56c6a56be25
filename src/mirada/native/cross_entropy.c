/* The cross-entropy of logits and its gradient in one pass over memory: float32, shared among torch's threads. */

#include "elements.h"

/* From logits without their bias (null: there is none) to the losses of the rows and, in place of the logits, the gradients:
 * softmax - smoothing / vocab - (1 - smoothing) at the target. A row stays in the cache meanwhile. */
void cross_entropy(int64_t rows, int64_t vocab, float *logits, const float *bias, const int64_t *targets, double smoothing,
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
