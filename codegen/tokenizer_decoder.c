/*
 * tokenizer_decoder.c - decoder: see tokenizer_build.h.
 *
 * What is done to each token alone is done here, once; runs of byte tokens and the strip at the
 * left end are the runtime's.
 */
#include "tokenizer_build.h"

#include "json.h"

#include <stdlib.h>
#include <string.h>

typedef struct {
    bool fused, stripped;
} order;

static int add_step(sc_packer *p, sc_pack_decode step) {
    if (p->decodes == SC_TOKENIZER_DECODE_MAX)
        return sc_pack_wrong(p, "decoder", "has more than 8 parts");
    p->decode[p->decodes++] = step;
    return 0;
}

static int read_replace(sc_packer *p, const cJSON *decoder) {
    const char *from = sc_pack_string(sc_json_get(decoder, "pattern"), "String");
    const char *to = sc_pack_string(decoder, "content");
    if (!from || !*from || !to)
        return sc_pack_unsupported(p, "decoder.pattern", "no String", "only a String is");
    return add_step(p, (sc_pack_decode){ SC_DECODE_REPLACE, from, to, false });
}

static int read_metaspace(sc_packer *p, const cJSON *decoder) {
    const char *from = sc_pack_string(decoder, "replacement");
    const char *scheme = sc_pack_string(decoder, "prepend_scheme");
    if (!from || !*from)
        return sc_pack_wrong(p, "decoder.replacement", "is missing");
    return add_step(p, (sc_pack_decode){ SC_DECODE_METASPACE, from, " ",
                                         !scheme || strcmp(scheme, "never") != 0 });
}

static int read_strip(sc_packer *p, const cJSON *decoder, order *o) {
    const char *content = sc_pack_string(decoder, "content");
    int64_t start = 0, stop = 0;
    if (!o->fused || o->stripped)
        return sc_pack_unsupported(p, "decoder.type", "Strip", "only once, and behind Fuse, it is");
    if (!content || !*content || !sc_json_int(sc_json_get(decoder, "start"), &start) ||
        !sc_json_int(sc_json_get(decoder, "stop"), &stop) || start < 0 || start > 1024)
        return sc_pack_wrong(p, "decoder", "a Strip lacks content, start or stop");
    if (stop != 0)
        return sc_pack_unsupported(p, "decoder.stop", "not 0", "only 0 is");
    o->stripped = true;
    p->header.strip_left = (uint32_t)start;
    p->header.strip_bytes = (uint32_t)strlen(content);
    return sc_pack_text_add(p, content, strlen(content), &p->header.strip_at);
}

static int read_part(sc_packer *p, const cJSON *decoder, order *o) {
    const char *type = sc_pack_type(decoder);
    if (strcmp(type, "Sequence") == 0) {
        const cJSON *list = sc_json_get(decoder, "decoders");
        int rc = 0;
        for (const cJSON *item = list ? list->child : NULL; rc == 0 && item; item = item->next)
            rc = read_part(p, item, o);
        return rc;
    }
    if (strcmp(type, "Strip") == 0)
        return read_strip(p, decoder, o);
    if (strcmp(type, "Fuse") == 0) {
        o->fused = true;
        return 0;
    }
    if (o->fused || (p->byte_fallback_at >= 0 && strcmp(type, "Metaspace") != 0))
        return sc_pack_unsupported(p, "decoder.type", type,
                                   "only before ByteFallback and Fuse it is");
    if (strcmp(type, "ByteFallback") == 0)
        p->byte_fallback_at = p->decodes;
    else if (strcmp(type, "ByteLevel") == 0)
        return add_step(p, (sc_pack_decode){ SC_DECODE_BYTES, NULL, NULL, false });
    else if (strcmp(type, "Replace") == 0)
        return read_replace(p, decoder);
    else if (strcmp(type, "Metaspace") == 0)
        return read_metaspace(p, decoder);
    else
        return sc_pack_unsupported(p, "decoder.type", type,
                                   "ByteLevel, Metaspace, Replace, ByteFallback, Fuse, Strip and "
                                   "a Sequence of them are");
    return 0;
}

int sc_pack_decoder(sc_packer *p, const cJSON *decoder) {
    order o = { false, false };
    p->byte_fallback_at = -1;
    if (decoder && !cJSON_IsNull(decoder))
        return read_part(p, decoder, &o);
    p->header.flags |= SC_TOKENIZER_JOIN_SPACES;
    return 0;
}

/* ---- tokens ---- */

typedef struct {
    char *bytes;
    size_t count;
} piece;

static int replace(sc_packer *p, piece *in, const char *from, const char *to) {
    const size_t from_bytes = strlen(from), to_bytes = strlen(to);
    char *out = malloc(in->count / from_bytes * to_bytes + in->count + 1);
    size_t count = 0;
    if (!out)
        return sc_pack_no_memory(p);
    for (size_t i = 0; i < in->count;) {
        if (in->count - i >= from_bytes && memcmp(in->bytes + i, from, from_bytes) == 0) {
            memcpy(out + count, to, to_bytes);
            count += to_bytes;
            i += from_bytes;
        } else
            out[count++] = in->bytes[i++];
    }
    free(in->bytes);
    *in = (piece){ out, count };
    return 0;
}

/* A character of at most two bytes as its byte, or -1: it is none of the alphabet. */
static int alphabet_byte(const sc_packer *p, const char *text, size_t n, size_t *length) {
    const unsigned char *s = (const unsigned char *)text;
    unsigned code = s[0];
    *length = 1;
    if (code >= 0x80) {
        if (n < 2 || (s[0] & 0xE0) != 0xC0 || (s[1] & 0xC0) != 0x80)
            return -1;
        code = (s[0] & 0x1Fu) << 6 | (s[1] & 0x3Fu);
        *length = 2;
    }
    return code < 512 ? p->byte_of[code] : -1;
}

/* Letters to bytes; a token with a character beyond the alphabet stands for itself. */
static void to_bytes(const sc_packer *p, piece *in) {
    size_t step = 0, count = 0;
    for (size_t i = 0; i < in->count; i += step)
        if (alphabet_byte(p, in->bytes + i, in->count - i, &step) < 0)
            return;
    for (size_t i = 0; i < in->count; i += step)
        in->bytes[count++] = (char)alphabet_byte(p, in->bytes + i, in->count - i, &step);
    in->count = count;
}

static int apply(sc_packer *p, piece *in, int from, int to, bool first) {
    int rc = 0;
    for (int i = from; rc == 0 && i < to; i++) {
        const sc_pack_decode *d = &p->decode[i];
        if (d->kind == SC_DECODE_BYTES)
            to_bytes(p, in);
        else
            rc = replace(p, in, d->from, first && d->drops ? "" : d->to);
    }
    return rc;
}

static int hex(char c) {
    return c >= '0' && c <= '9'   ? c - '0'
           : c >= 'A' && c <= 'F' ? c - 'A' + 10
           : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                  : -1;
}

/* <0xAB> is one byte; whatever comes behind ByteFallback does not see it. */
static bool is_byte(piece *in) {
    if (in->count != 6 || memcmp(in->bytes, "<0x", 3) != 0 || in->bytes[5] != '>' ||
        hex(in->bytes[3]) < 0 || hex(in->bytes[4]) < 0)
        return false;
    in->bytes[0] = (char)(hex(in->bytes[3]) * 16 + hex(in->bytes[4]));
    in->count = 1;
    return true;
}

static int decoded(sc_packer *p, uint32_t id, bool first, uint32_t *at, uint32_t *bytes) {
    const size_t count = strlen(p->content[id]);
    piece in = { malloc(count + 1), count };
    int rc = in.bytes ? 0 : sc_pack_no_memory(p);
    int done = 0;
    if (rc == 0)
        memcpy(in.bytes, p->content[id], count);
    if (rc == 0 && p->byte_fallback_at >= 0) {
        done = p->byte_fallback_at;
        rc = apply(p, &in, 0, done, first);
        if (rc == 0 && is_byte(&in)) {
            p->token[id].flags |= SC_TOKEN_BYTE;
            done = p->decodes;
        }
    }
    if (rc == 0)
        rc = apply(p, &in, done, p->decodes, first);
    if (rc == 0)
        rc = sc_pack_text_add(p, in.bytes, in.count, at);
    *bytes = (uint32_t)in.count;
    free(in.bytes);
    return rc;
}

int sc_pack_decoded(sc_packer *p) {
    bool drops = false;
    int rc = 0;
    for (int i = 0; i < p->decodes; i++)
        drops = drops || p->decode[i].drops;
    for (uint32_t id = 0; rc == 0 && id < p->header.token.count; id++) {
        sc_token_record *t = &p->token[id];
        if (!p->content[id])
            continue;
        rc = decoded(p, id, false, &t->at, &t->bytes);
        t->first_at = t->at;
        t->first_bytes = t->bytes;
        if (rc == 0 && drops && !(t->flags & SC_TOKEN_BYTE))
            rc = decoded(p, id, true, &t->first_at, &t->first_bytes);
    }
    return rc;
}
