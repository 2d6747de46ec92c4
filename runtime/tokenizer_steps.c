/* tokenizer_steps.c - normalising and splitting: see tokenizer_parts.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

enum { UTF8PROC_STABLE = 2, UTF8PROC_COMPAT = 4, UTF8PROC_COMPOSE = 8, UTF8PROC_DECOMPOSE = 16 };
enum { CATEGORY_MN = 6, CATEGORY_ME = 8 }; /* the marks are Mn, Mc, Me: 6 to 8 */

static bool is_ascii(const char *text, size_t n) {
    for (size_t i = 0; i < n; i++)
        if (text[i] & 0x80)
            return false;
    return true;
}

static int add_code(sc_text *out, int32_t code) {
    char bytes[4];
    return sc_text_add(out, bytes, sc_utf8_put(bytes, code));
}

static int to_form(sc_encoder *e, sc_step_kind kind, sc_text *out, const char *text, size_t n) {
    static const int options[] = { UTF8PROC_STABLE | UTF8PROC_COMPOSE,
                                   UTF8PROC_STABLE | UTF8PROC_DECOMPOSE,
                                   UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT,
                                   UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT };
    uint8_t *made = NULL;
    const ptrdiff_t bytes =
        e->t->utf8proc.map((const uint8_t *)text, (ptrdiff_t)n, &made, options[kind]);
    if (bytes < 0)
        return SC_EENV; /* valid UTF-8 fails for nothing but memory */
    const int rc = sc_text_add(out, (const char *)made, (size_t)bytes);
    free(made);
    return rc;
}

static int lower(const sc_utf8proc *u, sc_text *out, int32_t code) {
    if (code < 0x80)
        return add_code(out, code >= 'A' && code <= 'Z' ? code + 32 : code);
    if (code == 0x130) /* the one letter that becomes two characters */
        return sc_text_add(out, "i\xCC\x87", 3);
    return add_code(out, u->to_lower(code));
}

static bool is_mark(const sc_utf8proc *u, int32_t code) {
    const int category = code < 0x80 ? 0 : u->category(code);
    return category >= CATEGORY_MN && category <= CATEGORY_ME;
}

/* SentencePiece's nmt rules: controls go, other white space and joiners become spaces. */
static int nmt(sc_text *out, int32_t c) {
    if ((c >= 1 && c <= 8) || c == 0xB || (c >= 0xE && c <= 0x1F) || c == 0x7F || c == 0x8F ||
        c == 0x9F)
        return 0;
    const bool space = c == 9 || c == 0xA || c == 0xC || c == 0xD || c == 0x1680 ||
                       (c >= 0x200B && c <= 0x200F) || c == 0x2028 || c == 0x2029 || c == 0x2581 ||
                       c == 0xFEFF || c == 0xFFFD;
    return add_code(out, space ? ' ' : c);
}

static int each_code(sc_encoder *e, sc_step_kind kind, sc_text *out, const char *text, size_t n) {
    const sc_utf8proc *u = &e->t->utf8proc;
    int rc = 0;
    int32_t code;
    for (size_t at = 0; rc == 0 && at < n;) {
        at += sc_utf8_code(text + at, &code);
        if (kind == SC_STEP_LOWERCASE)
            rc = lower(u, out, code);
        else if (kind == SC_STEP_NMT)
            rc = nmt(out, code);
        else if (!is_mark(u, code))
            rc = add_code(out, code);
    }
    return rc;
}

/* As with matches, but without a list of them. */
static int replace_literal(const sc_encoder *e, const sc_step_record *record, sc_text *out,
                           const char *text, size_t n) {
    const char *what = e->t->text + record->at, *to = e->t->text + record->to_at, *found;
    size_t last = 0;
    int rc = 0;
    while (rc == 0 && (found = memmem(text + last, n - last, what, record->bytes)) != NULL) {
        rc = sc_text_add(out, text + last, (size_t)(found - text) - last);
        if (rc == 0)
            rc = sc_text_add(out, to, record->to_bytes);
        last = (size_t)(found - text) + record->bytes;
    }
    return rc == 0 ? sc_text_add(out, text + last, n - last) : rc;
}

static int replace(sc_encoder *e, uint32_t step, const char *text, size_t n) {
    const sc_step_record *record = &e->t->step[step];
    sc_scratch *s = &e->scratch[step];
    if (!(record->how & SC_PATTERN))
        return replace_literal(e, record, &s->text, text, n);
    int rc = sc_match_all(e, step, text, n);
    for (size_t i = 0; rc == 0 && i < s->segments; i++) {
        const sc_segment *g = &s->segment[i];
        rc = g->match ? sc_text_add(&s->text, e->t->text + record->to_at, record->to_bytes)
                      : sc_text_add(&s->text, text + g->start, g->end - g->start);
    }
    return rc;
}

/* The letter of a byte is itself where it prints, else the next free one from U+0100 on. */
static int to_letters(sc_text *out, const char *text, size_t n) {
    const int rc = sc_text_reserve(out, 2 * n);
    if (rc != 0)
        return rc;
    char *to = out->bytes + out->count;
    for (size_t i = 0; i < n; i++) {
        const int b = (unsigned char)text[i];
        int32_t code = b;
        if (b <= ' ')
            code = 0x100 + b;
        else if (b >= 0x7F && b <= 0xA0)
            code = 0x121 + b - 0x7F;
        else if (b == 0xAD)
            code = 0x143;
        to += sc_utf8_put(to, code);
    }
    out->count = (size_t)(to - out->bytes);
    return 0;
}

static int with_prefix(const sc_encoder *e, const sc_step_record *record, sc_text *out,
                       const char *text, size_t n) {
    const int rc = sc_text_add(out, e->t->text + record->at, record->bytes);
    return rc == 0 ? sc_text_add(out, text, n) : rc;
}

static bool begins(const sc_encoder *e, const sc_step_record *record, const char *text, size_t n) {
    return n >= record->bytes && memcmp(text, e->t->text + record->at, record->bytes) == 0;
}

/* What has no need of scratch: the piece as it is, or less of it. */
static bool keeps(const sc_encoder *e, const sc_step_record *record, const char *text, size_t n,
                  bool first) {
    switch ((sc_step_kind)record->kind) {
    case SC_STEP_NFC:
    case SC_STEP_NFD:
    case SC_STEP_NFKC:
    case SC_STEP_NFKD:
    case SC_STEP_STRIP_ACCENTS:
        return is_ascii(text, n);
    case SC_STEP_PREFIX:
        return begins(e, record, text, n) || (record->how == SC_PREFIX_FIRST && !first);
    default:
        return false;
    }
}

static int no_utf8proc(const sc_encoder *e) {
    return sc_fail(e->err, SC_EENV,
                   "libutf8proc.so: this tokenizer needs it for text beyond ASCII and it "
                   "cannot be loaded (install libutf8proc)");
}

static int strip(const sc_step_record *record, const char *text, size_t n, bool *first,
                 const char **out, size_t *out_bytes) {
    size_t start = 0, end = n;
    if (record->how & SC_STRIP_LEFT)
        for (size_t more; (more = sc_utf8_space(text + start, n - start)) > 0;)
            start += more;
    if (record->how & SC_STRIP_RIGHT)
        end = sc_utf8_strip(text, start, end);
    *first = *first && start == 0;
    *out = text + start;
    *out_bytes = end - start;
    return 0;
}

int sc_step_change(sc_encoder *e, uint32_t step, const char *text, size_t n, bool *first,
                   const char **out, size_t *out_bytes) {
    const sc_step_record *record = &e->t->step[step];
    const sc_step_kind kind = (sc_step_kind)record->kind;
    sc_text *made = &e->scratch[step].text;
    int rc = 0;
    *out = text;
    *out_bytes = n;
    if (n == 0 || keeps(e, record, text, n, *first))
        return 0;
    if (kind == SC_STEP_STRIP)
        return strip(record, text, n, first, out, out_bytes);
    if (kind <= SC_STEP_CHARSMAP && !e->t->utf8proc.library && !is_ascii(text, n))
        return no_utf8proc(e);
    made->count = 0;
    if (kind <= SC_STEP_NFKD)
        rc = to_form(e, kind, made, text, n);
    else if (kind == SC_STEP_CHARSMAP)
        rc = sc_charsmap_apply(e, (const unsigned char *)e->t->text + record->at, record->bytes,
                               made, text, n);
    else if (kind == SC_STEP_REPLACE)
        rc = replace(e, step, text, n);
    else if (kind == SC_STEP_BYTES)
        rc = to_letters(made, text, n);
    else if (kind == SC_STEP_PREFIX || kind == SC_STEP_PREPEND)
        rc = with_prefix(e, record, made, text, n);
    else
        rc = each_code(e, kind, made, text, n);
    *out = made->bytes;
    *out_bytes = made->count;
    return sc_encoder_fail(e, rc);
}

/* ---- splitting ---- */

/* Joins a match with the piece before it, unless that one ends in a match. */
static void merge_previous(sc_scratch *s) {
    size_t count = 0;
    bool previous = false;
    for (size_t i = 0; i < s->segments; i++) {
        const sc_segment g = s->segment[i];
        if (g.match && !previous && count > 0)
            s->segment[count - 1].end = g.end;
        else
            s->segment[count++] = g;
        previous = g.match;
    }
    s->segments = count;
}

/* Joins a match with the piece behind it, unless that one begins with a match. */
static void merge_next(sc_scratch *s) {
    size_t count = s->segments;
    bool previous = false;
    for (size_t i = s->segments; i-- > 0;) {
        const sc_segment g = s->segment[i];
        if (g.match && !previous && count < s->segments)
            s->segment[count].start = g.start;
        else
            s->segment[--count] = g;
        previous = g.match;
    }
    s->segments -= count;
    memmove(s->segment, s->segment + count, s->segments * sizeof *s->segment);
}

static void merge_alike(sc_scratch *s) {
    size_t count = 0;
    for (size_t i = 0; i < s->segments; i++) {
        const sc_segment g = s->segment[i];
        if (count > 0 && s->segment[count - 1].match == g.match)
            s->segment[count - 1].end = g.end;
        else
            s->segment[count++] = g;
    }
    s->segments = count;
}

static int split(sc_encoder *e, uint32_t step, const char *text, size_t n) {
    const uint32_t how = e->t->step[step].how;
    sc_scratch *s = &e->scratch[step];
    const int rc = sc_match_all(e, step, text, n);
    if (rc != 0)
        return rc;
    for (size_t i = 0; (how & SC_INVERT) && i < s->segments; i++)
        s->segment[i].match = !s->segment[i].match;
    switch ((sc_split)(how & SC_SPLIT_MASK)) {
    case SC_SPLIT_MERGED_WITH_PREVIOUS:
        merge_previous(s);
        break;
    case SC_SPLIT_MERGED_WITH_NEXT:
        merge_next(s);
        break;
    case SC_SPLIT_CONTIGUOUS:
        merge_alike(s);
        break;
    default:
        break;
    }
    return 0;
}

int sc_step_words(sc_encoder *e, uint32_t step, const char *text, size_t n, bool first) {
    int rc = 0;
    while (rc == 0 && n > 0 && step < e->t->header->step.count &&
           e->t->step[step].kind != SC_STEP_SPLIT)
        rc = sc_step_change(e, step++, text, n, &first, &text, &n);
    if (rc != 0 || n == 0)
        return rc;
    if (step == e->t->header->step.count)
        return sc_model_encode(e, text, n);
    rc = split(e, step, text, n);
    const bool drops = (e->t->step[step].how & SC_SPLIT_MASK) == SC_SPLIT_REMOVED;
    const sc_scratch *s = &e->scratch[step];
    for (size_t i = 0; rc == 0 && i < s->segments; i++) {
        const sc_segment *g = &s->segment[i];
        if (g->end > g->start && !(drops && g->match))
            rc = sc_step_words(e, step + 1, text + g->start, g->end - g->start,
                               first && g->start == 0);
    }
    return rc;
}
