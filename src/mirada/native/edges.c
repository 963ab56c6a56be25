/* Softmax over the incoming edges of every node, and the weighted sum of values, forward and backward.
 *
 * Edges are sorted by target; `offsets` says where each target's edges begin, `source` whom they come from. Rows hold
 * `heads` vectors of `dim` numbers. `kept`, if there, multiplies the weights as they meet the values (dropout). Every
 * function works on the nodes first <= i < last only and writes only there.
 */

#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#define DEFINE(real, expr)                                                                                                  \
    void mix_##real(int64_t first, int64_t last, int64_t heads, int64_t dim, const int64_t *offsets, const int64_t *source, \
                    const real *scores, const real *values, const real *kept, real *weights, real *output) {                \
        real *top = malloc(2 * heads * sizeof(real)), *sum = top + heads;                                                   \
        for (int64_t i = first; i < last; i++) {                                                                            \
            const int64_t begin = offsets[i], end = offsets[i + 1];                                                         \
            real *restrict out = output + i * heads * dim;                                                                  \
            for (int64_t h = 0; h < heads; h++) { top[h] = -INFINITY; sum[h] = 0; }                                         \
            for (int64_t x = 0; x < heads * dim; x++) out[x] = 0;                                                           \
            for (int64_t e = begin; e < end; e++)                                                                           \
                for (int64_t h = 0; h < heads; h++) {                                                                       \
                    const real s = scores[e * heads + h];                                                                   \
                    top[h] = s > top[h] || s != s ? s : top[h];                                                             \
                }                                                                                                           \
            for (int64_t e = begin; e < end; e++) {                                                                         \
                const real *restrict v = values + source[e] * heads * dim;                                                  \
                for (int64_t h = 0; h < heads; h++) {                                                                       \
                    const real w = expr(scores[e * heads + h] - top[h]);                                                    \
                    weights[e * heads + h] = w;                                                                             \
                    sum[h] += w;                                                                                            \
                    const real used = kept ? w * kept[e * heads + h] : w;                                                   \
                    for (int64_t x = 0; x < dim; x++) out[h * dim + x] += used * v[h * dim + x];                  \
                }                                                                                                           \
            }                                                                                                               \
            if (begin == end) continue;                                                                                     \
            for (int64_t h = 0; h < heads; h++) sum[h] = 1 / sum[h];                                                        \
            for (int64_t e = begin; e < end; e++)                                                                           \
                for (int64_t h = 0; h < heads; h++) weights[e * heads + h] *= sum[h];                                       \
            for (int64_t h = 0; h < heads; h++)                                                                             \
                for (int64_t x = 0; x < dim; x++) out[h * dim + x] *= sum[h];                                               \
        }                                                                                                                   \
        free(top);                                                                                                          \
    }                                                                                                                       \
                                                                                                                            \
    void score_gradient_##real(int64_t first, int64_t last, int64_t heads, int64_t dim, const int64_t *offsets, const int64_t *source,\
                               const real *weights, const real *kept, const real *values, const real *gradient, real *result) {\
        real *mean = malloc(heads * sizeof(real));                                                                          \
        for (int64_t i = first; i < last; i++) {                                                                            \
            const real *restrict g = gradient + i * heads * dim;                                                            \
            for (int64_t h = 0; h < heads; h++) mean[h] = 0;                                                                \
            for (int64_t e = offsets[i]; e < offsets[i + 1]; e++) {                                                         \
                const real *restrict v = values + source[e] * heads * dim;                                                  \
                for (int64_t h = 0; h < heads; h++) {                                                                       \
                    real dot = 0;                                                                                           \
                    for (int64_t x = 0; x < dim; x++) dot += g[h * dim + x] * v[h * dim + x];                               \
                    if (kept) dot *= kept[e * heads + h];                                                                   \
                    result[e * heads + h] = dot;                                                                            \
                    mean[h] += weights[e * heads + h] * dot;                                                                \
                }                                                                                                           \
            }                                                                                                               \
            for (int64_t e = offsets[i]; e < offsets[i + 1]; e++)                                                           \
                for (int64_t h = 0; h < heads; h++)                                                                         \
                    result[e * heads + h] = weights[e * heads + h] * (result[e * heads + h] - mean[h]);                     \
        }                                                                                                                   \
        free(mean);                                                                                                         \
    }                                                                                                                       \
                                                                                                                            \
    /* here `offsets` and `order` list the outgoing edges of every source, and `target` whom each edge leads to */          \
    void value_gradient_##real(int64_t first, int64_t last, int64_t heads, int64_t dim, const int64_t *offsets, const int64_t *order,\
                               const int64_t *target, const real *weights, const real *kept, const real *gradient, real *result) {\
        for (int64_t j = first; j < last; j++) {                                                                            \
            real *restrict out = result + j * heads * dim;                                                                  \
            for (int64_t x = 0; x < heads * dim; x++) out[x] = 0;                                                           \
            for (int64_t at = offsets[j]; at < offsets[j + 1]; at++) {                                                      \
                const int64_t e = order[at];                                                                                \
                const real *restrict g = gradient + target[e] * heads * dim;                                                \
                for (int64_t h = 0; h < heads; h++) {                                                                       \
                    const real w = kept ? weights[e * heads + h] * kept[e * heads + h] : weights[e * heads + h];            \
                    for (int64_t x = 0; x < dim; x++) out[h * dim + x] += w * g[h * dim + x];                               \
                }                                                                                                           \
            }                                                                                                               \
        }                                                                                                                   \
    }

DEFINE(float, expf)
DEFINE(double, exp)
