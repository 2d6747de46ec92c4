/* cast.c - see cast.h. */
#include "cast.h"

#include <check.h>
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "once.h"
#include "run.h"

#ifndef __has_feature
#define __has_feature(x) 0
#endif

/* To optimise a casting takes longer under ASan than it saves; lines are enough of a report. */
#if defined(__SANITIZE_ADDRESS__) || __has_feature(address_sanitizer)
#define SANITIZE "-fsanitize=address,undefined -fno-sanitize-recover=all"
#define OPTIMIZE "-O0"
#elif defined(__SANITIZE_THREAD__) || __has_feature(thread_sanitizer)
#define SANITIZE "-fsanitize=thread"
#define OPTIMIZE "-O1"
#else
#define SANITIZE ""
#define OPTIMIZE "-O1"
#endif

const char *const cast_sanitize = SANITIZE;
const char *const cast_make_flags = "CFLAGS='" OPTIMIZE " -g1 " SANITIZE "' LDFLAGS='" SANITIZE "'";

enum { CASTINGS = 256 };

static struct {
    char folder[96];
    const sc_casting *casting;
} made[CASTINGS];
static int count;

const char *cast_folder(const cast_shape *shape) {
    static char folder[256];
    snprintf(folder, sizeof folder, "build/test-castings/cache-%s-w%d-l%d-b%d-h%d", shape->types,
             shape->window, shape->max_cache_len, shape->batch, shape->heads);
    return folder;
}

static void build(const char *folder, const char *json, const char *options) {
    char path[512];
    ck_assert_int_eq(run(NULL, NULL, "rm -rf %s && mkdir -p %s-config", folder, folder), 0);
    snprintf(path, sizeof path, "%s-config/config.json", folder);
    cast_write(path, json, strlen(json));
    ck_assert_int_eq(run(NULL, NULL,
                         "$SLIPCAST export %s -o %s --only cache --name cast --arch generic %s && "
                         "make -C %s -j4 %s libcast.so",
                         path, folder, options, folder, cast_make_flags),
                     0);
}

/* Exports the specification and opens its library; what has been made once is handed out again. */
static const sc_casting *make(const char *folder, const char *json, const char *options) {
    char path[512];
    for (int i = 0; i < count; i++)
        if (!strcmp(made[i].folder, folder))
            return made[i].casting;
    ck_assert_int_lt(count, CASTINGS);
    if (once_begin(folder)) {
        build(folder, json, options);
        once_end();
    }
    snprintf(path, sizeof path, "%s/libcast.so", folder);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    ck_assert_msg(library != NULL, "%s", dlerror());
    const sc_casting *(*get)(void);
    *(void **)&get = dlsym(library, "slipcast_casting");
    ck_assert_msg(get != NULL, "%s", dlerror());
    snprintf(made[count].folder, sizeof made[count].folder, "%s", folder);
    made[count].casting = get();
    return made[count++].casting;
}

const sc_casting *cast_spec(const char *name, const char *json, const char *options) {
    char folder[96];
    snprintf(folder, sizeof folder, "build/test-castings/spec-%s", name);
    return make(folder, json, options);
}

const sc_casting *cast_make(const cast_shape *shape) {
    char json[4096], options[128];
    int at = snprintf(json, sizeof json, "{\"model_type\": \"slipcast_cache\", \"layers\": [");
    for (const char *type = shape->types; *type; type++) {
        at += snprintf(json + at, sizeof json - (size_t)at, "%s{\"layer_type\": \"%s\"",
                       type == shape->types ? "" : ", ",
                       *type == 's'   ? "sliding_attention"
                       : *type == 'c' ? "chunked_attention"
                       : *type == 'm' ? "moe"
                                      : "full_attention");
        if (*type != 'm')
            at +=
                snprintf(json + at, sizeof json - (size_t)at,
                         ", \"num_key_value_heads\": %d, \"head_dim\": %d", shape->heads, CAST_DIM);
        if (*type == 's' || *type == 'c')
            at += snprintf(json + at, sizeof json - (size_t)at, ", \"%s\": %d",
                           *type == 's' ? "sliding_window" : "attention_chunk_size", shape->window);
        at += snprintf(json + at, sizeof json - (size_t)at, "}");
    }
    snprintf(json + at, sizeof json - (size_t)at, "]}");
    snprintf(options, sizeof options, "--max-cache-len %d --batch-size %d", shape->max_cache_len,
             shape->batch);
    return make(cast_folder(shape), json, options);
}

int cast_slots(const cast_shape *shape, int layer) {
    const int whole = shape->types[layer] == 'f' || shape->window > shape->max_cache_len;
    return whole ? shape->max_cache_len : shape->window;
}

size_t cast_floats(const cast_shape *shape, int64_t tokens) {
    return (size_t)(shape->batch * shape->heads * CAST_DIM) * (size_t)tokens;
}

static void put(char *state, size_t *at, const void *data, size_t bytes) {
    if (bytes)
        memcpy(state + *at, data, bytes);
    *at += bytes;
}

char *cast_state(const cast_shape *shape, const sc_cache *cache, int visible, size_t *bytes) {
    const sc_casting *c = cast_make(shape);
    const int layers = (int)strlen(shape->types), queries = 2 * shape->max_cache_len;
    const size_t most = cast_floats(shape, 2 * shape->max_cache_len);
    char *state = malloc((size_t)layers * (4 * most * sizeof(float) + (size_t)queries * 16 + 64));
    float *keys = calloc(most, sizeof *keys), *values = calloc(most, sizeof *values);
    ck_assert(state && keys && values);
    *bytes = 0;
    for (int layer = 0; layer < layers; layer++) {
        const int64_t seen = c->cache_seq_length(cache, layer);
        if (shape->types[layer] == 'm')
            continue;
        put(state, bytes, &seen, sizeof seen);
        for (int q = 1; q <= queries; q++) {
            int64_t mask[2];
            ck_assert_int_eq(c->cache_mask_sizes(cache, layer, q, &mask[0], &mask[1], NULL), 0);
            put(state, bytes, mask, sizeof mask);
        }
        const size_t stored = cast_floats(shape, cast_slots(shape, layer)) * sizeof *keys;
        ck_assert_int_eq(c->cache_read(cache, layer, keys, values, NULL), 0);
        put(state, bytes, keys, stored);
        put(state, bytes, values, stored);
        int64_t length = 0;
        if (!visible)
            continue;
        const int rc = c->cache_visible(cache, layer, keys, values, &length, NULL);
        put(state, bytes, &rc, sizeof rc);
        put(state, bytes, &length, sizeof length);
        put(state, bytes, keys, rc ? 0 : cast_floats(shape, length) * sizeof *keys);
        put(state, bytes, values, rc ? 0 : cast_floats(shape, length) * sizeof *values);
    }
    free(keys);
    free(values);
    return state;
}

size_t cast_element(const char *dtype) { return strcmp(dtype, "float32") ? 2 : 4; }

/* Keys and values of one layer: what read shows of all rows, and each row's lengths, masks and last
 * update. */
static void put_layer(FILE *out, const sc_casting *c, const sc_cache *cache, int layer) {
    const sc_casting_layer *l = &c->layer[layer];
    const size_t key = (size_t)(l->kv_heads * l->head_dim) * cast_element(c->value_dtype),
                 value = (size_t)(l->kv_heads * l->v_head_dim) * cast_element(c->value_dtype),
                 most = (size_t)(c->batch * (l->slots + c->max_cache_len));
    char *keys = calloc(most, key), *values = calloc(most, value);
    ck_assert(keys && values);
    ck_assert_int_eq(c->cache_read(cache, layer, keys, values, NULL), 0);
    fwrite(keys, key, (size_t)(c->batch * l->slots), out);
    fwrite(values, value, (size_t)(c->batch * l->slots), out);
    for (int row = 0; row < c->batch; row++) {
        int64_t number[4] = { c->cache_row_length(cache, layer, row) };
        ck_assert_int_eq(
            c->cache_mask_sizes_row(cache, layer, row, 3, &number[1], &number[2], NULL), 0);
        fwrite(number, sizeof number, 1, out);
        int64_t length = 0;
        const int rc = c->cache_visible_row(cache, layer, row, keys, values, &length, NULL);
        fwrite(&rc, sizeof rc, 1, out);
        fwrite(&length, sizeof length, 1, out);
        fwrite(keys, key, rc ? 0 : (size_t)length, out);
        fwrite(values, value, rc ? 0 : (size_t)length, out);
    }
    free(keys);
    free(values);
}

static void put_indexer(FILE *out, const sc_casting *c, const sc_cache *cache, int layer) {
    /* Two bytes an element or four: what is not read stays zero. */
    const size_t bytes =
        4 * (size_t)(c->batch * c->layer[layer].slots * c->layer[layer].index_head_dim);
    char *keys = calloc(1, bytes);
    ck_assert_ptr_nonnull(keys);
    ck_assert_int_eq(c->cache_read_indexer(cache, layer, keys, NULL), 0);
    fwrite(keys, bytes, 1, out);
    free(keys);
}

char *cast_seen(const sc_casting *c, const sc_cache *cache, size_t *bytes) {
    char *seen;
    FILE *out = open_memstream(&seen, bytes);
    ck_assert_ptr_nonnull(out);
    for (int layer = 0; layer < c->layers; layer++) {
        if (c->layer[layer].kv_heads)
            put_layer(out, c, cache, layer);
        if (c->layer[layer].index_head_dim)
            put_indexer(out, c, cache, layer);
    }
    for (int i = 0; i < c->states; i++) {
        const sc_casting_state *s = &c->state[i];
        const size_t size = cast_element(s->dtype) * (size_t)(c->batch * s->channels * s->columns);
        char *state = calloc(1, size);
        ck_assert_ptr_nonnull(state);
        const int recurrent = !strcmp(s->name, "recurrent_state");
        ck_assert_int_eq((recurrent ? c->cache_read_recurrent
                                    : c->cache_read_conv)(cache, s->layer, s->index, state, NULL),
                         0);
        fwrite(state, size, 1, out);
        free(state);
    }
    ck_assert_int_eq(fclose(out), 0);
    return seen;
}

char *cast_file(const char *path, size_t *bytes) {
    FILE *f = fopen(path, "rb");
    ck_assert_msg(f != NULL, "%s: cannot be opened", path);
    char *data = malloc(1 << 20);
    ck_assert_ptr_nonnull(data);
    *bytes = fread(data, 1, 1 << 20, f);
    fclose(f);
    return data;
}

void cast_write(const char *path, const char *data, size_t bytes) {
    FILE *f = fopen(path, "wb");
    ck_assert_msg(f != NULL, "%s: cannot be made", path);
    ck_assert_uint_eq(fwrite(data, 1, bytes, f), bytes);
    ck_assert_int_eq(fclose(f), 0);
}
