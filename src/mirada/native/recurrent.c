/* One step of a recurrent decoder, which may attend to a source: Bahdanau's before its cell, Luong's after it.
 *
 * Each row has a vector `joined`. Bahdanau: [s; y; context], of which the cell reads [y; context] and the readout all. Others: [y] or
 * [y; fed], which the cell reads, then [context; s], which the readout reads. Without attention the state is the readout.
 *
 * The weights stand in the order of a step: the matrix of the queries, that of the predicted place and its vector, the gate, two matrices for
 * every layer of the cell (of its input and of its state), the readout. */

#include <stddef.h>

#include "bytes.h"
#include "paces.h"
#include "panels.h"

#define SHARE 16 /* rows from which each thread takes its own rows */

enum { RNN, GRU, LSTM };
enum { NO_ATTENTION, BEFORE, AFTER };    /* when it attends */
enum { PRODUCT, TANH, SUM, LOCATION };   /* how a query and a key are compared */

typedef struct {
    int64_t width, hidden, depth, cell, order, compared, asked; /* `asked`: numbers of a prepared query; 0: it is the state */
    int64_t feeding, gated, predicted, hard, half;              /* `half`: places on each side that are seen; -1: all */
    int64_t rows, first, all, threads, time;                    /* rows of this piece, the first of them, and of all pieces */
    int64_t source_length, source_count, key_row, key_place, key_dim, value_row, value_place;
    int64_t vocab, work, bytes_each, halved;
    float enlarged, scale;      /* of the embedding, and of the scores */
    const float *weights, *v;   /* `v`: what multiplies the tanh of a score */
    const float *words, *scores;
    const int64_t *tokens, *entry, *lengths; /* as in decode.c */
    const float *keys, *values;
    const float *h, *c, *fed;                /* what is carried: (layers, all, hidden) */
    float *next_h, *next_c, *readout, *kept, *output, *scratch, *own;
    Phase *phases;
    uint8_t *bytes;
} RecurrentStep;

INLINE int64_t gates_of(int64_t cell) { return cell == LSTM ? 4 : cell == GRU ? 3 : 1; }
INLINE int64_t joined_size(const RecurrentStep *job) { return padded(2 * job->hidden + job->width); }
INLINE float squashed(float x) { return 1.0f - 2.0f / (1.0f + exponential(2.0f * x)); } /* tanh */
INLINE float sigmoid(float x) { return 1.0f / (1.0f + exponential(-x)); }
INLINE int64_t place_of_input(const RecurrentStep *job) { return job->order == BEFORE ? job->hidden : 0; }

/* The first input: the word's vector, and what was fed back. */
static Phase *begin(Phase *phase, const RecurrentStep *job, float *joined) {
    const int64_t width = job->width, hidden = job->hidden;
    EACH(r, job->rows) {
        const float *restrict from = job->words + job->tokens[r] * width;
        float *restrict to = joined + r * joined_size(job) + place_of_input(job);
        for (int64_t i = 0; i < width; i++) to[i] = from[i] * job->enlarged;
        if (job->feeding) memcpy(to + width, job->fed + (job->first + r) * hidden, hidden * sizeof(float));
    }
    return finish(phase, job->rows);
}

/* The states of a layer after the products of its input (`fresh`) and of its states (`back`). */
static Phase *advance(Phase *phase, const RecurrentStep *job, int64_t layer, float *fresh, const float *back) {
    const int64_t hidden = job->hidden, stride = padded(gates_of(job->cell) * hidden);
    EACH(r, job->rows) {
        const int64_t at = (layer * job->all + job->first + r) * hidden;
        float *restrict a = fresh + r * stride, *restrict h = job->next_h + at, *restrict c = job->next_c + at;
        const float *restrict b = back + r * stride, *restrict before = job->h + at, *restrict cell = job->c + at;
        if (job->cell == RNN)
            for (int64_t i = 0; i < hidden; i++) h[i] = squashed(a[i] + b[i]);
        else if (job->cell == GRU)
            for (int64_t i = 0; i < hidden; i++) {
                const float reset = sigmoid(a[i] + b[i]), keep = sigmoid(a[hidden + i] + b[hidden + i]);
                const float new = squashed(a[2 * hidden + i] + reset * b[2 * hidden + i]);
                h[i] = new + keep * (before[i] - new);
            }
        else
            for (int64_t i = 0; i < hidden; i++) {
                const float in = sigmoid(a[i] + b[i]), forget = sigmoid(a[hidden + i] + b[hidden + i]);
                const float new = squashed(a[2 * hidden + i] + b[2 * hidden + i]), out = sigmoid(a[3 * hidden + i] + b[3 * hidden + i]);
                c[i] = forget * cell[i] + in * new;
                h[i] = out * squashed(c[i]);
            }
    }
    return finish(phase, job->rows);
}

/* The scores of the places first <= s < last for a prepared query. */
static void score(const RecurrentStep *job, const float *q, const float *keys, int64_t first, int64_t last, float *out, float *room) {
    for (int64_t s = first; s < last; s++) {
        const float *restrict k = keys + s * job->key_place;
        if (job->compared == PRODUCT) out[s] = job->scale * dot(q, k, job->key_dim);
        else if (job->compared == SUM) out[s] = q[0] + k[0];
        else if (job->compared == LOCATION) out[s] = q[s];
        else {
            for (int64_t i = 0; i < job->key_dim; i++) room[i] = squashed(q[i] + k[i]);
            out[s] = dot(room, job->v, job->key_dim);
        }
    }
}

/* Scores to weights; hard: 1 for the likeliest place. */
static void weigh(const RecurrentStep *job, int64_t first, int64_t last, float *weights) {
    float top = -INFINITY, sum = 0;
    for (int64_t s = first; s < last; s++) top = weights[s] > top || weights[s] != weights[s] ? weights[s] : top;
    for (int64_t s = first; s < last; s++) weights[s] = exponential(weights[s] - top);
    for (int64_t s = first; s < last; s++) sum += weights[s];
    int64_t best = first;
    for (int64_t s = first; s < last; s++) {
        weights[s] /= sum;
        best = weights[s] > weights[best] ? s : best;
    }
    if (!job->hard || sum != sum) return;
    for (int64_t s = first; s < last; s++) weights[s] = s == best;
}

/* The context of every row: from its state, the prepared query and the hidden layer of the predicted place. `gate` multiplies it. */
static Phase *attend(Phase *phase, const RecurrentStep *job, const float *states, const float *asked, float *pointed, const float *point,
                     const float *gate, float *joined, float *room) {
    const int64_t hidden = job->hidden, by_row = joined_size(job), wide = padded(job->asked);
    EACH(r, job->rows) {
        const int64_t entry = job->entry ? job->entry[r] : job->first + r, n = job->lengths ? job->lengths[entry] : job->source_length;
        const float *state = states + r * hidden, *q = job->asked ? asked + r * wide : state;
        float *weights = job->kept + r * job->source_length, *restrict context = joined + r * by_row, center = 0;
        int64_t first = 0, last = n;
        if (job->predicted) {
            float *p = pointed + r * padded(hidden);
            for (int64_t i = 0; i < hidden; i++) p[i] = squashed(p[i]);
            center = n * sigmoid(dot(p, point, hidden));
        } else if (job->half >= 0)
            center = larger(0, smaller(job->time, n - 1));
        if (job->half >= 0) {
            const int64_t middle = center >= 0 && center <= n ? (int64_t)center : 0; /* NaN: the weights become NaN */
            first = smaller(n, larger(0, middle - job->half)), last = smaller(n, middle + job->half + 1);
        }
        for (int64_t s = 0; s < job->source_length; s++) weights[s] = 0;
        score(job, q, job->keys + entry * job->key_row, first, last, weights, room);
        weigh(job, first, last, weights);
        for (int64_t s = first; job->predicted && s < last; s++) {
            const float apart = (s - center) / job->half;
            weights[s] *= exponential(-2.0f * apart * apart);
        }
        if (job->order == BEFORE) context += hidden + job->width;
        for (int64_t i = 0; i < hidden; i++) context[i] = 0;
        for (int64_t s = first; s < last; s++) {
            const float *restrict value = job->values + entry * job->value_row + s * job->value_place, weight = weights[s];
            for (int64_t i = 0; i < hidden; i++) context[i] += weight * value[i];
        }
        if (job->gated) {
            const float open = sigmoid(dot(state, gate, hidden) + gate[padded(hidden)]);
            for (int64_t i = 0; i < hidden; i++) context[i] *= open;
        }
        if (job->order == AFTER) memcpy(context + hidden, state, hidden * sizeof(float));
    }
    return finish(phase, job->rows);
}

/* Rows, or their tanh, to another place. */
static Phase *copy(Phase *phase, const float *from, int64_t from_stride, float *to, int64_t to_stride, int64_t n, int tanh, int64_t rows) {
    EACH(r, rows)
        for (int64_t i = 0; i < n; i++) {
            const float x = from[r * from_stride + i];
            to[r * to_stride + i] = tanh ? squashed(x) : x;
        }
    return finish(phase, rows);
}

int64_t recurrent_phases(int64_t depth) { return 3 * depth + 9; }

static int64_t scratch_of(const RecurrentStep *job) { /* numbers per row */
    return joined_size(job) + 2 * padded(gates_of(job->cell) * job->hidden) + padded(job->asked) + 2 * padded(job->hidden);
}

static void run(const RecurrentStep *job, int64_t thread) {
    const int64_t rows = job->rows, hidden = job->hidden, by_row = joined_size(job), gates = gates_of(job->cell) * hidden;
    const int64_t fed = job->feeding || job->order == BEFORE ? hidden : 0, threads = job->threads;
    float *joined = job->scratch, *fresh = joined + rows * by_row, *back = fresh + rows * padded(gates);
    float *asked = back + rows * padded(gates), *pointed = asked + rows * padded(job->asked), *read = pointed + rows * padded(hidden);
    float *room = job->own + thread * padded(job->key_dim);
    uint8_t *bytes = job->bytes ? job->bytes + thread * job->bytes_each : NULL;
    const int64_t top = ((job->depth - 1) * job->all + job->first) * hidden;
    const float *w = job->weights, *state = job->order == BEFORE ? job->h + top : job->next_h + top;
#define TIMES(from, stride, ins, outs, matrix, to, to_stride, exact)                                                                        \
    phase = bytes ? multiply_bytes(phase, threads, from, stride, rows, ins, outs, matrix, to, to_stride, SET, 0, exact, bytes)             \
                  : multiply(phase, threads, from, stride, rows, ins, outs, matrix, to, to_stride, SET, 0, exact, job->halved)
#define SIZE(ins, outs) matrix_size(ins, outs, bytes != NULL, job->halved)
    const float *query = w, *place = query + (job->asked ? SIZE(hidden, job->asked) : 0);
    const float *point = place + (job->predicted ? SIZE(hidden, hidden) : 0), *gate = point + (job->predicted ? padded(hidden) : 0);
    const float *cell = gate + (job->gated ? padded(hidden) + PANEL : 0);
    Phase *phase = begin(job->phases, job, joined);
#define ATTEND()                                                                                             \
    if (job->asked) TIMES(state, hidden, hidden, job->asked, query, asked, padded(job->asked), 0);           \
    if (job->predicted) TIMES(state, hidden, hidden, hidden, place, pointed, padded(hidden), 0);             \
    phase = attend(phase, job, state, asked, pointed, point, gate, joined, room)
    if (job->order == BEFORE) { ATTEND(); }
    for (int64_t layer = 0; layer < job->depth; layer++) {
        const int64_t ins = layer ? hidden : job->width + fed, at = (layer * job->all + job->first) * hidden;
        const float *input = layer ? job->next_h + at - job->all * hidden : joined + place_of_input(job);
        TIMES(input, layer ? hidden : by_row, ins, gates, cell, fresh, padded(gates), 0);
        cell += SIZE(ins, gates);
        TIMES(job->h + at, hidden, hidden, gates, cell, back, padded(gates), 0);
        cell += SIZE(hidden, gates);
        phase = advance(phase, job, layer, fresh, back);
    }
    const float *out = job->next_h + top;
    if (job->order != NO_ATTENTION) {
        const int64_t ins = job->order == BEFORE ? 2 * hidden + job->width : 2 * hidden;
        if (job->order == AFTER) { ATTEND(); }
        else phase = copy(phase, out, hidden, joined, by_row, hidden, 0, rows);
        TIMES(joined, by_row, ins, hidden, cell, read, padded(hidden), 0);
        out = job->readout + job->first * hidden;
        phase = copy(phase, read, padded(hidden), job->readout + job->first * hidden, hidden, hidden, 1, rows);
    }
    TIMES(out, hidden, hidden, job->vocab, job->scores, job->output, job->vocab, 1);
}

static void run_rows(const RecurrentStep *job, int64_t thread, int64_t first, int64_t last) {
    RecurrentStep piece = *job;
    piece.first = first, piece.rows = last - first, piece.threads = 1;
    piece.scratch += first * scratch_of(job), piece.phases += thread * recurrent_phases(job->depth);
    piece.own += thread * padded(job->key_dim), piece.output += first * job->vocab, piece.tokens += first;
    if (job->bytes) piece.bytes += thread * job->bytes_each;
    if (job->kept) piece.kept += first * job->source_length;
    if (job->entry) piece.entry += first;
    memset(piece.phases, 0, recurrent_phases(job->depth) * sizeof(Phase));
    run(&piece, 0);
}

static void run_alone(const void *given) {
    const RecurrentStep *job = given;
    run_rows(job, 0, 0, job->rows);
}

static void run_shared(const void *given) {
    const RecurrentStep *job = given;
    const int64_t pieces = job->rows / SHARE;
    Phase whole = {0}, *phase = &whole;
    if (pieces < job->threads) memset(job->phases, 0, recurrent_phases(job->depth) * sizeof(Phase));
#pragma omp parallel num_threads(job->threads) if (job->threads > 1)
    {
        const int64_t thread = this_thread();
        if (pieces < job->threads) run(job, thread);
        else EACH(piece, pieces) run_rows(job, thread, job->rows * piece / pieces, job->rows * (piece + 1) / pieces);
    }
}

INLINE int out_of(int64_t x, int64_t last) { return x < 0 || x > last; }

/* Take a step: 0; -1: a token is not in the vocabulary; -2: a length, -5: an entry does not lie in the sources; -9: no room for bytes. */
int64_t recurrent_step(const RecurrentStep *job) {
    const int64_t longest = 2 * job->hidden + job->width;
    if (job->bytes && (longest > MOST_BYTES || job->bytes_each < byte_room(longest))) return -9;
    for (int64_t r = 0; r < job->rows; r++) {
        if (out_of(job->tokens[r], job->vocab - 1)) return -1;
        if (job->order == NO_ATTENTION) continue;
        const int64_t entry = job->entry ? job->entry[r] : r;
        if (out_of(entry, job->source_count - 1)) return -5;
        if (job->lengths && out_of(job->lengths[entry], job->source_length)) return -2;
    }
    if (job->compared == LOCATION && job->source_length > job->asked) return -2;
    if (job->rows < 1) return 0;
    if (job->threads == 1) run_alone(job);
    else paced(job, 0, job->rows, job->work, run_alone, run_shared);
    return 0;
}

/* The offset of each field and the size of the structure, which Python compares. */
int64_t recurrent_layout(int64_t *offsets) {
#define AT(field) offsetof(RecurrentStep, field)
    const int64_t found[] = {
        AT(width), AT(hidden), AT(depth), AT(cell), AT(order), AT(compared), AT(asked), AT(feeding), AT(gated), AT(predicted), AT(hard), AT(half),
        AT(rows), AT(first), AT(all), AT(threads), AT(time), AT(source_length), AT(source_count), AT(key_row), AT(key_place),
        AT(key_dim), AT(value_row), AT(value_place), AT(vocab), AT(work), AT(bytes_each), AT(halved), AT(enlarged), AT(scale), AT(weights), AT(v), AT(words),
        AT(scores), AT(tokens), AT(entry), AT(lengths), AT(keys), AT(values), AT(h), AT(c), AT(fed), AT(next_h), AT(next_c), AT(readout),
        AT(kept), AT(output), AT(scratch), AT(own), AT(phases), AT(bytes), sizeof(RecurrentStep)};
    if (offsets) memcpy(offsets, found, sizeof found);
    return sizeof found / sizeof *found;
}
