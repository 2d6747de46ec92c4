/* jinja_unicode.c - see jinja_unicode.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memmem */
#endif
#include "jinja_unicode.h"

#include <string.h>
#include <utf8proc.h>

size_t sc_j_char(const char *at, int32_t *code) {
    const unsigned char c = (unsigned char)*at;
    const size_t n = c < 0x80 ? 1 : c < 0xe0 ? 2 : c < 0xf0 ? 3 : 4;
    int32_t value = n == 1 ? c : c & (0x7f >> n);
    for (size_t i = 1; i < n; i++)
        value = value << 6 | (at[i] & 0x3f);
    *code = value;
    return n;
}

size_t sc_j_encode(char out[4], int32_t code) {
    return (size_t)utf8proc_encode_char(code, (utf8proc_uint8_t *)out);
}

size_t sc_j_chars(const char *text, size_t bytes) {
    size_t chars = 0;
    for (size_t i = 0; i < bytes; i++)
        chars += (text[i] & 0xc0) != 0x80;
    return chars;
}

size_t sc_j_offset(const char *text, size_t bytes, size_t index) {
    size_t at = 0;
    for (int32_t code; index && at < bytes; index--)
        at += sc_j_char(text + at, &code);
    return at;
}

bool sc_j_space(int32_t code) {
    return (code >= 0x09 && code <= 0x0d) || (code >= 0x1c && code <= 0x20) || code == 0x85 ||
           code == 0xa0 || code == 0x1680 || (code >= 0x2000 && code <= 0x200a) || code == 0x2028 ||
           code == 0x2029 || code == 0x202f || code == 0x205f || code == 0x3000;
}

bool sc_j_printable(int32_t code) {
    if (code == ' ')
        return true;
    switch (utf8proc_category(code)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
        return false;
    default:
        return true;
    }
}

bool sc_j_line_end(int32_t code) {
    return (code >= 0x0a && code <= 0x0d) || (code >= 0x1c && code <= 0x1e) || code == 0x85 ||
           code == 0x2028 || code == 0x2029;
}

static bool stripped(int32_t code, sc_jvalue chars) {
    if (chars.type != SC_J_STRING)
        return sc_j_space(code);
    for (size_t at = 0; at < chars.bytes;) {
        int32_t one;
        at += sc_j_char(chars.text + at, &one);
        if (one == code)
            return true;
    }
    return false;
}

sc_jvalue sc_j_strip(sc_jvalue s, sc_jvalue chars, bool left, bool right) {
    int32_t code;
    while (left && s.bytes) {
        const size_t n = sc_j_char(s.text, &code);
        if (!stripped(code, chars))
            break;
        s.text += n;
        s.bytes -= n;
    }
    while (right && s.bytes) {
        size_t last = s.bytes - 1;
        while ((s.text[last] & 0xc0) == 0x80)
            last--;
        sc_j_char(s.text + last, &code);
        if (!stripped(code, chars))
            break;
        s.bytes = last;
    }
    return s;
}

int64_t sc_j_search(sc_jrun *run, sc_jvalue s, sc_jvalue part, size_t from) {
    if (from > s.bytes || !sc_j_step(run, 1))
        return -1;
    if (!part.bytes)
        return (int64_t)from;
    const char *found = memmem(s.text + from, s.bytes - from, part.text, part.bytes);
    sc_j_step(run, (found ? (size_t)(found - s.text) - from : s.bytes - from) / 32);
    return found ? found - s.text : -1;
}

/* An empty old stands before every character and at the end. */
static sc_jvalue spread(sc_jrun *run, sc_jvalue s, sc_jvalue new, int64_t most) {
    sc_jtext text = { 0 };
    size_t at = 0;
    for (int64_t done = 0; (most < 0 || done < most) && !run->rc; done++) {
        int32_t code;
        sc_j_put(run, &text, new.text, new.bytes);
        if (!sc_j_step(run, 1) || at == s.bytes)
            break;
        const size_t n = sc_j_char(s.text + at, &code);
        sc_j_put(run, &text, s.text + at, n);
        at += n;
    }
    sc_j_put(run, &text, s.text + at, s.bytes - at);
    return sc_j_finish(&text);
}

sc_jvalue sc_j_replace(sc_jrun *run, sc_jvalue s, sc_jvalue old, sc_jvalue new, int64_t most) {
    if (!old.bytes)
        return spread(run, s, new, most);
    sc_jtext text = { 0 };
    size_t at = 0;
    for (int64_t done = 0; (most < 0 || done < most) && !run->rc; done++) {
        const int64_t found = sc_j_search(run, s, old, at);
        if (found < 0)
            break;
        sc_j_put(run, &text, s.text + at, (size_t)found - at);
        sc_j_put(run, &text, new.text, new.bytes);
        at = (size_t)found + old.bytes;
    }
    if (!at)
        return s;
    sc_j_put(run, &text, s.text + at, s.bytes - at);
    return sc_j_finish(&text);
}

sc_jvalue sc_j_lines(sc_jrun *run, sc_jvalue s, bool keep_ends) {
    const sc_jvalue lines = sc_j_list(run, SC_J_PLAIN);
    size_t begin = 0;
    for (size_t at = 0; at < s.bytes && !run->rc;) {
        int32_t code;
        const size_t end = at;
        at += sc_j_char(s.text + at, &code);
        if (!sc_j_line_end(code))
            continue;
        if (code == '\r' && at < s.bytes && s.text[at] == '\n')
            at++;
        sc_j_append(run, lines, sc_j_string(s.text + begin, (keep_ends ? at : end) - begin));
        begin = at;
    }
    if (begin < s.bytes)
        sc_j_append(run, lines, sc_j_string(s.text + begin, s.bytes - begin));
    sc_j_step(run, s.bytes / 16);
    return lines;
}

static bool is_cased(int32_t code) {
    return utf8proc_isupper(code) || utf8proc_islower(code) ||
           utf8proc_category(code) == UTF8PROC_CATEGORY_LT;
}

static void put_recased(sc_jrun *run, sc_jtext *text, int32_t code, bool upper, bool titled) {
    enum { SHARP_S = 0xdf };
    char out[4];
    if (upper && code == SHARP_S) {
        sc_j_puts(run, text, titled ? "Ss" : "SS");
        return;
    }
    const int32_t to = !upper   ? utf8proc_tolower(code)
                       : titled ? utf8proc_totitle(code)
                                : utf8proc_toupper(code);
    sc_j_put(run, text, out, sc_j_encode(out, to));
}

sc_jvalue sc_j_recase(sc_jrun *run, sc_jvalue s, sc_jcase to) {
    sc_jtext text = { 0 };
    bool inside = false; /* a word, of title; the text, of capitalize */
    for (size_t at = 0; at < s.bytes && !run->rc;) {
        int32_t code;
        at += sc_j_char(s.text + at, &code);
        const bool upper = to == SC_J_UPPER || (to == SC_J_SWAP && utf8proc_islower(code)) ||
                           (to >= SC_J_CAPITALIZE && !inside);
        put_recased(run, &text, code, upper, to >= SC_J_CAPITALIZE);
        inside = to == SC_J_CAPITALIZE || is_cased(code);
    }
    sc_j_step(run, s.bytes / 8);
    return sc_j_finish(&text);
}

static bool is_alpha(int32_t code) {
    const utf8proc_category_t c = utf8proc_category(code);
    return c >= UTF8PROC_CATEGORY_LU && c <= UTF8PROC_CATEGORY_LO;
}

static bool answers(int32_t code, sc_jclass class) {
    const bool digit = utf8proc_category(code) == UTF8PROC_CATEGORY_ND;
    switch (class) {
    case SC_J_ALPHA:
        return is_alpha(code);
    case SC_J_DIGIT:
        return digit;
    case SC_J_ALNUM:
        return digit || is_alpha(code);
    case SC_J_SPACE:
        return sc_j_space(code);
    case SC_J_IS_UPPER:
        return !is_cased(code) || utf8proc_isupper(code);
    case SC_J_IS_LOWER:
        return !is_cased(code) || utf8proc_islower(code);
    }
    return false;
}

bool sc_j_all(sc_jvalue s, sc_jclass class) {
    bool some = false;
    for (size_t at = 0; at < s.bytes;) {
        int32_t code;
        at += sc_j_char(s.text + at, &code);
        if (!answers(code, class))
            return false;
        some |= class < SC_J_IS_UPPER || is_cased(code);
    }
    return some;
}
