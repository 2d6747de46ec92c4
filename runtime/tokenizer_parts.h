/*
 * tokenizer_parts.h - what the files tokenizer*.c share: the open tokenizer and one encoding.
 *
 * tokenizer.c opens; tokenizer_encode.c finds added tokens and leads; tokenizer_steps.c normalises
 * and splits, with matches from tokenizer_match.c; tokenizer_model.c makes ids of words;
 * tokenizer_decode.c goes back.
 */
#ifndef SC_TOKENIZER_PARTS_H
#define SC_TOKENIZER_PARTS_H

#include "tokenizer.h"
#include "tokenizer_file.h"

#define SC_TOKENIZER_TEXT_MAX ((size_t)1 << 28)
#define SC_TOKENIZER_GROWTH 16 /* times as many bytes may steps make of it, and 64 KiB more */

/* PCRE2's 8-bit interface, as far as it is used. */
typedef struct {
    void *library;
    void *(*compile)(const uint8_t *, size_t, uint32_t, int *, size_t *, void *);
    int (*jit_compile)(void *, uint32_t);
    void (*code_free)(void *);
    void *(*match_data_create)(const void *, void *);
    void (*match_data_free)(void *);
    void *(*match_context_create)(void *);
    void (*match_context_free)(void *);
    int (*set_match_limit)(void *, uint32_t);
    int (*match)(const void *, const uint8_t *, size_t, size_t, uint32_t, void *, void *);
    size_t *(*ovector)(void *);
    int (*message)(int, uint8_t *, size_t);
} sc_pcre2;

/* utf8proc's; library NULL: not needed or not there. */
typedef struct {
    void *library;
    ptrdiff_t (*map)(const uint8_t *, ptrdiff_t, uint8_t **, int);
    int32_t (*to_lower)(int32_t);
    int (*category)(int32_t);
    bool (*grapheme_break)(int32_t, int32_t, int32_t *);
} sc_utf8proc;

typedef struct {
    const sc_trie_record *node;
    uint32_t root[256]; /* the root's children, 0: none */
} sc_trie;

struct sc_tokenizer {
    void *mapped; /* NULL: the image is the caller's */
    const unsigned char *base;
    size_t bytes;
    const sc_tokenizer_header *header;
    const sc_token_record *token;
    const sc_merge_record *merge;
    const uint32_t *rank;
    const double *score;
    const uint64_t *pair;
    const sc_step_record *step;
    const char *text;
    sc_trie trie[SC_TRIES];
    void *code[SC_TOKENIZER_STEPS_MAX]; /* of steps with patterns */
    void *word_code;                    /* a character of a word; NULL without single words */
    sc_pcre2 pcre2;
    sc_utf8proc utf8proc;
};

typedef struct { /* grows */
    char *bytes;
    size_t count, room;
    size_t limit; /* of count; 0: none */
} sc_text;

typedef struct {
    size_t start, end;
    bool match;
} sc_segment;

typedef struct { /* of one step; each step is at work on one piece at a time */
    sc_text text;
    sc_segment *segment;
    size_t segments, segment_room;
    void *match_data;
} sc_scratch;

typedef struct {
    uint32_t at;    /* in the word; SC_TOKENIZER_NONE: no character, but unk or a byte of one */
    uint32_t bytes; /* 0: merged into the one before */
    uint32_t id;
    uint32_t prev, next;
} sc_symbol;

typedef struct {
    uint32_t rank, pos;
    uint32_t what; /* BPE: the merged id; SPM: the merged bytes. Stale when it does not fit now */
} sc_candidate;

typedef struct {
    double score;
    uint32_t start; /* SC_TOKENIZER_NONE: not reached */
    uint32_t id;
} sc_path;

/* One call of sc_tokenizer_encode. */
typedef struct {
    const sc_tokenizer *t;
    sc_error *err;
    sc_scratch scratch[SC_TOKENIZER_STEPS_MAX];
    void *match_context, *word_data;
    uint32_t match_limit;
    int32_t *ids;
    size_t count, room;
    sc_symbol *symbols; /* symbol_room of them */
    sc_candidate *heap; /* three times as many */
    size_t symbol_room, heap_count;
    sc_path *path;
    size_t path_room;
} sc_encoder;

int sc_encoder_no_memory(const sc_encoder *e);
/* rc of sc_text_…, as an error with its message. */
int sc_encoder_fail(const sc_encoder *e, int rc);
int sc_encoder_add(sc_encoder *e, uint32_t id);

/* Room for more bytes behind count. SC_EENV: no memory; SC_EFULL: beyond its limit. */
int sc_text_reserve(sc_text *text, size_t more);
int sc_text_add(sc_text *text, const char *bytes, size_t count);

/* ---- tokenizer_utf8.c ---- */

/* One valid character of s: its length; its code in *code. */
size_t sc_utf8_code(const char *s, int32_t *code);
/* The length that a valid character's first byte tells. */
size_t sc_utf8_length(char lead);
size_t sc_utf8_put(char *out, int32_t code);
/* Whether all n bytes are whole characters. */
bool sc_utf8_valid(const char *s, size_t n);
/* The length of the white space (Unicode's White_Space) at s, of n valid bytes, or 0. */
size_t sc_utf8_space(const char *s, size_t n);
/* Where the white space before end begins, not before start. */
size_t sc_utf8_strip(const char *s, size_t start, size_t end);

/* ---- tokenizer_match.c ---- */

/* Loads what the steps need; path is for messages. SC_EENV, SC_EINPUT. */
int sc_match_open(sc_tokenizer *t, const char *path, sc_error *err);
void sc_match_close(sc_tokenizer *t);
int sc_match_begin(sc_encoder *e, size_t bytes);
void sc_match_end(sc_encoder *e);
/* Fills the step's segments: matches and what lies between, in order, all of text together. */
int sc_match_all(sc_encoder *e, uint32_t step, const char *text, size_t n);
/* Whether a word's character begins text (n bytes), or ends it. */
bool sc_match_word(const sc_encoder *e, const char *text, size_t n, bool at_end);

/* ---- tokenizer_steps.c ---- */

/*
 * One step that changes text: *out lies in the step's scratch or is text itself. first: text begins
 * where the whole text does; cleared when that beginning goes.
 */
int sc_step_change(sc_encoder *e, uint32_t step, const char *text, size_t n, bool *first,
                   const char **out, size_t *out_bytes);
/* Splits by the steps from step on, each piece on its own, and encodes the words. */
int sc_step_words(sc_encoder *e, uint32_t step, const char *text, size_t n, bool first);

/* ---- tokenizer_charsmap.c ---- */

/* Whether a map of n bytes is whole, so that sc_charsmap_apply stays inside. */
bool sc_charsmap_fits(const unsigned char *map, size_t n);
int sc_charsmap_apply(sc_encoder *e, const unsigned char *map, size_t map_bytes, sc_text *out,
                      const char *text, size_t n);

/* ---- tokenizer_model.c ---- */

/* node's child by that byte, or 0. */
uint32_t sc_trie_child(const sc_trie *trie, uint32_t node, unsigned char byte);
/* The id of exactly that key, or SC_TOKENIZER_NONE. */
uint32_t sc_trie_find(const sc_trie *trie, const char *key, size_t n);
/* The ids of one word, n > 0. */
int sc_model_encode(sc_encoder *e, const char *text, size_t n);

#endif
