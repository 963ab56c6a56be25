/* The functions of edges.c for one kind of REAL: included once for each. */

#define SPANS                                                        \
    _Pragma("omp parallel for num_threads(threads) if (threads > 1)") \
    for (int64_t part = 0; part < threads; part++)

void NAMED(edges_forward)(int64_t nodes, int64_t heads, int64_t dim, const int64_t *offsets, const int64_t *source,
                          const REAL *scores, const REAL *values, const REAL *kept, REAL *weights, REAL *output, REAL *room,
                          int64_t threads) {
    SPANS {
        REAL *top = room + part * 2 * heads, *sum = top + heads;
        for (int64_t i = nodes * part / threads; i < nodes * (part + 1) / threads; i++) {
            const int64_t begin = offsets[i], end = offsets[i + 1];
            REAL *restrict out = output + i * heads * dim;
            for (int64_t h = 0; h < heads; h++) { top[h] = -INFINITY; sum[h] = 0; }
            for (int64_t x = 0; x < heads * dim; x++) out[x] = 0;
            for (int64_t e = begin; e < end; e++)
                for (int64_t h = 0; h < heads; h++) {
                    const REAL s = scores[e * heads + h];
                    top[h] = s > top[h] || s != s ? s : top[h];
                }
            for (int64_t e = begin; e < end; e++) {
                const REAL *restrict v = values + source[e] * heads * dim;
                for (int64_t h = 0; h < heads; h++) {
                    const REAL w = POWER(scores[e * heads + h] - top[h]);
                    weights[e * heads + h] = w;
                    sum[h] += w;
                    const REAL used = kept ? w * kept[e * heads + h] : w;
                    for (int64_t x = 0; x < dim; x++) out[h * dim + x] += used * v[h * dim + x];
                }
            }
            if (begin == end) continue;
            for (int64_t h = 0; h < heads; h++) sum[h] = 1 / sum[h];
            for (int64_t e = begin; e < end; e++)
                for (int64_t h = 0; h < heads; h++) weights[e * heads + h] *= sum[h];
            for (int64_t h = 0; h < heads; h++)
                for (int64_t x = 0; x < dim; x++) out[h * dim + x] *= sum[h];
        }
    }
}

void NAMED(edges_score_gradient)(int64_t nodes, int64_t heads, int64_t dim, const int64_t *offsets, const int64_t *source,
                                 const REAL *weights, const REAL *kept, const REAL *values, const REAL *gradient, REAL *result,
                                 REAL *room, int64_t threads) {
    SPANS {
        REAL *mean = room + part * heads;
        for (int64_t i = nodes * part / threads; i < nodes * (part + 1) / threads; i++) {
            const REAL *restrict g = gradient + i * heads * dim;
            for (int64_t h = 0; h < heads; h++) mean[h] = 0;
            for (int64_t e = offsets[i]; e < offsets[i + 1]; e++) {
                const REAL *restrict v = values + source[e] * heads * dim;
                for (int64_t h = 0; h < heads; h++) {
                    REAL dot = 0;
                    for (int64_t x = 0; x < dim; x++) dot += g[h * dim + x] * v[h * dim + x];
                    if (kept) dot *= kept[e * heads + h];
                    result[e * heads + h] = dot;
                    mean[h] += weights[e * heads + h] * dot;
                }
            }
            for (int64_t e = offsets[i]; e < offsets[i + 1]; e++)
                for (int64_t h = 0; h < heads; h++)
                    result[e * heads + h] = weights[e * heads + h] * (result[e * heads + h] - mean[h]);
        }
    }
}

/* here `offsets` and `order` list the outgoing edges of every source, and `target` the target of each edge */
void NAMED(edges_value_gradient)(int64_t nodes, int64_t heads, int64_t dim, const int64_t *offsets, const int64_t *order,
                                 const int64_t *target, const REAL *weights, const REAL *kept, const REAL *gradient, REAL *result,
                                 int64_t threads) {
    SPANS {
        for (int64_t j = nodes * part / threads; j < nodes * (part + 1) / threads; j++) {
            REAL *restrict out = result + j * heads * dim;
            for (int64_t x = 0; x < heads * dim; x++) out[x] = 0;
            for (int64_t at = offsets[j]; at < offsets[j + 1]; at++) {
                const int64_t e = order[at];
                const REAL *restrict g = gradient + target[e] * heads * dim;
                for (int64_t h = 0; h < heads; h++) {
                    const REAL w = kept ? weights[e * heads + h] * kept[e * heads + h] : weights[e * heads + h];
                    for (int64_t x = 0; x < dim; x++) out[h * dim + x] += w * g[h * dim + x];
                }
            }
        }
    }
}

#undef SPANS
#undef REAL
#undef POWER
#undef NAMED
