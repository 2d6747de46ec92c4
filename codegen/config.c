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
    const cJSON *item = sc_json_get(r->json, "sliding_window"),
                *types = sc_json_get(r->json, "layer_types");
    const bool use = switched ? flag(r, "use_sliding_window", false) : true;
    const bool listed = types && !cJSON_IsNull(types);
    c->sliding_window = f->sliding_window != SC_NULL || item
                            ? count(r, "sliding_window", f->sliding_window, true)
                            : 0;
    if (switched && !use && c->sliding_window && !listed) {
        if (item)
            note(r, sc_pool_printf(r->pool,
                                   "sliding_window: %lld is not used, use_sliding_window is false",
                                   (long long)c->sliding_window));
        c->sliding_window = 0;
        record(r, "sliding_window", "null", "rule: use_sliding_window is false");
    }
}

static void set_type(reader *r, int64_t i, const char *type, const char *from) {
    r->config->layer_types[i] = type;
    record(r, sc_pool_printf(r->pool, "layer_types[%lld]", (long long)i), type, from);
}

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
            set_type(r, i, "full_attention", r->file);
        else if (!strcmp(type, "sliding_attention"))
            set_type(r, i, "sliding_attention", r->file);
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
}

static void read_layer_types(reader *r) {
    sc_config *c = r->config;
    if (r->rc)
        return;
    const cJSON *types = sc_json_get(r->json, "layer_types");
    c->layer_types = sc_pool_alloc(r->pool, (size_t)c->num_hidden_layers, sizeof *c->layer_types);
    sc_config_entry *more =
        sc_pool_alloc(r->pool, ENTRIES + (size_t)c->num_hidden_layers, sizeof *more);
    if (!c->layer_types || !more) {
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
        if (first >= c->num_hidden_layers)
            note(r, sc_pool_printf(r->pool,
                                   "sliding_window: %lld is not used, max_window_layers %lld "
                                   "leaves no layer to it",
                                   (long long)c->sliding_window, (long long)first));
    }
    for (int64_t i = 0; i < c->num_hidden_layers; i++)
        set_type(r, i, c->sliding_window && i >= first ? "sliding_attention" : "full_attention",
                 "rule: sliding_window");
}

/* rope_parameters (transformers 5), or rope_theta and rope_scaling (4). Both with other values:
 * which? */
static void read_rope(reader *r) {
    sc_config *c = r->config;
    const cJSON *new_form = sc_json_get(r->json, "rope_parameters"),
                *old_form = sc_json_get(r->json, "rope_scaling");
    if (new_form && cJSON_IsNull(new_form))
        new_form = NULL;
    if (old_form && cJSON_IsNull(old_form))
        old_form = NULL;
    const cJSON *old_theta = sc_json_get(r->json, "rope_theta");
    if (new_form && !cJSON_IsObject(new_form))
        fail(r, "rope_parameters", "is no object");
    if (old_form && !cJSON_IsObject(old_form))
        fail(r, "rope_scaling", "is no object");
    if (new_form && sc_json_get(new_form, "full_attention"))
        fail(r, "rope_parameters",
             sc_pool_printf(r->pool, "one per layer type is not what %s does", c->model_type));
    if (r->rc)
        return;
    const cJSON *theta = new_form ? sc_json_get(new_form, "rope_theta") : NULL;
    if (theta && old_theta && !cJSON_Compare(theta, old_theta, true))
        fail(r, "rope_theta",
             sc_pool_printf(r->pool, "%s, but rope_parameters.rope_theta is %s (keep one)",
                            quote(r, old_theta), quote(r, theta)));
    const cJSON *form = new_form ? new_form : old_form;
    const char *where = new_form ? "rope_parameters." : "rope_scaling.";
    const cJSON *type = sc_json_get(form, "rope_type"), *old_type = sc_json_get(form, "type");
    if (new_form && old_form) {
        const cJSON *other = sc_json_get(old_form, "rope_type") ? sc_json_get(old_form, "rope_type")
                                                                : sc_json_get(old_form, "type");
        if (type && other && !cJSON_Compare(type, other, true))
            fail(r, "rope_scaling",
                 sc_pool_printf(r->pool, "type %s, but rope_parameters.rope_type is %s (keep one)",
                                quote(r, other), quote(r, type)));
    }
    if (!type)
        type = old_type;
    const char *name = type && cJSON_IsString(type) ? type->valuestring : "default";
    if (type && !cJSON_IsString(type))
        fail(r, where, "rope_type is no text");
    static const char *const known[] = { "default", "linear", "llama3" };
    c->rope.rope_type = NULL;
    for (int i = 0; i < 3; i++)
        if (!strcmp(name, known[i]))
            c->rope.rope_type = known[i];
    if (!c->rope.rope_type) {
        fail(r,
             sc_pool_printf(r->pool, "%s%s", where,
                            type == old_type && !sc_json_get(form, "rope_type") ? "type"
                                                                                : "rope_type"),
             sc_pool_printf(r->pool,
                            "%s is none of default, linear, llama3 (docs/adding-a-family.md)",
                            quote(r, type)));
        return;
    }
    record(r, form ? sc_pool_printf(r->pool, "%srope_type", where) : "rope_type", c->rope.rope_type,
           type ? r->file : by_default(r));
    c->rope.rope_theta = theta ? real(r, new_form, where, "rope_theta", 10000)
                               : real(r, r->json, "", "rope_theta", 10000);
    if (strcmp(c->rope.rope_type, "default")) {
        if (!sc_json_get(form, "factor"))
            fail(r, sc_pool_printf(r->pool, "%sfactor", where), "is missing");
        c->rope.factor = real(r, form, where, "factor", 1);
    }
    if (!strcmp(c->rope.rope_type, "llama3")) {
        static const char *const keys[] = { "low_freq_factor", "high_freq_factor",
                                            "original_max_position_embeddings" };
        for (int i = 0; i < 3; i++)
            if (!sc_json_get(form, keys[i]))
                fail(r, sc_pool_printf(r->pool, "%s%s", where, keys[i]), "is missing");
        c->rope.low_freq_factor = real(r, form, where, keys[0], 1);
        c->rope.high_freq_factor = real(r, form, where, keys[1], 4);
        c->rope.original_max_position_embeddings = (int64_t)real(r, form, where, keys[2], 8192);
        if (!r->rc && !(c->rope.high_freq_factor > c->rope.low_freq_factor))
            fail(r, sc_pool_printf(r->pool, "%shigh_freq_factor", where),
                 "is not above low_freq_factor");
    }
    const cJSON *partial = sc_json_get(r->json, "partial_rotary_factor");
    if (!partial && new_form)
        partial = sc_json_get(new_form, "partial_rotary_factor");
    if (partial && !cJSON_IsNull(partial) &&
        !(partial->valuedouble >= 1 && partial->valuedouble <= 1))
        fail(r, "partial_rotary_factor",
             sc_pool_printf(r->pool, "%s is not what %s does", quote(r, partial), c->model_type));
}

/* GGUF's rope_freqs.weight, which its reader turns into a key of ours. */
static void read_freq_factors(reader *r) {
    sc_config *c = r->config;
    const cJSON *list = sc_json_get(r->json, "slipcast_rope_freq_factors"), *item;
    if (!list || r->rc)
        return;
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
    const cJSON *item = sc_json_get(r->json, "dtype");
    if (!item)
        item = sc_json_get(r->json, "torch_dtype");
    static const char *const known[] = { "float32", "bfloat16", "float16" };
    r->config->dtype = "float32";
    for (int i = 0; i < 3; i++)
        if (item && cJSON_IsString(item) && !strcmp(item->valuestring, known[i]))
            r->config->dtype = known[i];
    record(r, "dtype", r->config->dtype, item ? r->file : by_default(r));
}

/* One id, a list of them, or null. */
static void read_eos(reader *r, const cJSON *generation) {
    sc_config *c = r->config;
    const cJSON *item = sc_json_get(generation, "eos_token_id");
    const char *from = "generation_config.json";
    if (!item || cJSON_IsNull(item)) {
        item = sc_json_get(r->json, "eos_token_id");
        from = r->file;
    }
    const int many = cJSON_IsArray(item) ? cJSON_GetArraySize(item) : item && !cJSON_IsNull(item);
    for (int i = 0; i < many && !r->rc; i++) {
        int64_t id;
        if (!sc_json_int(cJSON_IsArray(item) ? cJSON_GetArrayItem(item, i) : item, &id) ||
            id < -1 || id > LARGEST)
            fail(r, "eos_token_id",
                 sc_pool_printf(r->pool, "%s is neither an id nor a list of ids", quote(r, item)));
        else if (id >= 0 && id < c->vocab_size && c->eos_count < 16)
            c->eos_token_id[c->eos_count++] = id;
    }
    record(r, "eos_token_id", item ? quote(r, item) : "null", item ? from : by_default(r));
    const cJSON *bos = sc_json_get(r->json, "bos_token_id");
    c->bos_token_id = -1;
    if (bos && !cJSON_IsNull(bos) && !sc_json_int(bos, &c->bos_token_id))
        fail(r, "bos_token_id", sc_pool_printf(r->pool, "%s is no id", quote(r, bos)));
    record(r, "bos_token_id", bos ? quote(r, bos) : "null", bos ? r->file : by_default(r));
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
    refuse(&r, "attention_chunk_size", "this family attends to whole windows");
    if (!r.rc)
        read_eos(&r, generation);
    if (r.rc)
        return r.rc;
    *config = c;
    return SC_OK;
}
