/* Numbers to compute with, and to compare: the programs beside this print what C computes, on any processor. */

#include <stdint.h>
#include <stdio.h>

static uint32_t state = 7;
static float some(void) { state = state * 1664525u + 1013904223u; return (float)(state >> 8) / (1 << 24); }
static float *filled(int64_t n, float low, float high) {
    static float room[1 << 20], *next = room;
    float *x = next;
    next += n;
    for (int64_t i = 0; i < n; i++) x[i] = low + (high - low) * some();
    return x;
}
static void print(const char *name, const float *x, int64_t n) {
    for (int64_t i = 0; i < n; i++) printf("%s %.9g\n", name, x[i]);
}
