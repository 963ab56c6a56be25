/* Vectors of the processor's own width, and the product of a few rows with a few of them: the basis of all products. */

#ifndef MIRADA_TILES
#define MIRADA_TILES

#include "elements.h"

#if defined(__AVX512F__)
#define LANES 16
#elif defined(__AVX__)
#define LANES 8
#else
#define LANES 4
#endif
#if defined(__AVX512F__) || defined(__aarch64__)
#define VECTORS 4 /* of 32 registers: TILE_ROWS x VECTORS sums, a row of the matrix, a number of the input */
#else
#define VECTORS 2
#endif
#define TILE_ROWS 8 /* at most */

typedef float vec __attribute__((vector_size(4 * LANES)));
typedef float loose __attribute__((vector_size(4 * LANES), aligned(4), may_alias)); /* a vector at any address */

/* sums (R x V vectors) = start + a b, with a of (R, depth), of any strides, and b of (depth, V vectors). `start` is
 * one row for all (null: zeros). With `fetch`, memory further on is prefetched. Everything except pointers and strides is
 * known at compile time, so the sums stay in registers. */
INLINE void tile(const int R, const int V, int64_t depth, const float *a, int64_t down, int64_t along, const float *b,
                 int64_t next_b, const float *start, const int fetch, const char *ahead, int64_t pace,
                 vec sums[TILE_ROWS][VECTORS]) {
    vec s[TILE_ROWS][VECTORS];
    for (int r = 0; r < R; r++)
        for (int v = 0; v < V; v++) {
            s[r][v] = (vec){0};
            if (start) s[r][v] = *(const loose *)(start + v * LANES);
        }
    for (int64_t k = 0; k < depth; k++) {
        vec row[VECTORS];
        for (int v = 0; v < V; v++) row[v] = *(const loose *)(b + k * next_b + v * LANES);
        if (fetch) __builtin_prefetch(ahead + k * pace, 0, 2);
        for (int r = 0; r < R; r++)
            for (int v = 0; v < V; v++) s[r][v] += a[r * down + k * along] * row[v];
    }
    for (int r = 0; r < R; r++)
        for (int v = 0; v < V; v++) sums[r][v] = s[r][v];
}

#endif
