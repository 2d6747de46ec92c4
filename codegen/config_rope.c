/* config_rope.c - rope_parameters, or rope_theta and rope_scaling, of a config. */
#include <math.h>
#include <string.h>

#include "config_read.h"
#include "families.h"
#include "json.h"

/* One form of settings: where it stands, and what is read of it. */
typedef struct {
    const cJSON *json; /* NULL: absent */
    const char *where; /* "rope_scaling." */
    sc_rope_config *rope;
    const char *theta_key; /* of what may stand beside the form instead of its rope_theta */
    double theta, partial; /* when nothing says them */
    const char *rope_type; /* when there is no form */
    bool own;              /* of one layer type: what stands beside it is not its, but for theta */
} rope_form;

/* Keys of rope_parameters that we know, and the types that use them; NULL: all. Any other may
 * change the arithmetic. */
static const struct {
    const char *key, *types;
} known_keys[] = {
    { "rope_type", NULL },
    { "type", NULL },
    { "rope_theta", NULL },
    { "partial_rotary_factor", NULL },
    { "factor", "linear dynamic llama3 yarn longrope proportional" },
    { "low_freq_factor", "llama3" },
    { "high_freq_factor", "llama3" },
    { "original_max_position_embeddings", "llama3 yarn longrope" },
    { "beta_fast", "yarn" },
    { "beta_slow", "yarn" },
    { "mscale", "yarn" },
    { "mscale_all_dim", "yarn" },
    { "truncate", "yarn" },
    { "attention_factor", "yarn longrope" },
    { "short_factor", "longrope" },
    { "long_factor", "longrope" },
};

/* A known key that this type has no use for is said to be so. */
static void check_rope_key(sc_reader *r, const rope_form *f, const cJSON *item) {
    enum { KNOWN = sizeof known_keys / sizeof *known_keys };
    const char *name = sc_pool_printf(r->pool, "%s%s", f->where, sc_json_printable(item->string));
    size_t i = 0;
    while (i < KNOWN && strcmp(item->string, known_keys[i].key))
        i++;
    if (i == KNOWN)
        sc_read_unsupported(r, name,
                            sc_pool_printf(r->pool,
                                           "is no key that %s knows (docs/adding-a-family.md)",
                                           r->config->model_type));
    else if (f->rope->rope_type && known_keys[i].types &&
             !strstr(known_keys[i].types, f->rope->rope_type))
        sc_read_note(r, sc_pool_printf(r->pool, "%s: %s is not used, rope_type is %s", name,
                                       sc_read_quote(r, item), f->rope->rope_type));
}

static void check_rope_keys(sc_reader *r, const rope_form *f) {
    const cJSON *item;
    cJSON_ArrayForEach(item, f->json) {
        if (!cJSON_IsNull(item))
            check_rope_key(r, f, item);
    }
}

static const cJSON *object_or_null(sc_reader *r, const cJSON *json, const char *where,
                                   const char *key) {
    const cJSON *item = sc_json_get(json, key);
    if (!item || cJSON_IsNull(item))
        return NULL;
    if (!cJSON_IsObject(item))
        sc_read_fail(r, sc_pool_printf(r->pool, "%s%s", where, key), "is no object");
    return item;
}

static const char *const rope_types[] = { "default", "linear",   "dynamic",     "llama3",
                                          "yarn",    "longrope", "proportional" };

/* Phi-3 has two types, and takes even a "yarn" for the second. */
static const char *const phi3_types[] = { "default", "longrope" };

static void read_rope_type(sc_reader *r, const rope_form *f) {
    const bool few = r->config->family->original_max_position_embeddings;
    const char *const *known = few ? phi3_types : rope_types;
    const size_t count =
        few ? sizeof phi3_types / sizeof *phi3_types : sizeof rope_types / sizeof *rope_types;
    const char *key = sc_json_get(f->json, "rope_type") ? "rope_type" : "type", *list = "";
    const cJSON *type = sc_json_get(f->json, key);
    const char *full_key = sc_pool_printf(r->pool, "%s%s", f->where, key);
    const char *name = type ? "" : f->json || !f->rope_type ? "default" : f->rope_type;
    if (cJSON_IsString(type))
        name = type->valuestring;
    if (!strcmp(name, "su")) /* its old name */
        name = "longrope";
    for (size_t i = 0; i < count; i++) {
        if (!strcmp(name, known[i]))
            f->rope->rope_type = known[i];
        list = sc_pool_printf(r->pool, "%s%s%s", list ? list : "", i ? ", " : "", known[i]);
    }
    if (f->rope->rope_type) {
        sc_read_record(r, type ? full_key : "rope_type", f->rope->rope_type,
                       type ? r->file : sc_read_by_default(r));
        return;
    }
    const char *reason = sc_pool_printf(r->pool, "%s is none of %s (docs/adding-a-family.md)",
                                        sc_read_quote(r, type), list);
    if (!strcmp(name, "mrope")) /* of images' positions: transformers knows it */
        sc_read_unsupported(r, full_key, reason);
    else
        sc_read_fail(r, full_key, reason);
}

/* Of the form, or of the config itself, or the longest position. */
static int64_t read_original(sc_reader *r, const rope_form *f) {
    const char *key = "original_max_position_embeddings";
    const char *name = sc_pool_printf(r->pool, "%s%s", f->where, key);
    const cJSON *inside = sc_json_get(f->json, key), *outside = sc_json_get(r->json, key);
    const int64_t usual = r->config->family->original_max_position_embeddings;
    int64_t original = usual ? usual : r->config->max_position_embeddings;
    sc_read_same(r, key, outside, name, inside);
    const cJSON *item = inside && !cJSON_IsNull(inside) ? inside : outside;
    if (item && !cJSON_IsNull(item) && (!sc_json_int(item, &original) || original > SC_LARGEST))
        original = 0;
    if (original < 2)
        sc_read_fail(r, item && item == outside ? key : name,
                     item ? sc_pool_printf(r->pool, "%s is no whole number in 2 … %d",
                                           sc_read_quote(r, item), SC_LARGEST)
                          : "is missing");
    else if (usual && !outside && original != usual)
        sc_read_fail(r, name,
                     sc_pool_printf(r->pool,
                                    "%lld, but %s outside, which decides, is absent, hence %lld "
                                    "(set it there)",
                                    (long long)original, key, (long long)usual));
    return original;
}

static void read_llama3(sc_reader *r, const rope_form *f) {
    sc_rope_config *rope = f->rope;
    rope->low_freq_factor = sc_read_real_there(r, f->json, f->where, "low_freq_factor");
    rope->high_freq_factor = sc_read_real_there(r, f->json, f->where, "high_freq_factor");
    rope->original_max_position_embeddings = read_original(r, f);
    if (!r->rc && !(rope->high_freq_factor > rope->low_freq_factor))
        sc_read_fail(r, sc_pool_printf(r->pool, "%shigh_freq_factor", f->where),
                     "is not above low_freq_factor");
}

/* A number of the form that may be absent or null. */
static double read_optional(sc_reader *r, const rope_form *f, const char *key, double fallback) {
    const cJSON *item = sc_json_get(f->json, key);
    return !item || cJSON_IsNull(item) ? fallback
                                       : sc_read_real(r, f->json, f->where, key, fallback);
}

static void read_yarn(sc_reader *r, const rope_form *f) {
    sc_rope_config *rope = f->rope;
    const cJSON *truncate = sc_json_get(f->json, "truncate");
    rope->original_max_position_embeddings = read_original(r, f);
    rope->beta_fast = read_optional(r, f, "beta_fast", 32);
    rope->beta_slow = read_optional(r, f, "beta_slow", 1);
    rope->mscale = read_optional(r, f, "mscale", 0);
    rope->mscale_all_dim = read_optional(r, f, "mscale_all_dim", 0);
    rope->attention_factor = read_optional(r, f, "attention_factor", 0);
    rope->truncate = !cJSON_IsFalse(truncate);
    if (truncate && !cJSON_IsNull(truncate) && !cJSON_IsBool(truncate))
        sc_read_fail(r, sc_pool_printf(r->pool, "%struncate", f->where),
                     "is neither true nor false");
    if (!r->rc && rope->beta_fast <= rope->beta_slow)
        sc_read_fail(r, sc_pool_printf(r->pool, "%sbeta_fast", f->where), "is not above beta_slow");
}

static const double *read_factors(sc_reader *r, const rope_form *f, const char *key,
                                  int64_t *count) {
    const cJSON *list = sc_json_get(f->json, key), *item;
    const char *name = sc_pool_printf(r->pool, "%s%s", f->where, key);
    const int many = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : 0;
    double *factor = sc_pool_alloc(r->pool, (size_t)many + 1, sizeof *factor);
    *count = 0;
    if (!factor)
        r->rc = sc_oom(r->err, "reading the config");
    else if (!many)
        sc_read_fail(r, name, "is no list of numbers, as longrope wants it");
    else
        cJSON_ArrayForEach(item, list) {
            if (!cJSON_IsNumber(item) || !(item->valuedouble > 0) || isinf(item->valuedouble))
                sc_read_fail(r, name, "a factor is no number above 0");
            factor[(*count)++] = item->valuedouble;
        }
    return factor;
}

static void read_longrope(sc_reader *r, const rope_form *f) {
    sc_rope_config *rope = f->rope;
    int64_t longs;
    rope->factor = read_optional(r, f, "factor", 0);
    rope->attention_factor = read_optional(r, f, "attention_factor", 0);
    rope->original_max_position_embeddings = read_original(r, f);
    rope->short_factor = read_factors(r, f, "short_factor", &rope->factors);
    rope->long_factor = read_factors(r, f, "long_factor", &longs);
    if (!r->rc && longs != rope->factors)
        sc_read_fail(r, sc_pool_printf(r->pool, "%slong_factor", f->where),
                     sc_pool_printf(r->pool, "%lld numbers, short_factor has %lld",
                                    (long long)longs, (long long)rope->factors));
}

static void read_scaling(sc_reader *r, const rope_form *f) {
    const char *type = f->rope->rope_type;
    if (!strcmp(type, "longrope")) {
        read_longrope(r, f);
        return;
    }
    if (!strcmp(type, "proportional"))
        f->rope->factor = read_optional(r, f, "factor", 1);
    else if (strcmp(type, "default"))
        f->rope->factor = sc_read_real_there(r, f->json, f->where, "factor");
    if (!strcmp(type, "dynamic") && !r->config->max_position_embeddings)
        sc_read_fail(r, "max_position_embeddings", "is missing, dynamic rope grows from it");
    if (!strcmp(type, "llama3"))
        read_llama3(r, f);
    else if (!strcmp(type, "yarn"))
        read_yarn(r, f);
}

/* The part of a head that is turned: in the form or beside it. */
static void read_partial(sc_reader *r, const rope_form *f) {
    const char *key = "partial_rotary_factor";
    const cJSON *inside = sc_json_get(f->json, key);
    const cJSON *beside = f->own ? NULL : sc_read_item(r, key);
    if (inside && beside)
        sc_read_same(r, beside->string, beside, sc_pool_printf(r->pool, "%s%s", f->where, key),
                     inside);
    const cJSON *partial = inside ? inside : beside;
    f->rope->partial_rotary_factor = f->partial;
    if (!partial || cJSON_IsNull(partial))
        return;
    const char *where = inside ? f->where : "";
    const double factor = sc_read_real(r, inside ? f->json : r->json, where, partial->string, 1);
    if (!r->rc && factor > 1)
        sc_read_fail(r, sc_pool_printf(r->pool, "%s%s", where, partial->string), "is above 1");
    if (r->config->family->rotary_factor > 0)
        f->rope->partial_rotary_factor = factor;
    else if (factor < 1)
        sc_read_unsupported(r, sc_pool_printf(r->pool, "%s%s", where, partial->string),
                            sc_pool_printf(r->pool, "%s is not what %s does",
                                           sc_read_quote(r, partial), r->config->model_type));
}

static void read_theta(sc_reader *r, const rope_form *f) {
    const cJSON *inside = sc_json_get(f->json, "rope_theta");
    const cJSON *beside = sc_read_item(r, f->theta_key);
    const char *key = beside ? beside->string : f->theta_key;
    sc_read_same(r, key, beside, sc_pool_printf(r->pool, "%srope_theta", f->where), inside);
    f->rope->rope_theta = inside ? sc_read_real(r, f->json, f->where, "rope_theta", f->theta)
                                 : sc_read_real(r, r->json, "", key, f->theta);
}

static void read_form(sc_reader *r, const rope_form *f) {
    f->rope->where = sc_pool_printf(r->pool, "%s: %s%.*s", r->file, r->prefix,
                                    (int)strlen(f->where) - 1, f->where);
    sc_read_same(r, sc_pool_printf(r->pool, "%stype", f->where), sc_json_get(f->json, "type"),
                 "rope_type", sc_json_get(f->json, "rope_type"));
    if (!r->rc)
        read_rope_type(r, f);
    if (!r->rc)
        check_rope_keys(r, f);
    if (!r->rc)
        read_theta(r, f);
    if (r->rc || !f->rope->rope_type)
        return;
    read_scaling(r, f);
    read_partial(r, f);
}

/* Of two forms, the newer is read: it must say all that the older does. */
static void check_old_form(sc_reader *r, const cJSON *old_form, const cJSON *new_form,
                           const char *where) {
    const cJSON *item;
    cJSON_ArrayForEach(item, old_form) {
        const bool type = !strcmp(item->string, "type") || !strcmp(item->string, "rope_type");
        const char *key = type ? "rope_type" : item->string;
        const cJSON *same = sc_json_get(new_form, key);
        const char *name =
            sc_pool_printf(r->pool, "rope_scaling.%s", sc_json_printable(item->string));
        if (!same && type)
            same = sc_json_get(new_form, key = "type");
        key = sc_pool_printf(r->pool, "%s%s", where, sc_json_printable(key));
        sc_read_same(r, name, item, key, same);
        if (!same && !cJSON_IsNull(item))
            sc_read_fail(r, name,
                         sc_pool_printf(r->pool, "%s, but there is no %s (keep one form)",
                                        sc_read_quote(r, item), key));
    }
}

static bool by_type(const sc_family *family) {
    return family->local_theta > 0 || family->local_plain;
}

/* rope_parameters of each layer type; json NULL: there are none, rope_scaling is for full layers.
 */
static void read_by_type(sc_reader *r, const cJSON *json, const cJSON *old_form, double usual) {
    sc_config *c = r->config;
    const sc_family *family = c->family;
    const bool local = family->local_theta > 0;
    const cJSON *item;
    cJSON_ArrayForEach(item, json) {
        if (strcmp(item->string, "full_attention") && strcmp(item->string, "sliding_attention"))
            sc_read_fail(
                r, sc_pool_printf(r->pool, "rope_parameters.%s", sc_json_printable(item->string)),
                sc_pool_printf(r->pool,
                               "is none of full_attention, sliding_attention, for which "
                               "%s has a rope each",
                               c->model_type));
    }
    rope_form full = { .json = object_or_null(r, json, "rope_parameters.", "full_attention"),
                       .where = "rope_parameters.full_attention.",
                       .rope = &c->rope,
                       .theta_key = "rope_theta",
                       .theta = usual,
                       .partial = !json && family->rotary_factor > 0 ? family->rotary_factor : 1,
                       .rope_type = json ? NULL : family->rope_type,
                       .own = true };
    rope_form sliding = { .json = object_or_null(r, json, "rope_parameters.", "sliding_attention"),
                          .where = "rope_parameters.sliding_attention.",
                          .rope = &c->sliding_rope,
                          .theta_key = local ? "rope_local_base_freq" : "rope_theta",
                          .theta = local ? family->local_theta : usual,
                          .partial = 1,
                          .own = true };
    if (full.json)
        check_old_form(r, old_form, full.json, full.where);
    else if (old_form) {
        full.json = old_form;
        full.where = "rope_scaling.";
    }
    if (!r->rc)
        read_form(r, &full);
    if (!r->rc)
        read_form(r, &sliding);
}

/* rope_parameters (transformers 5), or rope_theta and rope_scaling (4); in both, they must agree.
 */
static void read_forms(sc_reader *r, const cJSON *usual_form) {
    sc_config *c = r->config;
    const sc_family *family = c->family;
    const cJSON *new_form = object_or_null(r, r->json, "", "rope_parameters");
    const cJSON *old_form = object_or_null(r, r->json, "", "rope_scaling");
    const double usual = family->rope_theta > 0 ? family->rope_theta : 10000;
    if (r->rc)
        return;
    if (by_type(family)) {
        read_by_type(r, new_form, old_form, usual);
        return;
    }
    if (new_form && old_form)
        check_old_form(r, old_form, new_form, "rope_parameters.");
    if (!old_form && !new_form)
        new_form = usual_form;
    const rope_form form = { .json = new_form ? new_form : old_form,
                             .where = new_form ? "rope_parameters." : "rope_scaling.",
                             .rope = &c->rope,
                             .theta_key = "rope_theta",
                             .theta = usual,
                             .partial = family->rotary_factor > 0 ? family->rotary_factor : 1 };
    if (!r->rc)
        read_form(r, &form);
    c->sliding_rope = c->rope;
}

/* GGUF's rope_freqs.weight, which its reader turns into a key of ours. */
static void read_freq_factors(sc_reader *r) {
    sc_config *c = r->config;
    const cJSON *list = sc_json_get(r->json, "slipcast_rope_freq_factors"), *item;
    if (!list || r->rc)
        return;
    if (!cJSON_IsArray(list) || cJSON_GetArraySize(list) != c->head_dim / 2) {
        sc_read_fail(r, "rope_freqs",
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
            sc_read_fail(r, "rope_freqs", "a factor is no number above 0");
        else
            factor[c->rope.freq_factors++] = (float)item->valuedouble;
    }
    c->rope.freq_factor = factor;
    c->sliding_rope = c->rope;
    sc_read_record(r, "rope_freqs",
                   sc_pool_printf(r->pool, "%lld factors", (long long)c->rope.freq_factors),
                   r->file);
}

void sc_read_rope(sc_reader *r) {
    const int64_t head_dim = r->config->head_dim;
    if (!r->rc && (head_dim % 2 || head_dim > 4096))
        sc_read_fail(r, "head_dim",
                     sc_pool_printf(r->pool, "%lld is not even and at most 4096, as rope wants it",
                                    (long long)head_dim));
    const char *usual = r->config->family->rope_parameters;
    cJSON *usual_form = usual ? cJSON_Parse(usual) : NULL;
    read_forms(r, usual_form);
    cJSON_Delete(usual_form);
    read_freq_factors(r);
}
