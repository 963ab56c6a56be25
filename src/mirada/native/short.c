/* Attention over short sequences, float32: all of a head stays in the cache, forward and backward.
 *
 * Heads are shared among threads. A sequence's keys end at its length; with `causal`, a query's keys end at its own place. The
 * numbers of a vector are contiguous; places, heads and sequences may have any stride.
 */

#include <stddef.h>

#include "tiles.h"

#define LONGEST SHORT_LONGEST /* keys, and so numbers in a row of weights, at most */
#define WIDEST SHORT_WIDEST   /* numbers in a vector at most */
#define WIDE SHORT_LANES      /* vectors and rows of weights are multiples of it, and rows are summed in parallel */
_Static_assert(WIDE % LANES == 0 && LONGEST % WIDE == 0 && WIDEST % WIDE == 0, "rows of short attention are whole vectors");

typedef struct { float *start; int64_t sequence, head, place; } Strides; /* the address and strides of a tensor */

INLINE float *at(Strides x, int64_t sequence, int64_t head) {
    return x.start + sequence * x.sequence + head * x.head;
}

/* c (R x V vectors) = a b: as `tile` in tiles.h, and stored. */
INLINE void stored_tile(const int R, const int V, int64_t depth, const float *a, int64_t down, int64_t along, const float *b,
                        int64_t next_b, float *c, int64_t next_c) {
    vec sums[TILE_ROWS][VECTORS];
    tile(R, V, depth, a, down, along, b, next_b, NULL, 0, NULL, 0, sums);
    for (int r = 0; r < R; r++)
        for (int v = 0; v < V; v++) *(loose *)(c + r * next_c + LANES * v) = sums[r][v];
}

/* c (rows x columns) = a (rows x depth) b (depth x columns), columns a multiple of LANES. a may have any
 * strides. */
static void product(int64_t rows, int64_t columns, int64_t depth, const float *a, int64_t down, int64_t along, const float *b,
                    int64_t next_b, float *c, int64_t next_c) {
    int64_t column = 0;
#define TILES(R, V)                                                                                                              \
    for (; row + R <= rows; row += R)                                                                                            \
    stored_tile(R, V, depth, a + row * down, down, along, b + column, next_b, c + row * next_c + column, next_c)
    for (; column + VECTORS * LANES <= columns; column += VECTORS * LANES) {
        int64_t row = 0;
        TILES(4, VECTORS);
        TILES(1, VECTORS);
    }
    for (; column < columns; column += LANES) {
        int64_t row = 0;
        TILES(8, 1);
        TILES(1, 1);
    }
}

/* The first `n` of some vectors as columns, with zeros to the right of them. */
static void turn(int64_t n, int64_t padded, int64_t dim, const float *x, int64_t place, float *turned) {
    for (int64_t i = 0; i < dim; i++) {
        for (int64_t j = 0; j < n; j++) turned[i * padded + j] = x[j * place + i];
        for (int64_t j = n; j < padded; j++) turned[i * padded + j] = 0.0f;
    }
}

INLINE int64_t seen(int64_t real, int64_t causal, int64_t query) { /* how many keys a query sees */
    return causal && query + 1 < real ? query + 1 : real;
}

INLINE void softmax(int64_t n, int64_t padded, float scale, float *x) { /* over the first n; the others become 0. The scale is above 0. */
    float tops[WIDE], sums[WIDE] = {0}, top = -INFINITY, sum = 0.0f;
    for (int64_t i = n; i < padded; i++) x[i] = -INFINITY;
    for (int i = 0; i < WIDE; i++) tops[i] = -INFINITY;
    for (int64_t first = 0; first < padded; first += WIDE)
        for (int i = 0; i < WIDE; i++) tops[i] = x[first + i] > tops[i] ? x[first + i] : tops[i];
    for (int i = 0; i < WIDE; i++) top = tops[i] > top ? tops[i] : top;
    for (int64_t first = 0; first < padded; first += WIDE)
        for (int i = 0; i < WIDE; i++) {
            x[first + i] = first + i < n ? exponential((x[first + i] - top) * scale) : 0.0f;
            sums[i] += x[first + i];
        }
    for (int i = 0; i < WIDE; i++) sum += sums[i];
    const float share = n ? 1.0f / sum : 0.0f;
    for (int64_t i = 0; i < padded; i++) x[i] *= share;
}

typedef struct {
    int64_t batch, heads, queries, keys, padded, dim, value_dim, causal, threads;
    float scale;
    const int64_t *lengths; /* of the sequences; null: all keys are real */
    float *weights;         /* (batch, heads, queries, padded) */
    Strides q, k, v, out, dq, dk, dv; /* backward, `out` is the gradient of the output */
} ShortAttention;

INLINE int64_t real_keys(const ShortAttention *job, int64_t sequence) {
    if (!job->lengths || job->lengths[sequence] > job->keys) return job->keys;
    return job->lengths[sequence] < 0 ? 0 : job->lengths[sequence];
}

void short_forward(const ShortAttention *job) {
#pragma omp parallel for num_threads(job->threads) if (job->threads > 1)
    for (int64_t pair = 0; pair < job->batch * job->heads; pair++) {
        const int64_t sequence = pair / job->heads, head = pair % job->heads, real = real_keys(job, sequence);
        float turned[WIDEST * LONGEST], *w = job->weights + pair * job->queries * job->padded;
        turn(real, job->padded, job->dim, at(job->k, sequence, head), job->k.place, turned);
        product(job->queries, job->padded, job->dim, at(job->q, sequence, head), job->q.place, 1, turned, job->padded, w,
                job->padded);
        for (int64_t i = 0; i < job->queries; i++)
            softmax(seen(real, job->causal, i), job->padded, job->scale, w + i * job->padded);
        product(job->queries, job->value_dim, real, w, job->padded, 1, at(job->v, sequence, head), job->v.place,
                at(job->out, sequence, head), job->out.place);
    }
}

static void clear(int64_t first, int64_t last, int64_t dim, float *x, int64_t place) {
    for (int64_t i = first; i < last; i++) memset(x + i * place, 0, (size_t)dim * sizeof(float));
}

void short_backward(const ShortAttention *job) {
#pragma omp parallel for num_threads(job->threads) if (job->threads > 1)
    for (int64_t pair = 0; pair < job->batch * job->heads; pair++) {
        const int64_t sequence = pair / job->heads, head = pair % job->heads, real = real_keys(job, sequence), n = job->padded;
        const float *w = job->weights + pair * job->queries * n, *out = at(job->out, sequence, head);
        float turned[WIDEST * LONGEST], scores[LONGEST * LONGEST];
        turn(real, n, job->value_dim, at(job->v, sequence, head), job->v.place, turned);
        product(job->queries, n, job->value_dim, out, job->out.place, 1, turned, n, scores, n);
        for (int64_t i = 0; i < job->queries; i++) {
            const float *p = w + i * n; /* 0 for keys that the query does not see */
            float *d = scores + i * n, dot = 0.0f;
            float dots[WIDE] = {0};
            for (int64_t first = 0; first < n; first += WIDE)
                for (int j = 0; j < WIDE; j++) dots[j] += p[first + j] * d[first + j];
            for (int j = 0; j < WIDE; j++) dot += dots[j];
            for (int64_t j = 0; j < n; j++) d[j] = p[j] * (d[j] - dot) * job->scale;
        }
        float *dk = at(job->dk, sequence, head), *dv = at(job->dv, sequence, head);
        product(job->queries, job->dim, real, scores, n, 1, at(job->k, sequence, head), job->k.place,
                at(job->dq, sequence, head), job->dq.place);
        product(real, job->dim, job->queries, scores, 1, n, at(job->q, sequence, head), job->q.place, dk, job->dk.place);
        product(real, job->value_dim, job->queries, w, 1, n, out, job->out.place, dv, job->dv.place);
        clear(real, job->keys, job->dim, dk, job->dk.place);
        clear(real, job->keys, job->value_dim, dv, job->dv.place);
    }
}

/* The offset of each field and the size of the structure, which Python compares. */
int64_t short_layout(int64_t *offsets) {
#define AT(field) offsetof(ShortAttention, field)
    const int64_t found[] = {AT(batch), AT(heads), AT(queries), AT(keys), AT(padded), AT(dim), AT(value_dim), AT(causal), AT(threads),
                             AT(scale), AT(lengths), AT(weights), AT(q), AT(k), AT(v), AT(out), AT(dq), AT(dk), AT(dv),
                             sizeof(ShortAttention)};
    if (offsets) memcpy(offsets, found, sizeof found);
    return sizeof found / sizeof *found;
}
