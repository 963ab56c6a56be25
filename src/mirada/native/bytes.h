/* Rows times matrices of bytes: weights are rounded per column, inputs per row, and sums are exact in 32 bits.
 *
 * A matrix is stored in panels of PANEL columns, each a block of (in / 4, PANEL, 4) bytes; then for every column 128 times the sum of its
 * bytes, its scale and its bias. Inputs are stored with 128 added, so that they have no sign: that is what the processor multiplies.
 * y = (sum over k of (a_k + 128) b_k - 128 sum over k of b_k) * (scale of the row * scale of the column) + bias */

#ifndef MIRADA_BYTES
#define MIRADA_BYTES

#if defined(__x86_64__) && defined(__AVX2__)
#include <immintrin.h>
#endif

#include "panels.h"

#if (defined(__AVX512VNNI__) && defined(__AVX512F__)) || defined(__AVXVNNI__)
#define BYTE_ROWS ROWS
#else
#define BYTE_ROWS 3 /* more sums would not stay in registers */
#endif

#define MOST_BYTES 60000 /* numbers of an input: 127 * 255 of them add up to less than 2^31 */

typedef int32_t whole __attribute__((may_alias));

INLINE int64_t fours(int64_t in) { return (in + 3) / 4; }

/* A row of numbers as bytes, of which `fours` times four are written; the number is its scale: NaN if one of them is not finite. Many sums and
 * maxima at once, because one alone would wait for itself. */
static float rounded(const float *restrict x, int64_t in, uint8_t *restrict out) {
    enum { WIDE = 64 };
    float tops[WIDE] = {0}, odd[WIDE] = {0}, top = 0, wrong = 0;
    const int64_t even = in / WIDE * WIDE;
    for (int64_t i = 0; i < even; i += WIDE)
        for (int j = 0; j < WIDE; j++) {
            const float size = fabsf(x[i + j]);
            tops[j] = size > tops[j] ? size : tops[j];
            odd[j] += x[i + j] * 0.0f; /* NaN, unless all are finite */
        }
    for (int64_t i = even; i < in; i++) tops[i % WIDE] = fmaxf(tops[i % WIDE], fabsf(x[i])), wrong += x[i] * 0.0f;
    for (int j = 0; j < WIDE; j++) top = tops[j] > top ? tops[j] : top, wrong += odd[j];
    if (wrong != 0.0f) {
        memset(out, 128, 4 * fours(in));
        return NAN;
    }
    const float by = top > 0 ? 127.0f / top : 0.0f;
    for (int64_t i = 0; i < in; i++) {
        union { float number; int32_t bits; } shifted = {x[i] * by + 12582912.0f}; /* rounds to an integer, in the lowest bits */
        out[i] = (uint8_t)(shifted.bits - 0x4B400000 + 128);
    }
    for (int64_t i = in; i < 4 * fours(in); i++) out[i] = 128;
    return top / 127.0f;
}

/* sums (R x PANEL) of R rows of bytes and one panel. */
INLINE void byte_tile(const int R, int64_t depth, const uint8_t *a, int64_t down, const int8_t *b, int32_t sums[BYTE_ROWS][PANEL]) {
#if defined(__AVX512VNNI__) && defined(__AVX512F__)
    __m512i s[BYTE_ROWS][VECTORS];
    for (int r = 0; r < R; r++)
        for (int v = 0; v < VECTORS; v++) s[r][v] = _mm512_setzero_si512();
    for (int64_t k = 0; k < depth; k++) {
        __m512i row[VECTORS];
        for (int v = 0; v < VECTORS; v++) row[v] = _mm512_loadu_si512(b + (k * PANEL + v * LANES) * 4);
        for (int r = 0; r < R; r++) {
            int32_t word;
            memcpy(&word, a + r * down + 4 * k, 4);
            const __m512i given = _mm512_set1_epi32(word);
            for (int v = 0; v < VECTORS; v++) s[r][v] = _mm512_dpbusd_epi32(s[r][v], given, row[v]);
        }
    }
    for (int r = 0; r < R; r++)
        for (int v = 0; v < VECTORS; v++) _mm512_storeu_si512(sums[r] + v * LANES, s[r][v]);
#elif defined(__AVXVNNI__)
    for (int64_t c = 0; c < PANEL; c += 8) {
        __m256i s[BYTE_ROWS];
        for (int r = 0; r < R; r++) s[r] = _mm256_setzero_si256();
        for (int64_t k = 0; k < depth; k++) {
            const __m256i row = _mm256_loadu_si256((const __m256i *)(b + (k * PANEL + c) * 4));
            for (int r = 0; r < R; r++) {
                int32_t word;
                memcpy(&word, a + r * down + 4 * k, 4);
                s[r] = _mm256_dpbusd_avx_epi32(s[r], _mm256_set1_epi32(word), row);
            }
        }
        for (int r = 0; r < R; r++) _mm256_storeu_si256((__m256i *)(sums[r] + c), s[r]);
    }
#elif defined(__AVX2__)
    for (int64_t c = 0; c < PANEL; c += 8) { /* in 16 bits, where no sum of two products is cut off */
        __m256i low[BYTE_ROWS], high[BYTE_ROWS];
        for (int r = 0; r < R; r++) low[r] = high[r] = _mm256_setzero_si256();
        for (int64_t k = 0; k < depth; k++) {
            const __m256i row = _mm256_loadu_si256((const __m256i *)(b + (k * PANEL + c) * 4));
            const __m256i first = _mm256_cvtepi8_epi16(_mm256_castsi256_si128(row));
            const __m256i last = _mm256_cvtepi8_epi16(_mm256_extracti128_si256(row, 1));
            for (int r = 0; r < R; r++) {
                int32_t word;
                memcpy(&word, a + r * down + 4 * k, 4);
                const __m256i given = _mm256_cvtepu8_epi16(_mm_set1_epi32(word));
                low[r] = _mm256_add_epi32(low[r], _mm256_madd_epi16(first, given));
                high[r] = _mm256_add_epi32(high[r], _mm256_madd_epi16(last, given));
            }
        }
        for (int r = 0; r < R; r++) /* sums of pairs, in the order of the columns */
            _mm256_storeu_si256((__m256i *)(sums[r] + c), _mm256_permute4x64_epi64(_mm256_hadd_epi32(low[r], high[r]), 0xD8));
    }
#else
    for (int r = 0; r < R; r++)
        for (int c = 0; c < PANEL; c++) {
            int32_t sum = 0;
            for (int64_t k = 0; k < depth; k++)
                for (int i = 0; i < 4; i++) sum += (int32_t)a[r * down + 4 * k + i] * b[(k * PANEL + c) * 4 + i];
            sums[r][c] = sum;
        }
#endif
}

/* Some rows of bytes times one panel, as `columns_of` does it for numbers. */
static void byte_columns(const uint8_t *a, const float *steps, int64_t rows, int64_t in, const int8_t *panel, const whole *shifts,
                         const float *scales, const float *bias, float *out, int64_t out_stride, int64_t columns, int mode,
                         int64_t activation) {
    const int64_t depth = fours(in), down = 4 * depth;
    for (int64_t first = 0; first < rows; first += BYTE_ROWS) {
        int32_t sums[BYTE_ROWS][PANEL];
        const int64_t count = smaller(BYTE_ROWS, rows - first);
        const uint8_t *from = a + first * down;
#define BYTES_OF(rows) case rows: byte_tile(rows, depth, from, down, panel, sums); break;
        switch (count) {
            BYTES_OF(1) BYTES_OF(2) BYTES_OF(3)
#if BYTE_ROWS > 3
            BYTES_OF(4) BYTES_OF(5) BYTES_OF(6)
#endif
        }
        for (int64_t r = 0; r < count; r++) {
            float y[PANEL], *to = out + (first + r) * out_stride;
            const float step = steps[first + r];
            for (int c = 0; c < PANEL; c++) y[c] = (float)(sums[r][c] - shifts[c]) * (step * scales[c]) + bias[c];
            if (mode == ADD)
                for (int c = 0; c < PANEL; c++) to[c] += y[c];
            else
                memcpy(to, y, columns * sizeof(float));
            if (mode == ACTIVATE) activate(to, PANEL, activation);
        }
    }
}

/* Numbers of 32 bits that a matrix of bytes, of halves or of numbers takes. */
INLINE int64_t matrix_size(int64_t in, int64_t columns, int bytes, int halved) {
    return bytes ? padded(columns) * (fours(in) + 3) : padded(columns) / PANEL * in * row_of(halved) + padded(columns);
}

INLINE int64_t byte_room(int64_t in) { return BLOCK * (4 * fours(in) + 4); }                          /* bytes that a thread needs */

/* One phase: `multiply` with a matrix of bytes. Each thread rounds the rows of its block itself, to its own `room`. */
static Phase *multiply_bytes(Phase *phase, int64_t threads, const float *x, int64_t x_stride, int64_t rows, int64_t in, int64_t columns,
                             const float *matrix, float *out, int64_t out_stride, int mode, int64_t activation, int exact, uint8_t *room) {
    const int64_t panels = padded(columns) / PANEL, blocks = (rows + BLOCK - 1) / BLOCK, depth = fours(in);
    const int64_t few = larger(1, rows > ROWS ? 1 : panels / (6 * threads)), groups = (panels + few - 1) / few;
    const float *scales = matrix + panels * PANEL * (depth + 1), *bias = scales + panels * PANEL;
    const whole *shifts = (const whole *)(matrix + panels * PANEL * depth);
    float *steps = (float *)(room + BLOCK * 4 * depth);
    int64_t ready = -1;
    EACH(piece, groups * blocks) {
        const int64_t block = piece / groups, group = piece % groups;
        const int64_t first = rows * block / blocks, count = rows * (block + 1) / blocks - first;
        if (block != ready)
            for (int64_t r = 0; r < count; r++) steps[r] = rounded(x + (first + r) * x_stride, in, room + r * 4 * depth);
        ready = block;
        for (int64_t p = group * few; p < smaller(panels, (group + 1) * few); p++) {
            const int64_t at = p * PANEL, stored = exact ? smaller(PANEL, columns - at) : PANEL;
            byte_columns(room, steps, count, in, (const int8_t *)matrix + at * depth * 4, shifts + at, scales + at, bias + at,
                         out + first * out_stride + at, out_stride, stored, mode, activation);
        }
    }
    return finish(phase, groups * blocks);
}

#endif
