/* tokenizer_pack.c - see tokenizer_pack.h. */
#include "tokenizer_pack.h"

#include "../runtime/tokenizer.h"
#include "json.h"
#include "tokenizer_build.h"

#include <stdlib.h>
#include <string.h>

#define TEXT_MAX ((size_t)1 << 30)

int sc_pack_no_memory(sc_packer *p) {
    return sc_fail(p->err, SC_EENV, "%s: out of memory", p->file);
}

int sc_pack_wrong(sc_packer *p, const char *key, const char *what) {
    return sc_fail(p->err, SC_EINPUT, "%s: %s: %s (take the model's published tokenizer.json)",
                   p->file, key, what);
}

int sc_pack_unsupported(sc_packer *p, const char *key, const char *value, const char *instead) {
    return sc_fail(p->err, SC_EINPUT, "%s: %s: \"%.256s\" is not supported (%s)", p->file, key,
                   sc_json_printable(value), instead);
}

/* ---- JSON ---- */

const char *sc_pack_string(const cJSON *object, const char *key) {
    const cJSON *item = sc_json_get(object, key);
    return cJSON_IsString(item) ? item->valuestring : NULL;
}

const char *sc_pack_type(const cJSON *part) {
    const char *type = sc_pack_string(part, "type");
    return type ? type : "null";
}

bool sc_pack_bool(const cJSON *object, const char *key, bool otherwise) {
    const cJSON *item = sc_json_get(object, key);
    return cJSON_IsBool(item) ? cJSON_IsTrue(item) : otherwise;
}

int sc_pack_id(sc_packer *p, const cJSON *item, const char *key, uint32_t *id) {
    int64_t value;
    if (!sc_json_int(item, &value) || value < 0 || value >= SC_TOKENIZER_IDS_MAX)
        return sc_pack_wrong(p, key, "an id is no integer from 0 to 4194303");
    *id = (uint32_t)value;
    return 0;
}

/* ---- the text section ---- */

int sc_pack_reserve(sc_packer *p, size_t more) {
    sc_pack_text *t = &p->text;
    if (more < t->room - t->count)
        return 0;
    if (more > TEXT_MAX - t->count)
        return sc_pack_wrong(p, "model.vocab", "more than 1 GiB of text");
    const size_t room = t->count + more + t->room / 2 + 4096;
    char *bytes = realloc(t->bytes, room);
    if (!bytes)
        return sc_pack_no_memory(p);
    t->bytes = bytes;
    t->room = room;
    return 0;
}

int sc_pack_text_add(sc_packer *p, const char *bytes, size_t count, uint32_t *at) {
    const int rc = sc_pack_reserve(p, count);
    if (rc != 0)
        return rc;
    *at = (uint32_t)p->text.count;
    if (count > 0)
        memcpy(p->text.bytes + p->text.count, bytes, count);
    p->text.count += count;
    return 0;
}

static void fill_alphabet(sc_packer *p) {
    memset(p->byte_of, -1, sizeof p->byte_of);
    int next = 256;
    for (int b = 0; b < 256; b++) {
        const bool itself = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
        p->byte_of[itself ? b : next++] = (int16_t)b;
    }
}

/* ---- the image ---- */

typedef struct {
    sc_section *section;
    const void *from;
    size_t size;
} part;

static int write_image(sc_packer *p, unsigned char **image, size_t *bytes) {
    sc_tokenizer_header *h = &p->header;
    part parts[] = {
        { &h->token, p->token, sizeof *p->token },
        { &h->merge, p->merge, sizeof *p->merge },
        { &h->rank, p->rank, sizeof *p->rank },
        { &h->score, p->score, sizeof *p->score },
        { &h->pair, p->pair, sizeof *p->pair },
        { &h->trie[SC_TRIE_VOCAB], p->trie[SC_TRIE_VOCAB], sizeof(sc_trie_record) },
        { &h->trie[SC_TRIE_ADDED], p->trie[SC_TRIE_ADDED], sizeof(sc_trie_record) },
        { &h->trie[SC_TRIE_NORMALIZED], p->trie[SC_TRIE_NORMALIZED], sizeof(sc_trie_record) },
        { &h->step, p->step, sizeof *p->step },
        { &h->text, p->text.bytes, 1 },
    };
    const size_t count = sizeof parts / sizeof *parts;
    uint64_t end = (sizeof *h + 7) / 8 * 8;
    memcpy(h->magic, SC_TOKENIZER_MAGIC, 8);
    h->text.count = p->text.count;
    for (size_t i = 0; i < count; i++) {
        parts[i].section->at = end;
        end = (end + parts[i].section->count * parts[i].size + 7) / 8 * 8;
    }
    h->bytes = end;
    unsigned char *out = calloc(1, end);
    if (!out)
        return sc_pack_no_memory(p);
    for (size_t i = 0; i < count; i++)
        if (parts[i].section->count > 0)
            memcpy(out + parts[i].section->at, parts[i].from,
                   parts[i].section->count * parts[i].size);
    memcpy(out, h, sizeof *h);
    h->checksum = sc_tokenizer_checksum(out + 16, end - 16);
    memcpy(out, h, sizeof *h);
    *image = out;
    *bytes = end;
    return 0;
}

/* Added tokens that are sought in normalised text are normalised, and decode to that. */
static int normalize_keys(sc_packer *p, const sc_tokenizer *t) {
    sc_pack_keys *keys = &p->keys[SC_TRIE_NORMALIZED];
    size_t left = 0;
    p->normalized = calloc(keys->count, sizeof *p->normalized);
    if (!p->normalized)
        return sc_pack_no_memory(p);
    for (size_t i = 0; i < keys->count; i++) {
        sc_pack_key key = keys->key[i];
        char **made = &p->normalized[p->normalized_count];
        const int rc = sc_tokenizer_normalize(t, key.text, key.bytes, made, &key.bytes, p->err);
        if (rc != 0)
            return rc;
        p->normalized_count++;
        key.text = p->content[key.id] = *made;
        if (key.bytes > 0)
            keys->key[left++] = key;
    }
    keys->count = left;
    return 0;
}

/* An image without them is what normalises them. */
static int normalize_added(sc_packer *p) {
    unsigned char *image = NULL;
    size_t bytes = 0;
    sc_tokenizer *t = NULL;
    int rc = write_image(p, &image, &bytes);
    if (rc == 0)
        rc = sc_tokenizer_open_image(&t, image, bytes, p->file, p->err);
    if (rc == 0)
        rc = normalize_keys(p, t);
    sc_tokenizer_close(t);
    free(image);
    return rc;
}

/* Opens what it wrote, so that what the runtime refuses is refused here already. */
static int make_image(sc_packer *p, unsigned char **image, size_t *bytes) {
    sc_tokenizer *t = NULL;
    int rc = 0;
    if (p->keys[SC_TRIE_NORMALIZED].count > 0 && p->header.normalizers > 0)
        rc = normalize_added(p);
    if (rc == 0)
        rc = sc_pack_decoded(p);
    if (rc == 0)
        rc = sc_pack_trie(p, SC_TRIE_NORMALIZED);
    if (rc == 0)
        rc = write_image(p, image, bytes);
    if (rc == 0)
        rc = sc_tokenizer_open_image(&t, *image, *bytes, p->file, p->err);
    sc_tokenizer_close(t);
    return rc;
}

static int read_all(sc_packer *p, const cJSON *tokenizer) {
    int rc = sc_pack_normalizer(p, sc_json_get(tokenizer, "normalizer"));
    if (rc == 0)
        rc = sc_pack_pre_tokenizer(p, sc_json_get(tokenizer, "pre_tokenizer"));
    if (rc == 0)
        rc = sc_pack_decoder(p, sc_json_get(tokenizer, "decoder"));
    if (rc == 0)
        rc = sc_pack_model(p, tokenizer);
    if (rc == 0)
        rc = sc_pack_post_processor(p, sc_json_get(tokenizer, "post_processor"));
    return rc == 0 ? sc_pack_trie(p, SC_TRIE_ADDED) : rc;
}

static void release(sc_packer *p) {
    for (size_t i = 0; i < p->normalized_count; i++)
        free(p->normalized[i]);
    free(p->normalized);
    for (int i = 0; i < SC_TRIES; i++) {
        free(p->keys[i].key);
        free(p->trie[i]);
    }
    free(p->pair);
    free(p->score);
    free(p->rank);
    free(p->merge);
    free(p->name);
    free(p->content);
    free(p->token);
    free(p->text.bytes);
}

int sc_tokenizer_pack(unsigned char **image, size_t *bytes, const cJSON *tokenizer,
                      const char *file, sc_error *err) {
    sc_packer p = { .file = file, .err = err };
    unsigned char *made = NULL;
    size_t made_bytes = 0;
    fill_alphabet(&p);
    int rc = cJSON_IsObject(tokenizer) ? read_all(&p, tokenizer)
                                       : sc_fail(err, SC_EINPUT,
                                                 "%s: is no object (take the "
                                                 "model's published tokenizer.json)",
                                                 file);
    if (rc == 0)
        rc = make_image(&p, &made, &made_bytes);
    if (rc == 0) {
        *image = made;
        *bytes = made_bytes;
    } else
        free(made);
    release(&p);
    return rc;
}
