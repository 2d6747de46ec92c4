/*
 * source.h - MODEL of the command line: an HF folder, its config.json, or a GGUF file.
 *
 * Opens what is there and reads the config; weights and tokenizer are NULL when MODEL is a
 * config.json alone or a folder without them.
 */
#ifndef SC_SOURCE_H
#define SC_SOURCE_H

#include "chat.h"
#include "config.h"
#include "gguf.h"
#include "tensors.h"

enum { SC_INPUTS = 1024 };

typedef struct {
    const sc_config *config;
    sc_tensors *tensors;    /* NULL: no weights */
    const cJSON *tokenizer; /* NULL: none */
    const char *tokenizer_file;
    sc_chat *chat; /* what a chat needs; NULL: there is no tokenizer */
    int inputs;
    const char **input; /* paths of the files that an export depends on, in a fixed order */
    cJSON *json, *generation, *tokenizer_json; /* owned */
    sc_gguf *gguf;
} sc_source;

/* with_weights: open weights and tokenizer too; generic as sc_config_make's. SC_EINPUT names what
 * is missing or wrong. */
int sc_source_open(sc_source **source, sc_pool *pool, const char *model, bool with_weights,
                   bool generic, sc_error *err);
void sc_source_close(sc_source *source); /* NULL is allowed */

#endif
