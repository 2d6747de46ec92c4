/* config_rope.c - rope_parameters, or rope_theta and rope_scaling, of a config. */
#include <math.h>
#include <string.h>

#include "config_read.h"
#include "families.h"
#include "json.h"

/* Keys of rope_parameters that we know; any other may change the arithmetic. */
static void check_rope_keys(sc_reader *r, const cJSON *form, const char *where) {
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
            sc_read_unsupported(
                r, sc_pool_printf(r->pool, "%s%s", where, sc_json_printable(item->string)),
                sc_pool_printf(r->pool, "is no key that %s knows (docs/adding-a-family.md)",
                               r->config->model_type));
    }
}

static const cJSON *object_or_null(sc_reader *r, const char *key) {
    const cJSON *item = sc_json_get(r->json, key);
    if (!item || cJSON_IsNull(item))
        return NULL;
    if (!cJSON_IsObject(item))
        sc_read_fail(r, key, "is no object");
    else
        check_rope_keys(r, item, key[5] == 'p' ? "rope_parameters." : "rope_scaling.");
    return item;
}

/* Types that transformers knows and no graph of ours uses yet. */
static bool known_elsewhere(const char *name) {
    static const char *const names[] = { "dynamic", "yarn",  "longrope",
                                         "su",      "mrope", "proportional" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!strcmp(name, names[i]))
            return true;
    return false;
}

static void read_rope_type(sc_reader *r, const cJSON *form, const char *where) {
    static const char *const known[] = { "default", "linear", "llama3" };
    const char *key = sc_json_get(form, "rope_type") ? "rope_type" : "type";
    const cJSON *type = sc_json_get(form, key);
    const char *full_key = sc_pool_printf(r->pool, "%s%s", where, key);
    const char *name = !type ? "default" : cJSON_IsString(type) ? type->valuestring : "";
    for (int i = 0; i < 3; i++)
        if (!strcmp(name, known[i]))
            r->config->rope.rope_type = known[i];
    if (r->config->rope.rope_type) {
        sc_read_record(r, type ? full_key : "rope_type", r->config->rope.rope_type,
                       type ? r->file : sc_read_by_default(r));
        return;
    }
    const char *reason =
        sc_pool_printf(r->pool, "%s is none of default, linear, llama3 (docs/adding-a-family.md)",
                       sc_read_quote(r, type));
    if (known_elsewhere(name))
        sc_read_unsupported(r, full_key, reason);
    else
        sc_read_fail(r, full_key, reason);
}

static void read_scaling(sc_reader *r, const cJSON *form, const char *where) {
    sc_config *c = r->config;
    if (strcmp(c->rope.rope_type, "default"))
        c->rope.factor = sc_read_real_there(r, form, where, "factor");
    if (strcmp(c->rope.rope_type, "llama3"))
        return;
    c->rope.low_freq_factor = sc_read_real_there(r, form, where, "low_freq_factor");
    c->rope.high_freq_factor = sc_read_real_there(r, form, where, "high_freq_factor");
    const char *key = "original_max_position_embeddings";
    sc_read_real_there(r, form, where, key);
    if (!r->rc && !sc_json_int(sc_json_get(form, key), &c->rope.original_max_position_embeddings))
        sc_read_fail(r, sc_pool_printf(r->pool, "%s%s", where, key),
                     sc_pool_printf(r->pool, "%s is no whole number",
                                    sc_read_quote(r, sc_json_get(form, key))));
    if (!r->rc && !(c->rope.high_freq_factor > c->rope.low_freq_factor))
        sc_read_fail(r, sc_pool_printf(r->pool, "%shigh_freq_factor", where),
                     "is not above low_freq_factor");
}

/* The part of a head that is turned: in the form or beside it. */
static void read_partial(sc_reader *r, const cJSON *form, const char *where) {
    sc_config *c = r->config;
    const double usual = c->family->rotary_factor;
    const bool inside = sc_json_get(form, "partial_rotary_factor") != NULL;
    const cJSON *object = inside ? form : r->json;
    const cJSON *partial = sc_json_get(object, "partial_rotary_factor");
    where = inside ? where : "";
    c->rope.partial_rotary_factor = usual > 0 ? usual : 1;
    if (!partial || cJSON_IsNull(partial))
        return;
    const double factor = sc_read_real(r, object, where, "partial_rotary_factor", 1);
    if (!r->rc && factor > 1)
        sc_read_fail(r, sc_pool_printf(r->pool, "%spartial_rotary_factor", where),
                     "is above 1");
    if (usual > 0)
        c->rope.partial_rotary_factor = factor;
    else if (factor < 1)
        sc_read_unsupported(r, sc_pool_printf(r->pool, "%spartial_rotary_factor", where),
                            sc_pool_printf(r->pool, "%s is not what %s does",
                                           sc_read_quote(r, partial), c->model_type));
}

/* rope_parameters (transformers 5), or rope_theta and rope_scaling (4); in both, they must agree.
 */
static void read_forms(sc_reader *r) {
    const cJSON *new_form = object_or_null(r, "rope_parameters");
    const cJSON *old_form = object_or_null(r, "rope_scaling");
    if (r->rc)
        return;
    const cJSON *form = new_form ? new_form : old_form;
    const char *where = new_form ? "rope_parameters." : "rope_scaling.";
    const cJSON *theta = sc_json_get(form, "rope_theta");
    sc_read_same(r, "rope_theta", sc_json_get(r->json, "rope_theta"),
                 sc_pool_printf(r->pool, "%srope_theta", where), theta);
    sc_read_same(r, sc_pool_printf(r->pool, "%stype", where), sc_json_get(form, "type"),
                 "rope_type", sc_json_get(form, "rope_type"));
    if (new_form && old_form) {
        const cJSON *item;
        cJSON_ArrayForEach(item, old_form) {
            const char *key = strcmp(item->string, "type") ? item->string : "rope_type";
            sc_read_same(r, sc_pool_printf(r->pool, "rope_scaling.%s", item->string), item,
                         sc_pool_printf(r->pool, "rope_parameters.%s", key),
                         sc_json_get(new_form, key));
        }
    }
    if (!r->rc)
        read_rope_type(r, form, where);
    if (r->rc || !r->config->rope.rope_type)
        return;
    const double usual = r->config->family->rope_theta > 0 ? r->config->family->rope_theta : 10000;
    r->config->rope.rope_theta = theta ? sc_read_real(r, form, where, "rope_theta", usual)
                                       : sc_read_real(r, r->json, "", "rope_theta", usual);
    read_scaling(r, form, where);
    read_partial(r, form, where);
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
