/*
 * tokenizer_pre.h - what the names in a GGUF's tokenizer.ggml.pre stand for.
 *
 * Source  llama.cpp, src/llama-vocab.cpp: the names; the models' tokenizer.json: patterns and NFC.
 */
#ifndef SC_TOKENIZER_PRE_H
#define SC_TOKENIZER_PRE_H

#include <stdbool.h>

#define SC_GPT2_PATTERN                                                                            \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"

enum { SC_PRE_PATTERNS = 8 };

typedef struct {
    const char *name;
    bool nfc;           /* texts are composed first */
    bool ignore_merges; /* a word that is a token is taken whole */
    bool add_bos;       /* where the file does not say */
    bool plain;         /* characters, spaces as U+2581, not GPT-2's byte letters */
    const char *pattern[SC_PRE_PATTERNS]; /* isolating, one after the other; then NULL */
} sc_pre;

/* NULL: no such name. */
const sc_pre *sc_pre_find(const char *name);

#endif
