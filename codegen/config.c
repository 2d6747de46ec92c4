/* config.c - see config.h. */
#include "config.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "families.h"
#include "json.h"

enum { ENTRIES = 64, NOTES = 16, LARGEST = 1 << 30, MOST_LAYERS = 4096 };

/* What is being read. The first failure sticks, so that the reading below is a plain list. */
typedef struct {
    sc_config *config;
    sc_pool *pool;
    const cJSON *json;  /* the text config */
    const char *file;   /* base name of the path */
    const char *prefix; /* "text_config." or "" */
    sc_error *err;
    int rc;
} reader;

/* Numbers as text without the locale: integers, or the shortest of %.1g … %.17g that reads back. */
static const char *number_text(sc_pool *pool, double value) {
    char text[40];
    if (fabs(value) < 1e15 && floor(value) >= value)
        return sc_pool_printf(pool, "%lld", (long long)value);
    for (int digits = 1; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, value);
        if (strtod(text, NULL) >= value && strtod(text, NULL) <= value)
            break;
    }
    for (char *c = text; *c; c++)
        if (*c == ',')
            *c = '.';
    return sc_pool_strdup(pool, text);
}

static void record(reader *r, const char *key, const char *value, const char *from) {
    sc_config *c = r->config;
    if (c->entries < ENTRIES && value)
        c->entry[c->entries++] = (sc_config_entry){ key, value, from };
}

static void note(reader *r, const char *text) {
    if (r->config->notes < NOTES && text)
        r->config->note[r->config->notes++] = text;
}

static int fail(reader *r, const char *key, const char *reason) {
    if (!r->rc)
        r->rc = sc_fail(r->err, SC_EINPUT, "%s: %s%s: %s", r->file, r->prefix, key, reason);
    return r->rc;
}

static const char *by_default(const reader *r) {
    return sc_pool_printf(r->pool, "default of %s", r->config->model_type);
}

/* A JSON value as a message quotes it. */
static const char *quote(const reader *r, const cJSON *item) {
    if (cJSON_IsNumber(item) && !isfinite(item->valuedouble))
        return isnan(item->valuedouble) ? "NaN" : item->valuedouble > 0 ? "Infinity" : "-Infinity";
    char *text = cJSON_PrintUnformatted(item);
    const char *copy = sc_pool_printf(r->pool, "%.60s", text ? text : "?");
    cJSON_free(text);
    return copy ? sc_json_printable(copy) : "?";
}

/* A whole number in 1 … LARGEST; absent: fallback. 0 stands for null where null_ok. */
static int64_t count(reader *r, const char *key, int64_t fallback, bool null_ok) {
    const cJSON *item = sc_json_get(r->json, key);
    if (r->rc)
        return 0;
    int64_t value = fallback == SC_NULL ? 0 : fallback;
    const char *from = by_default(r);
    if (item && cJSON_IsNull(item)) {
        if (!null_ok) {
            fail(r, key, "null, a number is wanted (remove the key for the default)");
            return 0;
        }
        record(r, key, "null", r->file);
        return 0;
    }
    if (item) {
        from = r->file;
        if (!sc_json_int(item, &value) || value < 1 || value > LARGEST) {
            fail(r, key,
                 sc_pool_printf(r->pool, "%s is no whole number in 1 … %d", quote(r, item),
                                LARGEST));
            return 0;
        }
    }
    record(r, key, value ? sc_pool_printf(r->pool, "%lld", (long long)value) : "null", from);
    return value;
}

static bool flag(reader *r, const char *key, bool fallback) {
    const cJSON *item = sc_json_get(r->json, key);
    if (r->rc)
        return fallback;
    if (item && !cJSON_IsBool(item)) {
        fail(r, key, sc_pool_printf(r->pool, "%s is neither true nor false", quote(r, item)));
        return fallback;
    }
    const bool value = item ? cJSON_IsTrue(item) : fallback;
    record(r, key, value ? "true" : "false", item ? r->file : by_default(r));
    return value;
}

/* A finite number above 0. */
static double real(reader *r, const cJSON *object, const char *where, const char *key,
                   double fallback) {
    const cJSON *item = sc_json_get(object, key);
    const char *full = sc_pool_printf(r->pool, "%s%s", where, key);
    if (r->rc || !full)
        return fallback;
    const double value = item ? item->valuedouble : fallback;
    if (item && (!cJSON_IsNumber(item) || !(value > 0) || isinf(value))) {
        fail(r, full, sc_pool_printf(r->pool, "%s is no number above 0", quote(r, item)));
        return fallback;
    }
    record(r, full, number_text(r->pool, value), item ? r->file : by_default(r));
    return value;
}

/* A key that must be absent, null, false or the given value: anything else changes the arithmetic.
 */
static void refuse(reader *r, const char *key, const char *way_out) {
    const cJSON *item = sc_json_get(r->json, key);
    if (item && !cJSON_IsNull(item) && !cJSON_IsFalse(item))
        fail(r, key, sc_pool_printf(r->pool, "%s is not supported (%s)", quote(r, item), way_out));
}

static void read_sizes(reader *r) {
    sc_config *c = r->config;
    const sc_family *f = c->family;
    c->vocab_size = count(r, "vocab_size", f->vocab_size, false);
    c->hidden_size = count(r, "hidden_size", f->hidden_size, false);
    c->intermediate_size = count(r, "intermediate_size", f->intermediate_size, false);
    c->num_hidden_layers = count(r, "num_hidden_layers", f->num_hidden_layers, false);
    c->num_attention_heads = count(r, "num_attention_heads", f->num_attention_heads, false);
    c->num_key_value_heads = count(r, "num_key_value_heads", f->num_key_value_heads, true);
    c->head_dim = count(r, "head_dim", f->head_dim, true);
    c->max_position_embeddings =
        count(r, "max_position_embeddings", f->max_position_embeddings, false);
    if (r->rc)
        return;
    if (c->num_hidden_layers > MOST_LAYERS)
        fail(r, "num_hidden_layers",
             sc_pool_printf(r->pool, "%lld is more than %d", (long long)c->num_hidden_layers,
                            MOST_LAYERS));
    if (!c->num_key_value_heads) {
        c->num_key_value_heads = c->num_attention_heads;
        record(r, "num_key_value_heads",
               sc_pool_printf(r->pool, "%lld", (long long)c->num_key_value_heads),
               "rule: num_attention_heads");
    }
    if (c->num_attention_heads % c->num_key_value_heads)
        fail(r, "num_key_value_heads",
             sc_pool_printf(
                 r->pool,
                 "%lld%s does not divide num_attention_heads %lld (set num_key_value_heads)",
                 (long long)c->num_key_value_heads,
                 sc_json_get(r->json, "num_key_value_heads")
                     ? ""
                     : sc_pool_printf(r->pool, ", the default of %s,", c->model_type),
                 (long long)c->num_attention_heads));
    if (!c->head_dim) {
        if (c->hidden_size % c->num_attention_heads)
            fail(r, "hidden_size",
                 sc_pool_printf(r->pool,
                                "%lld is no multiple of num_attention_heads %lld (set head_dim)",
                                (long long)c->hidden_size, (long long)c->num_attention_heads));
        c->head_dim = c->hidden_size / c->num_attention_heads;
        record(r, "head_dim", sc_pool_printf(r->pool, "%lld", (long long)c->head_dim),
               "rule: hidden_size / num_attention_heads");
    }
    if (c->head_dim % 2 || c->head_dim > 4096)
        fail(r, "head_dim",
             sc_pool_printf(r->pool, "%lld is not even and at most 4096, as rope wants it",
                            (long long)c->head_dim));
}

/* sliding_window and the switches around it; says what is declared and not used. */
static void read_window(reader *r) {
    sc_config *c = r->config;
    const sc_family *f = c->family;
    const bool switched = f->rule == SC_RULE_MAX_WINDOW_LAYERS;
    const cJSON *item = sc_json_get(r->json, "sliding_window");
    const bool use = switched ? flag(r, "use_sliding_window", false) : true;
    c->sliding_window = f->sliding_window != SC_NULL || item
                            ? count(r, "sliding_window", f->sliding_window, true)
                            : 0;
    if (!use && c->sliding_window) {
        if (item)
            note(r, sc_pool_printf(r->pool,
                                   "sliding_window: %lld is not used, use_sliding_window is false",
                                   (long long)c->sliding_window));
        c->sliding_window = 0;
        record(r, "sliding_window", "null", "rule: use_sliding_window is false");
    }
}

/* One entry for all layers: "sliding_attention*2, full_attention*1, …". */
static void record_types(reader *r, const char *from) {
    const sc_config *c = r->config;
    const char *text = "";
    bool sliding = false;
    for (int64_t i = 0, last; i < c->num_hidden_layers && text; i = last) {
        for (last = i; last < c->num_hidden_layers && c->layer_types[last] == c->layer_types[i];)
            last++;
        sliding |= !strcmp(c->layer_types[i], "sliding_attention");
        text = sc_pool_printf(r->pool, "%s%s%s*%lld", text, i ? ", " : "", c->layer_types[i],
                              (long long)(last - i));
    }
    record(r, "layer_types", text, from);
    if (c->sliding_window && !sliding)
        note(r, sc_pool_printf(r->pool, "sliding_window: %lld is not used, no layer is sliding",
                               (long long)c->sliding_window));
}

static const char full[] = "full_attention", sliding[] = "sliding_attention";

static void read_listed(reader *r, const cJSON *types) {
    sc_config *c = r->config;
    if (!cJSON_IsArray(types)) {
        fail(r, "layer_types", "is no list");
        return;
    }
    const int listed = cJSON_GetArraySize(types);
    if (listed != c->num_hidden_layers) {
        fail(r, "layer_types",
             sc_pool_printf(r->pool, "%d entries for num_hidden_layers %lld (give one per layer)",
                            listed, (long long)c->num_hidden_layers));
        return;
    }
    int64_t i = 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, types) {
        const char *type = cJSON_IsString(item) ? item->valuestring : "";
        if (!strcmp(type, "full_attention") || !strcmp(type, "attention"))
            c->layer_types[i] = full;
        else if (!strcmp(type, "sliding_attention"))
            c->layer_types[i] = sliding;
        else {
            fail(r, sc_pool_printf(r->pool, "layer_types[%lld]", (long long)i),
                 sc_pool_printf(r->pool, "%s is none of full_attention, sliding_attention",
                                quote(r, item)));
            return;
        }
        if (!strcmp(type, "sliding_attention") && !c->sliding_window)
            fail(r, "sliding_window",
                 sc_pool_printf(r->pool,
                                "null, but layer_types[%lld] is sliding_attention (set the window)",
                                (long long)i));
        i++;
    }
    if (!r->rc)
        record_types(r, r->file);
}

static void read_layer_types(reader *r) {
    sc_config *c = r->config;
    if (r->rc)
        return;
    const cJSON *types = sc_json_get(r->json, "layer_types");
    c->layer_types = sc_pool_alloc(r->pool, (size_t)c->num_hidden_layers, sizeof *c->layer_types);
    if (!c->layer_types) {
        r->rc = sc_oom(r->err, "reading the config");
        return;
    }
    if (types && !cJSON_IsNull(types)) {
        read_listed(r, types);
        return;
    }
    int64_t first = 0;
    if (c->family->rule == SC_RULE_MAX_WINDOW_LAYERS && c->sliding_window) {
        first = 28;
        const cJSON *item = sc_json_get(r->json, "max_window_layers");
        if (item && (!sc_json_int(item, &first) || first < 0)) {
            fail(r, "max_window_layers",
                 sc_pool_printf(r->pool, "%s is no whole number from 0", quote(r, item)));
            return;
        }
        record(r, "max_window_layers", sc_pool_printf(r->pool, "%lld", (long long)first),
               item ? r->file : by_default(r));
    }
    for (int64_t i = 0; i < c->num_hidden_layers; i++)
        c->layer_types[i] = c->sliding_window && i >= first ? sliding : full;
    record_types(r, "rule: sliding_window");
}

/* Keys of rope_parameters that we know; any other may change the arithmetic. */
static void check_rope_keys(reader *r, const cJSON *form, const char *where) {
    static const char *const known[] = { "rope_type",
                                         "type",
                                         "rope_theta",
                                         "factor",
                                         "low_freq_factor",
                                         "high_freq_factor",
                                         "original_max_position_embeddings",
                                         "partial_rotary_factor" };
    const cJSON *item;
    cJSON_ArrayForEach(item, form) {
        bool good = cJSON_IsNull(item);
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            good |= !strcmp(item->string, known[i]);
        if (!good)
            fail(r, sc_pool_printf(r->pool, "%s%s", where, sc_json_printable(item->string)),
                 sc_pool_printf(r->pool, "is no key that %s knows (docs/adding-a-family.md)",
                                r->config->model_type));
    }
    const cJSON *partial = sc_json_get(form, "partial_rotary_factor");
    if (partial && !cJSON_IsNull(partial) &&
        !(partial->valuedouble >= 1 && partial->valuedouble <= 1))
        fail(r, sc_pool_printf(r->pool, "%spartial_rotary_factor", where),
             sc_pool_printf(r->pool, "%s is not what %s does", quote(r, partial),
                            r->config->model_type));
}

/* Two spellings of one setting: with different values, which is meant? */
static void same(reader *r, const char *a_name, const cJSON *a, const char *b_name,
                 const cJSON *b) {
    if (a && b && !cJSON_IsNull(a) && !cJSON_IsNull(b) && !cJSON_Compare(a, b, true))
        fail(r, a_name,
             sc_pool_printf(r->pool, "%s, but %s is %s (keep one)", quote(r, a), b_name,
                            quote(r, b)));
}

static const cJSON *object_or_null(reader *r, const char *key) {
    const cJSON *item = sc_json_get(r->json, key);
    if (!item || cJSON_IsNull(item))
        return NULL;
    if (!cJSON_IsObject(item))
        fail(r, key, "is no object");
    else
        check_rope_keys(r, item, key[5] == 'p' ? "rope_parameters." : "rope_scaling.");
    return item;
}

static void read_rope_type(reader *r, const cJSON *form, const char *where) {
    static const char *const known[] = { "default", "linear", "llama3" };
    const char *key = sc_json_get(form, "rope_type") ? "rope_type" : "type";
    const cJSON *type = sc_json_get(form, key);
    const char *full_key = sc_pool_printf(r->pool, "%s%s", where, key);
    const char *name = !type ? "default" : cJSON_IsString(type) ? type->valuestring : "";
    for (int i = 0; i < 3; i++)
        if (!strcmp(name, known[i]))
            r->config->rope.rope_type = known[i];
    if (!r->config->rope.rope_type)
        fail(r, full_key,
             sc_pool_printf(r->pool,
                            "%s is none of default, linear, llama3 (docs/adding-a-family.md)",
                            quote(r, type)));
    else
        record(r, type ? full_key : "rope_type", r->config->rope.rope_type,
               type ? r->file : by_default(r));
}

static double wanted(reader *r, const cJSON *form, const char *where, const char *key) {
    if (!sc_json_get(form, key))
        fail(r, sc_pool_printf(r->pool, "%s%s", where, key), "is missing");
    return real(r, form, where, key, 1);
}

static void read_scaling(reader *r, const cJSON *form, const char *where) {
    sc_config *c = r->config;
    if (strcmp(c->rope.rope_type, "default"))
        c->rope.factor = wanted(r, form, where, "factor");
    if (strcmp(c->rope.rope_type, "llama3"))
        return;
    c->rope.low_freq_factor = wanted(r, form, where, "low_freq_factor");
    c->rope.high_freq_factor = wanted(r, form, where, "high_freq_factor");
    const char *key = "original_max_position_embeddings";
    wanted(r, form, where, key);
    if (!r->rc && !sc_json_int(sc_json_get(form, key), &c->rope.original_max_position_embeddings))
        fail(r, sc_pool_printf(r->pool, "%s%s", where, key),
             sc_pool_printf(r->pool, "%s is no whole number", quote(r, sc_json_get(form, key))));
    if (!r->rc && !(c->rope.high_freq_factor > c->rope.low_freq_factor))
        fail(r, sc_pool_printf(r->pool, "%shigh_freq_factor", where),
             "is not above low_freq_factor");
}

/* rope_parameters (transformers 5), or rope_theta and rope_scaling (4); in both, they must agree.
 */
static void read_rope(reader *r) {
    const cJSON *new_form = object_or_null(r, "rope_parameters");
    const cJSON *old_form = object_or_null(r, "rope_scaling");
    if (r->rc)
        return;
    const cJSON *form = new_form ? new_form : old_form;
    const char *where = new_form ? "rope_parameters." : "rope_scaling.";
    const cJSON *theta = sc_json_get(form, "rope_theta");
    same(r, "rope_theta", sc_json_get(r->json, "rope_theta"),
         sc_pool_printf(r->pool, "%srope_theta", where), theta);
    same(r, sc_pool_printf(r->pool, "%stype", where), sc_json_get(form, "type"), "rope_type",
         sc_json_get(form, "rope_type"));
    if (new_form && old_form) {
        const cJSON *item;
        cJSON_ArrayForEach(item, old_form) {
            const char *key = strcmp(item->string, "type") ? item->string : "rope_type";
            same(r, sc_pool_printf(r->pool, "rope_scaling.%s", item->string), item,
                 sc_pool_printf(r->pool, "rope_parameters.%s", key), sc_json_get(new_form, key));
        }
    }
    if (!r->rc)
        read_rope_type(r, form, where);
    if (r->rc)
        return;
    r->config->rope.rope_theta = theta ? real(r, form, where, "rope_theta", 10000)
                                       : real(r, r->json, "", "rope_theta", 10000);
    read_scaling(r, form, where);
    const cJSON *partial = sc_json_get(r->json, "partial_rotary_factor");
    if (partial && !cJSON_IsNull(partial) &&
        !(partial->valuedouble >= 1 && partial->valuedouble <= 1))
        fail(r, "partial_rotary_factor",
             sc_pool_printf(r->pool, "%s is not what %s does", quote(r, partial),
                            r->config->model_type));
}

/* GGUF's rope_freqs.weight, which its reader turns into a key of ours. */
static void read_freq_factors(reader *r) {
    sc_config *c = r->config;
    const cJSON *list = sc_json_get(r->json, "slipcast_rope_freq_factors"), *item;
    if (!list || r->rc)
        return;
    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != c->head_dim / 2) {
        fail(r, "rope_freqs",
             sc_pool_printf(r->pool, "is no list of head_dim / 2 = %lld factors",
                            (long long)c->head_dim / 2));
        return;
    }
    float *factor = sc_pool_alloc(r->pool, (size_t)cJSON_GetArraySize(list) + 1, sizeof *factor);
    if (!factor) {
        r->rc = sc_oom(r->err, "reading the config");
        return;
    }
    cJSON_ArrayForEach(item, list) {
        if (!cJSON_IsNumber(item) || !(item->valuedouble > 0) || isinf(item->valuedouble))
            fail(r, "rope_freqs", "a factor is no number above 0");
        else
            factor[c->rope.freq_factors++] = (float)item->valuedouble;
    }
    c->rope.freq_factor = factor;
    record(r, "rope_freqs",
           sc_pool_printf(r->pool, "%lld factors", (long long)c->rope.freq_factors), r->file);
}

static void read_act(reader *r) {
    const cJSON *item = sc_json_get(r->json, "hidden_act");
    r->config->hidden_act = "silu";
    if (item && (!cJSON_IsString(item) || strcmp(item->valuestring, "silu")))
        fail(r, "hidden_act", sc_pool_printf(r->pool, "%s is none of silu", quote(r, item)));
    record(r, "hidden_act", "silu", item ? r->file : by_default(r));
}

static void read_dtype(reader *r) {
    static const char *const known[] = { "float32", "bfloat16", "float16" };
    const cJSON *item = sc_json_get(r->json, "dtype");
    const cJSON *old = sc_json_get(r->json, "torch_dtype");
    same(r, "torch_dtype", old, "dtype", item);
    const char *key = item && !cJSON_IsNull(item) ? "dtype" : "torch_dtype";
    item = sc_json_get(r->json, key);
    const bool absent = !item || cJSON_IsNull(item);
    r->config->dtype = absent ? "float32" : NULL;
    for (int i = 0; i < 3; i++)
        if (!absent && cJSON_IsString(item) && !strcmp(item->valuestring, known[i]))
            r->config->dtype = known[i];
    if (!r->config->dtype)
        fail(r, key,
             sc_pool_printf(r->pool, "%s is none of float32, bfloat16, float16", quote(r, item)));
    record(r, "dtype", r->config->dtype, absent ? by_default(r) : r->file);
}

/* One id, a list of them, or null. */
static void read_eos(reader *r, const cJSON *generation) {
    enum { MOST = sizeof r->config->eos_token_id / sizeof *r->config->eos_token_id };
    sc_config *c = r->config;
    const cJSON *item = sc_json_get(generation, "eos_token_id");
    const char *from = "generation_config.json";
    if (!item || cJSON_IsNull(item)) {
        item = sc_json_get(r->json, "eos_token_id");
        from = r->file;
    }
    if (!item) {
        if (c->family->eos_token_id != SC_NULL)
            c->eos_token_id[c->eos_count++] = c->family->eos_token_id;
        record(r, "eos_token_id",
               c->eos_count ? number_text(r->pool, (double)c->eos_token_id[0]) : "null",
               by_default(r));
        return;
    }
    const int many = cJSON_IsArray(item) ? cJSON_GetArraySize(item) : !cJSON_IsNull(item);
    if (many > MOST)
        fail(r, "eos_token_id", sc_pool_printf(r->pool, "%d ids, at most %d", many, MOST));
    for (int i = 0; i < many && !r->rc; i++) {
        int64_t id;
        if (!sc_json_int(cJSON_IsArray(item) ? cJSON_GetArrayItem(item, i) : item, &id) ||
            id < -1 || id > LARGEST)
            fail(r, "eos_token_id",
                 sc_pool_printf(r->pool, "%s is neither an id nor a list of ids", quote(r, item)));
        else if (id >= 0)
            c->eos_token_id[c->eos_count++] = id;
    }
    record(r, "eos_token_id", quote(r, item), from);
}

static void read_bos(reader *r) {
    sc_config *c = r->config;
    const cJSON *item = sc_json_get(r->json, "bos_token_id");
    c->bos_token_id = item ? -1 : c->family->bos_token_id;
    if (item && !cJSON_IsNull(item) && !sc_json_int(item, &c->bos_token_id))
        fail(r, "bos_token_id", sc_pool_printf(r->pool, "%s is no id", quote(r, item)));
    record(r, "bos_token_id",
           c->bos_token_id < 0 ? "null" : number_text(r->pool, (double)c->bos_token_id),
           item ? r->file : by_default(r));
}

/* Settings of other families: here they would change nothing in the reference, and are hardly
 * meant. */
static void refuse_foreign(reader *r) {
    static const char *const keys[] = { "attn_logit_softcapping",
                                        "final_logit_softcapping",
                                        "embedding_multiplier",
                                        "residual_multiplier",
                                        "attention_multiplier",
                                        "logits_scaling",
                                        "num_local_experts",
                                        "num_experts",
                                        "n_routed_experts",
                                        "query_pre_attn_scalar",
                                        "clip_qkv",
                                        "alibi",
                                        "attention_chunk_size" };
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        refuse(r, keys[i], "this family has no such setting");
}

/* The text part of a multimodal config: the first of these keys that is not null. */
static const cJSON *text_part(const cJSON *json, const char **prefix) {
    static const char *const keys[] = { "decoder", "generator", "text_config" };
    static const char *const prefixes[] = { "decoder.", "generator.", "text_config." };
    for (int i = 0; i < 3; i++) {
        const cJSON *part = sc_json_get(json, keys[i]);
        if (cJSON_IsObject(part)) {
            *prefix = prefixes[i];
            return part;
        }
    }
    *prefix = "";
    return json;
}

static const char *family_names(const reader *r) {
    const char *names = "";
    for (size_t i = 0; sc_family_at(i) && names; i++)
        names =
            sc_pool_printf(r->pool, "%s%s%s", names, i ? ", " : "", sc_family_at(i)->model_type);
    return names ? names : "";
}

static void find_family(reader *r) {
    const cJSON *type = sc_json_get(r->json, "model_type");
    if (!type || !cJSON_IsString(type)) {
        fail(r, "model_type", "is missing (is this the config.json of a model?)");
        return;
    }
    r->config->model_type = sc_pool_strdup(r->pool, type->valuestring);
    r->config->family = sc_family_find(type->valuestring);
    if (!r->config->family)
        fail(r, "model_type",
             sc_pool_printf(r->pool, "%s is none of %s (docs/adding-a-family.md)", quote(r, type),
                            family_names(r)));
    else
        record(r, "model_type", r->config->model_type, r->file);
}

int sc_config_make(sc_config **config, sc_pool *pool, const char *path, const cJSON *json,
                   const cJSON *generation, sc_error *err) {
    sc_config *c = sc_pool_alloc(pool, 1, sizeof *c);
    if (c)
        c->entry = sc_pool_alloc(pool, ENTRIES, sizeof *c->entry);
    if (c)
        c->note = sc_pool_alloc(pool, NOTES, sizeof *c->note);
    if (!c || !c->entry || !c->note)
        return sc_oom(err, "reading the config");
    c->path = path;
    const char *slash = strrchr(path, '/');
    reader r = { .config = c, .pool = pool, .file = slash ? slash + 1 : path, .err = err };
    if (!cJSON_IsObject(json))
        return sc_fail(err, SC_EINPUT, "%s: is no JSON object (is this a config.json?)", r.file);
    r.json = text_part(json, &r.prefix);
    find_family(&r);
    if (r.rc)
        return r.rc;
    read_sizes(&r);
    read_window(&r);
    read_layer_types(&r);
    read_rope(&r);
    read_freq_factors(&r);
    read_act(&r);
    read_dtype(&r);
    c->rms_norm_eps = real(&r, r.json, "", "rms_norm_eps", 1e-6);
    c->tie_word_embeddings = flag(&r, "tie_word_embeddings", false);
    if (c->family->attention_bias)
        c->attention_bias = flag(&r, "attention_bias", false);
    else
        refuse(&r, "attention_bias", "this family has no such bias");
    if (c->family->mlp_bias)
        c->mlp_bias = flag(&r, "mlp_bias", false);
    else
        refuse(&r, "mlp_bias", "this family has no such bias");
    refuse(&r, "quantization_config", "give the unquantised checkpoint, or a GGUF file");
    refuse_foreign(&r);
    if (!r.rc)
        read_eos(&r, generation);
    if (!r.rc)
        read_bos(&r);
    if (r.rc)
        return r.rc;
    *config = c;
    return SC_OK;
}
