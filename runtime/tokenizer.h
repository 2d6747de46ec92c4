/*
 * tokenizer.h - text to token ids and back, from the file that slipcast packed.
 *
 * Done is what the file says, in the order of the `tokenizers` package: added tokens are cut out of
 * the raw text; the rest is normalised, added tokens are cut out of that too, what remains is split
 * into words, and each word becomes ids by BPE, by SentencePiece's BPE of scores or by Unigram.
 * Bytes that are no UTF-8 count as U+FFFD, each of them or each cut character once.
 *
 * Patterns are run by PCRE2, loaded when a tokenizer that has some is opened; normal forms, lower
 * case and accents come from utf8proc, loaded likewise and needed only for text beyond ASCII.
 *
 * Owner    the caller. An open tokenizer is read-only: threads may share it.
 * Source   the published tokenizer.json files and the `tokenizers` package;
 *          docs/casting.md: the file; runtime/tokenizer_file.h: its records.
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

/* The same from memory, aligned to 8 bytes, which stays the caller's and must outlive *out. */
int sc_tokenizer_open_image(sc_tokenizer **out, const void *image, size_t bytes, const char *name,
                            sc_error *err);

/* NULL is allowed. */
void sc_tokenizer_close(sc_tokenizer *t);

/*
 * *ids is malloc'd, never NULL, and the caller's to free. add_special adds what the model wants
 * around a text. SC_EUSAGE: more than 256 MiB of text; SC_EENV: no memory or no utf8proc;
 * SC_EINPUT: a pattern that gives up on this text.
 */
int sc_tokenizer_encode(const sc_tokenizer *t, const char *text, size_t bytes, bool add_special,
                        int32_t **ids, int *count, sc_error *err);

/* text as the normaliser leaves it, malloc'd, with a NUL behind; for packing. Errors as above. */
int sc_tokenizer_normalize(const sc_tokenizer *t, const char *text, size_t bytes, char **out,
                           size_t *out_bytes, sc_error *err);

/* Whether id is a control token (end of text, turn marks); false for what is no id. */
bool sc_tokenizer_is_special(const sc_tokenizer *t, int32_t id);

/* How many ids there are: 0 … size-1. */
int32_t sc_tokenizer_size(const sc_tokenizer *t);

/*
 * Ids in, text out as soon as it is settled: a character cut short and a run of byte tokens are
 * held back until their end. keep_special: control tokens are text too. continues: what comes is
 * no beginning of a text, so nothing is taken off its left end.
 */
typedef struct sc_decoder sc_decoder;

/* t must outlive *out. SC_EENV: no memory. */
int sc_decoder_create(sc_decoder **out, const sc_tokenizer *t, bool keep_special, bool continues,
                      sc_error *err);
void sc_decoder_destroy(sc_decoder *d);

/*
 * *text is UTF-8 without a NUL behind it, perhaps of 0 bytes, and lives until the next call. An id
 * that no token has is left out. SC_EENV: no memory.
 */
int sc_decoder_push(sc_decoder *d, int32_t id, const char **text, size_t *bytes, sc_error *err);

/* What was held back; the next push begins another text. Errors as above. */
int sc_decoder_end(sc_decoder *d, const char **text, size_t *bytes, sc_error *err);

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

#endif
