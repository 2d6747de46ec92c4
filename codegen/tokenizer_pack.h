/*
 * tokenizer_pack.h - tokenizer.json → the file that runtime/tokenizer.h opens.
 *
 * Read are BPE (of bytes, and of characters with byte fallback) and Unigram, as published, with the
 * normalizers, pre_tokenizers, post_processors and decoders that docs/casting.md lists. What would
 * change ids and is not done is refused by its key.
 *
 * From GGUF comes the same shape with two names of our own: model.type "slipcast_spm" (a list of
 * tokens and scores, null where an id has none: SentencePiece's BPE, which merges what has the best
 * score), and pre_tokenizer {"type": "slipcast_pre", "name": X}, X a name of tokenizer_pre.h.
 */
#ifndef SC_TOKENIZER_PACK_H
#define SC_TOKENIZER_PACK_H

#include <cjson/cJSON.h>
#include <stddef.h>

#include "../runtime/error.h"

/*
 * *image is malloc'd; equal input gives equal bytes. file is for messages. SC_EINPUT: what is in
 * tokenizer is wrong or not supported; SC_EENV: no memory, or a library that the patterns need is
 * missing (they are compiled once, so that what cannot be is refused here).
 */
int sc_tokenizer_pack(unsigned char **image, size_t *bytes, const cJSON *tokenizer,
                      const char *file, sc_error *err);

#endif
