/* tokenizer_vocab.c - the model's tokens and the added ones: see tokenizer_build.h. */
#include "tokenizer_build.h"

#include "../runtime/tokenizer_parts.h"
#include "json.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NONE SC_TOKENIZER_NONE

/* One entry of the vocabulary: {"token": id} of BPE, or ["token", score] with its place as id. */
typedef struct {
    const char *name; /* NULL: this place has no token */
    uint32_t id;
    double score;
} entry;

static int read_entry(sc_packer *p, const cJSON *item, bool list, uint32_t place, entry *e) {
    *e = (entry){ item->string, place, 0 };
    if (!list)
        return sc_pack_id(p, item, "model.vocab", &e->id);
    if (cJSON_IsNull(item))
        return 0;
    if (!cJSON_IsArray(item) || cJSON_GetArraySize(item) != 2 || !cJSON_IsString(item->child) ||
        !cJSON_IsNumber(item->child->next))
        return sc_pack_wrong(p, "model.vocab", "an entry is no pair of a token and its score");
    e->name = item->child->valuestring;
    e->score = item->child->next->valuedouble;
    if (!isfinite(e->score))
        return sc_pack_wrong(p, "model.vocab", "a score is not finite");
    return 0;
}

sc_pack_name *sc_pack_find(const sc_packer *p, const char *name) {
    const size_t mask = p->name_slots - 1;
    size_t i = sc_tokenizer_checksum(name, strlen(name)) & mask;
    while (p->name[i].key && strcmp(p->name[i].key, name) != 0)
        i = (i + 1) & mask;
    return &p->name[i];
}

uint64_t sc_pack_slots(uint64_t count) {
    uint64_t slots = 16;
    while (slots < 2 * count + 1)
        slots *= 2;
    return slots;
}

/* The ids are 0 … count-1; the greatest one is sought first, so that the tables can be made. */
static int size_tokens(sc_packer *p, const cJSON *vocab, const cJSON *added) {
    uint32_t greatest = 0, names = 0;
    entry e;
    for (const cJSON *item = vocab->child; item; item = item->next) {
        const int rc = names >= SC_TOKENIZER_IDS_MAX
                           ? sc_pack_wrong(p, "model.vocab", "has more than 4194304 tokens")
                           : read_entry(p, item, cJSON_IsArray(vocab), names++, &e);
        if (rc != 0)
            return rc;
        greatest = e.id > greatest ? e.id : greatest;
    }
    if (names == 0)
        return sc_pack_wrong(p, "model.vocab", "is empty");
    for (const cJSON *item = added ? added->child : NULL; item; item = item->next) {
        const int rc = sc_pack_id(p, sc_json_get(item, "id"), "added_tokens", &e.id);
        if (rc != 0)
            return rc;
        greatest = e.id > greatest ? e.id : greatest;
    }
    const uint64_t count = p->header.token.count = (uint64_t)greatest + 1;
    p->name_slots = sc_pack_slots(names);
    p->token = calloc(count, sizeof *p->token);
    p->content = calloc(count, sizeof *p->content);
    p->name = calloc(p->name_slots, sizeof *p->name);
    p->score = calloc(count, sizeof *p->score);
    return p->token && p->content && p->name && p->score ? 0 : sc_pack_no_memory(p);
}

static int twice(sc_packer *p, const char *key, uint32_t id) {
    return sc_fail(p->err, SC_EINPUT,
                   "%s: %s: id %u stands for two tokens (take the model's "
                   "published tokenizer.json)",
                   p->file, key, id);
}

static int read_vocab(sc_packer *p, const cJSON *vocab) {
    uint32_t place = 0;
    p->header.min_score = INFINITY;
    for (const cJSON *item = vocab->child; item; item = item->next) {
        entry e;
        int rc = read_entry(p, item, cJSON_IsArray(vocab), place++, &e);
        if (rc == 0 && !e.name)
            continue;
        if (rc == 0 && p->content[e.id])
            rc = twice(p, "model.vocab", e.id);
        if (rc == 0)
            rc = sc_pack_key_add(p, SC_TRIE_VOCAB, e.name, strlen(e.name), e.id);
        if (rc != 0)
            return rc;
        p->content[e.id] = e.name;
        p->score[e.id] = e.score;
        p->header.min_score = fmin(p->header.min_score, e.score);
        if (strlen(e.name) > p->header.longest)
            p->header.longest = (uint32_t)strlen(e.name);
        *sc_pack_find(p, e.name) = (sc_pack_name){ e.name, e.id };
    }
    for (int b = 0; b < 256; b++) {
        char name[8];
        snprintf(name, sizeof name, "<0x%02X>", b);
        const sc_pack_name *found = sc_pack_find(p, name);
        p->header.byte_id[b] = found->key ? found->id : NONE;
    }
    return 0;
}

/* Notes which characters stand side by side in tokens, for cutting long words. */
static int read_pairs(sc_packer *p) {
    const sc_pack_keys *keys = &p->keys[SC_TRIE_VOCAB];
    uint64_t bytes = 0, bits = 64;
    for (size_t i = 0; i < keys->count; i++)
        bytes += keys->key[i].bytes;
    while (bits < 4 * bytes && bits < SC_TOKENIZER_PAIR_BITS_MAX)
        bits *= 2;
    p->header.pair.count = bits / 64;
    p->pair = calloc(p->header.pair.count, sizeof *p->pair);
    if (!p->pair)
        return sc_pack_no_memory(p);
    for (size_t i = 0; i < keys->count; i++) {
        const sc_pack_key *key = &keys->key[i];
        int32_t left = 0, right = 0;
        size_t at = sc_utf8_code(key->text, &left);
        for (; at < key->bytes; left = right) {
            at += sc_utf8_code(key->text + at, &right);
            const uint64_t bit = sc_tokenizer_pair_bit(left, right, bits);
            p->pair[bit / 64] |= (uint64_t)1 << bit % 64;
        }
    }
    return 0;
}

/* ---- added tokens ---- */

static uint32_t added_flags(const cJSON *item, bool special) {
    return (special ? SC_TOKEN_SPECIAL : 0u) |
           (sc_pack_bool(item, "lstrip", false) ? SC_TOKEN_LSTRIP : 0u) |
           (sc_pack_bool(item, "rstrip", false) ? SC_TOKEN_RSTRIP : 0u) |
           (sc_pack_bool(item, "single_word", false) ? SC_TOKEN_SINGLE_WORD : 0u);
}

static int read_added_one(sc_packer *p, const cJSON *item, bool *seen) {
    uint32_t id = 0;
    const int rc = sc_pack_id(p, sc_json_get(item, "id"), "added_tokens", &id);
    const char *content = sc_pack_string(item, "content");
    if (rc != 0)
        return rc;
    if (!content)
        return sc_pack_wrong(p, "added_tokens", "one has no content");
    const sc_pack_name *known = sc_pack_find(p, content);
    if (seen[id] || (p->content[id] && strcmp(p->content[id], content) != 0))
        return twice(p, "added_tokens", id);
    if (!p->content[id] && known->key)
        return sc_pack_wrong(p, "added_tokens", "one has another id in model.vocab");
    seen[id] = true;
    const bool special = sc_pack_bool(item, "special", false);
    const bool normalized = sc_pack_bool(item, "normalized", !special);
    p->content[id] = content;
    p->token[id].flags = added_flags(item, special);
    if (p->token[id].flags & SC_TOKEN_SINGLE_WORD)
        p->header.flags |= SC_TOKENIZER_WORDS;
    return sc_pack_key_add(p, normalized ? SC_TRIE_NORMALIZED : SC_TRIE_ADDED, content,
                           strlen(content), id);
}

static int read_added(sc_packer *p, const cJSON *added) {
    bool *seen = calloc(p->header.token.count, sizeof *seen);
    int rc = seen ? 0 : sc_pack_no_memory(p);
    for (const cJSON *item = added ? added->child : NULL; rc == 0 && item; item = item->next)
        rc = read_added_one(p, item, seen);
    for (uint64_t id = 0; rc == 0 && id < p->header.token.count; id++)
        if (!p->content[id])
            p->token[id].flags = SC_TOKEN_ABSENT;
    free(seen);
    return rc;
}

/* ---- kinds of model ---- */

static int read_bpe(sc_packer *p, const cJSON *model) {
    static const char *const empty[] = { "continuing_subword_prefix", "end_of_word_suffix" };
    for (int i = 0; i < 2; i++) {
        const char *value = sc_pack_string(model, empty[i]);
        char key[48];
        snprintf(key, sizeof key, "model.%s", empty[i]);
        if (value && *value)
            return sc_pack_unsupported(p, key, value, "only null or \"\" is");
    }
    const cJSON *dropout = sc_json_get(model, "dropout");
    if (cJSON_IsNumber(dropout) && dropout->valuedouble != 0)
        return sc_pack_unsupported(p, "model.dropout", "not 0", "only null is");
    const char *unk = sc_pack_string(model, "unk_token");
    if (unk && *unk && !sc_pack_find(p, unk)->key)
        return sc_pack_wrong(p, "model.unk_token", "is not in model.vocab");
    if (unk && *unk)
        p->header.unk = sc_pack_find(p, unk)->id;
    p->header.flags |=
        (sc_pack_bool(model, "ignore_merges", false) ? SC_TOKENIZER_IGNORE_MERGES : 0u) |
        (sc_pack_bool(model, "fuse_unk", false) ? SC_TOKENIZER_FUSE_UNK : 0u);
    return sc_pack_merges(p, sc_json_get(model, "merges"));
}

static int read_unk_id(sc_packer *p, const cJSON *model, bool needed) {
    const cJSON *item = sc_json_get(model, "unk_id");
    if ((!item || cJSON_IsNull(item)) && !needed)
        return 0;
    uint32_t id = 0;
    const int rc = sc_pack_id(p, item, "model.unk_id", &id);
    if (rc == 0 && (id >= p->header.token.count || !p->content[id]))
        return sc_pack_wrong(p, "model.unk_id", "is no token's id");
    p->header.unk = id;
    return rc;
}

typedef struct {
    double score;
    uint32_t id;
} scored;

static int best_first(const void *a, const void *b) {
    const scored *x = a, *y = b;
    return x->score != y->score ? (x->score > y->score ? -1 : 1) : 0;
}

/* The best score is rank 0; equal ones share a rank, so that the place in the text decides. */
static int read_ranks(sc_packer *p) {
    const uint64_t count = p->header.token.count;
    scored *list = malloc(count * sizeof *list);
    p->rank = calloc(count, sizeof *p->rank);
    if (!list || !p->rank) {
        free(list);
        return sc_pack_no_memory(p);
    }
    for (uint32_t i = 0; i < count; i++)
        list[i] = (scored){ p->score[i], i };
    qsort(list, count, sizeof *list, best_first);
    uint32_t rank = 0;
    for (uint64_t i = 0; i < count; i++) {
        rank += i > 0 && list[i].score < list[i - 1].score;
        p->rank[list[i].id] = rank;
    }
    free(list);
    p->header.rank.count = count;
    return 0;
}

int sc_pack_model(sc_packer *p, const cJSON *tokenizer) {
    const cJSON *model = sc_json_get(tokenizer, "model"), *vocab = sc_json_get(model, "vocab"),
                *added = sc_json_get(tokenizer, "added_tokens");
    const char *type = sc_pack_string(model, "type");
    if (!type)
        type = cJSON_IsArray(vocab) ? "Unigram" : "BPE";
    const bool bpe = strcmp(type, "BPE") == 0, spm = strcmp(type, "slipcast_spm") == 0;
    if (!bpe && !spm && strcmp(type, "Unigram") != 0)
        return sc_pack_unsupported(p, "model.type", type,
                                   "BPE and Unigram are; pass ids instead of text");
    if (bpe ? !cJSON_IsObject(vocab) : !cJSON_IsArray(vocab))
        return sc_pack_wrong(p, "model.vocab", bpe ? "is no object" : "is no list");
    p->header.model = bpe ? SC_MODEL_BPE : spm ? SC_MODEL_SPM : SC_MODEL_UNIGRAM;
    p->header.unk = NONE;
    if (sc_pack_bool(model, "byte_fallback", spm))
        p->header.flags |= SC_TOKENIZER_BYTE_FALLBACK;
    int rc = size_tokens(p, vocab, added);
    if (rc == 0)
        rc = read_vocab(p, vocab);
    if (rc == 0 && (bpe || spm))
        rc = read_pairs(p);
    if (rc == 0 && bpe)
        rc = read_bpe(p, model);
    if (rc == 0 && spm)
        rc = read_ranks(p);
    if (p->header.model == SC_MODEL_UNIGRAM)
        p->header.score.count = p->header.token.count;
    else
        p->header.min_score = 0;
    if (rc == 0)
        rc = read_added(p, added);
    if (rc == 0 && !bpe) /* which an added token may be */
        rc = read_unk_id(p, model, !spm);
    return rc == 0 ? sc_pack_trie(p, SC_TRIE_VOCAB) : rc;
}
