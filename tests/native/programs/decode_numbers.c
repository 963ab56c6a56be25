/* A decoding step, and a product: what a processor without Python computes. */

#include "decode.c"

#include "numbers.h"

/* The weights of a norm begin with a number that is added to a variance: all are positive. */
int main(void) {
    enum { SENTENCES = 5, WIDTH = 24, HEADS = 3, DIM = 8, HIDDEN = 40, DEPTH = 2, VOCAB = 33, PLACES = 16, SOURCE = 7 };
    static float scratch[1 << 16], own[1 << 12], output[2 * SENTENCES * 48], out[13 * 48];
    static Phase phases[256];
    float *caches[2 * DEPTH];
    const float *sources[2 * DEPTH];
    int64_t tokens[SENTENCES] = {1, 5, 9, 2, 32}, lengths[SENTENCES] = {7, 3, 0, 1, 5};
    for (int i = 0; i < 2 * DEPTH; i++) caches[i] = filled(SENTENCES * HEADS * PLACES * DIM, -1, 1);
    for (int i = 0; i < 2 * DEPTH; i++) sources[i] = filled(SENTENCES * HEADS * SOURCE * DIM, -1, 1);
    DecodeStep job = {
        .width = WIDTH, .heads = HEADS, .dim = DIM, .hidden = HIDDEN, .depth = DEPTH, .activation = GELU, .cross = 1, .last_norm = 1,
        .groups = HEADS, .rows = SENTENCES, .all = SENTENCES, .threads = 1, .places = PLACES, .cache_row = HEADS * PLACES * DIM,
        .cache_head = PLACES * DIM, .source_row = HEADS * SOURCE * DIM, .source_head = SOURCE * DIM, .source_place = DIM, .filled = 4,
        .source_length = SOURCE, .source_count = SENTENCES, .vocab = VOCAB, .work = 1, .enlarged = 1.5f, .weights = filled(1 << 16, 0, .3f),
        .caches = caches, .sources = sources, .lengths = lengths, .tokens = tokens, .words = filled(VOCAB * WIDTH, -1, 1),
        .position = filled(WIDTH, -1, 1), .scores = filled(1 << 12, -1, 1), .output = output, .scratch = scratch, .own = own,
        .phases = phases};
    if (decode_step(&job)) return 1;
    print("step", output, SENTENCES * VOCAB);
    const float *matrix = filled(48 * 21, -1, 1), *x = filled(13 * 20, -1, 1);
    decode_product(13, 20, 48, 1, matrix, x, out);
    print("product", out, 13 * 48);
    return 0;
}
