/* Rows times matrices that are stored in panels of PANEL columns, each a block of (in, PANEL) numbers; norms; activations. */

#ifndef MIRADA_PANELS
#define MIRADA_PANELS

#include "activations.h"
#include "phases.h"
#include "tiles.h"

#define ROWS 6 /* of a tile at most */
#define PANEL (LANES * VECTORS)
#define BLOCK 96 /* rows whose inputs stay in the cache while a panel is read */

typedef float four __attribute__((vector_size(16)));

INLINE int64_t padded(int64_t n) { return (n + PANEL - 1) / PANEL * PANEL; }
INLINE int64_t smaller(int64_t a, int64_t b) { return a < b ? a : b; }
INLINE int64_t larger(int64_t a, int64_t b) { return a > b ? a : b; }

static void activate(float *x, int64_t n, int64_t kind) {
#define ACTIVATED(known)                                            \
    case known:                                                     \
        for (int64_t i = 0; i < n; i++) x[i] = activated(known, x[i]); \
        break;
    switch (kind) { ACTIVATED(RELU) ACTIVATED(GELU) ACTIVATED(GELU_TANH) ACTIVATED(SILU) }
}

INLINE four folded(vec x) { /* by halves: adding one number after the other would wait for every sum */
    four part[LANES / 4];
    memcpy(part, &x, sizeof x);
    for (int size = LANES / 8; size > 0; size /= 2)
        for (int i = 0; i < size; i++) part[i] += part[i + size];
    return part[0];
}

INLINE float total(vec x) {
    const four part = folded(x), pairs = part + (four){part[2], part[3], part[0], part[1]};
    return pairs[0] + pairs[1];
}

INLINE four totals(vec x, vec y, vec z, vec w) { /* of four, which takes little longer than of one */
    const four a = folded(x), b = folded(y), c = folded(z), d = folded(w);
    const four ab = (four){a[0], a[1], b[0], b[1]} + (four){a[2], a[3], b[2], b[3]};
    const four cd = (four){c[0], c[1], d[0], d[1]} + (four){c[2], c[3], d[2], d[3]};
    return (four){ab[0], ab[2], cd[0], cd[2]} + (four){ab[1], ab[3], cd[1], cd[3]};
}

INLINE float dot(const float *a, const float *b, int64_t n) {
    const int64_t whole = n / LANES * LANES;
    vec sums = {0};
    for (int64_t i = 0; i < whole; i += LANES) sums += *(const loose *)(a + i) * *(const loose *)(b + i);
    float sum = total(sums);
    for (int64_t i = whole; i < n; i++) sum += a[i] * b[i];
    return sum;
}

static void norm_row(const float *x, const float *weights, float *out, int64_t width, int64_t rms) {
    const float eps = weights[0], *scale = weights + PANEL, *shift = scale + padded(width);
    const int64_t whole = width / LANES * LANES;
    float mean = 0, square = 0;
    if (!rms) {
        vec sum = {0};
        for (int64_t i = 0; i < whole; i += LANES) sum += *(const loose *)(x + i);
        mean = total(sum);
        for (int64_t i = whole; i < width; i++) mean += x[i];
        mean /= width;
    }
    vec sum = {0};
    for (int64_t i = 0; i < whole; i += LANES) {
        const vec apart = *(const loose *)(x + i) - mean;
        sum += apart * apart;
    }
    square = total(sum);
    for (int64_t i = whole; i < width; i++) square += (x[i] - mean) * (x[i] - mean);
    const float by = 1.0f / sqrtf(square / width + eps);
    for (int64_t i = 0; i < width; i++) out[i] = (x[i] - mean) * by * scale[i] + shift[i];
}

enum { SET, ADD, ACTIVATE };

typedef uint32_t words __attribute__((vector_size(4 * LANES)));
typedef uint32_t loose_words __attribute__((vector_size(4 * LANES), aligned(4), may_alias));

INLINE int64_t row_of(int halved) { return halved ? PANEL / 2 : PANEL; } /* what a row of a panel takes, in numbers of 32 bits */

/* As `tile`, with a panel in bfloat16: a word of 32 bits holds a number of the first half of the columns, and above it one of the second. */
INLINE void halved_tile(const int R, int64_t depth, const float *a, int64_t down, const float *b, const float *start, const int fetch,
                        const char *ahead, int64_t pace, vec sums[TILE_ROWS][VECTORS]) {
    vec s[TILE_ROWS][VECTORS];
    for (int r = 0; r < R; r++)
        for (int v = 0; v < VECTORS; v++) s[r][v] = *(const loose *)(start + v * LANES);
    for (int64_t k = 0; k < depth; k++) {
        vec row[VECTORS];
        for (int v = 0; v < VECTORS / 2; v++) {
            const words both = *(const loose_words *)(b + k * (PANEL / 2) + v * LANES);
            row[v] = (vec)(both << 16), row[v + VECTORS / 2] = (vec)(both & 0xffff0000u);
        }
        if (fetch) __builtin_prefetch(ahead + k * pace, 0, 2);
        for (int r = 0; r < R; r++)
            for (int v = 0; v < VECTORS; v++) s[r][v] += a[r * down + k] * row[v];
    }
    for (int r = 0; r < R; r++)
        for (int v = 0; v < VECTORS; v++) sums[r][v] = s[r][v];
}

/* Some rows times one panel. `columns` of it are stored; `next` is the panel that this thread will probably need next; it is
 * prefetched. */
static void columns_of(const float *x, int64_t x_stride, int64_t rows, int64_t in, const float *panel, const float *next, const float *bias,
                       float *out, int64_t out_stride, int64_t columns, int mode, int64_t activation, int halved) {
    const int64_t tiles = (rows + ROWS - 1) / ROWS, pace = (4 * row_of(halved) + tiles - 1) / tiles;
    for (int64_t t = 0; t < tiles; t++) {
        const int64_t first = rows * t / tiles, count = rows * (t + 1) / tiles - first;
        const float *from = x + first * x_stride;
        const char *ahead = (const char *)next + t * pace * in;
        vec sums[TILE_ROWS][VECTORS];
#define TILE(rows, fetch)                                                                          \
    if (halved) halved_tile(rows, in, from, x_stride, panel, bias, fetch, ahead, pace, sums);      \
    else tile(rows, VECTORS, in, from, x_stride, 1, panel, PANEL, bias, fetch, ahead, pace, sums)
#define TILE_OF(rows)                                                                      \
    case rows:                                                                             \
        if (tiles > 1) {                                                                   \
            TILE(rows, 1);                                                                 \
        } else { /* the processor prefetches a single stream itself */                     \
            TILE(rows, 0);                                                                 \
        }                                                                                  \
        break;
        switch (count) { TILE_OF(1) TILE_OF(2) TILE_OF(3) TILE_OF(4) TILE_OF(5) TILE_OF(6) }
        for (int64_t r = 0; r < count; r++) {
            float *to = out + (first + r) * out_stride;
            if (mode == ADD)
                for (int v = 0; v < VECTORS; v++) *(loose *)(to + v * LANES) += sums[r][v];
            else if (columns == PANEL)
                for (int v = 0; v < VECTORS; v++) *(loose *)(to + v * LANES) = sums[r][v];
            else
                memcpy(to, sums[r], columns * sizeof(float));
            if (mode == ACTIVATE) activate(to, PANEL, activation);
        }
    }
}

/* One phase: x (rows, in) times a matrix, plus its bias; `halved`: a matrix in bfloat16, with a bias in float32. Rows of the output have room for whole panels unless `exact`. */
static Phase *multiply(Phase *phase, int64_t threads, const float *x, int64_t x_stride, int64_t rows, int64_t in, int64_t columns,
                       const float *matrix, float *out, int64_t out_stride, int mode, int64_t activation, int exact, int halved) {
    const int64_t panels = padded(columns) / PANEL, blocks = (rows + BLOCK - 1) / BLOCK;
    const int64_t few = larger(1, rows > ROWS ? 1 : panels / (6 * threads)); /* panels in a piece: with few rows a panel takes little time */
    const int64_t groups = (panels + few - 1) / few;
    const int64_t each = in * row_of(halved);
    const float *bias = matrix + panels * each;
    EACH(piece, groups * blocks) {
        const int64_t block = piece / groups, group = piece % groups;
        const int64_t first = rows * block / blocks, count = rows * (block + 1) / blocks - first;
        for (int64_t p = group * few; p < smaller(panels, (group + 1) * few); p++) {
            const float *panel = matrix + p * each;
            const float *next = panel + (few > 1 ? 1 : threads) * each;
            const int64_t stored = exact ? smaller(PANEL, columns - p * PANEL) : PANEL;
            columns_of(x + first * x_stride, x_stride, count, in, panel, next, bias + p * PANEL, out + first * out_stride + p * PANEL,
                       out_stride, stored, mode, activation, halved);
        }
    }
    return finish(phase, groups * blocks);
}

#endif
