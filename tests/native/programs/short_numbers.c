/* Short attention, a checksum, dropout and activations: what a processor without Python computes. */

#include "short.c"

#include "numbers.h"

uint64_t checksum(const char *const *, const int64_t *, int64_t, int64_t);
void dropout(int64_t, const float *, const float *, float *, uint64_t, int64_t, float, int64_t);
void linear_activation(int64_t, int64_t, int64_t, float *, const float *, float *, int64_t);
int main(void) {
    enum { HEADS = 2, N = 13, DIM = 16, SIZE = 2 * HEADS * N * DIM };
    static float weights[2 * HEADS * N * 16], results[4][SIZE], y[700];
    const int64_t lengths[2] = {13, 5}, size = 700 * sizeof(float);
#define TENSOR(from) {from, HEADS * N * DIM, N * DIM, DIM}
    ShortAttention job = {.batch = 2, .heads = HEADS, .queries = N, .keys = N, .padded = 16, .dim = DIM, .value_dim = DIM, .causal = 1,
        .threads = 1, .scale = 0.3f, .lengths = lengths, .weights = weights, .q = TENSOR(filled(SIZE, -2, 2)),
        .k = TENSOR(filled(SIZE, -2, 2)), .v = TENSOR(filled(SIZE, -2, 2)), .out = TENSOR(results[0]), .dq = TENSOR(results[1]),
        .dk = TENSOR(results[2]), .dv = TENSOR(results[3])};
    short_forward(&job);
    print("forward", results[0], SIZE);
    job.out.start = filled(SIZE, -1, 1);
    short_backward(&job);
    for (int i = 1; i < 4; i++) print("backward", results[i], SIZE);
    float *x = filled(700, -4, 4);
    const char *tensors[1] = {(const char *)x};
    printf("checksum %llu\n", (unsigned long long)checksum(tensors, &size, 1, 1));
    dropout(700, x, NULL, y, 11, 77, 1.4f, 1);
    print("dropout", y, 700);
    for (int kind = 0; kind < 3; kind++) linear_activation(kind, 7, 100, x, filled(100, -1, 1), y, 1), print("activation", y, 700);
    return 0;
}
