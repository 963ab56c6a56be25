/* A stack of Transformer layers: one decoding step, with one new place per row, or one pass over whole sources.
 *
 * A matrix is stored in panels of PANEL columns, each a block of (in, PANEL) numbers, so that it is read sequentially for any
 * number of rows. The weights of a stack are stored in the order in which a step uses them.
 *
 * With many rows, each thread takes some of them through all layers. With few rows, threads share the columns of every matrix: a
 * free thread takes the next piece, and all wait for the last one. Where other processes use the same cores, waiting takes longer
 * than the work; so after a step that was slower than one thread alone, one thread takes the next steps.
 */

#ifdef __linux__
#include <sys/mman.h>
#endif
#include <stddef.h>

#include "bytes.h"
#include "paces.h"
#include "panels.h"

#define OWN 4 /* times `places` numbers that a thread has for itself: weights, offsets (of 64 bits), scores of distances */
#define SHARE 16 /* rows from which each thread takes its own rows through all layers */

typedef struct {
    int64_t width, heads, dim, hidden, depth, activation, rms, post, cross, first_norm, last_norm; /* of the stack */
    int64_t groups;      /* heads of keys and values in self-attention, each read by several heads of queries */
    int64_t gated;       /* the hidden layer is act(a) b, with a and b from one product */
    int64_t normed;      /* queries and keys of self-attention are normalized first */
    int64_t turned, interleaved; /* coordinates of queries and keys that are rotated; whether pairs are neighbors */
    int64_t length; /* 0: a step; otherwise a pass: every `length` rows are the places of one source, which attend to each other */
    int64_t rows, first, all; /* rows of this piece, the first of them, and of all pieces */
    int64_t threads, places, cache_row, cache_head, source_row, source_head, source_place;
    int64_t filled, written, source_length; /* places of the caches, those of them that have writers, and places of the sources */
    int64_t source_count, vocab, work;      /* sources (0: not known), size of the vocabulary, and approximate multiplications per row */
    int64_t bytes_each;                     /* of `bytes`, for each thread */
    int64_t slots, room, distances;         /* heads whose weights are kept, the places of a kept row, and the distances of a bias */
    int64_t cache_rows, together;           /* rows of the caches (0: as many as there are), and whether several rows are places of one */
    int64_t halved; /* the matrices are in bfloat16, sums in float32 */
    float enlarged; /* the scale of the embedding */
    const float *weights;
    float *const *caches;        /* keys and values of every layer */
    const float *const *sources; /* keys and values of the source, of every layer */
    const float *const *turns;   /* cosines, then sines, of every place, of every layer; null: not rotated */
    const float *const *biases;  /* what is added to the scores, by head and distance, of every layer; null: nothing */
    const float *const *relatives; /* vectors by distance that are added to the keys and to the values (or null), of every layer; null: none */
    const int64_t *clips;        /* the largest distance that has vectors of its own, of every layer */
    const int64_t *windows;      /* how far back every layer sees; null, or -1: all the way */
    const int64_t *writers;      /* for places < written: the row of the cache that holds what this row has there */
    const int64_t *fills;        /* the place of each row's token; null: `filled`, the highest of them, for all */
    const int64_t *homes;        /* the row of the cache that each row continues; null: its own */
    const int64_t *entry;        /* the source that each row reads; null: its own */
    const int64_t *lengths;      /* of the sources; null: all of source_length */
    const int64_t *tokens;       /* one per row; null: the input is given */
    const int64_t *slot;         /* for every layer, itself before the source, and head: where its weights are kept; -1: nowhere */
    const float *input, *words;  /* the vectors of the rows, or those of the vocabulary */
    const float *position;       /* the position vectors: one row, or in a pass one per place; null: none */
    const float *scores;         /* the matrix of the output layer; null: the stack's own outputs are wanted */
    float *kept;                 /* the weights of every row and slot, at `room` places; null: none are kept */
    float *output, *asked, *scratch, *own; /* scratch for all rows, and a part of `own` for each thread */
    Phase *phases;                         /* some for each thread */
    uint8_t *bytes;                        /* inputs as bytes, a part for each thread; null: the matrices are numbers */
} DecodeStep;

int64_t decode_panel(void) { return PANEL; }

int64_t decode_byte_room(int64_t in) { return byte_room(in); } /* bytes that each thread needs for inputs of that many numbers */

static Phase *normalize(Phase *phase, const float *x, const float *weights, float *out, int64_t out_stride, const DecodeStep *job) {
    const int64_t stride = padded(job->width), pieces = (job->rows + 7) / 8;
    EACH(piece, pieces)
        for (int64_t r = piece * 8; r < smaller(job->rows, piece * 8 + 8); r++)
            norm_row(x + r * stride, weights, out + r * out_stride, job->width, job->rms);
    return finish(phase, pieces);
}

static Phase *copy(Phase *phase, const float *x, int64_t x_stride, float *out, int64_t out_stride, const DecodeStep *job) {
    const int64_t pieces = (job->rows + 31) / 32;
    EACH(piece, pieces)
        for (int64_t r = piece * 32; r < smaller(job->rows, piece * 32 + 32); r++)
            memcpy(out + r * out_stride, x + r * x_stride, job->width * sizeof(float));
    return finish(phase, pieces);
}

static Phase *embed(Phase *phase, float *out, const DecodeStep *job) {
    const int64_t pieces = (job->rows + 31) / 32, width = job->width;
    EACH(piece, pieces)
        for (int64_t r = piece * 32; r < smaller(job->rows, piece * 32 + 32); r++) {
            const float *restrict from = job->words + job->tokens[r] * width;
            const int64_t at = job->length ? r % job->length : job->fills ? job->fills[r] : 0;
            const float *restrict place = job->position ? job->position + at * width : NULL;
            float *restrict to = out + r * padded(width);
            for (int64_t i = 0; i < width; i++) to[i] = from[i] * job->enlarged + (place ? place[i] : 0.0f);
        }
    return finish(phase, pieces);
}

/* exp(score * scale + bias - the highest of n) in place of every score; 1 / their sum. */
static float soften(float *weights, int64_t n, float scale, const float *bias) {
    const int64_t lanes = n / LANES * LANES;
    float tops[LANES], top = -INFINITY;
    for (int64_t s = 0; s < n; s++) weights[s] = weights[s] * scale + (bias ? bias[n - 1 - s] : 0.0f);
    for (int j = 0; j < LANES; j++) tops[j] = -INFINITY;
    for (int64_t s = 0; s < lanes; s += LANES)
        for (int j = 0; j < LANES; j++) tops[j] = weights[s + j] > tops[j] ? weights[s + j] : tops[j];
    for (int64_t s = lanes; s < n; s++) tops[0] = weights[s] > tops[0] ? weights[s] : tops[0];
    for (int j = 0; j < LANES; j++) top = tops[j] > top ? tops[j] : top; /* a NaN stays one in its own weight, and reaches the sum */
    for (int64_t s = 0; s < n; s++) weights[s] = exponential(weights[s] - top);
    vec each = {0};
    for (int64_t s = 0; s < lanes; s += LANES) each += *(const loose *)(weights + s);
    float sum = total(each);
    for (int64_t s = lanes; s < n; s++) sum += weights[s];
    return n ? 1.0f / sum : 0.0f;
}

/* Attention of one query over n keys at these offsets; without keys the result is zero. `bias` is by the distance from the last key. What
 * is left in `weights`, times the number that is returned, are the weights. */
static float attend(const float *q, const float *keys, const float *values, const int64_t *offsets, int64_t n, int64_t dim, float scale,
                    const float *bias, float *weights, float *out) {
    const int64_t whole = dim / LANES * LANES, fours = n / 4 * 4;
    for (int64_t s = 0; s < fours; s += 4) {
        vec sums[4] = {{0}};
        for (int64_t i = 0; i < whole; i += LANES)
            for (int k = 0; k < 4; k++) sums[k] += *(const loose *)(q + i) * *(const loose *)(keys + offsets[s + k] + i);
        const four found = totals(sums[0], sums[1], sums[2], sums[3]);
        memcpy(weights + s, &found, sizeof found);
        for (int k = 0; k < 4 && whole < dim; k++) weights[s + k] += dot(q + whole, keys + offsets[s + k] + whole, dim - whole);
    }
    for (int64_t s = fours; s < n; s++) weights[s] = dot(q, keys + offsets[s], dim);
    const float by = soften(weights, n, scale, bias);
    int64_t d = 0;
    for (; d + 4 * LANES <= dim; d += 4 * LANES) { /* independent sums hide the latency of each */
        vec sums[2][4] = {{{0}}};
        for (int64_t s = 0; s + 1 < n; s += 2)
            for (int k = 0; k < 2; k++)
                for (int v = 0; v < 4; v++) sums[k][v] += weights[s + k] * *(const loose *)(values + offsets[s + k] + d + v * LANES);
        for (int v = 0; v < 4; v++) {
            if (n % 2) sums[0][v] += weights[n - 1] * *(const loose *)(values + offsets[n - 1] + d + v * LANES);
            *(loose *)(out + d + v * LANES) = (sums[0][v] + sums[1][v]) * by;
        }
    }
    for (; d < whole; d += LANES) {
        vec sums[2] = {{0}};
        for (int64_t s = 0; s + 1 < n; s += 2)
            for (int k = 0; k < 2; k++) sums[k] += weights[s + k] * *(const loose *)(values + offsets[s + k] + d);
        if (n % 2) sums[0] += weights[n - 1] * *(const loose *)(values + offsets[n - 1] + d);
        *(loose *)(out + d) = (sums[0] + sums[1]) * by;
    }
    for (; d < dim; d++) {
        float mixed = 0;
        for (int64_t s = 0; s < n; s++) mixed += weights[s] * values[offsets[s] + d];
        out[d] = mixed * by;
    }
    return by;
}

#define QUERIES 4 /* of successive places, which read the same keys together; at most OWN */

/* Some vectors of what `attend` mixes, for successive places: each one sees a key more than the one before. */
INLINE void mix(const int V, const float *weights, int64_t apart, const float *values, int64_t n, int64_t dim, const float *by, float *out,
                int64_t out_stride) {
    vec sums[QUERIES][2][2] = {{{{0}}}};
    for (int64_t s = 0; s + 1 < n; s += 2)
        for (int k = 0; k < 2; k++)
            for (int v = 0; v < V; v++) {
                const vec value = *(const loose *)(values + (s + k) * dim + v * LANES);
                for (int r = 0; r < QUERIES; r++) sums[r][k][v] += weights[r * apart + s + k] * value;
            }
    for (int r = 0; r < QUERIES; r++)
        for (int v = 0; v < V; v++) {
            for (int64_t s = n / 2 * 2; s < n + r; s++)
                sums[r][s % 2][v] += weights[r * apart + s] * *(const loose *)(values + s * dim + v * LANES);
            *(loose *)(out + r * out_stride + v * LANES) = (sums[r][0][v] + sums[r][1][v]) * by[r];
        }
}

/* `attend` for the queries of successive places, to the bit: the first sees n keys. dim is a multiple of LANES; weights are `apart`. */
static void attend_together(const float *q, int64_t q_stride, const float *keys, const float *values, int64_t n, int64_t dim, float scale,
                            const float *bias, float *weights, int64_t apart, float *by, float *out, int64_t out_stride) {
    const int64_t fours = n / 4 * 4;
    for (int64_t s = 0; s < fours; s += 4) {
        vec sums[QUERIES][4] = {{{0}}};
        for (int64_t i = 0; i < dim; i += LANES)
            for (int k = 0; k < 4; k++) {
                const vec key = *(const loose *)(keys + (s + k) * dim + i);
                for (int r = 0; r < QUERIES; r++) sums[r][k] += *(const loose *)(q + r * q_stride + i) * key;
            }
        for (int r = 0; r < QUERIES; r++) {
            const four found = totals(sums[r][0], sums[r][1], sums[r][2], sums[r][3]);
            memcpy(weights + r * apart + s, &found, sizeof found);
        }
    }
    for (int r = 0; r < QUERIES; r++) {
        for (int64_t s = fours; s < n + r; s++) weights[r * apart + s] = dot(q + r * q_stride, keys + s * dim, dim);
        by[r] = soften(weights + r * apart, n + r, scale, bias);
    }
    int64_t d = 0;
    for (; d + 2 * LANES <= dim; d += 2 * LANES) mix(2, weights, apart, values + d, n, dim, by, out + d, out_stride);
    for (; d < dim; d += LANES) mix(1, weights, apart, values + d, n, dim, by, out + d, out_stride);
}

/* Keep the weights of a head, if they are wanted: those of n places from the first on; the others get 0. */
INLINE void keep(const DecodeStep *job, int64_t layer, int64_t across, int64_t row, int64_t head, const float *weights, int64_t first,
                 int64_t n, float by) {
    if (!job->kept) return;
    const int64_t slot = job->slot[(2 * layer + across) * job->heads + head];
    if (slot < 0) return;
    float *restrict to = job->kept + (row * job->slots + slot) * job->room;
    for (int64_t s = 0; s < first; s++) to[s] = 0;
    for (int64_t s = 0; s < n; s++) to[first + s] = weights[s] * by;
    for (int64_t s = first + n; s < job->room; s++) to[s] = 0;
}

INLINE void fetch(const float *at, int64_t dim) {
    for (int64_t d = 0; d < dim; d += 16) __builtin_prefetch(at + d, 0, 3);
}

INLINE int64_t place_of(const DecodeStep *job, int64_t row, int64_t group, int64_t s) { /* the offset of the key of place s */
    const int64_t home = job->homes ? job->homes[row] : job->first + row;
    const int64_t writer = s < job->written ? job->writers[s * job->all + row] : home;
    return writer * job->cache_row + group * job->cache_head + s * job->dim;
}

INLINE int64_t last_of(const DecodeStep *job, int64_t row) { return job->fills ? job->fills[row] : job->filled; }

INLINE int64_t qkv_columns(const DecodeStep *job) { return (job->heads + 2 * job->groups) * job->dim; }

/* Rotate the pairs of a query or key: (a, b) to (a cos - b sin, b cos + a sin). */
static void turn(float *x, const float *turns, int64_t turned, int64_t interleaved) {
    const int64_t pairs = turned / 2, apart = interleaved ? 1 : pairs, step = interleaved ? 2 : 1;
    for (int64_t m = 0; m < pairs; m++) {
        const float a = x[m * step], b = x[m * step + apart], c = turns[m], s = turns[pairs + m];
        x[m * step] = a * c - b * s;
        x[m * step + apart] = b * c + a * s;
    }
}

/* Normalize and rotate the new queries and keys, and write the keys and values to their places in the cache. */
static Phase *prepare(Phase *phase, const DecodeStep *job, int64_t layer, const float *norms, float *qkv) {
    const int64_t stride = padded(qkv_columns(job)), each = job->heads + job->groups, dim = job->dim, units = job->rows * each;
    const int64_t few = larger(1, units / (8 * job->threads)), pieces = (units + few - 1) / few;
    const float *turns = job->turns ? job->turns[layer] : NULL;
    float *keys = job->caches[2 * layer], *values = job->caches[2 * layer + 1];
    EACH(piece, pieces)
        for (int64_t unit = piece * few; unit < smaller(units, (piece + 1) * few); unit++) {
            const int64_t row = unit / each, head = unit % each, group = head - job->heads;
            float *x = qkv + row * stride + head * dim;
            if (job->normed) norm_row(x, group < 0 ? norms : norms + PANEL + 2 * padded(dim), x, dim, 1);
            if (turns) turn(x, turns + last_of(job, row) * job->turned, job->turned, job->interleaved);
            if (group < 0) continue;
            const int64_t at = place_of(job, row, group, last_of(job, row));
            memcpy(keys + at, x, dim * sizeof(float));
            memcpy(values + at, x + job->groups * dim, dim * sizeof(float));
        }
    return finish(phase, pieces);
}

INLINE int is_prepared(const DecodeStep *job) { return job->normed || job->turns || job->homes || job->groups != job->heads; }

/* What vectors by distance add to the scores of a query over n places, by distance. */
static void near_scores(const float *q, const float *vectors, int64_t clip, int64_t n, int64_t dim, float scale, float *out) {
    for (int64_t d = 0; d < n; d++) out[d] = d <= clip ? scale * dot(q, vectors + d * dim, dim) : out[clip];
}

/* What they add to the output: the weights, which are multiplied by `by`, are summed per distance. */
static void near_values(const float *weights, const float *vectors, int64_t clip, int64_t n, int64_t dim, float by, float *out) {
    float far = 0;
    for (int64_t s = 0; s < n - clip; s++) far += weights[s];
    for (int64_t d = 0; d < n && d <= clip; d++) {
        const float weight = by * (d < clip ? weights[n - 1 - d] : far);
        for (int64_t i = 0; i < dim; i++) out[i] += weight * vectors[d * dim + i];
    }
}

/* Self-attention of a row over the cache. A new key and value that need no preparation go to place `filled` first. The data of the next
 * unit is prefetched meanwhile. */
static void look(const DecodeStep *job, int64_t layer, int64_t row, int64_t head, float scale, const float *qkv, float *out, float *weights,
                 int64_t *offsets) {
    const int64_t times = job->heads / job->groups, window = job->windows ? job->windows[layer] : -1, after = head + 1;
    const int64_t last = last_of(job, row), start = window >= 0 && last > window ? last - window : 0, n = last + 1 - start;
    const int64_t next_row = row + after / job->heads, group = head / times, next_group = after % job->heads / times;
    const float *to_keys = job->relatives ? job->relatives[2 * layer] : NULL, *to_values = to_keys ? job->relatives[2 * layer + 1] : NULL;
    const float *biases = job->biases ? job->biases[layer] : NULL, *bias = biases ? biases + head * job->distances : NULL;
    float *keys = job->caches[2 * layer], *values = job->caches[2 * layer + 1], *near = (float *)(offsets + job->places);
    for (int64_t s = 0; s < n; s++) {
        offsets[s] = place_of(job, row, group, start + s);
        const int64_t next = next_row < job->rows ? place_of(job, next_row, next_group, start + s) : offsets[s];
        fetch(keys + next, job->dim);
        fetch(values + next, job->dim);
    }
    const float *q = qkv + row * padded(qkv_columns(job)) + head * job->dim;
    if (!is_prepared(job)) {
        memcpy(keys + offsets[n - 1], q + job->heads * job->dim, job->dim * sizeof(float));
        memcpy(values + offsets[n - 1], q + 2 * job->heads * job->dim, job->dim * sizeof(float));
    }
    if (to_keys) near_scores(q, to_keys, job->clips[layer], n, job->dim, scale, near);
    float *to = out + row * padded(job->heads * job->dim) + head * job->dim;
    const float by = attend(q, keys, values, offsets, n, job->dim, scale, to_keys ? near : bias, weights, to);
    if (to_values) near_values(weights, to_values, job->clips[layer], n, job->dim, by, to);
    keep(job, layer, 0, row, head, weights, start, n, by);
}

/* Whether these rows are successive places of one text that see all of it: `look_together` is for them. */
static int successive(const DecodeStep *job, int64_t layer, int64_t first) {
    if (!job->together || !job->homes || job->written || job->relatives || job->dim % LANES || first + QUERIES > job->rows) return 0;
    for (int64_t r = 1; r < QUERIES; r++)
        if (job->homes[first + r] != job->homes[first] || job->fills[first + r] != job->fills[first] + r) return 0;
    return !job->windows || job->windows[layer] < 0 || job->fills[first] + QUERIES - 1 <= job->windows[layer];
}

/* `look` for successive rows of one text. */
static void look_together(const DecodeStep *job, int64_t layer, int64_t first, int64_t head, float scale, const float *qkv, float *out,
                          float *weights) {
    const int64_t in = padded(qkv_columns(job)), stride = padded(job->heads * job->dim), n = job->fills[first] + 1;
    const int64_t at = place_of(job, first, head / (job->heads / job->groups), 0);
    const float *bias = job->biases ? job->biases[layer] : NULL;
    float by[QUERIES];
    attend_together(qkv + first * in + head * job->dim, in, job->caches[2 * layer] + at, job->caches[2 * layer + 1] + at, n, job->dim,
                    scale, bias ? bias + head * job->distances : NULL, weights, job->places, by, out + first * stride + head * job->dim,
                    stride);
    for (int64_t r = 0; r < QUERIES; r++) keep(job, layer, 0, first + r, head, weights + r * job->places, 0, n + r, by[r]);
}

/* Self-attention over the cache. */
static Phase *look_back(Phase *phase, const DecodeStep *job, int64_t layer, float scale, const float *qkv, float *out, float *weights,
                        int64_t *offsets) {
    const int64_t each = job->together ? QUERIES : 1, units = (job->rows + each - 1) / each * job->heads;
    const int64_t few = larger(1, units / (8 * job->threads)), pieces = (units + few - 1) / few;
    EACH(piece, pieces)
        for (int64_t unit = piece * few; unit < smaller(units, (piece + 1) * few); unit++) {
            const int64_t first = unit / job->heads * each, head = unit % job->heads;
            if (successive(job, layer, first)) look_together(job, layer, first, head, scale, qkv, out, weights);
            else
                for (int64_t row = first; row < smaller(job->rows, first + each); row++)
                    look(job, layer, row, head, scale, qkv, out, weights, offsets);
        }
    return finish(phase, pieces);
}

/* The hidden layer act(a) b of a gated feed-forward network, in the place of a. */
static Phase *gate(Phase *phase, const DecodeStep *job, float *h) {
    const int64_t wide = padded(2 * job->hidden), each = (job->hidden + 1023) / 1024, pieces = job->rows * each;
    EACH(piece, pieces) {
        const int64_t at = piece % each * 1024, n = smaller(1024, job->hidden - at);
        float *a = h + piece / each * wide + at;
        const float *b = a + job->hidden;
        activate(a, n, job->activation);
        for (int64_t i = 0; i < n; i++) a[i] *= b[i];
    }
    return finish(phase, pieces);
}

/* Self-attention of whole sources: keys and values are in the same rows. */
static Phase *look_around(Phase *phase, const DecodeStep *job, float scale, const float *qkv, float *out, float *weights, int64_t *offsets) {
    const int64_t inner = job->heads * job->dim, stride = padded(3 * inner), units = job->rows * job->heads;
    const int64_t few = larger(1, units / (8 * job->threads)), pieces = (units + few - 1) / few;
    for (int64_t s = 0; s < job->length; s++) offsets[s] = s * stride;
    EACH(piece, pieces)
        for (int64_t unit = piece * few; unit < smaller(units, (piece + 1) * few); unit++) {
            const int64_t row = unit / job->heads, head = unit % job->heads, source = row / job->length;
            const float *keys = qkv + source * job->length * stride + inner + head * job->dim;
            const int64_t length = job->lengths ? job->lengths[source] : job->length;
            attend(qkv + row * stride + head * job->dim, keys, keys + inner, offsets, length, job->dim, scale, NULL, weights,
                   out + row * padded(inner) + head * job->dim);
        }
    return finish(phase, pieces);
}

/* Attention over the sources. */
static Phase *look_across(Phase *phase, const DecodeStep *job, int64_t layer, float scale, const float *q, float *out, float *weights,
                          int64_t *offsets) {
    const int64_t stride = padded(job->heads * job->dim), units = job->rows * job->heads;
    const int64_t few = larger(1, units / (8 * job->threads)), pieces = (units + few - 1) / few;
    const float *keys = job->sources[2 * layer], *values = job->sources[2 * layer + 1];
    for (int64_t s = 0; s < job->source_length; s++) offsets[s] = s * job->source_place;
    EACH(piece, pieces)
        for (int64_t unit = piece * few; unit < smaller(units, (piece + 1) * few); unit++) {
            const int64_t row = unit / job->heads, head = unit % job->heads, entry = job->entry ? job->entry[row] : job->first + row;
            const int64_t group = head / (job->heads / job->groups), at = row * stride + head * job->dim;
            const int64_t start = entry * job->source_row + group * job->source_head;
            const int64_t length = job->lengths ? job->lengths[entry] : job->source_length;
            const float by = attend(q + at, keys + start, values + start, offsets, length, job->dim, scale, NULL, weights, out + at);
            keep(job, layer, 1, row, head, weights, 0, length, by);
        }
    return finish(phase, pieces);
}

/* One phase: all rows times a matrix of numbers, or of bytes. */
static Phase *product(Phase *phase, const DecodeStep *job, uint8_t *bytes, const float *x, int64_t stride, int64_t in, int64_t columns,
                      const float *matrix, float *out, int64_t out_stride, int mode, int exact) {
    if (bytes)
        return multiply_bytes(phase, job->threads, x, stride, job->rows, in, columns, matrix, out, out_stride, mode, job->activation, exact,
                              bytes);
    return multiply(phase, job->threads, x, stride, job->rows, in, columns, matrix, out, out_stride, mode, job->activation, exact,
                    job->halved);
}

/* x = x + f(norm(x)) or norm(x + f(x)) for every f of every layer; each f begins with its norm's weights. */
static void run(const DecodeStep *job, int64_t thread) {
    const int64_t rows = job->rows, width = job->width, inner = job->heads * job->dim, hidden = job->hidden;
    const int64_t wide = padded(width), tall = padded(inner), norm = PANEL + 2 * wide, kinds = job->cross ? 3 : 2;
    const int64_t columns = qkv_columns(job), before = job->gated ? 2 * hidden : hidden;
    float *x = job->scratch, *h = x + rows * wide, *queries = h + rows * wide, *mixed = queries + rows * padded(columns);
    float *activated = mixed + rows * tall, *weights = job->own + thread * OWN * job->places;
    int64_t *offsets = (int64_t *)(weights + job->places);
    uint8_t *bytes = job->bytes ? job->bytes + thread * job->bytes_each : NULL;
    const float *w = job->weights, *in = job->post ? x : h;
    Phase *phase = job->tokens ? embed(job->phases, x, job) : copy(job->phases, job->input, width, x, wide, job);
    if (job->first_norm) phase = normalize(phase, x, w, x, wide, job), w += norm;
#define LINEAR(from, stride, ins, outs, to, mode)                                                                               \
    phase = product(phase, job, bytes, from, stride, ins, outs, w, to, padded(outs), mode, 0);                                  \
    w += matrix_size(ins, outs, bytes != NULL, job->halved)
    for (int64_t f = 0; f < kinds * job->depth; f++) {
        const int64_t layer = f / kinds, kind = f % kinds;
        const float *own = w, scale = w[1];
        w += norm;
        if (!job->post) phase = normalize(phase, x, own, h, wide, job);
        if (job->asked && layer == job->depth - 1 && kind == kinds - 2) phase = copy(phase, in, wide, job->asked, width, job);
        if (kind == kinds - 1) {
            LINEAR(in, wide, width, before, activated, job->gated ? SET : ACTIVATE);
            if (job->gated) phase = gate(phase, job, activated);
            LINEAR(activated, padded(before), hidden, width, x, ADD);
        } else {
            if (kind == 0) {
                const float *norms = w;
                if (job->normed) w += 2 * (PANEL + 2 * padded(job->dim));
                LINEAR(in, wide, width, columns, queries, SET);
                if (!job->length && is_prepared(job)) phase = prepare(phase, job, layer, norms, queries);
                phase = job->length ? look_around(phase, job, scale, queries, mixed, weights, offsets)
                                    : look_back(phase, job, layer, scale, queries, mixed, weights, offsets);
            } else {
                LINEAR(in, wide, width, inner, queries, SET);
                phase = look_across(phase, job, layer, scale, queries, mixed, weights, offsets);
            }
            LINEAR(mixed, tall, inner, width, x, ADD);
        }
        if (job->post) phase = normalize(phase, x, own, x, wide, job);
    }
    if (!job->scores && job->last_norm) normalize(phase, x, w, job->output, width, job);
    else if (!job->scores) copy(phase, x, wide, job->output, width, job);
    else {
        if (job->last_norm) phase = normalize(phase, x, w, h, wide, job);
        product(phase, job, bytes, job->last_norm ? h : x, wide, width, job->vocab, job->scores, job->output, job->vocab, SET, 1);
    }
}

int64_t decode_phases(int64_t depth) { return 18 * depth + 5; } /* the most phases of a step */

static int64_t scratch_of(const DecodeStep *job) { /* numbers per row */
    const int64_t inner = job->heads * job->dim;
    return 2 * padded(job->width) + padded(qkv_columns(job)) + padded(inner) + padded(job->hidden * (job->gated ? 2 : 1));
}

/* The rows first <= r < last through all layers, by one thread. */
static void run_alone(const DecodeStep *job, int64_t thread, int64_t first, int64_t last) {
    DecodeStep piece = *job;
    piece.first = first, piece.rows = last - first, piece.threads = 1;
    piece.scratch += first * scratch_of(job), piece.phases += thread * decode_phases(job->depth), piece.own += thread * OWN * job->places;
    if (job->bytes) piece.bytes += thread * job->bytes_each;
    piece.output += first * (job->scores ? job->vocab : job->width);
    if (job->asked) piece.asked += first * job->width;
    if (job->kept) piece.kept += first * job->slots * job->room;
    if (job->tokens) piece.tokens += first;
    else piece.input += first * job->width;
    if (job->writers) piece.writers += first;
    if (job->fills) piece.fills += first;
    if (job->homes) piece.homes += first;
    if (job->entry) piece.entry += first;
    if (job->lengths && job->length) piece.lengths += first / job->length;
    memset(piece.phases, 0, decode_phases(job->depth) * sizeof(Phase));
    run(&piece, 0);
}

static void run_one(const void *given) {
    const DecodeStep *job = given;
    run_alone(job, 0, 0, job->rows);
}

static void run_shared(const void *given) {
    const DecodeStep *job = given;
    const int64_t unit = larger(1, job->length), units = job->rows / unit; /* a source stays in one piece */
    const int64_t most = (job->length ? 6 : 2) * SHARE, size = larger(SHARE, smaller(most, job->rows / job->threads));
    const int64_t pieces = job->together ? 0 : smaller(units, job->rows / size);
    Phase whole = {0}, *phase = &whole;
    if (pieces < job->threads) memset(job->phases, 0, decode_phases(job->depth) * sizeof(Phase));
#pragma omp parallel num_threads(job->threads) if (job->threads > 1)
    {
        const int64_t thread = this_thread();
        if (pieces < job->threads) run(job, thread);
        else EACH(piece, pieces) run_alone(job, thread, units * piece / pieces * unit, units * (piece + 1) / pieces * unit);
    }
}

/* Forget these measurements: several threads share the next steps once the time of one is measured. */
void decode_forget(void) { past.alone = 0, past.penalty = 4; }

INLINE int out_of(int64_t x, int64_t last) { return x < 0 || x > last; }

/* Indices and lengths must lie within the memory that they refer to: 0, or the code of the one that does not. */
static int64_t misfit(const DecodeStep *job) {
    if (out_of(job->activation, ACTIVATION_COUNT - 1)) return -6;
    if (job->groups < 1 || job->heads % job->groups || job->turned % 2 || out_of(job->turned, job->dim)) return -8;
    if (job->length && (job->groups != job->heads || job->normed || job->turns || job->biases || job->relatives || job->windows))
        return -8;
    if (job->biases && job->distances <= job->filled) return -8;
    const int64_t inner = job->heads * job->dim, longest = larger(larger(job->width, inner), job->hidden);
    if (job->bytes && (longest > MOST_BYTES || job->bytes_each < byte_room(longest))) return -9;
    for (int64_t r = 0; job->tokens && r < job->rows; r++)
        if (out_of(job->tokens[r], job->vocab - 1)) return -1;
    if (job->length) {
        for (int64_t i = 0; job->lengths && i < job->rows / job->length; i++)
            if (out_of(job->lengths[i], job->length)) return -2;
        return job->rows % job->length || job->length > job->places ? -2 : 0;
    }
    if (job->kept) {
        for (int64_t i = 0; i < 2 * job->depth * job->heads; i++)
            if (job->slot[i] != -1 && out_of(job->slot[i], job->slots - 1)) return -7;
        if (job->room <= job->filled || job->room < job->source_length) return -7;
    }
    if ((job->filled + 1) * job->dim > job->cache_head || job->filled >= job->places || job->written > job->filled) return -3;
    const int64_t cached = job->cache_rows ? job->cache_rows : job->all;
    if (job->homes ? !job->fills : job->all > cached) return -4;
    for (int64_t r = 0; job->fills && r < job->rows; r++)
        if (out_of(job->fills[r], job->filled) || (job->homes && out_of(job->homes[r], cached - 1))) return -4;
    for (int64_t i = 0; job->writers && i < job->written * job->all; i++)
        if (out_of(job->writers[i], cached - 1)) return -4;
    for (int64_t r = 0; job->cross && r < job->rows; r++) {
        const int64_t entry = job->entry ? job->entry[r] : r;
        if (entry < 0 || (job->source_count && entry >= job->source_count)) return -5;
        if (job->lengths && out_of(job->lengths[entry], job->source_length)) return -2;
    }
    return job->cross && job->source_length > job->places ? -2 : 0;
}

/* Take a step; the other codes are explained in decode.py. */
int64_t decode_step(const DecodeStep *job) {
    const int64_t wrong = misfit(job);
    if (wrong || job->rows < 1) return wrong;
    if (job->threads == 1) {
        run_one(job);
        return 0;
    }
    paced(job, job->length > 0, job->rows, job->work, run_one, run_shared);
    return 0;
}

/* x (rows, in) times a matrix of that many columns. */
void decode_product(int64_t rows, int64_t in, int64_t columns, int64_t threads, const float *matrix, const float *x, float *out) {
    Phase phase = {0};
    threads = past.alone > 0 ? 1 : threads;
#pragma omp parallel num_threads(threads) if (threads > 1)
    multiply(&phase, threads, x, in, rows, in, columns, matrix, out, columns, SET, 0, 1, 0);
}

/* Ask for large pages: a step reads more memory than the TLB covers with small ones. It saves a twelfth of the time of one row. */
void enlarge(char *start, int64_t bytes) {
#ifdef MADV_HUGEPAGE
    const uintptr_t page = 1 << 21, first = ((uintptr_t)start + page - 1) / page * page, last = ((uintptr_t)start + bytes) / page * page;
    if (first < last) madvise((void *)first, last - first, MADV_HUGEPAGE);
#else
    (void)start, (void)bytes;
#endif
}

/* The offset of each field and the size of the structure, which Python compares. */
int64_t decode_layout(int64_t *offsets) {
#define AT(field) offsetof(DecodeStep, field)
    const int64_t found[] = {AT(width), AT(heads), AT(dim), AT(hidden), AT(depth), AT(activation), AT(rms), AT(post), AT(cross),
                             AT(first_norm), AT(last_norm), AT(groups), AT(gated), AT(normed), AT(turned), AT(interleaved), AT(length),
                             AT(rows), AT(first), AT(all), AT(threads), AT(places), AT(cache_row), AT(cache_head), AT(source_row),
                             AT(source_head), AT(source_place), AT(filled), AT(written), AT(source_length), AT(source_count), AT(vocab),
                             AT(work), AT(bytes_each), AT(slots), AT(room), AT(distances), AT(cache_rows), AT(together), AT(halved), AT(enlarged),
                             AT(weights), AT(caches), AT(sources), AT(turns), AT(biases), AT(relatives), AT(clips),
                             AT(windows), AT(writers), AT(fills), AT(homes),
                             AT(entry), AT(lengths), AT(tokens), AT(slot), AT(input), AT(words), AT(position), AT(scores), AT(kept),
                             AT(output), AT(asked), AT(scratch), AT(own), AT(phases), AT(bytes), sizeof(DecodeStep)};
    if (offsets) memcpy(offsets, found, sizeof found);
    return sizeof found / sizeof *found;
}
