/*
 * tokenizer_charsmap.c - SentencePiece's compiled normalisation: see tokenizer_parts.h.
 *
 * The map is the bytes of a double array (their count first, little-endian), then strings with a
 * NUL behind each. A unit says of its node: bits 0-7 and 31 the label by which it is reached, bit 8
 * whether a key ends there, bits 10-30 (times 256 with bit 9) the offset to its children; the unit
 * at that offset with label 0 holds where the key's string begins.
 *
 * A grapheme of fewer than 6 bytes is looked up first, as its shortest key; then its characters
 * each. That is what the `tokenizers` package does with Precompiled.
 */
#include "tokenizer_parts.h"

#include <string.h>

enum { GRAPHEME_MAX = 6 };

typedef struct {
    const unsigned char *unit;
    uint32_t units;
    const char *strings;
    size_t string_bytes;
} charsmap;

static uint32_t unit_at(const charsmap *m, uint32_t i) {
    const unsigned char *u = m->unit + (size_t)i * 4;
    return (uint32_t)u[0] | (uint32_t)u[1] << 8 | (uint32_t)u[2] << 16 | (uint32_t)u[3] << 24;
}

static bool open_map(charsmap *m, const unsigned char *map, size_t n) {
    if (n < 8)
        return false;
    const charsmap size = { .unit = map, .units = 1 };
    const uint32_t bytes = unit_at(&size, 0);
    if (bytes < 4 || bytes % 4 != 0 || bytes > n - 4)
        return false;
    *m = (charsmap){ map + 4, bytes / 4, (const char *)map + 4 + bytes, n - 4 - bytes };
    return m->string_bytes > 0 && m->strings[m->string_bytes - 1] == '\0';
}

bool sc_charsmap_fits(const unsigned char *map, size_t n) {
    charsmap m;
    return open_map(&m, map, n);
}

static uint32_t offset_of(uint32_t unit) { return (unit >> 10) << ((unit & 0x200) >> 6); }

/* The string for the shortest key that begins text, or NULL. */
static const char *find(const charsmap *m, const char *text, size_t n) {
    uint32_t at = offset_of(unit_at(m, 0));
    for (size_t i = 0; i < n && text[i] != '\0'; i++) {
        const uint32_t c = (unsigned char)text[i];
        at ^= c;
        if (at >= m->units)
            return NULL;
        const uint32_t unit = unit_at(m, at);
        if ((unit & 0x800000FF) != c)
            return NULL;
        at ^= offset_of(unit);
        if (at >= m->units)
            return NULL;
        if (unit & 0x100) {
            const uint32_t where = unit_at(m, at) & 0x7FFFFFFF;
            return where < m->string_bytes ? m->strings + where : NULL;
        }
    }
    return NULL;
}

/* The bytes of the grapheme that begins text; of ASCII alone, only CR LF is more than one. */
static size_t grapheme(const sc_utf8proc *u, const char *text, size_t n) {
    int32_t code, next, state = 0;
    size_t end = sc_utf8_code(text, &code);
    while (end < n) {
        const size_t length = sc_utf8_code(text + end, &next);
        if (code < 0x80 && next < 0x80 ? code != '\r' || next != '\n'
                                       : u->grapheme_break(code, next, &state))
            break;
        code = next;
        end += length;
    }
    return end;
}

int sc_charsmap_apply(sc_encoder *e, const unsigned char *map, size_t map_bytes, sc_text *out,
                      const char *text, size_t n) {
    charsmap m;
    int rc = open_map(&m, map, map_bytes) ? 0 : SC_EINPUT;
    for (size_t at = 0, end; rc == 0 && at < n; at = end) {
        end = at + grapheme(&e->t->utf8proc, text + at, n - at);
        const char *to = end - at < GRAPHEME_MAX ? find(&m, text + at, end - at) : NULL;
        if (to) {
            rc = sc_text_add(out, to, strlen(to));
            continue;
        }
        for (size_t length; rc == 0 && at < end; at += length) {
            length = sc_utf8_length(text[at]);
            to = find(&m, text + at, length);
            rc = to ? sc_text_add(out, to, strlen(to)) : sc_text_add(out, text + at, length);
        }
    }
    return rc;
}
