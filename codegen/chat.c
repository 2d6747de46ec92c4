/* chat.c - see chat.h. */
#include "chat.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "file.h"
#include "json.h"

enum { FILE_LIMIT = 16 << 20 };
_Static_assert(sizeof((sc_chat *)0)->eos_id == sizeof((sc_config *)0)->eos_token_id,
               "a chat takes all ids of its configuration");

const char *const sc_chat_token_names[SC_CHAT_TOKENS] = { "bos_token", "eos_token", "unk_token",
                                                          "pad_token" };

static int make(sc_chat **chat, sc_pool *pool, const sc_config *config, sc_error *err) {
    sc_chat *c = sc_pool_alloc(pool, 1, sizeof *c);
    if (!c)
        return sc_oom(err, "reading the chat template");
    for (int i = 0; config && i < config->eos_count; i++)
        c->eos_id[c->eos_count++] = config->eos_token_id[i];
    *chat = c;
    return SC_OK;
}

static int keep(const char **to, sc_pool *pool, const char *text, sc_error *err) {
    *to = sc_pool_strdup(pool, text);
    return *to ? SC_OK : sc_oom(err, "reading the chat template");
}

/* A text, or an added token's {"content": text}; null is none. */
static int read_token(const char **to, sc_pool *pool, const char *file, const cJSON *json,
                      const char *key, sc_error *err) {
    const cJSON *item = sc_json_get(json, key);
    if (cJSON_IsObject(item))
        item = sc_json_get(item, "content");
    if (!item || cJSON_IsNull(item))
        return SC_OK;
    if (!cJSON_IsString(item))
        return sc_fail(err, SC_EINPUT, "%s: %s: is no text", file, key);
    return keep(to, pool, item->valuestring, err);
}

/* A string, or a list of {"name", "template"}: the one named default. */
static int read_template(sc_chat *c, sc_pool *pool, const char *file, const cJSON *item,
                         sc_error *err) {
    const cJSON *one, *found = cJSON_IsString(item) ? item : NULL;
    if (!item || cJSON_IsNull(item))
        return SC_OK;
    if (cJSON_IsArray(item))
        cJSON_ArrayForEach(one, item) {
            const cJSON *name = sc_json_get(one, "name");
            if (cJSON_IsString(name) && !strcmp(name->valuestring, "default"))
                found = sc_json_get(one, "template");
        }
    if (!cJSON_IsString(found))
        return sc_fail(err, SC_EINPUT,
                       "%s: chat_template: is neither a text nor a list with one named default "
                       "(give --chat-template FILE)",
                       file);
    c->file = file;
    return keep(&c->template, pool, found->valuestring, err);
}

int sc_chat_replace(sc_chat *chat, sc_pool *pool, const char *path, sc_error *err) {
    char *text;
    size_t bytes;
    const int rc = sc_file_read(&text, &bytes, path, FILE_LIMIT, pool, err);
    if (rc)
        return rc;
    if (!sc_json_utf8(text, bytes))
        return sc_fail(err, SC_EINPUT, "%s: the chat template is no UTF-8", path);
    chat->template = text;
    chat->file = path;
    return SC_OK;
}

int sc_chat_of_folder(sc_chat **chat, sc_pool *pool, const char *folder, const sc_config *config,
                      sc_error *err) {
    const char *own = sc_pool_printf(pool, "%s/chat_template.jinja", folder),
               *settings = sc_pool_printf(pool, "%s/tokenizer_config.json", folder);
    sc_chat *c = NULL;
    int rc =
        own && settings ? make(&c, pool, config, err) : sc_oom(err, "reading the chat template");
    if (rc)
        return rc;
    if (!access(settings, F_OK)) {
        cJSON *json = NULL;
        c->input[c->inputs++] = settings;
        rc = sc_json_read(&json, settings, FILE_LIMIT, err);
        for (int i = 0; i < SC_CHAT_TOKENS && !rc; i++)
            rc = read_token(&c->token[i], pool, settings, json, sc_chat_token_names[i], err);
        if (!rc && access(own, F_OK))
            rc = read_template(c, pool, settings, sc_json_get(json, "chat_template"), err);
        cJSON_Delete(json);
    }
    if (!rc && !access(own, F_OK)) {
        c->input[c->inputs++] = own;
        rc = sc_chat_replace(c, pool, own, err);
    }
    if (!rc)
        *chat = c;
    return rc;
}

/* The text of the token with that id: of an added token, or in a vocabulary of either form. */
static const char *token_text(const cJSON *tokenizer, int64_t id) {
    const cJSON *vocab = sc_json_get(sc_json_get(tokenizer, "model"), "vocab"), *item;
    int64_t number;
    cJSON_ArrayForEach(item, sc_json_get(tokenizer, "added_tokens")) {
        const cJSON *content = sc_json_get(item, "content");
        if (sc_json_int(sc_json_get(item, "id"), &number) && number == id &&
            cJSON_IsString(content))
            return content->valuestring;
    }
    if (cJSON_IsObject(vocab)) {
        cJSON_ArrayForEach(item, vocab) if (sc_json_int(item, &number) &&
                                            number == id) return item->string;
        return NULL;
    }
    item = id < 0 || id > INT32_MAX ? NULL : cJSON_GetArrayItem(vocab, (int)id);
    item = cJSON_IsArray(item) ? item->child : NULL;
    return cJSON_IsString(item) ? item->valuestring : NULL;
}

int sc_chat_of_gguf(sc_chat **chat, sc_pool *pool, const char *path, const sc_gguf *gguf,
                    const sc_config *config, sc_error *err) {
    sc_chat *c = NULL;
    int64_t bos;
    int rc = make(&c, pool, config, err);
    if (rc)
        return rc;
    const bool has_bos = sc_json_int(sc_json_get(gguf->config, "bos_token_id"), &bos);
    const char *text[] = { has_bos ? token_text(gguf->tokenizer, bos) : NULL,
                           c->eos_count ? token_text(gguf->tokenizer, c->eos_id[0]) : NULL };
    for (int i = 0; i < 2 && !rc; i++)
        if (text[i])
            rc = keep(&c->token[i], pool, text[i], err);
    if (!rc && gguf->chat_template) {
        c->file = path;
        rc = keep(&c->template, pool, gguf->chat_template, err);
    }
    if (!rc)
        *chat = c;
    return rc;
}

int sc_chat_write(const char **text, sc_pool *pool, const sc_chat *chat, sc_error *err) {
    cJSON *json = cJSON_CreateObject();
    bool whole = !chat->template || cJSON_AddStringToObject(json, "chat_template", chat->template);
    for (int i = 0; i < SC_CHAT_TOKENS; i++)
        if (chat->token[i])
            whole &= cJSON_AddStringToObject(json, sc_chat_token_names[i], chat->token[i]) != NULL;
    cJSON *eos = cJSON_AddArrayToObject(json, "eos_token_id");
    for (int i = 0; i < chat->eos_count; i++)
        whole &= cJSON_AddItemToArray(eos, cJSON_CreateNumber((double)chat->eos_id[i]));
    char *printed = whole && eos ? cJSON_Print(json) : NULL;
    *text = printed ? sc_pool_printf(pool, "%s\n", printed) : NULL;
    cJSON_free(printed);
    cJSON_Delete(json);
    return *text ? SC_OK : sc_oom(err, "writing the chat template");
}

int sc_chat_read(sc_chat **chat, sc_pool *pool, const char *path, sc_error *err) {
    sc_chat *c = NULL;
    cJSON *json = NULL;
    const cJSON *id;
    int rc = make(&c, pool, NULL, err);
    if (!rc)
        rc = sc_json_read(&json, path, FILE_LIMIT, err);
    for (int i = 0; i < SC_CHAT_TOKENS && !rc; i++)
        rc = read_token(&c->token[i], pool, path, json, sc_chat_token_names[i], err);
    if (!rc)
        rc = read_template(c, pool, path, sc_json_get(json, "chat_template"), err);
    cJSON_ArrayForEach(id, sc_json_get(json, "eos_token_id")) {
        if (rc)
            break;
        if (c->eos_count == SC_CHAT_EOS || !sc_json_int(id, &c->eos_id[c->eos_count]))
            rc = sc_fail(err, SC_EINPUT, "%s: eos_token_id: is no list of at most %d numbers", path,
                         SC_CHAT_EOS);
        c->eos_count += !rc;
    }
    cJSON_Delete(json);
    if (!rc)
        *chat = c;
    return rc;
}

int sc_chat_render(char **text, size_t *bytes, const sc_chat *chat, const sc_jinja *template,
                   const cJSON *messages, sc_error *err) {
    cJSON *values = cJSON_CreateObject(), *copy = cJSON_Duplicate(messages, true);
    bool whole = values && copy && cJSON_AddItemToObject(values, "messages", copy);
    if (!whole)
        cJSON_Delete(copy);
    /* Given, as none: templates ask whether they are defined. */
    whole = whole && cJSON_AddNullToObject(values, "tools") &&
            cJSON_AddNullToObject(values, "documents") &&
            cJSON_AddTrueToObject(values, "add_generation_prompt");
    for (int i = 0; i < SC_CHAT_TOKENS; i++)
        if (chat->token[i])
            whole =
                whole && cJSON_AddStringToObject(values, sc_chat_token_names[i], chat->token[i]);
    const int rc = whole ? sc_jinja_render(text, bytes, template, values, time(NULL), err)
                         : sc_oom(err, "rendering the chat");
    cJSON_Delete(values);
    return rc;
}
