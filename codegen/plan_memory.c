/* plan_memory.c - see plan_memory.h. */
#include "plan_memory.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

int sc_memory_read(uint64_t *bytes, const char *option, const char *text, sc_error *err) {
    static const struct {
        const char *name;
        uint64_t bytes;
    } units[] = { { "", 1 },
                  { "B", 1 },
                  { "KiB", UINT64_C(1) << 10 },
                  { "MiB", UINT64_C(1) << 20 },
                  { "GiB", UINT64_C(1) << 30 },
                  { "TiB", UINT64_C(1) << 40 },
                  { "kB", 1000 },
                  { "KB", 1000 },
                  { "MB", 1000000 },
                  { "GB", 1000000000 },
                  { "TB", UINT64_C(1000000000000) } };
    char *unit = NULL;
    errno = 0;
    const unsigned long long count =
        isdigit((unsigned char)*text) ? strtoull(text, &unit, 10) : 0; /* no sign, no space */
    uint64_t product;
    for (size_t i = 0; count && !errno && i < sizeof units / sizeof *units; i++)
        if (!strcmp(unit, units[i].name) &&
            !__builtin_mul_overflow((uint64_t)count, units[i].bytes, &product) &&
            product <= INT64_MAX) {
            *bytes = product;
            return SC_OK;
        }
    return sc_fail(err, SC_EUSAGE, "%s: \"%s\" is no size (such as 24GiB, 512MiB, 24GB or bytes)",
                   option, text);
}

uint64_t sc_memory_needed(const sc_plan *plan) {
    uint64_t sum = plan->arena_bytes;
    const bool device = plan->options.cuda; /* its own rows of weights, its own scratch */
    const uint64_t more[] = { plan->cache_scratch_bytes,
                              device ? plan->device.scratch_bytes : plan->scratch_bytes,
                              device ? plan->device.weights_bytes : plan->weights_bytes };
    for (size_t i = 0; i < sizeof more / sizeof *more; i++)
        if (__builtin_add_overflow(sum, more[i], &sum))
            return UINT64_MAX;
    return sum;
}

int sc_memory_try(sc_memory_sizes *sizes, const sc_config *config, const sc_graph *graph,
                  const sc_plan_options *options, sc_error *err) {
    sc_pool *pool = sc_pool_create();
    sc_plan *plan = NULL;
    const int rc = pool ? sc_plan_make(&plan, pool, config, graph, options, err)
                        : sc_oom(err, "planning what fits");
    if (!rc)
        *sizes = (sc_memory_sizes){ sc_memory_needed(plan), plan->arena_bytes, plan->host_bytes };
    sc_pool_destroy(pool);
    return rc;
}

/* A search: one of an options' two numbers, the other stays. */
typedef struct {
    const sc_plan *plan;
    sc_plan_options options;
    int64_t *number; /* of options */
    uint64_t memory;
} search;

/* Whether that many fit; fit takes their bytes when they do. What overflows does not fit. */
static int fits(bool *yes, search *s, int64_t number, sc_memory_fit *fit, sc_error *err) {
    sc_memory_sizes sizes;
    *s->number = number;
    const int rc = sc_memory_try(&sizes, s->plan->config, s->plan->graph, &s->options, err);
    if (rc && rc != SC_EINPUT)
        return rc;
    *yes = !rc && sizes.needed <= s->memory;
    if (*yes) {
        fit->bytes = sizes.needed;
        fit->host_bytes = sizes.host;
        fit->batch_size = s->options.batch_size;
        fit->max_cache_len = s->options.max_cache_len;
    }
    return SC_OK;
}

/* The largest number that fits, from one that does to one that does not. */
static int bisect(search *s, int64_t good, int64_t bad, sc_memory_fit *fit, sc_error *err) {
    while (bad - good > 1) {
        const int64_t middle = good + (bad - good) / 2;
        bool yes;
        const int rc = fits(&yes, s, middle, fit, err);
        if (rc)
            return rc;
        *(yes ? &good : &bad) = middle;
    }
    return SC_OK;
}

/* None fits: what the least of them needs. */
static int say_least(search *s, int64_t least, sc_memory_fit *fit, sc_error *err) {
    sc_memory_sizes sizes;
    *s->number = least;
    const int rc = sc_memory_try(&sizes, s->plan->config, s->plan->graph, &s->options, err);
    if (rc && rc != SC_EINPUT)
        return rc;
    *s->number = 0;
    *fit = (sc_memory_fit){ .batch_size = s->options.batch_size,
                            .max_cache_len = s->options.max_cache_len,
                            .bytes = rc ? UINT64_MAX : sizes.needed,
                            .host_bytes = rc ? 0 : sizes.host };
    return SC_OK;
}

/* From least, which may not fit, to most, beyond which nothing is tried. */
static int look(search *s, int64_t least, int64_t most, sc_memory_limit limit, sc_memory_fit *fit,
                sc_error *err) {
    bool yes;
    int rc = fits(&yes, s, most, fit, err);
    if (rc)
        return rc;
    if (yes) {
        fit->limit = limit;
        return SC_OK;
    }
    fit->limit = SC_LIMIT_MEMORY;
    rc = fits(&yes, s, least, fit, err);
    if (rc)
        return rc;
    return yes ? bisect(s, least, most, fit, err) : say_least(s, least, fit, err);
}

int sc_memory_longest(sc_memory_fit *fit, const sc_plan *plan, int64_t batch_size, uint64_t bytes,
                      sc_error *err) {
    search s = { .plan = plan, .options = plan->options, .memory = bytes };
    s.number = &s.options.max_cache_len;
    s.options.batch_size = batch_size;
    const int64_t positions = plan->config->max_position_embeddings;
    const int64_t least = plan->options.rewind > 1 ? plan->options.rewind : 1;
    const bool known = positions >= least && positions <= SC_LONGEST_CACHE;
    sc_memory_fit found = { 0 };
    const int rc = look(&s, least, known ? positions : SC_LONGEST_CACHE,
                        known ? SC_LIMIT_POSITIONS : SC_LIMIT_PLAN, &found, err);
    if (!rc)
        *fit = found;
    return rc;
}

int sc_memory_widest(sc_memory_fit *fit, const sc_plan *plan, uint64_t bytes, sc_error *err) {
    /* Up to here the tokens of one pass are shared out among the rows, rounded down, so a row more
     * can need less: each is tried. From here on it can not. A device shares blocks out too. */
    const int64_t even = plan->options.cuda ? 512 : 16;
    search s = { .plan = plan, .options = plan->options, .memory = bytes };
    s.number = &s.options.batch_size;
    sc_memory_fit found = { 0 };
    bool yes;
    int rc = fits(&yes, &s, even, &found, err);
    if (!rc && yes)
        rc = look(&s, even, SC_WIDEST_BATCH, SC_LIMIT_PLAN, &found, err);
    for (int64_t rows = even - 1; !rc && !yes && rows; rows--)
        rc = fits(&yes, &s, rows, &found, err);
    if (!rc && !yes)
        rc = say_least(&s, 1, &found, err);
    if (!rc)
        *fit = found;
    return rc;
}

int sc_memory_make(sc_memory *memory, const sc_plan *plan, uint64_t bytes, bool given_batch,
                   sc_error *err) {
    sc_memory m = { .bytes = bytes, .lengths = given_batch ? 1 : SC_MEMORY_BATCHES };
    int rc = SC_OK;
    for (int i = 0; i < m.lengths && !rc; i++)
        rc =
            sc_memory_longest(&m.length[i], plan,
                              given_batch ? plan->options.batch_size : (int64_t)1 << i, bytes, err);
    if (!rc)
        rc = sc_memory_widest(&m.batch, plan, bytes, err);
    if (!rc)
        *memory = m;
    return rc;
}

const char *sc_memory_limit_name(sc_memory_limit limit) {
    static const char *const names[] = { "memory", "max_position_embeddings", "slipcast" };
    return names[limit];
}

static void print_fit(FILE *out, const sc_memory_fit *fit, bool offloading) {
    char batch[24] = "none", length[24] = "none";
    if (fit->batch_size)
        snprintf(batch, sizeof batch, "%lld", (long long)fit->batch_size);
    if (fit->max_cache_len)
        snprintf(length, sizeof length, "%lld", (long long)fit->max_cache_len);
    fprintf(out, "%10s  %13s  %16llu", batch, length, (unsigned long long)fit->bytes);
    if (offloading)
        fprintf(out, "  %16llu", (unsigned long long)fit->host_bytes);
    fprintf(out, "  %s\n", sc_memory_limit_name(fit->limit));
}

static void print_head(FILE *out, const char *what, bool offloading) {
    fprintf(out, "\n%s\nbatch_size  max_cache_len  %16s%s  limit\n", what,
            offloading ? "device bytes" : "bytes", offloading ? "        host bytes" : "");
}

void sc_memory_print(FILE *out, const sc_plan *plan, const sc_memory *memory) {
    const sc_plan_options *o = &plan->options;
    char text[32], weights[32];
    fprintf(out, "%s: what fits into %llu bytes (%s), %s", plan->config->model_type,
            (unsigned long long)memory->bytes, sc_bytes_text(text, memory->bytes),
            sc_dtype_name(o->dtype));
    if (o->kv_dtype != o->dtype)
        fprintf(out, ", keys and values %s", sc_dtype_name(o->kv_dtype));
    if (plan->graph)
        fprintf(out, ": weights (%s), model scratch, cache\n",
                sc_bytes_text(weights, o->cuda ? plan->device.weights_bytes : plan->weights_bytes));
    else
        fprintf(out, ": the cache alone, no weights\n");
    print_head(out, "largest max_cache_len", o->offloading);
    for (int i = 0; i < memory->lengths; i++)
        print_fit(out, &memory->length[i], o->offloading);
    print_head(out, "largest batch_size", o->offloading);
    print_fit(out, &memory->batch, o->offloading);
}

static void json_fit(FILE *out, const sc_memory_fit *fit) {
    fprintf(out,
            "{\"batch_size\": %lld, \"max_cache_len\": %lld, \"bytes\": %llu, \"host_bytes\": "
            "%llu, \"limit\": \"%s\"}",
            (long long)fit->batch_size, (long long)fit->max_cache_len,
            (unsigned long long)fit->bytes, (unsigned long long)fit->host_bytes,
            sc_memory_limit_name(fit->limit));
}

void sc_memory_print_json(FILE *out, const sc_plan *plan, const sc_memory *memory) {
    fprintf(out, "{\"bytes\": %llu, \"weights_counted\": %s,\n    \"longest\": [",
            (unsigned long long)memory->bytes, plan->graph ? "true" : "false");
    for (int i = 0; i < memory->lengths; i++) {
        fprintf(out, "%s\n      ", i ? "," : "");
        json_fit(out, &memory->length[i]);
    }
    fprintf(out, "],\n    \"widest\": ");
    json_fit(out, &memory->batch);
    fprintf(out, "}");
}
