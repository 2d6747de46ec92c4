{{! main.c - the command-line runner of a casting. }}
/*
 * {{name}}_main.c - runs {{name}} from a shell: text or token ids in, text or token ids out.
 *
 * Exit codes: 0 done, 2 usage, 3 bad input, 4 environment.
 */
#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "{{name}}.h"
#include "runtime/dump.h"
#include "runtime/sample.h"
#include "runtime/tokenizer.h"

enum { BATCH = {{batch}}, LAYERS = {{layers}}, VOCAB = {{vocab}}, MAX_CACHE_LEN = {{max_cache_len}} };

static const int64_t eos_ids[] = { {{eos_ids}} };
enum { EOS_IDS = {{eos_count}} };

/* Shape of K and V, layer by layer, for the dump: [BATCH, kv_heads, slots, head_dim]; 0: none. */
static const int64_t kv_shape[LAYERS][4] = {
{{#places}}
    { {{kv_heads}}, {{length}}, {{head_dim}}, {{v_head_dim}} },
{{/places}}
};

{{#has_indexer}}
/* Width of a layer's indexer keys; 0: it has none. */
static const int64_t index_head_dim[LAYERS] = {
{{#places}}
    {{index_head_dim}},
{{/places}}
};

{{/has_indexer}}
{{#has_states}}
/* What layers keep besides, for the dump too: [BATCH, dim]. */
static const struct {
    int layer, index, recurrent, rank;
    int64_t dim[3], elements;
    const char *dtype;
    size_t size;
} states[] = {
{{#states}}
    { {{layer}}, {{index}}, {{recurrent}}, {{rank}}, { {{dims}} }, {{elements}}, "{{state_dump}}", {{size}} },
{{/states}}
};
enum { STATES = sizeof states / sizeof *states };

{{/has_states}}
typedef struct {
    const char *text[BATCH];
    int texts;
    const char *token_ids, *dump, *folder, *session{{#offloading}}, *offload_to{{/offloading}};
    long max_new_tokens, bench_prefill, bench_decode, bench_repeats;
    bool ignore_eos, no_prompt;
    int *chunk; /* sizes of prefill's pieces, the last one repeats */
    int chunks;
    sc_sampling sampling;
    sc_options options;
} arguments;

typedef struct {
    int32_t *ids; /* [BATCH, room] */
    int64_t room, prompt, made;
    int64_t padding[BATCH];
    bool done[BATCH];
} rows;

static int usage(sc_error *err, const char *option, const char *value, const char *reason) {
    return sc_fail(err, SC_EUSAGE, "{{name}}: %s: \"%s\" %s (see {{name}} --help)", option, value,
                   reason);
}

static int read_long(long *number, const char *option, const char *text, long least, long most,
                     sc_error *err) {
    char *end;
    errno = 0;
    const long value = strtol(text, &end, 10);
    char reason[96];
    snprintf(reason, sizeof reason, "is no whole number in %ld … %ld", least, most);
    if (errno || end == text || *end || value < least || value > most)
        return usage(err, option, text, reason);
    *number = value;
    return SC_OK;
}

static int read_float(float *number, const char *option, const char *text, float least, float most,
                      sc_error *err) {
    char *end;
    const float value = strtof(text, &end);
    char reason[96];
    snprintf(reason, sizeof reason, "is no number in %g … %g", (double)least, (double)most);
    if (end == text || *end || !(value >= least && value <= most))
        return usage(err, option, text, reason);
    *number = value;
    return SC_OK;
}

static int read_chunks(arguments *a, const char *text, sc_error *err) {
    a->chunks = 1;
    for (const char *c = text; *c; c++)
        a->chunks += *c == ',';
    a->chunk = calloc((size_t)a->chunks, sizeof *a->chunk);
    if (!a->chunk)
        return sc_fail(err, SC_EENV, "{{name}}: no memory");
    const char *at = text;
    for (int i = 0; i < a->chunks; i++) {
        char *end;
        const long n = strtol(at, &end, 10);
        if (end == at || n < 1 || n > INT_MAX || (*end != ',' && *end))
            return usage(err, "--prefill-chunk", text, "is no list of positive numbers");
        a->chunk[i] = (int)n;
        at = end + 1;
    }
    return SC_OK;
}

static const char help[] =
    "usage: {{name}} -p TEXT [-p TEXT …]       one per row of the batch ({{batch}})\n"
    "       {{name}} --token-ids 1,2,3[;4,5]   rows apart by ;\n"
    "  --max-new-tokens N    how many to write at most (64)\n"
    "  --ignore-eos          go on behind an end-of-text token\n"
    "  --temperature T --top-k K --top-p P --min-p P --repetition-penalty R --seed S\n"
    "  --prefill-chunk N[,N…]  cut the prompt; the last size repeats\n"
    "  --threads N           default: all cores\n"
{{#cuda}}
    "  --device D            cpu, cuda:N, or auto (the first device that will do, else the cpu)\n"
    "  --no-graph            launch every kernel of a token by itself\n"
{{/cuda}}
    "  --session FILE        begin with the saved cache, save it at the end\n"
{{#offloading}}
    "  --offload-to DIR      keep the offloaded layers in a file there, not in memory\n"
{{/offloading}}
    "  --dump FILE           token ids, logits and cache as safetensors\n"
    "  --check               verify the checksum of the weights first\n"
    "  --no-display-prompt   write the new text only\n"
    "  --folder DIR          where the weights and the tokenizer lie (beside the program)\n"
    "  --bench P,D,R         time R runs of P prompt tokens, then D new ones\n";

/* One option with its value; *taken says how many words it was. */
static int read_option(arguments *a, const char *option, const char *value, int *taken,
                       sc_error *err) {
    long number = 0;
    int rc = SC_OK;
    *taken = 1;
    if (!strcmp(option, "--ignore-eos"))
        a->ignore_eos = true;
    else if (!strcmp(option, "--check"))
        a->options.check = true;
    else if (!strcmp(option, "--no-display-prompt"))
        a->no_prompt = true;
    else if (!strcmp(option, "--no-graph"))
{{#cuda}}
        a->options.no_graph = true;
{{/cuda}}
{{^cuda}}
        return sc_fail(err, SC_EUSAGE, "{{name}}: --no-graph: wants a casting exported with --target cuda");
{{/cuda}}
    else if (!value)
        return usage(err, option, "", "is unknown or lacks its value");
    else {
        *taken = 2;
        if (!strcmp(option, "-p") || !strcmp(option, "--prompt")) {
            if (a->texts == BATCH)
                return usage(err, option, value, "is one prompt more than the batch has rows");
            a->text[a->texts++] = value;
        } else if (!strcmp(option, "--token-ids"))
            a->token_ids = value;
        else if (!strcmp(option, "--dump"))
            a->dump = value;
        else if (!strcmp(option, "--session"))
            a->session = value;
        else if (!strcmp(option, "--offload-to"))
{{#offloading}}
            a->offload_to = value;
{{/offloading}}
{{^offloading}}
            return usage(err, option, value, "wants a casting exported with --offloading");
{{/offloading}}
        else if (!strcmp(option, "--folder"))
            a->folder = value;
        else if (!strcmp(option, "--device"))
            a->options.device = value;
        else if (!strcmp(option, "--max-new-tokens"))
            rc = read_long(&a->max_new_tokens, option, value, 0, INT_MAX, err);
        else if (!strcmp(option, "--prefill-chunk"))
            rc = read_chunks(a, value, err);
        else if (!strcmp(option, "--temperature"))
            rc = read_float(&a->sampling.temperature, option, value, 0, 1e6f, err);
        else if (!strcmp(option, "--top-p"))
            rc = read_float(&a->sampling.top_p, option, value, 0, 1, err);
        else if (!strcmp(option, "--min-p"))
            rc = read_float(&a->sampling.min_p, option, value, 0, 1, err);
        else if (!strcmp(option, "--repetition-penalty"))
            rc = read_float(&a->sampling.repetition_penalty, option, value, 1e-3f, 1e3f, err);
        else if (!strcmp(option, "--top-k")) {
            rc = read_long(&number, option, value, 0, INT_MAX, err);
            a->sampling.top_k = (int)number;
        } else if (!strcmp(option, "--seed")) {
            rc = read_long(&number, option, value, 0, LONG_MAX, err);
            a->sampling.seed = (uint64_t)number;
        } else if (!strcmp(option, "--threads")) {
            rc = read_long(&number, option, value, 1, 64, err);
            a->options.threads = (int)number;
        } else if (!strcmp(option, "--bench")) {
            int end = 0;
            if (sscanf(value, "%ld,%ld,%ld%n", &a->bench_prefill, &a->bench_decode,
                       &a->bench_repeats, &end) != 3 ||
                value[end] || a->bench_prefill < 1 || a->bench_decode < 1 || a->bench_repeats < 1 ||
                a->bench_prefill > MAX_CACHE_LEN - a->bench_decode)
                return usage(err, option, value, "is no P,D,R that fits max_cache_len {{max_cache_len}}");
        } else
            return usage(err, option, value, "is an unknown option");
    }
    return rc;
}

static int read_arguments(arguments *a, int argc, char **argv, sc_error *err) {
    *a = (arguments){ .max_new_tokens = 64, .sampling = { .top_p = 1, .repetition_penalty = 1 } };
    for (int i = 1, taken = 0; i < argc; i += taken) {
        const int rc = read_option(a, argv[i], i + 1 < argc ? argv[i + 1] : NULL, &taken, err);
        if (rc)
            return rc;
    }
    if (a->bench_repeats)
        return SC_OK;
    if (!a->texts == !a->token_ids)
        return sc_fail(err, SC_EUSAGE, "{{name}}: give -p TEXT or --token-ids (see {{name}} --help)");
    return SC_OK;
}

/* Rows of ids of different lengths, to be padded on the left. */
typedef struct {
    int32_t *ids[BATCH];
    int count[BATCH];
    int rows;
} prompts;

static int parse_ids(prompts *p, const char *text, sc_error *err) {
    const char *at = text;
    while (p->rows < BATCH) {
        size_t room = 1;
        for (const char *c = at; *c && *c != ';'; c++)
            room += *c == ',';
        int32_t *ids = calloc(room, sizeof *ids);
        p->ids[p->rows] = ids;
        if (!ids)
            return sc_fail(err, SC_EENV, "{{name}}: no memory");
        for (size_t i = 0; i < room; i++) {
            char *end;
            errno = 0;
            const long id = strtol(at, &end, 10);
            if (end == at || errno || (*end && *end != ',' && *end != ';'))
                return usage(err, "--token-ids", text, "is no list of numbers");
            if (id < 0 || id >= VOCAB)
                return sc_fail(err, SC_EINPUT,
                               "{{name}}: --token-ids: %ld is none of 0 … %d (vocab_size)", id,
                               VOCAB - 1);
            ids[p->count[p->rows]++] = (int32_t)id;
            at = *end == ',' ? end + 1 : end;
        }
        p->rows++;
        if (!*at)
            return SC_OK;
        at++;
    }
    return usage(err, "--token-ids", text, "has more rows than the batch ({{batch}})");
}

static int read_prompts(prompts *p, const arguments *a, const sc_tokenizer *tokenizer,
                        sc_error *err) {
    memset(p, 0, sizeof *p);
    int rc = SC_OK;
    if (a->token_ids)
        rc = parse_ids(p, a->token_ids, err);
    for (int i = 0; i < a->texts && !rc; i++) {
        rc = sc_tokenizer_encode(tokenizer, a->text[i], strlen(a->text[i]), true, &p->ids[i],
                                 &p->count[i], err);
        p->rows = i + 1;
        if (!rc && !p->count[i])
            rc = sc_fail(err, SC_EUSAGE, "{{name}}: prompt %d makes no token (write something)",
                         i + 1);
    }
    if (!rc && p->rows != BATCH)
        rc = sc_fail(err, SC_EUSAGE,
                     "{{name}}: %d prompts for a batch of %d (give one per row, or export with "
                     "--batch-size %d)",
                     p->rows, BATCH, p->rows);
    return rc;
}

/* Ids of all rows, the shorter ones padded on the left, with room for what will be written. */
{{#bounded}}
static int make_rows(rows *r, const prompts *p, int64_t past, long max_new_tokens, sc_error *err) {
{{/bounded}}
{{^bounded}}
static int make_rows(rows *r, const prompts *p, long max_new_tokens, sc_error *err) {
{{/bounded}}
    memset(r, 0, sizeof *r);
    for (int b = 0; b < BATCH; b++)
        r->prompt = p->count[b] > r->prompt ? p->count[b] : r->prompt;
{{#bounded}}
    if (past + r->prompt > MAX_CACHE_LEN)
        return sc_fail(err, SC_EFULL,
                       "{{name}}: a prompt of %lld tokens after %lld, the cache has room for %d "
                       "(max_cache_len; export with --max-cache-len %lld)",
                       (long long)r->prompt, (long long)past, MAX_CACHE_LEN,
                       (long long)(past + r->prompt + max_new_tokens));
    /* The last new token is never fed, so it needs no slot. */
    if (max_new_tokens > MAX_CACHE_LEN - past - r->prompt + 1)
        max_new_tokens = MAX_CACHE_LEN - (long)(past + r->prompt) + 1;
{{/bounded}}
    r->room = r->prompt + max_new_tokens;
    r->ids = calloc((size_t)(BATCH * r->room), sizeof *r->ids);
    if (!r->ids)
        return sc_fail(err, SC_EENV, "{{name}}: no memory for %lld tokens", (long long)r->room);
    for (int b = 0; b < BATCH; b++) {
        r->padding[b] = r->prompt - p->count[b];
        memcpy(r->ids + b * r->room + r->padding[b], p->ids[b],
               (size_t)p->count[b] * sizeof *r->ids);
    }
    return SC_OK;
}

typedef struct {
    {{name}}_model *model;
    {{name}}_cache *cache;
    sc_tokenizer *tokenizer; /* NULL: ids in, ids out */
    sc_sampler *sampler;
{{#cuda}}
    bool greedy;           /* on a device, which chooses the ids by itself */
    int32_t chosen[BATCH]; /* then */
{{/cuda}}
    float *logits; /* [BATCH, VOCAB] of the last position */
    float *all;    /* dump: [BATCH, fed, VOCAB] */
    float *piece;  /* dump: a chunk's logits */
    int32_t *step; /* a chunk's ids, [BATCH, n] */
    sc_decoder *decoder;
} session;

/* Feeds positions from … from + n of every row. */
static int feed(session *s, const rows *r, int64_t from, int n, int64_t fed_room, sc_error *err) {
    for (int b = 0; b < BATCH; b++)
        memcpy(s->step + (int64_t)b * n, r->ids + b * r->room + from, (size_t)n * sizeof *s->step);
{{#cuda}}
    if (s->greedy)
        return {{name}}_model_greedy(s->model, s->cache, s->step, n, s->chosen, err);
{{/cuda}}
    float *to = s->all ? s->piece : s->logits;
    const unsigned flags = s->all ? SC_ALL_LOGITS : 0;
    const int rc = {{name}}_model_forward(s->model, s->cache, s->step, n, to, flags, err);
    if (rc || !s->all)
        return rc;
    for (int b = 0; b < BATCH; b++) {
        const float *piece = s->piece + (int64_t)b * n * VOCAB;
        float *out = s->all + (b * fed_room + from) * VOCAB;
        for (int t = 0; t < n; t++)
            if (from + t >= r->padding[b]) /* what padding makes means nothing: zeros */
                memcpy(out + (int64_t)t * VOCAB, piece + (int64_t)t * VOCAB, VOCAB * sizeof *out);
        memcpy(s->logits + (int64_t)b * VOCAB, piece + (int64_t)(n - 1) * VOCAB,
               VOCAB * sizeof *out);
    }
    return SC_OK;
}

static int prefill(session *s, const arguments *a, const rows *r, int64_t fed_room, sc_error *err) {
    int which = 0;
    for (int64_t from = 0; from < r->prompt;) {
        int64_t n = a->chunks ? a->chunk[which] : r->prompt;
        if (which + 1 < a->chunks)
            which++;
        n = n < r->prompt - from ? n : r->prompt - from;
        const int rc = feed(s, r, from, (int)n, fed_room, err);
        if (rc)
            return rc;
        from += n;
    }
    return SC_OK;
}

static bool is_eos(int32_t id) {
    for (int i = 0; i < EOS_IDS; i++)
        if (eos_ids[i] == id)
            return true;
    return false;
}

/* Control tokens are no text; without memory for it, a piece of text is left out. */
static void write_token(session *s, int32_t id) {
    const char *text;
    size_t bytes;
    if (!sc_decoder_push(s->decoder, id, &text, &bytes, NULL))
        fwrite(text, 1, bytes, stdout);
}

static void end_text(session *s) {
    const char *text;
    size_t bytes;
    if (!sc_decoder_end(s->decoder, &text, &bytes, NULL))
        fwrite(text, 1, bytes, stdout);
    putchar('\n');
}

/* Picks the next token of every row; false when all rows have ended. */
static bool next_tokens(session *s, const arguments *a, rows *r) {
    bool go_on = false;
    const int64_t at = r->prompt + r->made;
    for (int b = 0; b < BATCH; b++) {
        int32_t *row = r->ids + b * r->room;
        const float *logits = s->logits + (int64_t)b * VOCAB;
{{#cuda}}
        const int32_t id = r->done[b]  ? row[at - 1]
                           : s->greedy ? s->chosen[b]
                                       : sc_sampler_next(s->sampler, logits, row + r->padding[b],
                                                         (int)(at - r->padding[b]));
{{/cuda}}
{{^cuda}}
        const int32_t id = r->done[b] ? row[at - 1]
                                      : sc_sampler_next(s->sampler, logits, row + r->padding[b],
                                                        (int)(at - r->padding[b]));
{{/cuda}}
        row[at] = id;
        r->done[b] |= !a->ignore_eos && is_eos(id);
        go_on |= !r->done[b];
    }
    r->made++;
    if (BATCH == 1 && s->tokenizer) {
        if (!r->done[0])
            write_token(s, r->ids[at]);
        fflush(stdout);
    }
    return go_on;
}

static int generate(session *s, const arguments *a, rows *r, int64_t fed_room, sc_error *err) {
    int rc = prefill(s, a, r, fed_room, err);
    if (rc)
        return rc;
    if (BATCH == 1 && s->tokenizer && !a->no_prompt)
        fputs(a->text[0], stdout);
    while (r->prompt + r->made < r->room) {
        if (!next_tokens(s, a, r) || r->prompt + r->made == r->room)
            break;
        rc = feed(s, r, r->prompt + r->made - 1, 1, fed_room, err);
        if (rc)
            break;
    }
    return rc;
}

static void print_rows(session *s, const arguments *a, const rows *r) {
    if (BATCH == 1 && s->tokenizer) {
        end_text(s);
        return;
    }
    for (int b = 0; b < BATCH; b++) {
        const int32_t *row = r->ids + b * r->room + r->prompt;
        if (s->tokenizer && !a->no_prompt)
            fputs(a->text[b], stdout);
        for (int64_t i = 0; i < r->made; i++)
            if (!s->tokenizer)
                printf("%s%d", i ? "," : "", (int)row[i]);
            else if (!a->ignore_eos && is_eos(row[i]))
                break;
            else
                write_token(s, row[i]);
        if (s->tokenizer)
            end_text(s);
        else
            putchar('\n');
    }
}

/* A layer's K and V. */
static int dump_kv(const session *s, sc_dump *out, int layer, {{value_ctype}} *kv[2], sc_error *err) {
    const int64_t *shape = kv_shape[layer];
    for (int i = 0; i < 2; i++) {
        kv[i] = calloc((size_t)(BATCH * shape[0] * shape[1] * shape[2 + i]), sizeof *kv[i]);
        if (!kv[i])
            return sc_fail(err, SC_EENV, "{{name}}: no memory for the dump");
    }
    const int rc = {{name}}_cache_read(s->cache, layer, kv[0], kv[1], err);
    for (int i = 0; i < 2 && !rc; i++) {
        char name[64];
        snprintf(name, sizeof name, "%s_cache_%d", i ? "value" : "key", layer);
        sc_dump_add(out, name, "{{kv_dump}}", 4,
                    (const int64_t[]){ BATCH, shape[0], shape[1], shape[2 + i] }, kv[i]);
    }
    return rc;
}

{{#has_indexer}}
static int dump_indexer(const session *s, sc_dump *out, int layer, void **keys, sc_error *err) {
    char name[64];
    const int64_t shape[] = { BATCH, kv_shape[layer][1], index_head_dim[layer] };
    *keys = calloc((size_t)(shape[0] * shape[1] * shape[2]), sizeof({{indexer_ctype}}));
    if (!*keys)
        return sc_fail(err, SC_EENV, "{{name}}: no memory for the dump");
    const int rc = {{name}}_cache_read_indexer(s->cache, layer, *keys, err);
    if (rc)
        return rc;
    snprintf(name, sizeof name, "indexer_keys_%d", layer);
    sc_dump_add(out, name, "{{indexer_dump}}", 3, shape, *keys);
    return SC_OK;
}

{{/has_indexer}}
{{#has_states}}
static int dump_state(const session *s, sc_dump *out, int i, void **state, sc_error *err) {
    char name[64], second[16] = "";
    *state = calloc((size_t)(BATCH * states[i].elements), states[i].size);
    if (!*state)
        return sc_fail(err, SC_EENV, "{{name}}: no memory for the dump");
    const int rc =
        states[i].recurrent
            ? {{name}}_cache_read_recurrent(s->cache, states[i].layer, states[i].index, *state, err)
            : {{name}}_cache_read_conv(s->cache, states[i].layer, states[i].index, *state, err);
    if (rc)
        return rc;
    if (states[i].index)
        snprintf(second, sizeof second, "_%d", states[i].index);
    snprintf(name, sizeof name, "%s_%d%s", states[i].recurrent ? "recurrent_state" : "conv_state",
             states[i].layer, second);
    const int64_t shape[] = { BATCH, states[i].dim[0], states[i].dim[1], states[i].dim[2] };
    sc_dump_add(out, name, states[i].dtype, states[i].rank + 1, shape, *state);
    return SC_OK;
}

{{/has_states}}
/* token_ids, logits, and every layer's K and V{{#has_indexer}}, indexer keys{{/has_indexer}}{{#has_states}} and states{{/has_states}} in the reference's order. */
static int dump(const session *s, const char *path, const rows *r, int64_t fed_room,
                sc_error *err) {
    const int64_t length = r->prompt + r->made, fed = r->made ? length - 1 : length;
    int32_t *ids = calloc((size_t)(BATCH * length), sizeof *ids);
    float *logits = calloc((size_t)(BATCH * fed) * VOCAB, sizeof *logits);
    {{value_ctype}} *kv[LAYERS][2] = { { NULL } };
{{#has_states}}
    void *state[STATES] = { NULL };
{{/has_states}}
{{#has_indexer}}
    void *indexer_keys[LAYERS] = { NULL };
{{/has_indexer}}
    int rc = ids && logits ? SC_OK : sc_fail(err, SC_EENV, "{{name}}: no memory for the dump");
    for (int b = 0; b < BATCH && !rc; b++) {
        memcpy(ids + b * length, r->ids + b * r->room, (size_t)length * sizeof *ids);
        memcpy(logits + b * fed * VOCAB, s->all + b * fed_room * VOCAB,
               (size_t)fed * VOCAB * sizeof *logits);
    }
    sc_dump *out = NULL;
    if (!rc)
        sc_dump_begin(&out, path);
    if (!rc) {
        sc_dump_add(out, "token_ids", "I32", 2, (const int64_t[]){ BATCH, length }, ids);
        sc_dump_add(out, "logits", "F32", 3, (const int64_t[]){ BATCH, fed, VOCAB }, logits);
    }
    for (int layer = 0; layer < LAYERS && !rc; layer++)
        if (kv_shape[layer][0])
            rc = dump_kv(s, out, layer, kv[layer], err);
{{#has_indexer}}
    for (int layer = 0; layer < LAYERS && !rc; layer++)
        if (index_head_dim[layer])
            rc = dump_indexer(s, out, layer, &indexer_keys[layer], err);
{{/has_indexer}}
{{#has_states}}
    for (int i = 0; i < STATES && !rc; i++)
        rc = dump_state(s, out, i, &state[i], err);
{{/has_states}}
    if (!rc)
        rc = sc_dump_end(out, err);
    for (int layer = 0; layer < LAYERS; layer++)
        for (int i = 0; i < 2; i++)
            free(kv[layer][i]);
{{#has_indexer}}
    for (int layer = 0; layer < LAYERS; layer++)
        free(indexer_keys[layer]);
{{/has_indexer}}
{{#has_states}}
    for (int i = 0; i < STATES; i++)
        free(state[i]);
{{/has_states}}
    free(ids);
    free(logits);
    return rc;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* A line per run: prefill and decode tokens per second of one row, milliseconds to the first token,
 * peak KiB. */
static int bench(session *s, const arguments *a, sc_error *err) {
    const int prompt = (int)a->bench_prefill;
    int rc = SC_OK;
    for (long run = 0; run <= a->bench_repeats && !rc; run++) { /* the first warms up */
        rc = {{name}}_cache_reset(s->cache, err);
        for (int64_t i = 0; i < BATCH * a->bench_prefill; i++)
            s->step[i] = (int32_t)((i * 7919 + 13) % VOCAB);
        const double begin = seconds();
        if (!rc)
            rc = {{name}}_model_forward(s->model, s->cache, s->step, prompt, s->logits, 0, err);
        const double middle = seconds();
        for (long i = 0; i < a->bench_decode && !rc; i++) {
            for (int b = 0; b < BATCH; b++)
                s->step[b] = (int32_t)((i * 104729 + b) % VOCAB);
            rc = {{name}}_model_forward(s->model, s->cache, s->step, 1, s->logits, 0, err);
        }
        const double end = seconds();
        struct rusage used;
        getrusage(RUSAGE_SELF, &used);
        if (run && !rc)
            printf("prefill %.2f decode %.2f first_token_ms %.2f peak_kib %ld\n",
                   (double)a->bench_prefill / (middle - begin),
                   (double)a->bench_decode / (end - middle), 1e3 * (middle - begin),
                   used.ru_maxrss);
    }
    return rc;
}

/* Files lie beside the program unless --folder says where. */
static int path_of(char path[PATH_MAX], const arguments *a, const char *file, sc_error *err) {
    char self[PATH_MAX];
    const ssize_t n = a->folder ? 0 : readlink("/proc/self/exe", self, sizeof self - 1);
    if (n < 0)
        return sc_fail(err, SC_EENV, "{{name}}: where am I? %s (give --folder)", strerror(errno));
    self[n] = 0;
    const char *folder = a->folder ? a->folder : dirname(self);
    if (snprintf(path, PATH_MAX, "%s/%s", folder, file) >= PATH_MAX)
        return sc_fail(err, SC_EUSAGE, "{{name}}: %s: the path is too long", folder);
    return SC_OK;
}

static int allocate(session *s, const arguments *a, int64_t chunk, int64_t fed_room,
                    sc_error *err) {
    s->logits = malloc(sizeof(float) * BATCH * VOCAB);
    s->step = malloc(sizeof(int32_t) * BATCH * (size_t)chunk);
    bool ok = s->logits && s->step;
    if (a->dump) {
        s->all = calloc((size_t)(BATCH * fed_room), sizeof(float) * VOCAB);
        s->piece = malloc(sizeof(float) * BATCH * (size_t)chunk * VOCAB);
        ok = ok && s->all && s->piece;
    }
    return ok ? SC_OK : sc_fail(err, SC_EENV, "{{name}}: no memory for logits");
}

static int talk(session *s, const arguments *a, sc_error *err) {
    prompts p;
    rows r = { 0 };
    int rc = read_prompts(&p, a, s->tokenizer, err);
    const bool goes_on = a->session && !access(a->session, F_OK);
    if (!rc && goes_on)
        rc = {{name}}_cache_load(s->cache, a->session, err);
    const int64_t past = {{name}}_cache_seq_length(s->cache, 0);
    if (!rc)
        rc = make_rows(&r, &p, {{#bounded}}past, {{/bounded}}a->max_new_tokens, err);
    if (!rc && (!past || !goes_on))
        rc = {{name}}_cache_pad(s->cache, r.padding, err);
    const int64_t fed_room = r.room;
    if (!rc)
        rc = allocate(s, a, r.prompt, fed_room, err);
    if (!rc)
        rc = sc_sampler_create(&s->sampler, &a->sampling, VOCAB, err);
{{#cuda}}
    s->greedy = !a->dump && !(a->sampling.temperature > 0) && !(a->sampling.repetition_penalty < 1) &&
                !(a->sampling.repetition_penalty > 1) && strcmp({{name}}_model_device(s->model), "cpu");
{{/cuda}}
    if (!rc)
        rc = generate(s, a, &r, fed_room, err);
    if (!rc)
        print_rows(s, a, &r);
    if (!rc && a->dump)
        rc = dump(s, a->dump, &r, fed_room, err);
    if (!rc && a->session)
        rc = {{name}}_cache_save(s->cache, a->session, err);
    for (int b = 0; b < BATCH; b++)
        free(p.ids[b]);
    free(r.ids);
    return rc;
}

{{^cuda}}
static int open_both(session *s, const char *path, const arguments *a, sc_error *err) {
    sc_options options = a->options;
    if (options.device && !strcmp(options.device, "auto"))
        options.device = NULL; /* there is nothing to choose from */
    const int rc = {{name}}_model_open(&s->model, path, &options, err);
    return rc ? rc : {{#offloading}}{{name}}_cache_create_at(&s->cache, a->offload_to, err){{/offloading}}{{^offloading}}{{name}}_cache_create(&s->cache, err){{/offloading}};
}

{{/cuda}}
{{#cuda}}
static int open_on(session *s, const char *path, const arguments *a, const char *device,
                   sc_error *err) {
    sc_options options = a->options;
    options.device = device;
{{#offloading}}
    if (a->offload_to && strcmp(device, "cpu"))
        return sc_fail(err, SC_EUSAGE,
                       "{{name}}: --offload-to: a device keeps offloaded layers in pinned memory "
                       "(--device cpu)");
{{/offloading}}
    int rc = {{name}}_model_open(&s->model, path, &options, err);
{{#offloading}}
    if (!rc && !strcmp(device, "cpu"))
        return {{name}}_cache_create_at(&s->cache, a->offload_to, err);
{{/offloading}}
    if (!rc)
        rc = {{name}}_cache_create_on(&s->cache, device, err);
    return rc;
}

/* auto: the first device; when it will not do, the processor, and why. */
static int open_both(session *s, const char *path, const arguments *a, sc_error *err) {
    const char *device = a->options.device ? a->options.device : "auto";
    if (strcmp(device, "auto"))
        return open_on(s, path, a, device, err);
    const int rc = {{#offloading}}a->offload_to ? SC_EENV : {{/offloading}}open_on(s, path, a, "cuda:0", err);
    if (rc != SC_EENV)
        return rc;
    if (a->options.device)
        fprintf(stderr, "{{name}}: on the cpu: %s\n", err->message);
    {{name}}_model_close(s->model);
    s->model = NULL;
    return open_on(s, path, a, "cpu", err);
}

{{/cuda}}
static int run(const arguments *a, sc_error *err) {
    session s = { 0 };
    char path[PATH_MAX];
    int rc = path_of(path, a, "{{name}}.weights", err);
    if (!rc)
        rc = open_both(&s, path, a, err);
    if (!rc && a->texts) {
        rc = path_of(path, a, "{{name}}.tokenizer", err);
        if (!rc)
            rc = sc_tokenizer_open(&s.tokenizer, path, err);
        if (!rc) /* the prompt goes before what is decoded */
            rc = sc_decoder_create(&s.decoder, s.tokenizer, false, true, err);
    }
    if (!rc && a->bench_repeats) {
        rc = allocate(&s, a, a->bench_prefill, 0, err);
        if (!rc)
            rc = bench(&s, a, err);
    } else if (!rc)
        rc = talk(&s, a, err);
    sc_sampler_destroy(s.sampler);
    sc_decoder_destroy(s.decoder);
    sc_tokenizer_close(s.tokenizer);
    {{name}}_cache_destroy(s.cache);
    {{name}}_model_close(s.model);
    free(s.logits);
    free(s.all);
    free(s.piece);
    free(s.step);
    return rc;
}

int main(int argc, char **argv) {
    arguments a;
    sc_error err = { 0 };
    if (argc == 2 && (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))) {
        fputs(help, stdout);
        return 0;
    }
    int rc = read_arguments(&a, argc, argv, &err);
    if (!rc)
        rc = run(&a, &err);
    free(a.chunk);
    if (!rc && (fflush(stdout) || ferror(stdout)))
        rc = sc_fail(&err, SC_EENV, "{{name}}: standard output: %s", strerror(errno));
    if (rc)
        fprintf(stderr, "%s\n", err.message);
    return sc_exit_status(rc);
}
