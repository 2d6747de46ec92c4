/* draw.h - random numbers that are the same everywhere: xorshift64* of a state that is not 0. */
#ifndef SC_TEST_DRAW_H
#define SC_TEST_DRAW_H

#include <stdint.h>

static inline uint64_t draw_bits(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * 2685821657736338717u;
}

/* 0 … below - 1. */
static inline int draw(uint64_t *state, int below) {
    return (int)((draw_bits(state) >> 33) % (unsigned)below);
}

#endif
