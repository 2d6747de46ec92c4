/* tokenizer_encode.c - added tokens, and the way from a text to ids: see tokenizer.h. */
#include "tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

#define NONE SC_TOKENIZER_NONE

int sc_encoder_no_memory(const sc_encoder *e) {
    return sc_fail(e->err, SC_EENV, "tokenizer: out of memory");
}

int sc_encoder_fail(const sc_encoder *e, int rc) {
    return rc == SC_EFULL  ? sc_fail(e->err, SC_EINPUT,
                                     "text: the tokenizer's steps make more than %d times as much "
                                      "of it (use the model's published tokenizer.json)",
                                     SC_TOKENIZER_GROWTH)
           : rc == SC_EENV ? sc_encoder_no_memory(e)
                           : rc;
}

int sc_encoder_add(sc_encoder *e, uint32_t id) {
    if (e->count == e->room) {
        const size_t room = e->room * 2 + 64;
        int32_t *ids = realloc(e->ids, room * sizeof *ids);
        if (!ids)
            return sc_encoder_no_memory(e);
        e->ids = ids;
        e->room = room;
    }
    e->ids[e->count++] = (int32_t)id;
    return 0;
}

int sc_text_reserve(sc_text *text, size_t more) {
    if (text->limit && more > text->limit - text->count)
        return SC_EFULL;
    if (more <= text->room - text->count)
        return 0;
    const size_t room = text->count + more + text->room / 2 + 64;
    char *bytes = realloc(text->bytes, room);
    if (!bytes)
        return SC_EENV;
    text->bytes = bytes;
    text->room = room;
    return 0;
}

int sc_text_add(sc_text *text, const char *bytes, size_t count) {
    const int rc = sc_text_reserve(text, count);
    if (rc != 0)
        return rc;
    if (count > 0)
        memcpy(text->bytes + text->count, bytes, count);
    text->count += count;
    return 0;
}

/* Whether no character is cut in two before text[at]. */
static bool is_border(const char *text, size_t n, size_t at) {
    return at == n || (text[at] & 0xC0) != 0x80;
}

/* The longest key that text begins with: its id and bytes, or SC_TOKENIZER_NONE. */
static uint32_t find_added(const sc_trie *trie, const char *text, size_t n, size_t *bytes) {
    uint32_t node = 0, id = NONE;
    for (size_t i = 0; i < n; i++) {
        node = sc_trie_child(trie, node, (unsigned char)text[i]);
        if (node == 0)
            break;
        if (trie->node[node].id != NONE && is_border(text, n, i + 1)) {
            id = trie->node[node].id;
            *bytes = i + 1;
        }
    }
    return id;
}

typedef int rest_function(sc_encoder *e, const char *text, size_t n, bool first);

/* Cuts the added tokens of that trie out; what lies between goes to rest. */
static int encode_added(sc_encoder *e, int which, rest_function *rest, const char *text, size_t n,
                        bool first) {
    const sc_trie *trie = &e->t->trie[which];
    size_t done = 0, at = 0, bytes = 0;
    int rc = 0;
    while (rc == 0 && at < n) {
        const uint32_t id =
            is_border(text, n, at) ? find_added(trie, text + at, n - at, &bytes) : NONE;
        if (id == NONE) {
            at++;
            continue;
        }
        const uint32_t flags = e->t->token[id].flags;
        size_t start = at, end = at + bytes;
        at = end;
        if ((flags & SC_TOKEN_SINGLE_WORD) &&
            (sc_match_word(e, text, start, true) || sc_match_word(e, text + end, n - end, false)))
            continue;
        if ((flags & SC_TOKEN_LSTRIP) && start > done) /* not what an earlier token has taken */
            start = sc_utf8_strip(text, done, start);
        if (flags & SC_TOKEN_RSTRIP)
            for (size_t more; (more = sc_utf8_space(text + end, n - end)) > 0;)
                end += more;
        if (start > done)
            rc = rest(e, text + done, start - done, first && done == 0);
        if (rc == 0)
            rc = sc_encoder_add(e, id);
        done = end;
    }
    return rc == 0 && done < n ? rest(e, text + done, n - done, first && done == 0) : rc;
}

static int encode_words(sc_encoder *e, const char *text, size_t n, bool first) {
    return sc_step_words(e, e->t->header->normalizers, text, n, first);
}

static int normalize(sc_encoder *e, const char **text, size_t *n, bool *first) {
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && i < e->t->header->normalizers; i++)
        rc = sc_step_change(e, i, *text, *n, first, text, n);
    return rc;
}

static int encode_raw(sc_encoder *e, const char *text, size_t n, bool first) {
    const int rc = normalize(e, &text, &n, &first);
    return rc == 0 ? encode_added(e, SC_TRIE_NORMALIZED, encode_words, text, n, first) : rc;
}

static int begin_encoder(sc_encoder *e, size_t bytes) {
    for (int i = 0; i < SC_TOKENIZER_STEPS_MAX; i++)
        e->scratch[i].text.limit = bytes * SC_TOKENIZER_GROWTH + 65536;
    return sc_match_begin(e, bytes);
}

static void end_encoder(sc_encoder *e) {
    sc_match_end(e);
    for (int i = 0; i < SC_TOKENIZER_STEPS_MAX; i++) {
        free(e->scratch[i].text.bytes);
        free(e->scratch[i].segment);
    }
    free(e->symbols);
    free(e->heap);
    free(e->path);
    free(e->ids);
}

static int encode_all(sc_encoder *e, const char *text, size_t n, bool add_special) {
    const sc_tokenizer_header *h = e->t->header;
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && add_special && i < h->prefix_count; i++)
        rc = sc_encoder_add(e, h->prefix[i]);
    if (rc == 0)
        rc = encode_added(e, SC_TRIE_ADDED, encode_raw, text, n, true);
    for (uint32_t i = 0; rc == 0 && add_special && i < h->suffix_count; i++)
        rc = sc_encoder_add(e, h->suffix[i]);
    return rc;
}

/* A copy of text, all of it valid; malloc'd. */
static int validate(const char *text, size_t bytes, char **valid, size_t *n, sc_error *err) {
    if (bytes > SC_TOKENIZER_TEXT_MAX)
        return sc_fail(err, SC_EUSAGE,
                       "text: %zu bytes are over the limit of %zu (pass it in parts)", bytes,
                       SC_TOKENIZER_TEXT_MAX);
    *valid = malloc(3 * bytes + 3);
    if (!*valid)
        return sc_fail(err, SC_EENV, "tokenizer: out of memory");
    sc_utf8_stream stream = { { 0 }, 0 };
    *n = sc_utf8_push(&stream, text, bytes, *valid);
    *n += sc_utf8_flush(&stream, *valid + *n);
    return 0;
}

int sc_tokenizer_encode(const sc_tokenizer *t, const char *text, size_t bytes, bool add_special,
                        int32_t **ids, int *count, sc_error *err) {
    char *valid = NULL;
    size_t n = 0;
    int rc = validate(text, bytes, &valid, &n, err);
    if (rc != 0)
        return rc;
    sc_encoder e = { .t = t, .err = err };
    e.ids = malloc(64 * sizeof *e.ids); /* so that *ids is never NULL */
    e.room = 64;
    rc = e.ids ? begin_encoder(&e, n) : sc_encoder_no_memory(&e);
    if (rc == 0)
        rc = encode_all(&e, valid, n, add_special);
    if (rc == 0) {
        *ids = e.ids;
        *count = (int)e.count;
        e.ids = NULL;
    }
    end_encoder(&e);
    free(valid);
    return rc;
}

int sc_tokenizer_normalize(const sc_tokenizer *t, const char *text, size_t bytes, char **out,
                           size_t *out_bytes, sc_error *err) {
    char *valid = NULL;
    size_t n = 0;
    int rc = validate(text, bytes, &valid, &n, err);
    if (rc != 0)
        return rc;
    sc_encoder e = { .t = t, .err = err };
    const char *made = valid;
    bool first = true;
    rc = begin_encoder(&e, n);
    if (rc == 0)
        rc = normalize(&e, &made, &n, &first);
    char *copy = rc == 0 ? malloc(n + 1) : NULL;
    if (rc == 0 && !copy)
        rc = sc_encoder_no_memory(&e);
    if (rc == 0) {
        if (n > 0)
            memcpy(copy, made, n);
        copy[n] = '\0';
        *out = copy;
        *out_bytes = n;
    }
    end_encoder(&e);
    free(valid);
    return rc;
}
