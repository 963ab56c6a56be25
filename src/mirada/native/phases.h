/* Work that threads share piece by piece: a free thread takes the next one, and all wait for the last one. */

#ifndef MIRADA_PHASES
#define MIRADA_PHASES

#include <sched.h>

#include "elements.h"

typedef struct { int64_t next, done, apart[6]; } Phase; /* a cache line each */

INLINE int64_t take(Phase *phase) { return __atomic_fetch_add(&phase->next, 1, __ATOMIC_RELAXED); }
INLINE void give(Phase *phase) { __atomic_fetch_add(&phase->done, 1, __ATOMIC_RELEASE); }

static Phase *finish(Phase *phase, int64_t pieces) {
    for (int64_t turn = 0; __atomic_load_n(&phase->done, __ATOMIC_ACQUIRE) < pieces; turn++) {
#if defined(__x86_64__)
        __builtin_ia32_pause();
#endif
        if (turn > 2000) sched_yield();
    }
    return phase + 1;
}

#define EACH(piece, pieces) for (int64_t piece; (piece = take(phase)) < (pieces); give(phase))

#endif
