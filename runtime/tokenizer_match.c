/* tokenizer_match.c - patterns by PCRE2, and utf8proc: see tokenizer_parts.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tokenizer_parts.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { PCRE2_JIT_COMPLETE = 1, PCRE2_NO_JIT = 0x2000, PCRE2_NOMATCH = -1, PCRE2_JIT_STACK = -46 };
/* MULTILINE: ^ and $ are at every line's ends in Oniguruma's Ruby syntax. */
#define PCRE2_OPTIONS                                                                              \
    (UINT32_C(0x00000400) | UINT32_C(0x00020000) | UINT32_C(0x00080000)) /* MULTILINE UCP UTF */
#define PCRE2_NO_UTF_CHECK UINT32_C(0x40000000)

/* Steps that one search may take: an honest pattern needs a few per byte. */
enum { MATCH_LIMIT = 1000000, MATCH_LIMIT_PER_BYTE = 20 };

/* A character of a word (\w), next to which a single_word token does not count. */
#define WORD_PATTERN                                                                               \
    "[\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{200c}\\x{200d}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}" \
    "\\x{1f150}-\\x{1f169}\\x{1f170}-\\x{1f189}]"

static int load(void *library, const char *name, void *function, size_t size) {
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, size);
    return symbol != NULL;
}

#define LOAD(field, name) load(p->library, name, &p->field, sizeof p->field)

static int load_pcre2(sc_pcre2 *p, sc_error *err) {
    if (p->library)
        return 0;
    p->library = dlopen("libpcre2-8.so.0", RTLD_NOW | RTLD_LOCAL);
    if (p->library && LOAD(compile, "pcre2_compile_8") && LOAD(code_free, "pcre2_code_free_8") &&
        LOAD(jit_compile, "pcre2_jit_compile_8") &&
        LOAD(match_data_create, "pcre2_match_data_create_from_pattern_8") &&
        LOAD(match_data_free, "pcre2_match_data_free_8") &&
        LOAD(match_context_create, "pcre2_match_context_create_8") &&
        LOAD(match_context_free, "pcre2_match_context_free_8") &&
        LOAD(set_match_limit, "pcre2_set_match_limit_8") && LOAD(match, "pcre2_match_8") &&
        LOAD(ovector, "pcre2_get_ovector_pointer_8") && LOAD(message, "pcre2_get_error_message_8"))
        return 0;
    return sc_fail(err, SC_EENV,
                   "libpcre2-8.so.0: the tokenizer's patterns need it and it cannot be loaded "
                   "(install libpcre2-8-0)");
}

static void load_utf8proc(sc_utf8proc *p) {
    p->library = dlopen("libutf8proc.so.3", RTLD_NOW | RTLD_LOCAL);
    if (!p->library)
        p->library = dlopen("libutf8proc.so.2", RTLD_NOW | RTLD_LOCAL);
    if (p->library && LOAD(map, "utf8proc_map") && LOAD(to_lower, "utf8proc_tolower") &&
        LOAD(category, "utf8proc_category") &&
        LOAD(grapheme_break, "utf8proc_grapheme_break_stateful"))
        return;
    if (p->library)
        dlclose(p->library);
    p->library = NULL;
}

static int compile(sc_tokenizer *t, void **code, const char *pattern, size_t n, const char *path,
                   sc_error *err) {
    int rc = load_pcre2(&t->pcre2, err), number = 0;
    size_t at = 0;
    if (rc != 0)
        return rc;
    *code = t->pcre2.compile((const uint8_t *)pattern, n, PCRE2_OPTIONS, &number, &at, NULL);
    if (!*code) {
        char reason[128] = "";
        t->pcre2.message(number, (uint8_t *)reason, sizeof reason);
        return sc_fail(err, SC_EINPUT,
                       "%s: a pattern: PCRE2 does not take it: %s at byte %zu (use a tokenizer "
                       "with another pre_tokenizer)",
                       path, reason, at);
    }
    t->pcre2.jit_compile(*code, PCRE2_JIT_COMPLETE); /* without it, matching is slower only */
    return 0;
}

int sc_match_open(sc_tokenizer *t, const char *path, sc_error *err) {
    int rc = 0;
    bool unicode = false;
    for (uint64_t i = 0; rc == 0 && i < t->header->step.count; i++) {
        const sc_step_record *s = &t->step[i];
        unicode |= s->kind <= SC_STEP_CHARSMAP;
        if ((s->kind == SC_STEP_SPLIT || s->kind == SC_STEP_REPLACE) && (s->how & SC_PATTERN))
            rc = compile(t, &t->code[i], t->text + s->at, s->bytes, path, err);
    }
    if (rc == 0 && (t->header->flags & SC_TOKENIZER_WORDS))
        rc = compile(t, &t->word_code, WORD_PATTERN, strlen(WORD_PATTERN), path, err);
    if (rc == 0 && unicode)
        load_utf8proc(&t->utf8proc);
    return rc;
}

void sc_match_close(sc_tokenizer *t) {
    for (int i = 0; i < SC_TOKENIZER_STEPS_MAX; i++)
        if (t->code[i])
            t->pcre2.code_free(t->code[i]);
    if (t->word_code)
        t->pcre2.code_free(t->word_code);
    if (t->pcre2.library)
        dlclose(t->pcre2.library);
    if (t->utf8proc.library)
        dlclose(t->utf8proc.library);
}

int sc_match_begin(sc_encoder *e, size_t bytes) {
    const sc_pcre2 *p = &e->t->pcre2;
    if (!p->library)
        return 0;
    e->match_context = p->match_context_create(NULL);
    if (!e->match_context)
        return sc_encoder_no_memory(e);
    const uint64_t limit = MATCH_LIMIT + (uint64_t)MATCH_LIMIT_PER_BYTE * bytes;
    p->set_match_limit(e->match_context, limit < UINT32_MAX ? (uint32_t)limit : UINT32_MAX);
    for (int i = 0; i < SC_TOKENIZER_STEPS_MAX; i++)
        if (e->t->code[i]) {
            e->scratch[i].match_data = p->match_data_create(e->t->code[i], NULL);
            if (!e->scratch[i].match_data)
                return sc_encoder_no_memory(e);
        }
    if (e->t->word_code) {
        e->word_data = p->match_data_create(e->t->word_code, NULL);
        if (!e->word_data)
            return sc_encoder_no_memory(e);
    }
    return 0;
}

void sc_match_end(sc_encoder *e) {
    const sc_pcre2 *p = &e->t->pcre2;
    for (int i = 0; i < SC_TOKENIZER_STEPS_MAX; i++)
        if (e->scratch[i].match_data)
            p->match_data_free(e->scratch[i].match_data);
    if (e->word_data)
        p->match_data_free(e->word_data);
    if (e->match_context)
        p->match_context_free(e->match_context);
}

static int add_segment(sc_encoder *e, sc_scratch *s, size_t start, size_t end, bool match) {
    if (s->segments == s->segment_room) {
        const size_t room = s->segment_room * 2 + 64;
        sc_segment *list = realloc(s->segment, room * sizeof *list);
        if (!list)
            return sc_encoder_no_memory(e);
        s->segment = list;
        s->segment_room = room;
    }
    s->segment[s->segments++] = (sc_segment){ start, end, match };
    return 0;
}

/* A match from start to end, with what lies between the last one's end and it. */
static int add_match(sc_encoder *e, sc_scratch *s, size_t last, size_t start, size_t end) {
    const int rc = start > last ? add_segment(e, s, last, start, false) : 0;
    return rc == 0 ? add_segment(e, s, start, end, true) : rc;
}

static int all_literal(sc_encoder *e, uint32_t step, const char *text, size_t n) {
    const sc_step_record *record = &e->t->step[step];
    const char *what = e->t->text + record->at;
    size_t last = 0;
    int rc = 0;
    const char *found;
    while (rc == 0 && (found = memmem(text + last, n - last, what, record->bytes)) != NULL) {
        const size_t start = (size_t)(found - text);
        rc = add_match(e, &e->scratch[step], last, start, start + record->bytes);
        last = start + record->bytes;
    }
    return rc == 0 && last < n ? add_segment(e, &e->scratch[step], last, n, false) : rc;
}

/* 1: *start, *end are the first match from at on; 0: there is none. */
static int search(sc_encoder *e, uint32_t step, const char *text, size_t n, size_t at,
                  size_t *start, size_t *end) {
    const sc_pcre2 *p = &e->t->pcre2;
    void *data = e->scratch[step].match_data;
    int found = p->match(e->t->code[step], (const uint8_t *)text, n, at, PCRE2_NO_UTF_CHECK, data,
                         e->match_context);
    if (found == PCRE2_JIT_STACK)
        found = p->match(e->t->code[step], (const uint8_t *)text, n, at,
                         PCRE2_NO_UTF_CHECK | PCRE2_NO_JIT, data, e->match_context);
    if (found == PCRE2_NOMATCH)
        return 0;
    if (found < 0) {
        char reason[128] = "";
        p->message(found, (uint8_t *)reason, sizeof reason);
        return sc_fail(e->err, SC_EINPUT,
                       "text: the tokenizer's pattern %d gives up: %s (pass the text in parts)",
                       (int)step, reason);
    }
    *start = p->ovector(data)[0];
    *end = p->ovector(data)[1];
    if (*start < at || *end < *start) /* \K and the like */
        return sc_fail(e->err, SC_EINPUT,
                       "text: the tokenizer's pattern %d matches backwards (use a tokenizer with "
                       "another pre_tokenizer)",
                       (int)step);
    return 1;
}

/* An empty match counts, except just behind the last one. */
static int all_matches(sc_encoder *e, uint32_t step, const char *text, size_t n) {
    size_t at = 0, last = 0, start = 0, end = 0;
    bool matched = false;
    int found = 0, rc = 0;
    while (rc == 0 && at <= n && (found = search(e, step, text, n, at, &start, &end)) > 0) {
        if (start == end && matched && end == last) {
            at += at < n ? sc_utf8_length(text[at]) : 1;
            continue;
        }
        rc = add_match(e, &e->scratch[step], last, start, end);
        matched = true;
        at = last = end;
    }
    if (found < 0)
        return found;
    return rc == 0 && last < n ? add_segment(e, &e->scratch[step], last, n, false) : rc;
}

int sc_match_all(sc_encoder *e, uint32_t step, const char *text, size_t n) {
    e->scratch[step].segments = 0;
    return e->t->step[step].how & SC_PATTERN ? all_matches(e, step, text, n)
                                             : all_literal(e, step, text, n);
}

bool sc_match_word(const sc_encoder *e, const char *text, size_t n, bool at_end) {
    if (n == 0)
        return false;
    size_t from = at_end ? n - 1 : 0, to = from + 1;
    while (at_end && from > 0 && (text[from] & 0xC0) == 0x80)
        from--;
    while (!at_end && to < n && (text[to] & 0xC0) == 0x80)
        to++;
    return e->t->pcre2.match(e->t->word_code, (const uint8_t *)text + from, to - from, 0,
                             PCRE2_NO_UTF_CHECK, e->word_data, e->match_context) >= 0;
}
