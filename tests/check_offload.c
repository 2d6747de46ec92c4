/*
 * check_offload.c - layers that live on the host: the schedule is the reference's, castings follow
 * it, and no caller can tell, but for the counters, that they do.
 *
 * Source of the orders and of what moves: tests/reference/cache_traces/offload_order.json, recorded
 * in transformers 5.24.0. Source of all values: the same casting without offloading, which
 * check_cache.c compares with the reference.
 */
#include <check.h>
#include <dirent.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include "../codegen/json.h"
#include "support/cast.h"
#include "support/draw.h"
#include "support/run.h"
#include "support/trace.h"

Suite *offload_suite(void);

#define FOLDER "build/test-castings/offload"

enum { LISTS = 10, CASES = 2 * LISTS }; /* the trace has each list of layer types twice */

/* What every layer of these castings has; the trace says nothing of widths. */
enum { HEADS = 2, KEY_DIM = 4, VALUE_DIM = 6, WINDOW = 4, MAX_CACHE_LEN = 12, BATCH = 2 };

static cJSON *all;

static const cJSON *case_of(int i) {
    char key[64];
    snprintf(key, sizeof key, "case_%d_%s", i / 2, i % 2 ? "all" : "only_non_sliding");
    const cJSON *one = sc_json_get(all, key);
    ck_assert_msg(one != NULL, "the trace has no %s", key);
    ck_assert_int_eq(cJSON_IsTrue(sc_json_get(one, "only_non_sliding")), i % 2 == 0);
    return one;
}

/* Does the reference raise ValueError? Then it does in every step. */
static int raises(const cJSON *one) {
    const cJSON *error = sc_json_get(cJSON_GetArrayItem(sc_json_get(one, "steps"), 0), "error");
    if (error)
        ck_assert_str_eq(sc_json_get(error, "type")->valuestring, "ValueError");
    return error != NULL;
}

static const char *options_of(int i, int offloading) {
    static char options[160];
    snprintf(options, sizeof options, "--max-cache-len %d --batch-size %d%s%s", MAX_CACHE_LEN,
             BATCH, offloading ? " --offloading" : "",
             offloading && i % 2 ? " --no-offload-only-non-sliding" : "");
    return options;
}

static const char *specification(const cJSON *types) {
    static char json[4096];
    size_t at =
        (size_t)snprintf(json, sizeof json, "{\"model_type\": \"slipcast_cache\", \"layers\": [");
    const cJSON *item;
    cJSON_ArrayForEach(item, types) {
        const char *type = item->valuestring;
        const int moe = !strcmp(type, "moe"), linear = !strcmp(type, "linear_attention");
        at += (size_t)snprintf(json + at, sizeof json - at, "%s{\"layer_type\": \"%s\"",
                               item->prev && item->prev->next ? ", " : "", type);
        if (!moe && !linear)
            at += (size_t)snprintf(
                json + at, sizeof json - at,
                ", \"num_key_value_heads\": %d, \"head_dim\": %d, \"v_head_dim\": %d", HEADS,
                KEY_DIM, VALUE_DIM);
        if (!strcmp(type, "sliding_attention"))
            at += (size_t)snprintf(json + at, sizeof json - at, ", \"sliding_window\": %d", WINDOW);
        if (!strcmp(type, "chunked_attention"))
            at += (size_t)snprintf(json + at, sizeof json - at, ", \"attention_chunk_size\": %d",
                                   WINDOW);
        if (linear || !strcmp(type, "hybrid"))
            at += (size_t)snprintf(json + at, sizeof json - at,
                                   ", \"states\": [{\"name\": \"conv_state\", \"shape\": [3, 4]}, "
                                   "{\"name\": \"recurrent_state\", \"shape\": [2, 5]}]");
        at += (size_t)snprintf(json + at, sizeof json - at, "}");
    }
    ck_assert_uint_lt(at + 3, sizeof json);
    strcpy(json + at, "]}");
    return json;
}

/* Every other list with room to rewind, where slots hold more than is shown. */
static const sc_casting *cast_case(int i, int offloading) {
    char name[64], options[200];
    snprintf(name, sizeof name, "offload-%d-%s", i / 2,
             !offloading ? "none"
             : i % 2     ? "all"
                         : "full");
    snprintf(options, sizeof options, "%s%s", options_of(i, offloading),
             i / 2 % 2 ? " --rewind 3" : "");
    return cast_spec(name, specification(sc_json_get(case_of(i), "layer_types")), options);
}

/* ---- the schedule ---- */

/* What the plan prints, read as JSON; NULL, and *talk, when it refuses. The caller frees both. */
static cJSON *plan_of(int i, char **talk) {
    char path[256], *printed;
    snprintf(path, sizeof path, FOLDER "/plan-%d.json", i);
    const char *json = specification(sc_json_get(case_of(i), "layer_types"));
    cast_write(path, json, strlen(json));
    const int status = run(&printed, talk, "$SLIPCAST plan %s --json %s", path, options_of(i, 1));
    cJSON *plan = cJSON_Parse(printed);
    ck_assert_int_eq(plan != NULL, status == 0);
    free(printed);
    return plan;
}

static const char *text_of(const cJSON *event, const char *key) {
    const cJSON *item = sc_json_get(event, key);
    return cJSON_IsString(item) ? item->valuestring : "";
}

static int layer_of(const cJSON *event) {
    const cJSON *item = sc_json_get(event, "layer");
    return cJSON_IsNumber(item) ? item->valueint : -1;
}

/* The reference brackets the prefetch (enter, exit) where we do not, and we list the update itself
 * (compute) where it does not: behind the prefetch, in front of the offload. */
static void compare_events(const cJSON *ours, const cJSON *theirs, int layer, int pass) {
    const cJSON *a = cJSON_GetArrayItem(ours, 0), *b;
    int computed = 0;
    cJSON_ArrayForEach(b, theirs) {
        const char *event = text_of(b, "event");
        if (!strcmp(event, "enter") || !strcmp(event, "exit"))
            continue;
        for (; a && !strcmp(text_of(a, "event"), "compute"); a = a->next) {
            computed++;
            ck_assert_int_eq(layer_of(a), layer);
            ck_assert_str_eq(text_of(a->prev, "event"), "prefetch");
        }
        ck_assert_msg(a && !strcmp(text_of(a, "event"), event) && layer_of(a) == layer_of(b) &&
                          !strcmp(text_of(a, "stream"), text_of(b, "stream")) &&
                          !strcmp(text_of(a, "for"), text_of(b, "for")),
                      "pass %d, update of layer %d: %s %s%s of layer %d, the reference has %s "
                      "%s%s of layer %d",
                      pass, layer, a ? text_of(a, "event") : "the end", text_of(a, "stream"),
                      text_of(a, "for"), layer_of(a), event, text_of(b, "stream"),
                      text_of(b, "for"), layer_of(b));
        ck_assert_int_eq(computed, !strcmp(event, "offload"));
        a = a->next;
    }
    for (; a; a = a->next) {
        ck_assert_str_eq(text_of(a, "event"), "compute");
        computed++;
    }
    ck_assert_int_eq(computed, 1);
}

/* Is there an offload of that layer anywhere in the trace? */
static int offloaded(const cJSON *one, int layer) {
    const cJSON *step, *event;
    cJSON_ArrayForEach(step, sc_json_get(one, "steps")) {
        cJSON_ArrayForEach(event, sc_json_get(step, "events")) {
            if (!strcmp(text_of(event, "event"), "offload") && layer_of(event) == layer)
                return 1;
        }
    }
    return 0;
}

/* Bytes of K and V of a layer: full and hybrid layers have max_cache_len slots, the others WINDOW.
 */
static long long layer_bytes(const char *type) {
    const int slots =
        !strcmp(type, "full_attention") || !strcmp(type, "hybrid") ? MAX_CACHE_LEN : WINDOW;
    return 4LL * BATCH * HEADS * slots * (KEY_DIM + VALUE_DIM);
}

static void compare_places(const cJSON *plan, const cJSON *one) {
    const cJSON *types = sc_json_get(one, "layer_types"), *type,
                *offload = sc_json_get(plan, "offload"),
                *token = sc_json_get(offload, "bytes_per_token");
    long long host = 0, slots = 0, in = 0, out = 0;
    int layer = 0;
    char known[256] = ""; /* types whose slots have been counted: here a type has one shape */
    cJSON_ArrayForEach(type, types) {
        const cJSON *ours = cJSON_GetArrayItem(sc_json_get(plan, "layers"), layer);
        const int away = offloaded(one, layer);
        ck_assert_str_eq(text_of(ours, "placement"), away ? "host" : "device");
        if (away) {
            const long long bytes = layer_bytes(type->valuestring);
            host += bytes;
            in += bytes;
            out += 4LL * BATCH * HEADS * (KEY_DIM + VALUE_DIM);
            if (!strstr(known, type->valuestring)) {
                slots += 2 * bytes;
                strcat(known, type->valuestring);
            }
        }
        layer++;
    }
    ck_assert_int_eq((long long)sc_json_get(offload, "host_bytes")->valuedouble, host);
    ck_assert_int_eq((long long)sc_json_get(offload, "slot_bytes")->valuedouble, slots);
    ck_assert_int_eq((long long)sc_json_get(token, "to_device")->valuedouble, in);
    ck_assert_int_eq((long long)sc_json_get(token, "to_host")->valuedouble, out);
    ck_assert_int_eq(cJSON_IsTrue(sc_json_get(offload, "only_non_sliding")),
                     cJSON_IsTrue(sc_json_get(one, "only_non_sliding")));
}

START_TEST(the_schedule_is_the_reference_s) {
    const cJSON *one = case_of(_i), *step;
    char *talk;
    cJSON *plan = plan_of(_i, &talk);
    if (raises(one)) {
        ck_assert_ptr_null(plan);
        ck_assert_ptr_nonnull(strstr(talk, "--offloading: every layer slides"));
        ck_assert_ptr_nonnull(strstr(talk, "--no-offload-only-non-sliding"));
        free(talk);
        return;
    }
    ck_assert_msg(plan != NULL, "%s", talk);
    free(talk);
    const cJSON *schedule = sc_json_get(sc_json_get(plan, "offload"), "schedule");
    const int updates = cJSON_GetArraySize(schedule);
    int i = 0;
    cJSON_ArrayForEach(step, sc_json_get(one, "steps")) {
        const cJSON *ours = cJSON_GetArrayItem(schedule, i % updates);
        const int layer = sc_json_get(step, "updated_layer")->valueint,
                  pass = sc_json_get(step, "pass")->valueint;
        ck_assert_int_eq(pass, i / updates);
        ck_assert_int_eq(sc_json_get(ours, "update")->valueint, layer);
        compare_events(sc_json_get(ours, "events"), sc_json_get(step, "events"), layer, pass);
        i++;
    }
    ck_assert_int_eq(i, 2 * updates); /* two passes */
    compare_places(plan, one);
    cJSON_Delete(plan);
}
END_TEST

/* ---- what moves ---- */

typedef struct {
    const sc_casting *api;
    sc_cache *cache;
} subject;

static subject begin(const sc_casting *api, const char *folder) {
    subject s = { .api = api };
    sc_error err = { 0 };
    const int rc =
        folder ? api->cache_create_at(&s.cache, folder, &err) : api->cache_create(&s.cache, &err);
    ck_assert_msg(!rc, "%s", err.message);
    return s;
}

static void end(subject *s) { s->api->cache_destroy(s->cache); }

enum { MOST_TOKENS = MAX_CACHE_LEN + 2, FLOATS = BATCH * HEADS * MOST_TOKENS * VALUE_DIM };

/* Numbers that no other call has: a slot that holds another's shows. */
static void fill(float *to, size_t count) {
    static uint32_t serial;
    for (size_t i = 0; i < count; i++)
        to[i] = (float)(++serial & 0xffffff);
}

START_TEST(states_alone_are_nothing_to_offload) {
    char *talk;
    ck_assert_int_eq(run(NULL, &talk, "$SLIPCAST plan tests/reference/tiny/mamba2 --offloading"),
                     2);
    ck_assert_ptr_nonnull(strstr(talk, "--offloading: no layer keeps keys and values"));
    free(talk);
}
END_TEST

START_TEST(updates_move_what_the_reference_moves) {
    static float keys[FLOATS], values[FLOATS];
    const cJSON *one = case_of(_i), *step, *event;
    if (raises(one))
        return;
    subject s = begin(cast_case(_i, 1), NULL);
    int64_t counted[2] = { 0, 0 }, now[2] = { -1, -1 };
    for (int again = 0; again < 2; again++) {
        cJSON_ArrayForEach(step, sc_json_get(one, "steps")) {
            const int layer = sc_json_get(step, "updated_layer")->valueint;
            sc_error err = { 0 };
            cJSON_ArrayForEach(event, sc_json_get(step, "events"))
                counted[!strcmp(text_of(event, "event"), "offload")] +=
                cJSON_IsTrue(sc_json_get(event, "moves"));
            fill(keys, FLOATS);
            ck_assert_msg(!s.api->cache_update(s.cache, layer, keys, values,
                                               sc_json_get(step, "tokens")->valueint, &err),
                          "%s", err.message);
            s.api->cache_moves(s.cache, &now[0], &now[1]);
            ck_assert_msg(now[0] == counted[0] && now[1] == counted[1],
                          "case %d, update of layer %d: %" PRId64 " prefetches and %" PRId64
                          " offloads, the reference has %" PRId64 " and %" PRId64,
                          _i, layer, now[0], now[1], counted[0], counted[1]);
        }
        /* An emptied cache moves as a new one does. */
        ck_assert_int_eq(s.api->cache_reset(s.cache, NULL), SC_OK);
    }
    end(&s);
}
END_TEST

/* ---- nothing else shows ---- */

enum { STEPS = 250, SEEDS = 3 };

typedef struct {
    subject plain, away;
    const cJSON *trace;
    uint64_t random;
    int accepted, refused;
    char what[96];
} pair;

/* One call on both, which answer alike. */
#define BOTH(p, call)                                                                              \
    do {                                                                                           \
        sc_error err = { 0 };                                                                      \
        subject *s = &(p)->plain;                                                                  \
        const int rc = (call);                                                                     \
        s = &(p)->away;                                                                            \
        const int other = (call);                                                                  \
        ck_assert_msg(other == rc, "%s: %s: %d (%s), without offloading %d", (p)->what, #call,     \
                      other, err.message, rc);                                                     \
        (p)->accepted += !rc;                                                                      \
        (p)->refused += rc != 0;                                                                   \
    } while (0)

/* The layer that the reference prefetches while that one is updated, -1: none. */
static int next_of(const cJSON *one, int layer) {
    const cJSON *step, *event;
    cJSON_ArrayForEach(step, sc_json_get(one, "steps")) {
        cJSON_ArrayForEach(event, sc_json_get(step, "events")) {
            if (sc_json_get(step, "updated_layer")->valueint == layer &&
                !strcmp(text_of(event, "event"), "prefetch"))
                return layer_of(event);
        }
    }
    return -1;
}

/* Whatever was in the slots before, after an update the next layer is in one, so that asking for it
 * brings nothing; no update drives out what it has just brought. */
static void assert_next_is_there(pair *p, int layer) {
    const int next = next_of(p->trace, layer);
    int64_t before, after, offloads;
    if (next < 0 || next == layer)
        return;
    p->away.api->cache_moves(p->away.cache, &before, &offloads);
    ck_assert_int_eq(p->away.api->cache_prefetch(p->away.cache, next, NULL), SC_OK);
    p->away.api->cache_moves(p->away.cache, &after, &offloads);
    ck_assert_msg(before == after, "%s: layer %d was not brought with layer %d", p->what, next,
                  layer);
}

static void update_layer(pair *p, int layer, int row, int tokens) {
    static float keys[FLOATS], values[FLOATS], inputs[FLOATS];
    fill(keys, FLOATS);
    fill(values, FLOATS);
    fill(inputs, FLOATS);
    const int accepted = p->accepted;
    if (row < 0)
        BOTH(p, s->api->cache_update(s->cache, layer, keys, values, tokens, &err));
    else
        BOTH(p, s->api->cache_update_row(s->cache, layer, row, keys, values, tokens, &err));
    if (p->accepted > accepted)
        assert_next_is_there(p, layer);
    if (p->plain.api->states && row < 0)
        BOTH(p, s->api->cache_update_conv(s->cache, layer, 0, inputs, tokens, NULL, NULL, &err));
    else if (p->plain.api->states)
        BOTH(p, s->api->cache_update_recurrent_row(s->cache, layer, 0, row, inputs, &err));
}

/* The files are one another's too, and each cache goes on from the other's. */
static void change_files(pair *p) {
    static const char *const path[] = { FOLDER "/plain", FOLDER "/away" };
    size_t bytes[2];
    ck_assert_int_eq(p->plain.api->cache_save(p->plain.cache, path[0], NULL), SC_OK);
    ck_assert_int_eq(p->away.api->cache_save(p->away.cache, path[1], NULL), SC_OK);
    char *a = cast_file(path[0], &bytes[0]), *b = cast_file(path[1], &bytes[1]);
    ck_assert_msg(bytes[0] == bytes[1] && !memcmp(a, b, bytes[0]), "%s: the files differ", p->what);
    free(a);
    free(b);
    if (draw(&p->random, 2)) /* something for load to write over */
        update_layer(p, draw(&p->random, p->plain.api->layers), -1, 1 + draw(&p->random, 5));
    sc_error err = { 0 };
    ck_assert_msg(!p->plain.api->cache_load(p->plain.cache, path[1], &err), "%s", err.message);
    ck_assert_msg(!p->away.api->cache_load(p->away.cache, path[0], &err), "%s", err.message);
}

static void random_step(pair *p) {
    const int layers = p->plain.api->layers, op = draw(&p->random, 100),
              layer = draw(&p->random, layers), row = draw(&p->random, BATCH),
              tokens = 1 + draw(&p->random, draw(&p->random, 6) ? 3 : MOST_TOKENS);
    const int32_t beams[BATCH] = { (int32_t)draw(&p->random, BATCH),
                                   (int32_t)draw(&p->random, BATCH) };
    if (op < 30)
        update_layer(p, layer, -1, tokens);
    else if (op < 44)
        update_layer(p, layer, row, tokens);
    else if (op < 58)
        for (int i = 0; i < layers; i++) /* a pass as a model makes it */
            update_layer(p, i, -1, tokens);
    else if (op < 64)
        BOTH(p, s->api->cache_reorder(s->cache, beams, &err));
    else if (op < 68)
        BOTH(p, s->api->cache_copy_row(s->cache, row, !row, &err));
    else if (op < 75)
        BOTH(p, s->api->cache_crop(s->cache, -(tokens % 4), &err));
    else if (op < 78)
        BOTH(p, s->api->cache_reset(s->cache, &err));
    else if (op < 83)
        BOTH(p, s->api->cache_reset_row(s->cache, row, &err));
    else if (op < 87)
        change_files(p);
    else if (op < 94) /* hints, in any order */
        ck_assert_int_eq(p->away.api->cache_prefetch(p->away.cache, layer, NULL), SC_OK);
    else
        ck_assert_int_eq(p->away.api->cache_offload(p->away.cache, layer, NULL), SC_OK);
}

static int entries(const char *folder) {
    DIR *dir = opendir(folder);
    ck_assert_msg(dir != NULL, "%s", folder);
    int count = 0;
    for (const struct dirent *entry; (entry = readdir(dir));)
        count += strcmp(entry->d_name, ".") && strcmp(entry->d_name, "..");
    closedir(dir);
    return count;
}

/* host: NULL, or the folder of the file that plays the host. */
static void compare(int i, const char *host, uint64_t seed) {
    pair p = { .trace = case_of(i),
               .plain = begin(cast_case(i, 0), NULL),
               .away = begin(cast_case(i, 1), host),
               .random = seed * 0x9E3779B97F4A7C15u | 1 };
    for (int step = 0; step < STEPS; step++) {
        size_t bytes[2];
        snprintf(p.what, sizeof p.what, "case %d, seed %" PRIu64 ", step %d", i, seed, step);
        random_step(&p);
        char *plain = cast_seen(p.plain.api, p.plain.cache, &bytes[0]),
             *away = cast_seen(p.away.api, p.away.cache, &bytes[1]);
        ck_assert_msg(bytes[0] == bytes[1] && !memcmp(plain, away, bytes[0]),
                      "%s: what the cache shows differs", p.what);
        free(plain);
        free(away);
        if (host)
            ck_assert_int_eq(entries(host), 0);
    }
    int64_t prefetches, offloads;
    p.away.api->cache_moves(p.away.cache, &prefetches, &offloads);
    ck_assert_msg(p.accepted > STEPS / 3 && p.refused > 0 && prefetches > 10 && offloads > 10,
                  "%s: %d calls accepted, %d refused, %" PRId64 " layers brought: too tame", p.what,
                  p.accepted, p.refused, prefetches);
    end(&p.plain);
    end(&p.away);
}

START_TEST(no_bit_depends_on_offloading) {
    for (uint64_t seed = 1; seed <= SEEDS && !raises(case_of(_i)); seed++)
        compare(_i, NULL, seed);
}
END_TEST

/* ---- a file as the host ---- */

#define HOST FOLDER "/host"

static int open_files(void) { return entries("/proc/self/fd"); }

START_TEST(a_file_is_as_good_as_memory_and_has_no_name) {
    if (raises(case_of(_i)))
        return;
    const int around = open_files();
    compare(_i, HOST, 7);
    ck_assert_int_eq(entries(HOST), 0);
    ck_assert_int_eq(open_files(), around);
}
END_TEST

START_TEST(a_file_that_cannot_be_made_is_refused) {
    const sc_casting *api = cast_case(0, 1);
    const char *const places[] = { HOST "/none", FOLDER "/plan-0.json" };
    const int around = open_files();
    cJSON_Delete(plan_of(0, NULL)); /* which writes the file that is no folder */
    for (int i = 0; i < 2; i++) {
        sc_cache *cache = NULL;
        sc_error err = { 0 };
        ck_assert_int_eq(api->cache_create_at(&cache, places[i], &err), SC_EENV);
        ck_assert_int_eq(err.code, SC_EENV);
        ck_assert_msg(strstr(err.message, places[i]) != NULL, "%s", err.message);
        ck_assert_ptr_null(cache);
        ck_assert_int_eq(api->cache_create_at(&cache, places[i], NULL), SC_EENV);
    }
    ck_assert_int_eq(open_files(), around);
}
END_TEST

/* A disk with room for half of it: refused now, not by a signal in the middle of an update. */
START_TEST(a_disk_without_room_is_refused) {
    const sc_casting *api = cast_case(0, 1);
    const int around = open_files();
    sc_cache *cache = NULL;
    sc_error err = { 0 };
    struct rlimit was;
    ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &was), 0);
    const struct rlimit small = { (rlim_t)(3 * layer_bytes("full_attention") / 2), was.rlim_max };
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &small), 0);
    const int rc = api->cache_create_at(&cache, HOST, &err);
    setrlimit(RLIMIT_FSIZE, &was);
    signal(SIGXFSZ, handler);
    ck_assert_int_eq(rc, SC_EENV);
    ck_assert_ptr_nonnull(strstr(err.message, HOST));
    ck_assert_ptr_null(cache);
    ck_assert_int_eq(entries(HOST), 0);
    ck_assert_int_eq(open_files(), around);
}
END_TEST

/* ---- whole models ---- */

/* The first has no layer that slides, qwen2_sliding has one of each, mistral only such. */
static const char *const models[] = { "llama", "qwen3", "qwen2_sliding", "mistral" };
enum { MODELS = sizeof models / sizeof *models };

static char *dump_of(const char *model, const char *options, size_t *bytes) {
    ck_assert_int_eq(run(NULL, NULL,
                         "$SLIPCAST run tests/reference/tiny/%s --max-cache-len 64 --token-ids "
                         "'3,1,4,1,5,9,2,6,5,3,5,8,9,7,9,3,2,3,8;7,7' --max-new-tokens 20 "
                         "--ignore-eos %s --dump " FOLDER "/dump.safetensors",
                         model, options),
                     0);
    return cast_file(FOLDER "/dump.safetensors", bytes);
}

START_TEST(a_model_that_offloads_computes_the_same_bits) {
    static const char *const cuts[] = { "", "--prefill-chunk 1", "--prefill-chunk 3" };
    const char *model = models[_i];
    char options[256];
    size_t bytes, other_bytes;
    char *plain = dump_of(model, "--threads 1", &bytes);
    for (int i = 0; i < 12; i++) {
        const char *which = i % 2 ? "--offloading --no-offload-only-non-sliding" : "--offloading";
        if (i % 2 == 0 && !strcmp(model, "mistral")) {
            char *talk;
            ck_assert_int_ne(run(NULL, &talk,
                                 "$SLIPCAST run tests/reference/tiny/mistral --token-ids 1 %s",
                                 which),
                             0);
            ck_assert_ptr_nonnull(strstr(talk, "every layer slides"));
            free(talk);
            continue;
        }
        snprintf(options, sizeof options, "%s --threads %d %s", which, i / 2 % 2 ? 3 : 1,
                 cuts[i / 4]);
        char *other = dump_of(model, options, &other_bytes);
        ck_assert_msg(bytes == other_bytes && !memcmp(plain, other, bytes), "%s: %s: differs",
                      model, options);
        free(other);
    }
    free(plain);
}
END_TEST

/* Exports and builds once, before the first fork. */
static void make_castings(void) {
    run_share_runtime();
    all = trace_read("offload_order");
    ck_assert_int_eq(run(NULL, NULL, "rm -rf %s && mkdir -p %s", FOLDER, HOST), 0);
    for (int i = 0; i < CASES; i++) {
        cast_case(i, 0);
        if (!raises(case_of(i)))
            cast_case(i, 1);
    }
}

static void forget_traces(void) { cJSON_Delete(all); }

Suite *offload_suite(void) {
    Suite *suite = suite_create("offload");
    TCase *tests = tcase_create("offloading");
    tcase_set_timeout(tests, 300);
    tcase_add_test(tests, states_alone_are_nothing_to_offload);
    tcase_add_unchecked_fixture(tests, make_castings, forget_traces);
    tcase_add_loop_test(tests, the_schedule_is_the_reference_s, 0, CASES);
    tcase_add_loop_test(tests, updates_move_what_the_reference_moves, 0, CASES);
    tcase_add_loop_test(tests, no_bit_depends_on_offloading, 0, CASES);
    tcase_add_loop_test(tests, a_file_is_as_good_as_memory_and_has_no_name, 0, CASES);
    tcase_add_test(tests, a_file_that_cannot_be_made_is_refused);
    tcase_add_test(tests, a_disk_without_room_is_refused);
    tcase_add_loop_test(tests, a_model_that_offloads_computes_the_same_bits, 0, MODELS);
    suite_add_tcase(suite, tests);
    return suite;
}
