/* Dropout in one pass over memory: float32, shared among torch's threads. */

#include "elements.h"

#define BLOCK 64 /* numbers whose random bytes are generated together */

/* y = base (null: 0) + x * scale where a random byte is at least `dropped`. The byte is a function of the seed and the number's index. */
void dropout(int64_t n, const float *restrict x, const float *restrict base, float *restrict y, uint64_t seed, int64_t dropped,
             float scale, int64_t threads) {
#pragma omp parallel for num_threads(threads) if (threads > 1)
    for (int64_t first = 0; first < n; first += BLOCK) {
        uint64_t words[BLOCK / 8];
        uint8_t bytes[BLOCK];
        for (int64_t i = 0; i < BLOCK / 8; i++)
            words[i] = mixed(seed + (uint64_t)(first / 8 + i + 1) * 0x9e3779b97f4a7c15u);
        memcpy(bytes, words, BLOCK);
        const int64_t count = n - first < BLOCK ? n - first : BLOCK;
        const float *from = x + first;
        float *to = y + first;
        if (count == BLOCK)
            for (int64_t i = 0; i < BLOCK; i++) to[i] = bytes[i] >= dropped ? from[i] * scale : 0.0f;
        else
            for (int64_t i = 0; i < count; i++) to[i] = bytes[i] >= dropped ? from[i] * scale : 0.0f;
        if (base)
            for (int64_t i = 0; i < count; i++) to[i] += base[first + i];
    }
}
