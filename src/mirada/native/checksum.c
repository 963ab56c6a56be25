/* A 64-bit checksum that shows whether any byte of some tensors changed, at the speed of reading memory. */

#include "elements.h"

#define WIDTH 32                   /* words that are processed in parallel, one per lane */
#define CHUNK (int64_t)(1 << 18)   /* bytes that one thread takes at a time; whole rounds of WIDTH words */

/* Every step is invertible for a known word, so inputs that differ in one word never have the same checksum. */
INLINE uint64_t taken(uint64_t state, uint64_t word) {
    return (((state << 29) | (state >> 35)) ^ word) * 0x9e3779b97f4a7c15u;
}

static uint64_t chunk_sum(const char *bytes, int64_t count, uint64_t place) {
    uint64_t lanes[WIDTH], words[WIDTH], sum = place;
    for (int i = 0; i < WIDTH; i++) lanes[i] = place + (uint64_t)i;
    for (int64_t at = 0; at < count; at += sizeof words) {
        const int64_t here = count - at < (int64_t)sizeof words ? count - at : (int64_t)sizeof words;
        if (here < (int64_t)sizeof words) memset(words, 0, sizeof words);
        memcpy(words, bytes + at, (size_t)here);
        for (int i = 0; i < WIDTH; i++) lanes[i] = taken(lanes[i], words[i]);
    }
    for (int i = 0; i < WIDTH; i++) sum = mixed(taken(sum, lanes[i]));
    return sum;
}

uint64_t checksum(const char *const *tensors, const int64_t *sizes, int64_t count, int64_t threads) {
    uint64_t whole = 0;
    for (int64_t t = 0; t < count; t++) {
        const uint64_t own = mixed(mixed((uint64_t)t + 1) ^ (uint64_t)sizes[t]); /* the tensor's index and size */
        const int64_t chunks = (sizes[t] + CHUNK - 1) / CHUNK;
        const char *bytes = tensors[t];
        uint64_t sum = own;
#pragma omp parallel for num_threads(threads) if (threads > 1 && chunks > 1) reduction(+ : sum)
        for (int64_t c = 0; c < chunks; c++) {
            const int64_t first = c * CHUNK, left = sizes[t] - first;
            sum += chunk_sum(bytes + first, left < CHUNK ? left : CHUNK, mixed(own + (uint64_t)c));
        }
        whole = mixed(taken(whole, sum));
    }
    return whole;
}
