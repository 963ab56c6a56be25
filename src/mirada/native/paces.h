/* Whether threads share a step, measured by earlier steps of the calling thread: where others use the same cores, waiting for each other takes
 * longer than the work. */

#ifndef MIRADA_PACES
#define MIRADA_PACES

#include <time.h>

#include "threads.h"

static _Thread_local struct {
    int64_t alone, penalty; /* single-threaded steps before several threads try again, and how many the next time */
    float paces[128];       /* nanoseconds per multiplication of one thread, by the size of the batch; 0: not known */
} past = {0, 4, {0}};

static int64_t now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return time.tv_sec * 1000000000LL + time.tv_nsec;
}

/* Work on some rows by one thread or by several. `kind` is 0 or 1: work of two kinds has paces of its own. */
static void paced(const void *job, int64_t kind, int64_t rows, int64_t work, void (*alone)(const void *), void (*shared)(const void *)) {
    float *own = &past.paces[64 * kind + 63 - __builtin_clzll((uint64_t)rows)];
    const int share = past.alone <= 0 && *own > 0;
    const int64_t begin = now();
    (share ? shared : alone)(job);
    const float pace = (float)(now() - begin) / (rows * work);
    if (!share) {
        *own = *own > 0 ? 0.75f * *own + 0.25f * pace : pace;
        past.alone -= past.alone > 0;
    } else if (pace > 1.1f * *own) {
        past.alone = past.penalty;
        past.penalty = past.penalty < 128 ? 2 * past.penalty : 256;
    } else
        past.penalty = past.penalty > 8 ? past.penalty / 2 : 4;
}

#endif
