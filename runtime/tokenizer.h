/*
 * tokenizer.h - text to token ids and back: byte-level BPE, from the file that slipcast packed.
 *
 * The pre-tokeniser's patterns are run by PCRE2, loaded when a tokenizer is opened; NFC is done by
 * utf8proc, loaded likewise and needed only for text beyond ASCII. Nothing else is needed.
 *
 * Owner    the caller. An open tokenizer is read-only: threads may share it.
 * Source   the published tokenizer.json files and the `tokenizers` package, byte-level BPE.
 */
#ifndef SC_TOKENIZER_H
#define SC_TOKENIZER_H

#include "error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct sc_tokenizer sc_tokenizer;

/*
 * SC_EINPUT: the file is missing, damaged or not of this version. SC_EENV: no memory, or a library
 * that the patterns need is not installed.
 */
int sc_tokenizer_open(sc_tokenizer **out, const char *path, sc_error *err);

/* NULL is allowed. */
void sc_tokenizer_close(sc_tokenizer *t);

/*
 * *ids is malloc'd, never NULL, and the caller's to free. Bytes that are no UTF-8 count as U+FFFD.
 * add_special adds what the model wants around a text. SC_EUSAGE: more than 256 MiB of text;
 * SC_EENV: no memory or no utf8proc; SC_EINPUT: a pattern that gives up on this text.
 */
int sc_tokenizer_encode(const sc_tokenizer *t, const char *text, size_t bytes, bool add_special,
                        int32_t **ids, int *count, sc_error *err);

/*
 * The raw bytes of one token, perhaps only part of a character; no NUL behind them. They live as
 * long as the tokenizer. SC_EUSAGE: no such id.
 */
int sc_tokenizer_decode(const sc_tokenizer *t, int32_t id, const char **bytes, size_t *count);

/* Whether id is a control token (end of text, turn marks); false for what is no id. */
bool sc_tokenizer_is_special(const sc_tokenizer *t, int32_t id);

/* How many ids there are: 0 … size-1. */
int32_t sc_tokenizer_size(const sc_tokenizer *t);

/* Bytes of tokens in, whole UTF-8 characters out; what is broken becomes U+FFFD. Starts all zero.
 */
typedef struct {
    char bytes[8]; /* the beginning of a character, at most 3 bytes */
    int count;
} sc_utf8_stream;

/* Returns the bytes written to out, which has room for 3 * n + 3 (each bad byte becomes three). */
size_t sc_utf8_push(sc_utf8_stream *s, const char *in, size_t n, char *out);

/* Ends the text: a character cut short becomes U+FFFD. out has room for 3 bytes. */
size_t sc_utf8_flush(sc_utf8_stream *s, char *out);

/*
 * The file, as written by the packer and mapped here. Little-endian; sections lie in the order of
 * the header, each at a multiple of 8 bytes and counted in its own records.
 */
#define SC_TOKENIZER_MAGIC "SCTOKEN1"
#define SC_TOKENIZER_NONE UINT32_MAX
#define SC_TOKENIZER_PATTERNS_MAX 32
#define SC_TOKENIZER_SPECIALS_MAX 16

enum { /* of the tokenizer */
       SC_TOKENIZER_NFC = 1,
       SC_TOKENIZER_IGNORE_MERGES = 2, /* a whole pre-token in the vocabulary is taken as it is */
       SC_TOKENIZER_PREFIX_SPACE = 4   /* text that begins without a space is given one */
};

enum { /* of a token */
       SC_TOKEN_SPECIAL = 1,
       SC_TOKEN_ADDED = 2, /* found in the text before anything else is done with it */
       SC_TOKEN_LSTRIP = 4,
       SC_TOKEN_RSTRIP = 8,
       SC_TOKEN_SINGLE_WORD = 16,
       SC_TOKEN_NORMALIZED = 32
};

enum { /* what becomes of a pattern's matches, and of the text between them */
       SC_SPLIT_ISOLATED = 0,     /* both are pieces */
       SC_SPLIT_KEEP_MATCHES = 1, /* the text between is dropped */
       SC_SPLIT_KEEP_GAPS = 2     /* the matches are dropped */
};

typedef struct {
    char magic[8];
    uint64_t checksum; /* sc_tokenizer_checksum of all bytes behind this field */
    uint64_t bytes;    /* of the whole file */
    uint32_t flags;
    uint32_t unk; /* the id for a byte without a token, or SC_TOKENIZER_NONE: it is dropped */
    uint32_t prefix_count, suffix_count;
    uint32_t prefix[SC_TOKENIZER_SPECIALS_MAX]; /* ids before the text with add_special */
    uint32_t suffix[SC_TOKENIZER_SPECIALS_MAX]; /* and after it */
    uint32_t byte_id[256];
    uint64_t token_at, token_count;     /* sc_token_record */
    uint64_t merge_at, merge_slots;     /* sc_merge_record, a power of two, some slot empty */
    uint64_t word_at, word_slots;       /* uint32_t ids by their bytes; 0 without IGNORE_MERGES */
    uint64_t added_at, added_count;     /* uint32_t ids, by first byte, then the longest first */
    uint64_t pattern_at, pattern_count; /* sc_pattern_record */
    uint64_t text_at, text_bytes;       /* what the records point into */
} sc_tokenizer_header;

typedef struct {
    uint32_t at, bytes; /* in the text section */
    uint32_t flags;
} sc_token_record;

typedef struct {
    uint32_t left, right; /* left is SC_TOKENIZER_NONE in an empty slot */
    uint32_t rank, id;
} sc_merge_record;

typedef struct {
    uint32_t at, bytes; /* in the text section; a NUL follows */
    uint32_t split;
} sc_pattern_record;

/* Where to begin looking for a pair or for a word; then slot by slot, around the end. */
uint64_t sc_tokenizer_pair_hash(uint32_t left, uint32_t right);

/* 64-bit FNV-1a; for the checksum, and for words. */
uint64_t sc_tokenizer_checksum(const void *data, size_t bytes);

#endif
