/* tokenizer.c - opening a packed tokenizer: see tokenizer.h and tokenizer_parts.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tokenizer_parts.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#error "the tokenizer file is little-endian and used as it lies"
#endif

#define NONE SC_TOKENIZER_NONE

uint64_t sc_tokenizer_pair_hash(uint32_t left, uint32_t right) {
    uint64_t x = ((uint64_t)left << 32 | right) * UINT64_C(0x9E3779B97F4A7C15);
    x ^= x >> 32;
    x *= UINT64_C(0xD6E8FEB86659FD93);
    return x ^ x >> 32;
}

uint64_t sc_tokenizer_pair_bit(int32_t left, int32_t right, uint64_t bits) {
    return sc_tokenizer_pair_hash((uint32_t)left, (uint32_t)right) & (bits - 1);
}

uint64_t sc_tokenizer_checksum(const void *data, size_t bytes) {
    const unsigned char *p = data;
    uint64_t sum = UINT64_C(0xCBF29CE484222325);
    for (size_t i = 0; i < bytes; i++)
        sum = (sum ^ p[i]) * UINT64_C(0x100000001B3);
    return sum;
}

static int damaged(const char *path, const char *what, sc_error *err) {
    return sc_fail(err, SC_EINPUT, "%s: %s: damaged tokenizer file (export again)", path, what);
}

/* Whether the section's records of that size lie inside the file. */
static bool section_fits(const sc_tokenizer *t, const sc_section *s, size_t size) {
    return s->at % 8 == 0 && s->at >= sizeof *t->header && s->at <= t->bytes &&
           s->count <= (t->bytes - s->at) / size && s->count < INT32_MAX;
}

static bool text_fits(const sc_tokenizer *t, uint32_t at, uint32_t bytes) {
    return at <= t->header->text.count && bytes <= t->header->text.count - at;
}

/* A hash table: a power of two of slots, and an empty one, or a search would not end. */
static bool power_of_two(uint64_t n) { return n > 0 && (n & (n - 1)) == 0; }

static bool ids_fit(const sc_tokenizer *t, const uint32_t *ids, uint64_t count, bool or_none) {
    for (uint64_t i = 0; i < count; i++)
        if (ids[i] >= t->header->token.count && !(or_none && ids[i] == NONE))
            return false;
    return true;
}

static bool tokens_fit(const sc_tokenizer *t) {
    for (uint64_t i = 0; i < t->header->token.count; i++) {
        const sc_token_record *r = &t->token[i];
        if (!text_fits(t, r->at, r->bytes) || !text_fits(t, r->first_at, r->first_bytes) ||
            ((r->flags & SC_TOKEN_BYTE) && r->bytes != 1))
            return false;
        if ((r->flags & SC_TOKEN_SINGLE_WORD) && !(t->header->flags & SC_TOKENIZER_WORDS))
            return false;
    }
    return true;
}

static bool merges_fit(const sc_tokenizer *t) {
    uint64_t empty = 0;
    for (uint64_t i = 0; i < t->header->merge.count; i++) {
        const sc_merge_record *m = &t->merge[i];
        if (m->left == NONE)
            empty++;
        else if (!ids_fit(t, &m->left, 1, false) || !ids_fit(t, &m->right, 1, false) ||
                 !ids_fit(t, &m->id, 1, false))
            return false;
    }
    return empty > 0;
}

/* What the model needs of its own, one record per token where that is said. */
static bool model_fits(const sc_tokenizer *t) {
    const sc_tokenizer_header *h = t->header;
    switch ((sc_model_kind)h->model) {
    case SC_MODEL_BPE:
        return power_of_two(h->pair.count) && power_of_two(h->merge.count) && merges_fit(t);
    case SC_MODEL_SPM:
        return power_of_two(h->pair.count) && h->rank.count == h->token.count;
    case SC_MODEL_UNIGRAM:
        return h->score.count == h->token.count;
    default:
        return false;
    }
}

/* Children lie behind their parents, in the order of their bytes; fills the root's table. */
static bool trie_fits(sc_tokenizer *t, sc_trie *trie, const sc_section *s) {
    trie->node = (const sc_trie_record *)(t->base + s->at);
    for (uint64_t i = 0; i < s->count; i++) {
        const sc_trie_record *r = &trie->node[i];
        if (!ids_fit(t, &r->id, 1, true) || r->count > 256 ||
            (r->count > 0 &&
             (r->first <= i || r->first >= s->count || r->count > s->count - r->first)))
            return false;
        for (uint32_t k = 1; k < r->count; k++)
            if (trie->node[r->first + k - 1].byte >= trie->node[r->first + k].byte)
                return false;
    }
    for (uint32_t k = 0; s->count > 0 && k < trie->node[0].count; k++)
        trie->root[trie->node[trie->node[0].first + k].byte] = trie->node[0].first + k;
    return true;
}

/* Steps that split come behind those that normalise; what they look for is not empty. */
static bool steps_fit(const sc_tokenizer *t) {
    const sc_tokenizer_header *h = t->header;
    if (h->step.count > SC_TOKENIZER_STEPS_MAX || h->normalizers > h->step.count)
        return false;
    for (uint64_t i = 0; i < h->step.count; i++) {
        const sc_step_record *s = &t->step[i];
        if (s->kind >= SC_STEP_COUNT || !text_fits(t, s->at, s->bytes) ||
            !text_fits(t, s->to_at, s->to_bytes))
            return false;
        if (s->kind == SC_STEP_SPLIT &&
            (i < h->normalizers || (s->how & SC_SPLIT_MASK) >= SC_SPLIT_COUNT))
            return false;
        if ((s->kind == SC_STEP_SPLIT || s->kind == SC_STEP_REPLACE) && s->bytes == 0)
            return false;
        if (s->kind == SC_STEP_CHARSMAP &&
            !sc_charsmap_fits((const unsigned char *)t->text + s->at, s->bytes))
            return false;
    }
    return true;
}

/* Whatever strings are put into a text must be text themselves, or offsets would go astray. */
static bool strings_are_text(const sc_tokenizer *t) {
    for (uint64_t i = 0; i < t->header->step.count; i++) {
        const sc_step_record *s = &t->step[i];
        if (!sc_utf8_valid(t->text + s->to_at, s->to_bytes) ||
            (s->kind != SC_STEP_CHARSMAP && !sc_utf8_valid(t->text + s->at, s->bytes)))
            return false;
    }
    return true;
}

static bool sections_fit(const sc_tokenizer *t) {
    const sc_tokenizer_header *h = t->header;
    bool good = section_fits(t, &h->token, sizeof *t->token) &&
                section_fits(t, &h->merge, sizeof *t->merge) &&
                section_fits(t, &h->rank, sizeof *t->rank) &&
                section_fits(t, &h->score, sizeof *t->score) &&
                section_fits(t, &h->pair, sizeof *t->pair) &&
                section_fits(t, &h->step, sizeof *t->step) && section_fits(t, &h->text, 1);
    for (int i = 0; i < SC_TRIES; i++)
        good = good && section_fits(t, &h->trie[i], sizeof(sc_trie_record));
    return good && h->prefix_count <= SC_TOKENIZER_SPECIALS_MAX &&
           h->suffix_count <= SC_TOKENIZER_SPECIALS_MAX;
}

static int check_file(sc_tokenizer *t, const char *path, sc_error *err) {
    if (t->bytes < sizeof *t->header || memcmp(t->base, SC_TOKENIZER_MAGIC, 8) != 0)
        return sc_fail(err, SC_EINPUT, "%s: is no tokenizer file of this version (export again)",
                       path);
    const sc_tokenizer_header *h = t->header = (const sc_tokenizer_header *)t->base;
    if (h->bytes != t->bytes)
        return damaged(path, "size", err);
    if (h->checksum != sc_tokenizer_checksum(t->base + 16, t->bytes - 16))
        return damaged(path, "checksum", err);
    if (!sections_fit(t))
        return damaged(path, "header", err);
    t->token = (const sc_token_record *)(t->base + h->token.at);
    t->merge = (const sc_merge_record *)(t->base + h->merge.at);
    t->rank = (const uint32_t *)(t->base + h->rank.at);
    t->score = (const double *)(t->base + h->score.at);
    t->pair = (const uint64_t *)(t->base + h->pair.at);
    t->step = (const sc_step_record *)(t->base + h->step.at);
    t->text = (const char *)(t->base + h->text.at);
    if (!tokens_fit(t) || !text_fits(t, h->strip_at, h->strip_bytes) ||
        (h->strip_left > 0 && h->strip_bytes == 0))
        return damaged(path, "tokens", err);
    if (!steps_fit(t) || !strings_are_text(t))
        return damaged(path, "steps", err);
    if (!ids_fit(t, h->byte_id, 256, true) || !ids_fit(t, h->prefix, h->prefix_count, false) ||
        !ids_fit(t, h->suffix, h->suffix_count, false) || !ids_fit(t, &h->unk, 1, true) ||
        !model_fits(t))
        return damaged(path, "ids", err);
    for (int i = 0; i < SC_TRIES; i++)
        if (!trie_fits(t, &t->trie[i], &h->trie[i]))
            return damaged(path, "tries", err);
    return 0;
}

static int map_file(sc_tokenizer *t, const char *path, sc_error *err) {
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return sc_fail(err, errno == ENOENT ? SC_EINPUT : SC_EENV, "%s: %s", path, strerror(errno));
    struct stat info;
    int rc = 0;
    if (fstat(file, &info) != 0)
        rc = sc_fail(err, SC_EENV, "%s: %s", path, strerror(errno));
    else if (!S_ISREG(info.st_mode) || info.st_size < (off_t)sizeof(sc_tokenizer_header))
        rc = sc_fail(err, SC_EINPUT, "%s: is no tokenizer file (export again)", path);
    else {
        void *base = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, file, 0);
        if (base == MAP_FAILED)
            rc = sc_fail(err, SC_EENV, "%s: mmap: %s", path, strerror(errno));
        else {
            t->mapped = base;
            t->base = base;
            t->bytes = (size_t)info.st_size;
        }
    }
    close(file);
    return rc;
}

static int open_checked(sc_tokenizer **out, sc_tokenizer *t, int rc, const char *path,
                        sc_error *err) {
    if (rc == 0)
        rc = check_file(t, path, err);
    if (rc == 0)
        rc = sc_match_open(t, path, err);
    if (rc == 0)
        *out = t;
    else
        sc_tokenizer_close(t);
    return rc;
}

int sc_tokenizer_open(sc_tokenizer **out, const char *path, sc_error *err) {
    sc_tokenizer *t = calloc(1, sizeof *t);
    if (!t)
        return sc_fail(err, SC_EENV, "%s: out of memory", path);
    return open_checked(out, t, map_file(t, path, err), path, err);
}

int sc_tokenizer_open_image(sc_tokenizer **out, const void *image, size_t bytes, const char *name,
                            sc_error *err) {
    sc_tokenizer *t = calloc(1, sizeof *t);
    if (!t)
        return sc_fail(err, SC_EENV, "%s: out of memory", name);
    t->base = image;
    t->bytes = bytes;
    return open_checked(out, t, 0, name, err);
}

void sc_tokenizer_close(sc_tokenizer *t) {
    if (!t)
        return;
    sc_match_close(t);
    if (t->mapped)
        munmap(t->mapped, t->bytes);
    free(t);
}

bool sc_tokenizer_is_special(const sc_tokenizer *t, int32_t id) {
    return id >= 0 && id < sc_tokenizer_size(t) && (t->token[id].flags & SC_TOKEN_SPECIAL);
}

int32_t sc_tokenizer_size(const sc_tokenizer *t) { return (int32_t)t->header->token.count; }
