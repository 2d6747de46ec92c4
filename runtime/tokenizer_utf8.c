/* tokenizer_utf8.c - characters: see tokenizer.h and tokenizer_parts.h. */
#include "tokenizer_parts.h"

#include <string.h>

typedef enum { UTF8_WHOLE, UTF8_BAD, UTF8_CUT } utf8_kind;

/* How many of the n > 0 bytes are one character, or the longest beginning of one. */
static size_t utf8_next(const unsigned char *s, size_t n, utf8_kind *kind) {
    const unsigned lead = s[0];
    size_t need = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (need == 0 || lead > 0xF4) {
        *kind = UTF8_BAD;
        return 1;
    }
    for (size_t i = 1; i < need; i++) {
        if (i == n) {
            *kind = UTF8_CUT;
            return n;
        }
        unsigned low = 0x80, high = 0xBF;
        if (i == 1) {
            low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : low;
            high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : high;
        }
        if (s[i] < low || s[i] > high) {
            *kind = UTF8_BAD;
            return i;
        }
    }
    *kind = UTF8_WHOLE;
    return need;
}

static size_t put_replacement(char *out) {
    memcpy(out, "\xEF\xBF\xBD", 3);
    return 3;
}

static size_t put_character(char *out, const unsigned char *s, size_t n, utf8_kind kind) {
    if (kind != UTF8_WHOLE)
        return put_replacement(out);
    memcpy(out, s, n);
    return n;
}

size_t sc_utf8_push(sc_utf8_stream *s, const char *in, size_t n, char *out) {
    const unsigned char *p = (const unsigned char *)in;
    size_t wrote = 0, i = 0;
    utf8_kind kind;
    while (s->count > 0 && i < n) {
        const size_t held = (size_t)s->count;
        s->bytes[held] = in[i];
        size_t used = utf8_next((const unsigned char *)s->bytes, held + 1, &kind);
        if (kind == UTF8_CUT) {
            s->count++;
            i++;
            continue;
        }
        wrote += put_character(out + wrote, (const unsigned char *)s->bytes, used, kind);
        s->count = 0;
        i += used > held; /* a bad byte may begin the next character */
    }
    while (i < n) {
        size_t used = utf8_next(p + i, n - i, &kind);
        if (kind == UTF8_CUT) {
            memcpy(s->bytes, p + i, used);
            s->count = (int)used;
            break;
        }
        wrote += put_character(out + wrote, p + i, used, kind);
        i += used;
    }
    return wrote;
}

size_t sc_utf8_flush(sc_utf8_stream *s, char *out) {
    if (s->count == 0)
        return 0;
    s->count = 0;
    return put_replacement(out);
}

bool sc_utf8_valid(const char *s, size_t n) {
    utf8_kind kind = UTF8_WHOLE;
    for (size_t i = 0; i < n && kind == UTF8_WHOLE;)
        i += utf8_next((const unsigned char *)s + i, n - i, &kind);
    return kind == UTF8_WHOLE;
}

size_t sc_utf8_length(char lead) {
    const unsigned char c = (unsigned char)lead;
    return c < 0xC0 ? 1 : c < 0xE0 ? 2 : c < 0xF0 ? 3 : 4;
}

size_t sc_utf8_code(const char *s, int32_t *code) {
    const size_t length = sc_utf8_length(*s);
    const unsigned char lead = (unsigned char)*s;
    int32_t c = length == 1 ? lead : lead & (0x7F >> length);
    for (size_t i = 1; i < length; i++)
        c = c << 6 | (s[i] & 0x3F);
    *code = c;
    return length;
}

size_t sc_utf8_put(char *out, int32_t code) {
    const uint32_t c = (uint32_t)code;
    const size_t length = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const unsigned char lead[] = { 0, 0, 0xC0, 0xE0, 0xF0 };
    for (size_t i = length; i-- > 1;)
        out[i] = (char)(0x80 | (c >> 6 * (length - 1 - i) & 0x3F));
    out[0] = (char)(lead[length] | c >> 6 * (length - 1));
    return length;
}

size_t sc_utf8_space(const char *s, size_t n) {
    static const char *const wide[] = {
        "\xC2\x85",     "\xC2\xA0",     "\xE1\x9A\x80", "\xE2\x80\x80", "\xE2\x80\x81",
        "\xE2\x80\x82", "\xE2\x80\x83", "\xE2\x80\x84", "\xE2\x80\x85", "\xE2\x80\x86",
        "\xE2\x80\x87", "\xE2\x80\x88", "\xE2\x80\x89", "\xE2\x80\x8A", "\xE2\x80\xA8",
        "\xE2\x80\xA9", "\xE2\x80\xAF", "\xE2\x81\x9F", "\xE3\x80\x80"
    };
    if (n > 0 && (*s == ' ' || (*s >= '\t' && *s <= '\r')))
        return 1;
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
        const size_t length = strlen(wide[i]);
        if (length <= n && memcmp(s, wide[i], length) == 0)
            return length;
    }
    return 0;
}

size_t sc_utf8_strip(const char *s, size_t start, size_t end) {
    for (size_t back = 1; back <= 3 && start + back <= end; back++)
        if (sc_utf8_space(s + end - back, back) == back) {
            end -= back;
            back = 0;
        }
    return end;
}
