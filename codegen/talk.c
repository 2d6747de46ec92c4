/* talk.c - see talk.h. */
#include "talk.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "../runtime/casting.h"
#include "../runtime/tokenizer.h"

enum { CHUNK = 512 };

struct sc_talk {
    const char *name;
    const sc_chat *chat;
    const sc_jinja *template;
    sc_talk_options options;
    void *library;
    const sc_casting *casting;
    sc_model *model;
    sc_cache *cache;
    sc_tokenizer *tokenizer;
    sc_sampler *sampler;
    float *logits;  /* [vocab], of the last token fed */
    int32_t *token; /* what the cache holds, and perhaps one more: [count] of room */
    int64_t count, room;
    int32_t eos_id; /* of the template's eos_token; -1: none */
};

static int open_library(sc_talk *t, sc_pool *pool, const char *dir, sc_error *err) {
    const char *path = sc_pool_printf(pool, "%s%s/lib%s.so", *dir == '/' ? "" : "./", dir, t->name);
    if (!path)
        return sc_oom(err, "opening the casting");
    t->library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    const sc_casting *(*get)(void) = NULL;
    if (t->library)
        *(void **)&get = dlsym(t->library, "slipcast_casting");
    if (!get)
        return sc_fail(err, SC_EENV, "%s: cannot be opened: %s", path, dlerror());
    t->casting = get();
    if (!t->casting->model_open)
        return sc_fail(err, SC_EINPUT, "%s: is a casting of a cache alone", dir);
    if (t->casting->batch != 1)
        return sc_fail(err, SC_EINPUT,
                       "%s: batch_size: %d, a chat has one row (export with --batch-size 1)", dir,
                       t->casting->batch);
    return SC_OK;
}

/* On the device that is named; auto: the first, and when it will not do the processor. */
static int open_model(sc_talk *t, const char *weights, sc_error *err) {
    const sc_casting *c = t->casting;
    sc_options options = t->options.options;
    const bool automatic = !options.device || !strcmp(options.device, "auto");
    if (!c->cache_create_on) {
        if (automatic)
            options.device = NULL;
        const int rc = c->model_open(&t->model, weights, &options, err);
        return rc ? rc : c->cache_create(&t->cache, err);
    }
    if (automatic)
        options.device = "cuda:0";
    int rc = c->model_open(&t->model, weights, &options, err);
    if (!rc)
        rc = c->cache_create_on(&t->cache, options.device, err);
    if (rc != SC_EENV || !automatic)
        return rc;
    c->model_close(t->model);
    t->model = NULL;
    options.device = "cpu";
    rc = c->model_open(&t->model, weights, &options, err);
    return rc ? rc : c->cache_create_on(&t->cache, options.device, err);
}

/* Its id, when that text is one token. */
static int find_eos(sc_talk *t, sc_error *err) {
    enum { EOS = 1 };
    const char *text = t->chat->token[EOS];
    int32_t *ids;
    int count;
    t->eos_id = -1;
    if (!text)
        return SC_OK;
    const int rc = sc_tokenizer_encode(t->tokenizer, text, strlen(text), false, &ids, &count, err);
    if (rc)
        return rc;
    if (count == 1)
        t->eos_id = *ids;
    free(ids);
    return SC_OK;
}

static int open_all(sc_talk *t, sc_pool *pool, const char *dir, sc_error *err) {
    const char *weights = sc_pool_printf(pool, "%s/%s.weights", dir, t->name),
               *tokenizer = sc_pool_printf(pool, "%s/%s.tokenizer", dir, t->name);
    if (!weights || !tokenizer)
        return sc_oom(err, "opening the casting");
    if (!t->chat->template)
        return sc_fail(err, SC_EINPUT,
                       "%s: the model has no chat_template (is it one for chats? give "
                       "--chat-template FILE)",
                       dir);
    int rc = sc_jinja_read(&t->template, pool, t->chat->file, t->chat->template,
                           strlen(t->chat->template), err);
    if (!rc)
        rc = sc_tokenizer_open(&t->tokenizer, tokenizer, err);
    if (!rc)
        rc = find_eos(t, err);
    if (!rc)
        rc = open_library(t, pool, dir, err);
    if (!rc)
        rc = open_model(t, weights, err);
    if (!rc)
        rc = sc_sampler_create(&t->sampler, &t->options.sampling, t->casting->vocab, err);
    if (!rc) {
        t->logits = calloc((size_t)t->casting->vocab, sizeof *t->logits);
        rc = t->logits ? SC_OK : sc_oom(err, "opening the casting");
    }
    return rc;
}

int sc_talk_open(sc_talk **talk, sc_pool *pool, const char *dir, const char *name,
                 const sc_chat *chat, const sc_talk_options *options, sc_error *err) {
    sc_talk *t = sc_pool_alloc(pool, 1, sizeof *t);
    if (!t)
        return sc_oom(err, "opening the casting");
    t->name = name;
    t->chat = chat;
    t->options = *options;
    const int rc = open_all(t, pool, dir, err);
    if (rc)
        sc_talk_close(t);
    else
        *talk = t;
    return rc;
}

void sc_talk_close(sc_talk *t) {
    if (!t)
        return;
    free(t->token);
    free(t->logits);
    sc_sampler_destroy(t->sampler);
    if (t->cache)
        t->casting->cache_destroy(t->cache);
    if (t->model)
        t->casting->model_close(t->model);
    sc_tokenizer_close(t->tokenizer);
    if (t->library)
        dlclose(t->library);
}

/* Room for more tokens behind the count that there are. */
static int make_room(sc_talk *t, int64_t more, sc_error *err) {
    if (t->count + more <= t->room)
        return SC_OK;
    const int64_t room = 2 * (t->count + more) + CHUNK;
    int32_t *bigger = realloc(t->token, (size_t)room * sizeof *bigger);
    if (!bigger)
        return sc_oom(err, "keeping the conversation");
    t->token = bigger;
    t->room = room;
    return SC_OK;
}

/* The cache holds what the new ids begin with, but never all of them: logits are wanted. */
static int keep_common(sc_talk *t, const int32_t *ids, int64_t count, sc_error *err) {
    int64_t common = 0;
    while (common < t->count && common < count - 1 && t->token[common] == ids[common])
        common++;
    if (common == t->count)
        return SC_OK;
    sc_error ignored;
    if (t->casting->cache_crop(t->cache, common - t->count, &ignored)) {
        const int rc = t->casting->cache_reset(t->cache, err);
        if (rc)
            return rc;
        common = 0;
    }
    t->count = common;
    return SC_OK;
}

static int feed(sc_talk *t, const int32_t *ids, int64_t count, sc_error *err) {
    int rc = make_room(t, count, err);
    if (!rc)
        rc = t->casting->model_forward(t->model, t->cache, ids, (int)count, t->logits, 0, err);
    if (rc)
        return rc;
    memcpy(t->token + t->count, ids, (size_t)count * sizeof *ids);
    t->count += count;
    return SC_OK;
}

static int prefill(sc_talk *t, const int32_t *ids, int64_t count, sc_talk_taken *taken,
                   const volatile sig_atomic_t *stop, sc_error *err) {
    int64_t chunk = t->options.prefill_chunk ? t->options.prefill_chunk : CHUNK;
    if (chunk > t->casting->max_cache_len)
        chunk = t->casting->max_cache_len;
    int rc = keep_common(t, ids, count, err);
    taken->kept = t->count;
    while (!rc && t->count < count && !*stop) {
        const int64_t n = chunk < count - t->count ? chunk : count - t->count;
        rc = feed(t, ids + t->count, n, err);
    }
    taken->fed = t->count - taken->kept;
    if (rc == SC_EFULL)
        return sc_fail(
            err, SC_EFULL,
            "%s: the conversation has %lld tokens, the cache room for %d (max_cache_len; "
            "/reset, or --max-cache-len)",
            t->name, (long long)count, t->casting->max_cache_len);
    return rc;
}

static bool ends(const sc_talk *t, int32_t id) {
    for (int i = 0; i < t->chat->eos_count; i++)
        if (t->chat->eos_id[i] == id)
            return true;
    return id == t->eos_id;
}

/* Token after token, until one ends the answer; each goes to out and to answer. */
static int write_answer(sc_talk *t, FILE *out, FILE *answer, sc_talk_taken *taken,
                        const volatile sig_atomic_t *stop, sc_error *err) {
    sc_decoder *decoder = NULL;
    const char *text = "";
    size_t bytes = 0;
    int rc = sc_decoder_create(&decoder, t->tokenizer, false, true, err);
    while (!rc && !*stop) {
        int32_t id = sc_sampler_next(t->sampler, t->logits, t->token, (int)t->count);
        if (ends(t, id))
            break;
        rc = sc_decoder_push(decoder, id, &text, &bytes, err);
        if (rc)
            break;
        fwrite(text, 1, bytes, out);
        fwrite(text, 1, bytes, answer);
        fflush(out);
        if (++taken->written == t->options.max_new_tokens)
            break;
        rc = feed(t, &id, 1, err);
    }
    taken->full = rc == SC_EFULL;
    if (taken->full)
        rc = SC_OK;
    if (!rc)
        rc = sc_decoder_end(decoder, &text, &bytes, err);
    if (!rc) {
        fwrite(text, 1, bytes, out);
        fwrite(text, 1, bytes, answer);
    }
    sc_decoder_destroy(decoder);
    return rc;
}

int sc_talk_answer(char **answer, sc_talk_taken *taken, sc_talk *t, const cJSON *messages,
                   FILE *out, const volatile sig_atomic_t *stop, sc_error *err) {
    char *text = NULL, *made = NULL;
    size_t bytes = 0, made_bytes = 0;
    int32_t *ids = NULL;
    int count = 0;
    *taken = (sc_talk_taken){ 0 };
    int rc = sc_chat_render(&text, &bytes, t->chat, t->template, messages, err);
    if (!rc)
        rc = sc_tokenizer_encode(t->tokenizer, text, bytes, false, &ids, &count, err);
    if (!rc && !count)
        rc = sc_fail(err, SC_EINPUT, "%s: the conversation makes no token", t->chat->file);
    if (!rc)
        rc = prefill(t, ids, count, taken, stop, err);
    FILE *kept = rc ? NULL : open_memstream(&made, &made_bytes);
    if (!rc && !kept)
        rc = sc_oom(err, "keeping the answer");
    if (!rc && t->count == count)
        rc = write_answer(t, out, kept, taken, stop, err);
    taken->stopped |= *stop != 0;
    if (kept && fclose(kept) && !rc)
        rc = sc_oom(err, "keeping the answer");
    if (rc)
        free(made);
    else
        *answer = made;
    free(text);
    free(ids);
    return rc;
}
