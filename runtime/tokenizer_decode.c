/* tokenizer_decode.c - ids to text: see tokenizer.h. */
#include "tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

struct sc_decoder {
    const sc_tokenizer *t;
    bool keep_special, continues;
    bool first;          /* no token has come yet */
    uint32_t strip_left; /* how many strip characters may still go */
    sc_text run;         /* byte tokens since the last other one */
    sc_text out;
    sc_utf8_stream stream;
};

static void begin(sc_decoder *d) {
    d->first = !d->continues;
    d->strip_left = d->continues ? 0 : d->t->header->strip_left;
    d->run.count = 0;
    d->stream.count = 0;
}

int sc_decoder_create(sc_decoder **out, const sc_tokenizer *t, bool keep_special, bool continues,
                      sc_error *err) {
    sc_decoder *d = calloc(1, sizeof *d);
    if (!d)
        return sc_fail(err, SC_EENV, "tokenizer: out of memory");
    d->t = t;
    d->keep_special = keep_special;
    d->continues = continues;
    begin(d);
    *out = d;
    return 0;
}

void sc_decoder_destroy(sc_decoder *d) {
    if (!d)
        return;
    free(d->run.bytes);
    free(d->out.bytes);
    free(d);
}

/* Takes strip characters off the text's left end, then puts whole characters out. */
static int put(sc_decoder *d, const char *bytes, size_t n) {
    const sc_tokenizer_header *h = d->t->header;
    while (d->strip_left > 0 && n > 0) {
        if (n < h->strip_bytes || memcmp(bytes, d->t->text + h->strip_at, h->strip_bytes) != 0) {
            d->strip_left = 0;
            break;
        }
        d->strip_left--;
        bytes += h->strip_bytes;
        n -= h->strip_bytes;
    }
    if (sc_text_reserve(&d->out, 3 * n + 3) != 0)
        return SC_EENV;
    d->out.count += sc_utf8_push(&d->stream, bytes, n, d->out.bytes + d->out.count);
    return 0;
}

/* A run of byte tokens that is no UTF-8 as a whole is a U+FFFD for each of them. */
static int end_run(sc_decoder *d) {
    const size_t n = d->run.count;
    int rc = 0;
    d->run.count = 0;
    if (sc_utf8_valid(d->run.bytes, n))
        return n > 0 ? put(d, d->run.bytes, n) : 0;
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = put(d, "\xEF\xBF\xBD", 3);
    return rc;
}

static int push(sc_decoder *d, const sc_token_record *token) {
    const char *text = d->t->text;
    const bool first = d->first;
    if (token->flags & SC_TOKEN_BYTE) {
        d->first = false;
        return sc_text_add(&d->run, text + token->at, token->bytes);
    }
    int rc = end_run(d);
    if (rc == 0 && !first && (d->t->header->flags & SC_TOKENIZER_JOIN_SPACES))
        rc = put(d, " ", 1);
    d->first = false;
    if (rc == 0)
        rc = first ? put(d, text + token->first_at, token->first_bytes)
                   : put(d, text + token->at, token->bytes);
    return rc;
}

static int answer(sc_decoder *d, int rc, const char **text, size_t *bytes, sc_error *err) {
    if (rc != 0)
        return sc_fail(err, SC_EENV, "tokenizer: out of memory");
    *text = d->out.count > 0 ? d->out.bytes : "";
    *bytes = d->out.count;
    return 0;
}

int sc_decoder_push(sc_decoder *d, int32_t id, const char **text, size_t *bytes, sc_error *err) {
    int rc = 0;
    d->out.count = 0;
    if (id >= 0 && id < sc_tokenizer_size(d->t)) {
        const sc_token_record *token = &d->t->token[id];
        const bool hidden = (token->flags & SC_TOKEN_SPECIAL) && !d->keep_special;
        if (!hidden && !(token->flags & SC_TOKEN_ABSENT))
            rc = push(d, token);
    }
    return answer(d, rc, text, bytes, err);
}

int sc_decoder_end(sc_decoder *d, const char **text, size_t *bytes, sc_error *err) {
    d->out.count = 0;
    int rc = end_run(d);
    if (rc == 0)
        rc = sc_text_reserve(&d->out, 3);
    if (rc == 0)
        d->out.count += sc_utf8_flush(&d->stream, d->out.bytes + d->out.count);
    begin(d);
    return answer(d, rc, text, bytes, err);
}
