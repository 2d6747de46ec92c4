/*
 * tokenizer_pack.h - tokenizer.json → the file that runtime/tokenizer.h opens.
 *
 * Read is byte-level BPE as published: pre_tokenizer ByteLevel, Split, Digits or a Sequence of
 * them; normalizer NFC or none; post_processor TemplateProcessing, ByteLevel or a Sequence of them.
 * From GGUF comes pre_tokenizer {"type": "slipcast_pre", "name": X}, X one of llama.cpp's names.
 * What would change ids and is not done is refused by its key.
 */
#ifndef SC_TOKENIZER_PACK_H
#define SC_TOKENIZER_PACK_H

#include <cjson/cJSON.h>
#include <stddef.h>

#include "../runtime/error.h"

/*
 * *image is malloc'd; equal input gives equal bytes. file is for messages. SC_EINPUT: what is in
 * tokenizer is wrong or not supported; SC_EENV: no memory.
 */
int sc_tokenizer_pack(unsigned char **image, size_t *bytes, const cJSON *tokenizer,
                      const char *file, sc_error *err);

#endif
