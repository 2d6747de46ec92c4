/* checksum.c - see checksum.h. */
#include "checksum.h"

#include <string.h>

static const uint64_t P1 = 0x9E3779B185EBCA87u, P2 = 0xC2B2AE3D27D4EB4Fu, P3 = 0x165667B19E3779F9u,
                      P4 = 0x85EBCA77C2B2AE63u, P5 = 0x27D4EB2F165667C5u;

enum { STRIPE = 32 };

static uint64_t rotate(uint64_t x, int bits) { return x << bits | x >> (64 - bits); }

static uint64_t read64(const unsigned char *p) {
    uint64_t x;
    memcpy(&x, p, sizeof x);
#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    x = __builtin_bswap64(x);
#endif
    return x;
}

static uint32_t read32(const unsigned char *p) {
    return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static uint64_t mix(uint64_t lane, uint64_t input) { return rotate(lane + input * P2, 31) * P1; }

static const unsigned char *add_stripes(uint64_t lane[4], const unsigned char *p, size_t stripes) {
    uint64_t a = lane[0], b = lane[1], c = lane[2], d = lane[3];
    for (; stripes > 0; stripes--, p += STRIPE) {
        a = mix(a, read64(p));
        b = mix(b, read64(p + 8));
        c = mix(c, read64(p + 16));
        d = mix(d, read64(p + 24));
    }
    lane[0] = a, lane[1] = b, lane[2] = c, lane[3] = d;
    return p;
}

void sc_checksum_begin(sc_checksum *sum) {
    *sum = (sc_checksum){ .lane = { P1 + P2, P2, 0, 0 - P1 } };
}

void sc_checksum_add(sc_checksum *sum, const void *data, size_t bytes) {
    if (bytes == 0)
        return;
    const unsigned char *p = data;
    sum->bytes += bytes;
    if (sum->rest_bytes > 0) {
        size_t room = STRIPE - sum->rest_bytes, take = bytes < room ? bytes : room;
        memcpy(sum->rest + sum->rest_bytes, p, take);
        sum->rest_bytes += take;
        p += take;
        bytes -= take;
        if (sum->rest_bytes < STRIPE)
            return;
        add_stripes(sum->lane, sum->rest, 1);
        sum->rest_bytes = 0;
    }
    p = add_stripes(sum->lane, p, bytes / STRIPE);
    sum->rest_bytes = bytes % STRIPE;
    memcpy(sum->rest, p, sum->rest_bytes);
}

static uint64_t add_rest(uint64_t h, const unsigned char *p, size_t bytes) {
    for (; bytes >= 8; bytes -= 8, p += 8)
        h = rotate(h ^ mix(0, read64(p)), 27) * P1 + P4;
    if (bytes >= 4) {
        h = rotate(h ^ read32(p) * P1, 23) * P2 + P3;
        bytes -= 4, p += 4;
    }
    for (; bytes > 0; bytes--, p++)
        h = rotate(h ^ *p * P5, 11) * P1;
    return h;
}

uint64_t sc_checksum_end(const sc_checksum *sum) {
    const uint64_t *lane = sum->lane;
    uint64_t h = P5;
    if (sum->bytes >= STRIPE) {
        h = rotate(lane[0], 1) + rotate(lane[1], 7) + rotate(lane[2], 12) + rotate(lane[3], 18);
        for (int i = 0; i < 4; i++)
            h = (h ^ mix(0, lane[i])) * P1 + P4;
    }
    h = add_rest(h + sum->bytes, sum->rest, sum->rest_bytes);
    h = (h ^ h >> 33) * P2;
    h = (h ^ h >> 29) * P3;
    return h ^ h >> 32;
}

uint64_t sc_checksum_of(const void *data, size_t bytes) {
    sc_checksum sum;
    sc_checksum_begin(&sum);
    sc_checksum_add(&sum, data, bytes);
    return sc_checksum_end(&sum);
}
