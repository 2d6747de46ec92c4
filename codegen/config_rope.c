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
} rope_form;

/* Keys of rope_parameters that we know; any other may change the arithmetic. */
static void check_rope_keys(sc_reader *r, const cJSON *form, const char *where) {
    static const char *const known[] = { "rope_type",
                                         "type",
                                         "rope_theta",
                                         "factor",
                                         "low_freq_factor",
                                         "high_freq_factor",
                                         "original_max_position_embeddings",
                                         "partial_rotary_factor",
                                         "beta_fast",
                                         "beta_slow",
                                         "mscale",
                                         "mscale_all_dim",
                                         "attention_factor",
                                         "truncate",
                                         "short_factor",
                                         "long_factor" };
    const cJSON *item;
    cJSON_ArrayForEach(item, form) {
        bool good = cJSON_IsNull(item);
        for (size_t i = 0; i < sizeof known / sizeof *known; i++)
            good |= !strcmp(item->string, known[i]);
        if (!good)
            sc_read_unsupported(
                r, sc_pool_printf(r->pool, "%s%s", where, sc_json_printable(item->string)),
                sc_pool_printf(r->pool, "is no key that %s knows (docs/adding-a-family.md)",
                               r->config->model_type));
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

/* Types that transformers knows and no graph of ours uses yet. */
static bool known_elsewhere(const char *name) {
    static const char *const names[] = { "dynamic", "mrope", "proportional" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i]))
            return true;
    return false;
}

static void read_rope_type(sc_reader *r, const rope_form *f) {
    static const char *const known[] = { "default", "linear", "llama3", "yarn", "longrope" };
    const char *key = sc_json_get(f->json, "rope_type") ? "rope_type" : "type";
    const cJSON *type = sc_json_get(f->json, key);
    const char *full_key = sc_pool_printf(r->pool, "%s%s", f->where, key);
    const char *name = !type ? "default" : cJSON_IsString(type) ? type->valuestring : "";
    if (!strcmp(name, "su")) /* its old name */
        name = "longrope";
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(name, known[i]))
            f->rope->rope_type = known[i];
    if (f->rope->rope_type) {
        sc_read_record(r, type ? full_key : "rope_type", f->rope->rope_type,
                       type ? r->file : sc_read_by_default(r));
        return;
    }
    const char *reason = sc_pool_printf(r->pool,
                                        "%s is none of default, linear, llama3, yarn, longrope "
                                        "(docs/adding-a-family.md)",
                                        sc_read_quote(r, type));
    if (known_elsewhere(name))
        sc_read_unsupported(r, full_key, reason);
    else
        sc_read_fail(r, full_key, reason);
}

/* A whole number of the form, or of the config itself, or the longest position. */
static int64_t read_original(sc_reader *r, const rope_form *f, bool needed) {
    const char *key = "original_max_position_embeddings";
    const bool inside = sc_json_get(f->json, key) != NULL;
    const cJSON *json = inside ? f->json : r->json;
    int64_t original = r->config->max_position_embeddings;
    if (needed)
        sc_read_real_there(r, f->json, f->where, key);
    const cJSON *item = sc_json_get(json, key);
    if (r->rc || !item || cJSON_IsNull(item))
        return original;
    if (!sc_json_int(item, &original) || original < 2)
        sc_read_fail(
            r, sc_pool_printf(r->pool, "%s%s", inside ? f->where : "", key),
            sc_pool_printf(r->pool, "%s is no whole number above 1", sc_read_quote(r, item)));
    return original;
}

static void read_llama3(sc_reader *r, const rope_form *f) {
    sc_rope_config *rope = f->rope;
    rope->low_freq_factor = sc_read_real_there(r, f->json, f->where, "low_freq_factor");
    rope->high_freq_factor = sc_read_real_there(r, f->json, f->where, "high_freq_factor");
    rope->original_max_position_embeddings = read_original(r, f, true);
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
    rope->original_max_position_embeddings = read_original(r, f, false);
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
    rope->original_max_position_embeddings = read_original(r, f, false);
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
    if (strcmp(type, "default"))
        f->rope->factor = sc_read_real_there(r, f->json, f->where, "factor");
    if (!strcmp(type, "llama3"))
        read_llama3(r, f);
    else if (!strcmp(type, "yarn"))
        read_yarn(r, f);
}

/* The part of a head that is turned: in the form or beside it. */
static void read_partial(sc_reader *r, const rope_form *f) {
    const double usual = r->config->family->rotary_factor;
    const bool inside = sc_json_get(f->json, "partial_rotary_factor") != NULL;
    const cJSON *partial = inside ? sc_json_get(f->json, "partial_rotary_factor")
                                  : sc_read_item(r, "partial_rotary_factor");
    f->rope->partial_rotary_factor = usual > 0 ? usual : 1;
    if (!partial || cJSON_IsNull(partial))
        return;
    const char *where = inside ? f->where : "";
    const double factor = sc_read_real(r, inside ? f->json : r->json, where, partial->string, 1);
    if (!r->rc && factor > 1)
        sc_read_fail(r, sc_pool_printf(r->pool, "%s%s", where, partial->string), "is above 1");
    if (usual > 0)
        f->rope->partial_rotary_factor = factor;
    else if (factor < 1)
        sc_read_unsupported(r, sc_pool_printf(r->pool, "%s%s", where, partial->string),
                            sc_pool_printf(r->pool, "%s is not what %s does",
                                           sc_read_quote(r, partial), r->config->model_type));
}

/* theta: what stands beside the form; usual: when nothing does. */
static void read_form(sc_reader *r, const rope_form *f, const cJSON *theta, double usual) {
    const cJSON *inside = sc_json_get(f->json, "rope_theta");
    check_rope_keys(r, f->json, f->where);
    sc_read_same(r, sc_pool_printf(r->pool, "%stype", f->where), sc_json_get(f->json, "type"),
                 "rope_type", sc_json_get(f->json, "rope_type"));
    if (!r->rc)
        read_rope_type(r, f);
    if (r->rc || !f->rope->rope_type)
        return;
    f->rope->rope_theta =
        inside ? sc_read_real(r, f->json, f->where, "rope_theta", usual)
               : sc_read_real(r, r->json, "", theta ? theta->string : "rope_theta", usual);
    read_scaling(r, f);
    read_partial(r, f);
}

/* rope_parameters of each layer type. */
static void read_by_type(sc_reader *r, const cJSON *json, double usual, double local) {
    sc_config *c = r->config;
    const rope_form forms[] = {
        { object_or_null(r, json, "rope_parameters.", "full_attention"),
          "rope_parameters.full_attention.", &c->rope },
        { object_or_null(r, json, "rope_parameters.", "sliding_attention"),
          "rope_parameters.sliding_attention.", &c->sliding_rope },
    };
    const cJSON *item;
    cJSON_ArrayForEach(item, json) {
        if (strcmp(item->string, "full_attention") && strcmp(item->string, "sliding_attention"))
            sc_read_unsupported(
                r, sc_pool_printf(r->pool, "rope_parameters.%s", sc_json_printable(item->string)),
                "is none of full_attention, sliding_attention");
    }
    for (int i = 0; i < 2 && !r->rc; i++)
        read_form(r, &forms[i], NULL, i ? local : usual);
}

/* rope_parameters (transformers 5), or rope_theta and rope_scaling (4); in both, they must agree.
 */
static void read_forms(sc_reader *r) {
    sc_config *c = r->config;
    const sc_family *family = c->family;
    const cJSON *new_form = object_or_null(r, r->json, "", "rope_parameters");
    const cJSON *old_form = object_or_null(r, r->json, "", "rope_scaling");
    const double usual = family->rope_theta > 0 ? family->rope_theta : 10000;
    const double local = family->local_theta > 0 ? family->local_theta : usual;
    const cJSON *theta = sc_read_item(r, "rope_theta");
    if (r->rc)
        return;
    if (sc_json_get(new_form, "full_attention") || sc_json_get(new_form, "sliding_attention")) {
        read_by_type(r, new_form, usual, local);
        return;
    }
    const cJSON *form = new_form ? new_form : old_form;
    const char *where = new_form ? "rope_parameters." : "rope_scaling.";
    sc_read_same(r, "rope_theta", theta, sc_pool_printf(r->pool, "%srope_theta", where),
                 sc_json_get(form, "rope_theta"));
    if (new_form && old_form) {
        const cJSON *item;
        cJSON_ArrayForEach(item, old_form) {
            const char *key = strcmp(item->string, "type") ? item->string : "rope_type";
            sc_read_same(r, sc_pool_printf(r->pool, "rope_scaling.%s", item->string), item,
                         sc_pool_printf(r->pool, "rope_parameters.%s", key),
                         sc_json_get(new_form, key));
        }
    }
    read_form(r, &(rope_form){ form, where, &c->rope }, theta, usual);
    c->sliding_rope = c->rope;
    if (r->rc || !c->rope.rope_type)
        return;
    if (family->local_theta > 0 || family->local_plain) {
        c->sliding_rope = (sc_rope_config){ .rope_type = "default",
                                            .rope_theta = c->rope.rope_theta,
                                            .partial_rotary_factor = 1 };
        if (family->local_theta > 0)
            c->sliding_rope.rope_theta =
                sc_read_real(r, r->json, "", "rope_local_base_freq", local);
    }
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
    read_forms(r);
    read_freq_factors(r);
}
