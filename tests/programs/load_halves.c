/*
 * load_halves.c - every half, loaded by the vector header VECTOR as a casting loads its weights,
 * against runtime/half.h.
 *
 * Exits with 0; or prints the first that differs in a bit. A signalling NaN may come out quiet: no
 * weight is one.
 */
#include <math.h>
#include <stdio.h>

#include VECTOR

/* The vec of both kinds and the float of both, so that one loop serves. */
static int compare(const char *what, vec (*load)(const unsigned short *), float (*from)(uint16_t)) {
    for (unsigned first = 0; first < 0x10000; first += SC_LANES) {
        unsigned short half[SC_LANES];
        float loaded[SC_LANES];
        for (unsigned i = 0; i < SC_LANES; i++)
            half[i] = (unsigned short)(first + i);
        vec_store(loaded, load(half));
        for (unsigned i = 0; i < SC_LANES; i++) {
            const float one = from(half[i]);
            if (isnan(one) ? !isnan(loaded[i]) : memcmp(&one, &loaded[i], sizeof one) != 0) {
                printf("%s %04x: %a, should be %a\n", what, half[i], (double)loaded[i],
                       (double)one);
                return 1;
            }
        }
    }
    return 0;
}

int main(void) {
    return compare("bfloat16", vec_load_bf16, sc_from_bf16) |
           compare("float16", vec_load_f16, sc_from_f16);
}
