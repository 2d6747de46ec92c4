/*
 * tokenizer_build.h - what the files that pack a tokenizer share.
 *
 * tokenizer_pack.c leads and writes the image; tokenizer_vocab.c reads the model and the added
 * tokens; tokenizer_merges.c pairs; tokenizer_tries.c builds the tries; tokenizer_steps.c reads
 * normalizer, pre_tokenizer and post_processor; tokenizer_decoder.c the decoder;
 * tokenizer_regex.c rewrites patterns.
 */
#ifndef SC_TOKENIZER_BUILD_H
#define SC_TOKENIZER_BUILD_H

#include <cjson/cJSON.h>
#include <stdbool.h>

#include "../runtime/error.h"
#include "../runtime/tokenizer_file.h"

#define SC_TOKENIZER_IDS_MAX (1 << 22)
#define SC_TOKENIZER_DECODE_MAX 8

typedef struct {
    char *bytes;
    size_t count, room;
} sc_pack_text;

typedef struct {
    const char *key; /* as it stands in the JSON; NULL in an empty slot */
    uint32_t id;
} sc_pack_name;

typedef struct {
    const char *text; /* in the JSON, or in memory of the packer */
    size_t bytes;
    uint32_t id;
    uint32_t order; /* of two that are the same text the later one holds */
} sc_pack_key;

typedef struct {
    sc_pack_key *key;
    size_t count, room;
} sc_pack_keys;

/* What decoding does to a token on its own. */
typedef struct {
    enum { SC_DECODE_REPLACE, SC_DECODE_BYTES, SC_DECODE_METASPACE } kind;
    const char *from, *to;
    bool drops; /* Metaspace: from goes from the first token of a text */
} sc_pack_decode;

/* One packing. The JSON's strings are pointed to, all else is owned. */
typedef struct {
    const char *file;
    sc_error *err;
    sc_tokenizer_header header;
    sc_pack_text text;
    sc_token_record *token;
    const char **content; /* [token.count]: what stands for an id, or NULL */
    sc_pack_name *name;
    size_t name_slots;
    sc_merge_record *merge;
    uint32_t *rank;
    double *score;
    uint64_t *pair;
    sc_pack_keys keys[SC_TRIES];
    sc_trie_record *trie[SC_TRIES];
    char **normalized; /* what the keys of SC_TRIE_NORMALIZED point to; as many */
    size_t normalized_count;
    sc_step_record step[SC_TOKENIZER_STEPS_MAX];
    sc_pack_decode decode[SC_TOKENIZER_DECODE_MAX];
    int decodes;
    int byte_fallback_at; /* how many of them come before ByteFallback; -1: there is none */
    int16_t byte_of[512]; /* code point of the GPT-2 alphabet → byte, or -1 */
} sc_packer;

/* ---- tokenizer_pack.c ---- */

int sc_pack_no_memory(sc_packer *p);
int sc_pack_wrong(sc_packer *p, const char *key, const char *what);
int sc_pack_unsupported(sc_packer *p, const char *key, const char *value, const char *instead);

const char *sc_pack_string(const cJSON *object, const char *key);
bool sc_pack_bool(const cJSON *object, const char *key, bool otherwise);
int sc_pack_id(sc_packer *p, const cJSON *item, const char *key, uint32_t *id);
/* The type of a part, or "null". */
const char *sc_pack_type(const cJSON *part);

/* Room for more bytes in the text section, and one behind; what it has is at text.bytes. */
int sc_pack_reserve(sc_packer *p, size_t more);
/* Appends; *at is where. */
int sc_pack_text_add(sc_packer *p, const char *bytes, size_t count, uint32_t *at);

/* ---- tokenizer_vocab.c ---- */

int sc_pack_model(sc_packer *p, const cJSON *tokenizer);
/* The slot of a name, or the empty one where it would be. */
sc_pack_name *sc_pack_find(const sc_packer *p, const char *name);
uint64_t sc_pack_slots(uint64_t count);

/* ---- tokenizer_merges.c ---- */

int sc_pack_merges(sc_packer *p, const cJSON *merges);

/* ---- tokenizer_tries.c ---- */

int sc_pack_key_add(sc_packer *p, int trie, const char *text, size_t bytes, uint32_t id);
/* p->trie[trie] and its count in the header, of the keys. */
int sc_pack_trie(sc_packer *p, int trie);

/* ---- tokenizer_steps.c ---- */

int sc_pack_normalizer(sc_packer *p, const cJSON *normalizer);
int sc_pack_pre_tokenizer(sc_packer *p, const cJSON *pre);
int sc_pack_post_processor(sc_packer *p, const cJSON *post);

/* ---- tokenizer_decoder.c ---- */

int sc_pack_decoder(sc_packer *p, const cJSON *decoder);
/* Fills what every token decodes to; content and flags are there. */
int sc_pack_decoded(sc_packer *p);

/* ---- tokenizer_regex.c ---- */

/* White space and characters of words, for inside of [...]. */
#define SC_SPACES                                                                                  \
    "\\t-\\r\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}" \
    "\\x{3000}"
#define SC_WORDS                                                                                   \
    "\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{24b6}-\\x{24e9}\\x{1f130}-\\x{1f149}\\x{1f150}-"         \
    "\\x{1f169}\\x{1f170}-\\x{1f189}"

/* Appends Oniguruma's pattern, in its Ruby syntax, to the text section as PCRE2 takes it. */
int sc_pack_regex(sc_packer *p, const char *pattern);

#endif
