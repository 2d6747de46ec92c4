/*
 * chat.h - what a model needs for a chat: its template, the texts of its special tokens, the ids
 * that end an answer.
 *
 * They come from chat_template.jinja, else tokenizer_config.json (a string, or the one named
 * default), of a Hugging Face folder, or from a GGUF file's tokenizer.chat_template, and lie in a
 * casting as NAME.chat, so that it can chat without the model that it was cast from.
 *
 * Source  transformers, tokenization_utils_base.py: which file wins, and what apply_chat_template
 *         hands to a template.
 */
#ifndef SC_CHAT_H
#define SC_CHAT_H

#include "config.h"
#include "gguf.h"
#include "jinja.h"

enum { SC_CHAT_TOKENS = 4, SC_CHAT_EOS = 16 };
extern const char *const sc_chat_token_names[SC_CHAT_TOKENS]; /* "bos_token", "eos_token", … */

typedef struct {
    const char *template;              /* NULL: the model has none */
    const char *file;                  /* where it stands, for messages */
    const char *token[SC_CHAT_TOKENS]; /* their texts, NULL: none */
    int eos_count;
    int64_t eos_id[SC_CHAT_EOS];
    int inputs;
    const char *input[2]; /* paths of the files that this was read from */
} sc_chat;

/* Of a model; a file that is not there is none. SC_EINPUT: a file or a key of it that is wrong. */
int sc_chat_of_folder(sc_chat **chat, sc_pool *pool, const char *folder, const sc_config *config,
                      sc_error *err);
int sc_chat_of_gguf(sc_chat **chat, sc_pool *pool, const char *path, const sc_gguf *gguf,
                    const sc_config *config, sc_error *err);

/* NAME.chat: JSON, equal chats give equal bytes. */
int sc_chat_write(const char **text, sc_pool *pool, const sc_chat *chat, sc_error *err);
int sc_chat_read(sc_chat **chat, sc_pool *pool, const char *path, sc_error *err);

/* Another template, from a file. */
int sc_chat_replace(sc_chat *chat, sc_pool *pool, const char *path, sc_error *err);

/*
 * The text that the next answer goes on from, as apply_chat_template(messages,
 * add_generation_prompt=True) makes it; messages: [{"role", "content"}, …]. *text is malloc'd, a
 * NUL behind its *bytes. Errors as sc_jinja_render's.
 */
int sc_chat_render(char **text, size_t *bytes, const sc_chat *chat, const sc_jinja *template,
                   const cJSON *messages, sc_error *err);

#endif
