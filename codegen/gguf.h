/*
 * gguf.h - a GGUF file (v2, v3): its config and tokenizer in Hugging Face's words, its tensors.
 *
 * Source  the GGUF specification (ggml, docs/gguf.md); block formats from ggml's quants.
 */
#ifndef SC_GGUF_H
#define SC_GGUF_H

#include <cjson/cJSON.h>

#include "tensors.h"

typedef struct {
    cJSON *config; /* keys of config.json (model_type, hidden_size, …); see gguf.c for the map */
    cJSON *tokenizer;          /* the same structure as tokenizer.json: model.vocab, model.merges,
                                  added_tokens, pre_tokenizer; NULL when the file has no vocabulary */
    cJSON *generation;         /* keys of generation_config.json: eos_token_id … */
    const char *chat_template; /* or NULL */
    sc_tensors *tensors;       /* names already those of the Hugging Face checkpoint */
} sc_gguf;

/* SC_EINPUT: not a GGUF file, a count or offset that lies, an architecture or type we do not read.
 */
int sc_gguf_open(sc_gguf **gguf, sc_pool *pool, const char *path, sc_error *err);
/* The tokenizer only, whatever the architecture: a file of a vocabulary alone will do. */
int sc_gguf_open_vocabulary(sc_gguf **gguf, sc_pool *pool, const char *path, sc_error *err);
void sc_gguf_close(sc_gguf *gguf); /* frees the cJSON trees, closes the files; NULL is allowed */

#endif
