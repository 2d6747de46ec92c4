/* config.c - see config.h. */
#include "config.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#include "config_read.h"
#include "families.h"
#include "json.h"

const char *sc_layer_type_name(sc_layer_type type) {
    static const char *const names[] = { "full_attention",
                                         "sliding_attention",
                                         "chunked_attention",
                                         "indexed_attention",
                                         "conv",
                                         "linear_attention",
                                         "hybrid",
                                         "hybrid_sliding",
                                         "dummy" };
    return names[type];
}

bool sc_layer_type_rings(sc_layer_type type) {
    return type == SC_SLIDING_ATTENTION || type == SC_CHUNKED_ATTENTION ||
           type == SC_HYBRID_SLIDING;
}

bool sc_layer_type_has_kv(sc_layer_type type) {
    return type != SC_CONV && type != SC_LINEAR_ATTENTION && type != SC_DUMMY;
}

bool sc_layer_type_has_states(sc_layer_type type) {
    return type == SC_CONV || type == SC_LINEAR_ATTENTION || type == SC_HYBRID ||
           type == SC_HYBRID_SLIDING;
}

/* A key that must be absent, null or false: anything else changes the arithmetic. */
static void refuse(sc_reader *r, const char *key, const char *way_out) {
    const cJSON *item = sc_json_get(r->json, key);
    if (item && !cJSON_IsNull(item) && !cJSON_IsFalse(item))
        sc_read_unsupported(
            r, key,
            sc_pool_printf(r->pool, "%s is not supported (%s)", sc_read_quote(r, item), way_out));
}

static void read_kv_heads(sc_reader *r) {
    sc_config *c = r->config;
    const sc_family *f = c->family;
    if (f->num_key_value_heads)
        c->num_key_value_heads =
            sc_read_count(r, "num_key_value_heads", f->num_key_value_heads, f->kv_heads_null);
    if (r->rc)
        return;
    if (!c->num_key_value_heads) {
        c->num_key_value_heads = c->num_attention_heads;
        sc_read_record_count(r, "num_key_value_heads", c->num_key_value_heads,
                             "rule: num_attention_heads");
    }
    if (c->num_attention_heads % c->num_key_value_heads == 0)
        return;
    const char *why = sc_read_item(r, "num_key_value_heads")
                          ? ""
                          : sc_pool_printf(r->pool, ", the default of %s,", c->model_type);
    sc_read_fail(
        r, "num_key_value_heads",
        sc_pool_printf(r->pool,
                       "%lld%s does not divide num_attention_heads %lld (set num_key_value_heads)",
                       (long long)c->num_key_value_heads, why, (long long)c->num_attention_heads));
}

static void read_head_dim(sc_reader *r) {
    sc_config *c = r->config;
    if (c->family->head_dim_key) {
        c->head_dim = sc_read_count(r, c->family->head_dim_key, c->family->head_dim, false);
        return;
    }
    const int64_t usual = c->family->head_dim ? c->family->head_dim : SC_NULL;
    c->head_dim = sc_read_count(r, "head_dim", usual, usual == SC_NULL || c->family->head_dim_null);
    if (!r->rc && c->head_dim && c->family->head_dim_computed &&
        c->head_dim * c->num_attention_heads != c->hidden_size)
        sc_read_unsupported(
            r, "head_dim",
            sc_pool_printf(r->pool, "%lld is not hidden_size / num_attention_heads, as %s has it",
                           (long long)c->head_dim, c->model_type));
    if (r->rc || c->head_dim)
        return;
    if (c->hidden_size % c->num_attention_heads)
        sc_read_fail(r, "hidden_size",
                     sc_pool_printf(
                         r->pool, "%lld is no multiple of num_attention_heads %lld (set head_dim)",
                         (long long)c->hidden_size, (long long)c->num_attention_heads));
    c->head_dim = c->hidden_size / c->num_attention_heads;
    sc_read_record_count(r, "head_dim", c->head_dim, "rule: hidden_size / num_attention_heads");
}

static void read_sizes(sc_reader *r) {
    sc_config *c = r->config;
    const sc_family *f = c->family;
    c->hidden_size = sc_read_count(r, "hidden_size", f->hidden_size, false);
    c->num_hidden_layers = f->layer_count
                               ? f->layer_count(r)
                               : sc_read_count(r, "num_hidden_layers", f->num_hidden_layers, false);
    if (c->num_hidden_layers > SC_MOST_LAYERS)
        sc_read_fail(r, "num_hidden_layers",
                     sc_pool_printf(r->pool, "%lld is more than %d",
                                    (long long)c->num_hidden_layers, SC_MOST_LAYERS));
    if (f->max_position_embeddings)
        c->max_position_embeddings =
            sc_read_count(r, "max_position_embeddings", f->max_position_embeddings,
                          f->max_position_embeddings == SC_NULL);
    if (!f->num_attention_heads)
        return;
    c->num_attention_heads = sc_read_count(r, "num_attention_heads", f->num_attention_heads, false);
    if (!r->rc)
        read_kv_heads(r);
    if (!r->rc)
        read_head_dim(r);
}

/* sliding_window and the switch before it; says what is declared and not used. */
static void read_window(sc_reader *r) {
    sc_config *c = r->config;
    const int64_t usual = c->family->sliding_window ? c->family->sliding_window : SC_NULL;
    const cJSON *item = sc_read_item(r, "sliding_window");
    const bool use = c->family->window_switch ? sc_read_flag(r, "use_sliding_window", false) : true;
    if (usual != SC_NULL || item)
        c->sliding_window = sc_read_count(r, "sliding_window", usual, !c->family->window_not_null);
    if (use || !c->sliding_window)
        return;
    if (item)
        sc_read_note(r,
                     sc_pool_printf(r->pool,
                                    "sliding_window: %lld is not used, use_sliding_window is false",
                                    (long long)c->sliding_window));
    c->sliding_window = 0;
    sc_read_record(r, "sliding_window", "null", "rule: use_sliding_window is false");
}

static sc_activation read_act(sc_reader *r, const char *key, const char *usual) {
    static const struct {
        const char *name;
        sc_activation act;
    } known[] = {
        { "silu", SC_ACT_SILU },          { "swish", SC_ACT_SILU },
        { "gelu", SC_ACT_GELU },          { "gelu_pytorch_tanh", SC_ACT_GELU_TANH },
        { "gelu_new", SC_ACT_GELU_TANH }, { "gelu_fast", SC_ACT_GELU_TANH },
        { "relu", SC_ACT_RELU },          { "relu2", SC_ACT_RELU2 },
    };
    const cJSON *item = sc_read_item(r, key);
    const char *name = !item ? usual : cJSON_IsString(item) ? item->valuestring : "";
    sc_activation act = SC_ACT_NONE;
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (!strcmp(known[i].name, name))
            act = known[i].act;
    if (!act)
        sc_read_fail(r, key,
                     sc_pool_printf(r->pool,
                                    "%s is none of silu, gelu, gelu_pytorch_tanh, gelu_new, relu, "
                                    "relu2",
                                    sc_read_quote(r, item)));
    sc_read_record(r, key, name, item ? r->file : sc_read_by_default(r));
    return act;
}

static void read_dtype(sc_reader *r) {
    static const char *const known[] = { "float32", "bfloat16", "float16" };
    const cJSON *item = sc_json_get(r->json, "dtype");
    const cJSON *old = sc_json_get(r->json, "torch_dtype");
    sc_read_same(r, "torch_dtype", old, "dtype", item);
    const char *key = item && !cJSON_IsNull(item) ? "dtype" : "torch_dtype";
    item = sc_json_get(r->json, key);
    const bool absent = !item || cJSON_IsNull(item);
    r->config->dtype = absent ? "float32" : NULL;
    for (int i = 0; i < 3; i++)
        if (!absent && cJSON_IsString(item) && !strcmp(item->valuestring, known[i]))
            r->config->dtype = known[i];
    if (!r->config->dtype)
        sc_read_fail(r, key,
                     sc_pool_printf(r->pool, "%s is none of float32, bfloat16, float16",
                                    sc_read_quote(r, item)));
    sc_read_record(r, "dtype", r->config->dtype, absent ? sc_read_by_default(r) : r->file);
}

/* One id, a list of them, or null. */
static void read_eos(sc_reader *r, const cJSON *generation) {
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
        sc_read_record(r, "eos_token_id",
                       c->eos_count ? sc_read_number_text(r->pool, (double)c->eos_token_id[0])
                                    : "null",
                       sc_read_by_default(r));
        return;
    }
    const int many = cJSON_IsArray(item) ? cJSON_GetArraySize(item) : !cJSON_IsNull(item);
    if (many > MOST)
        sc_read_fail(r, "eos_token_id", sc_pool_printf(r->pool, "%d ids, at most %d", many, MOST));
    for (int i = 0; i < many && !r->rc; i++) {
        int64_t id;
        if (!sc_json_int(cJSON_IsArray(item) ? cJSON_GetArrayItem(item, i) : item, &id) ||
            id < -1 || id > SC_LARGEST)
            sc_read_fail(r, "eos_token_id",
                         sc_pool_printf(r->pool, "%s is neither an id nor a list of ids",
                                        sc_read_quote(r, item)));
        else if (id >= 0)
            c->eos_token_id[c->eos_count++] = id;
    }
    sc_read_record(r, "eos_token_id", sc_read_quote(r, item), from);
}

static void read_bos(sc_reader *r) {
    sc_config *c = r->config;
    const cJSON *item = sc_json_get(r->json, "bos_token_id");
    c->bos_token_id = item ? -1 : c->family->bos_token_id;
    if (item && !cJSON_IsNull(item) && !sc_json_int(item, &c->bos_token_id))
        sc_read_fail(r, "bos_token_id",
                     sc_pool_printf(r->pool, "%s is no id", sc_read_quote(r, item)));
    sc_read_record(r, "bos_token_id",
                   c->bos_token_id < 0 ? "null"
                                       : sc_read_number_text(r->pool, (double)c->bos_token_id),
                   item ? r->file : sc_read_by_default(r));
}

/* Whether the family has a key of that name. */
static bool is_own(const sc_reader *r, const char *name) {
    const sc_key *key = r->config->family->key;
    for (; key && key->key; key++)
        if (!strcmp(key->key, name))
            return true;
    return false;
}

/* Settings of other families: here they would change nothing in the reference, and are hardly
 * meant. */
static void refuse_foreign(sc_reader *r) {
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
        if (!is_own(r, keys[i]))
            refuse(r, keys[i], "this family has no such setting");
}

/* {"__float__": "Infinity"}: how transformers 5 writes what JSON has no number for. */
static bool is_infinity(const cJSON *item, double *number) {
    const cJSON *name = sc_json_get(item, "__float__");
    if (!cJSON_IsString(name) || strcmp(name->valuestring, "Infinity"))
        return false;
    *number = (double)INFINITY;
    return true;
}

static bool is_mlp(const cJSON *item, double *number) {
    const char *name = cJSON_IsString(item) ? item->valuestring : "";
    *number = !strcmp(name, "sparse");
    return *number > 0 || !strcmp(name, "dense");
}

static void read_numbers(sc_reader *r, const sc_key *own, const cJSON *item,
                         sc_config_value *value) {
    const char *key = own->key;
    const bool list = cJSON_IsArray(item) || (cJSON_IsNumber(item) && own->kind != SC_KEY_MLPS);
    const int count = cJSON_GetArraySize(item); /* of an object too: its values are read alike */
    double *number = sc_pool_alloc(r->pool, (size_t)count + 1, sizeof *number);
    bool good = list;
    const cJSON *entry;
    if (!number) {
        r->rc = sc_oom(r->err, "reading the config");
        return;
    }
    if (list && cJSON_IsNumber(item)) {
        good = isfinite(item->valuedouble);
        number[value->count++] = item->valuedouble;
    }
    cJSON_ArrayForEach(entry, item) {
        double *to = &number[value->count++];
        *to = cJSON_IsBool(entry) ? cJSON_IsTrue(entry) : entry->valuedouble;
        if (own->kind == SC_KEY_MLPS) {
            good &= is_mlp(entry, to);
            continue;
        }
        if (own->kind == SC_KEY_LIMITS && is_infinity(entry, to))
            continue;
        good &= cJSON_IsBool(entry) || cJSON_IsNumber(entry);
        good &= isfinite(*to) || (own->kind == SC_KEY_LIMITS && isinf(*to));
    }
    value->list = number;
    if (!good)
        sc_read_fail(r, key,
                     sc_pool_printf(r->pool, "%s is no list of %s", sc_read_quote(r, item),
                                    own->kind == SC_KEY_MLPS ? "dense and sparse" : "numbers"));
    sc_read_record(r, key, sc_read_quote(r, item), r->file);
}

/* A flag whose other value changes the arithmetic into what we do not do. */
static bool read_fixed(sc_reader *r, const sc_key *key) {
    const bool usual = key->fallback > 0;
    const cJSON *item = sc_read_item(r, key->key);
    if (key->null && cJSON_IsNull(item))
        return usual;
    const bool value = sc_read_flag(r, key->key, usual);
    if (value != usual)
        sc_read_unsupported(r, key->key,
                            sc_pool_printf(r->pool, "%s is not supported (export --only cache)",
                                           sc_read_quote(r, item)));
    return value;
}

/* A key of the family's own. */
static void read_own(sc_reader *r, const sc_key *key, sc_config_value *value) {
    const cJSON *item = sc_read_item(r, key->key);
    const bool null_ok = key->null || key->fallback < 0;
    value->key = key->key;
    value->number = key->fallback;
    if (key->kind == SC_KEY_FLAG)
        value->number = sc_read_flag(r, key->key, key->fallback > 0);
    else if (key->kind == SC_KEY_FIXED)
        value->number = read_fixed(r, key);
    else if (key->kind == SC_KEY_ACT)
        value->number = read_act(r, key->key, "silu");
    else if (key->kind == SC_KEY_NUMBERS || key->kind == SC_KEY_LIMITS ||
             key->kind == SC_KEY_MLPS) {
        if (item && !cJSON_IsNull(item))
            read_numbers(r, key, item, value);
    } else if (key->kind != SC_KEY_NOTHING) {
        int64_t whole = 0;
        const bool counts = key->kind == SC_KEY_COUNT || key->kind == SC_KEY_AUTO;
        const bool automatic = key->kind == SC_KEY_AUTO && item && cJSON_IsString(item) &&
                               !strcmp(item->valuestring, "auto");
        const bool null = item && cJSON_IsNull(item);
        const bool number = item && cJSON_IsNumber(item) && isfinite(item->valuedouble);
        if ((null && null_ok) || automatic)
            value->number = SC_NULL;
        else if (item && (!number || (counts && (!sc_json_int(item, &whole) || whole < 0 ||
                                                 whole > SC_LARGEST))))
            sc_read_fail(r, key->key,
                         sc_pool_printf(r->pool, "%s is no %s", sc_read_quote(r, item),
                                        counts ? "whole number from 0 on" : "number"));
        else if (item)
            value->number = item->valuedouble;
        sc_read_record(r, key->key,
                       value->number < 0 && key->kind == SC_KEY_AUTO ? "auto"
                       : value->number < 0 && null_ok                ? "null"
                                                      : sc_read_number_text(r->pool, value->number),
                       item ? r->file : sc_read_by_default(r));
    }
}

static void read_keys(sc_reader *r) {
    sc_config *c = r->config;
    const sc_key *key = c->family->key;
    int count = 0;
    while (key && key[count].key)
        count++;
    c->value = sc_pool_alloc(r->pool, (size_t)count + 1, sizeof *c->value);
    if (!c->value) {
        r->rc = sc_oom(r->err, "reading the config");
        return;
    }
    for (; c->values < count && !r->rc; c->values++)
        read_own(r, &key[c->values], &c->value[c->values]);
}

const sc_config_value *sc_config_key(const sc_config *config, const char *key) {
    int i = 0;
    while (i < config->values - 1 && strcmp(config->value[i].key, key))
        i++;
    assert(i < config->values && !strcmp(config->value[i].key, key));
    return &config->value[i];
}

/* GPT-OSS is published with experts in MXFP4, which are read as they are; no other is. */
static void read_quantization(sc_reader *r) {
    const cJSON *item = sc_json_get(r->json, "quantization_config");
    const cJSON *method = sc_json_get(item, "quant_method");
    r->config->mxfp4 =
        r->config->family->mxfp4 && cJSON_IsString(method) && !strcmp(method->valuestring, "mxfp4");
    if (r->config->mxfp4)
        sc_read_record(r, "quantization_config.quant_method", "mxfp4", r->file);
    else
        refuse(r, "quantization_config", "give the unquantised checkpoint, or a GGUF file");
}

/* What a graph needs besides the layers, strictly. */
static void read_model(sc_reader *r, const cJSON *generation) {
    sc_config *c = r->config;
    const sc_family *f = c->family;
    c->vocab_size = sc_read_count(r, "vocab_size", f->vocab_size, false);
    if (f->intermediate_size)
        c->intermediate_size = sc_read_count(r, "intermediate_size", f->intermediate_size, false);
    if (!f->no_rope)
        sc_read_rope(r);
    c->hidden_act =
        read_act(r, f->act_key ? f->act_key : "hidden_act", f->hidden_act ? f->hidden_act : "silu");
    c->rms_norm_eps = sc_read_real(r, r->json, "", f->eps_key ? f->eps_key : "rms_norm_eps",
                                   f->eps > 0 ? f->eps : 1e-6);
    const cJSON *outer = sc_json_get(r->outer, "tie_word_embeddings"); /* of a multimodal model */
    c->tie_word_embeddings =
        sc_read_flag(r, "tie_word_embeddings", cJSON_IsBool(outer) ? cJSON_IsTrue(outer) : f->tied);
    if (f->attention_bias)
        c->attention_bias = sc_read_flag(r, "attention_bias", false);
    else if (!is_own(r, "attention_bias"))
        refuse(r, "attention_bias", "this family has no such bias");
    if (f->mlp_bias)
        c->mlp_bias = sc_read_flag(r, "mlp_bias", false);
    else if (!is_own(r, "mlp_bias"))
        refuse(r, "mlp_bias", "this family has no such bias");
    read_quantization(r);
    if (!f->per_layer)
        refuse(r, "per_layer_config", "this family's layers are alike");
    refuse_foreign(r);
    read_keys(r);
    const unsigned built = f->builds | 1u << SC_FULL_ATTENTION | 1u << SC_SLIDING_ATTENTION;
    for (int64_t i = 0; i < c->num_hidden_layers; i++)
        if (!(built >> c->layer[i].type & 1) && c->layer[i].kv_source == i)
            sc_read_unsupported(r, "layer_types",
                                sc_pool_printf(r->pool, "%s is not what %s does",
                                               sc_layer_type_name(c->layer[i].type),
                                               c->model_type));
    if (!r->rc)
        read_eos(r, generation);
    if (!r->rc)
        read_bos(r);
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

/* The families whose graph can be built. */
static const char *family_names(const sc_reader *r) {
    const char *names = "";
    for (size_t i = 0; sc_family_at(i) && names; i++)
        if (sc_family_at(i)->build)
            names = sc_pool_printf(r->pool, "%s%s%s", names, *names ? ", " : "",
                                   sc_family_at(i)->model_type);
    return names ? names : "";
}

/* A text config may leave its model_type to the outer one: gemma3 holds a gemma3_text. */
static const sc_family *inner_family(const sc_reader *r, const char *outer) {
    const char *text = sc_pool_printf(r->pool, "%s_text", outer);
    const sc_family *family = text ? sc_family_find(text) : NULL;
    return family ? family : sc_family_find(outer);
}

static void find_family(sc_reader *r, const cJSON *outer, bool generic) {
    sc_config *c = r->config;
    const cJSON *type = sc_json_get(r->json, "model_type");
    const bool inherited = !cJSON_IsString(type);
    if (inherited)
        type = sc_json_get(outer, "model_type");
    if (!type || !cJSON_IsString(type)) {
        sc_read_fail(r, "model_type", "is missing (is this the config.json of a model?)");
        return;
    }
    c->family = inherited ? inner_family(r, type->valuestring) : sc_family_find(type->valuestring);
    if (!c->family)
        c->family = inner_family(r, type->valuestring);
    if (!c->family && generic) {
        c->family = sc_family_generic();
        c->generic = true;
        sc_read_note(r, sc_pool_printf(r->pool,
                                       "model_type: %s is unknown; what all families share is read",
                                       sc_read_quote(r, type)));
    }
    if (!c->family) {
        sc_read_fail(r, "model_type",
                     sc_pool_printf(r->pool,
                                    "%s is unknown (--generic reads what all families share, for "
                                    "the cache alone; docs/adding-a-family.md)",
                                    sc_read_quote(r, type)));
        return;
    }
    c->model_type =
        c->family->model_type ? c->family->model_type : sc_pool_strdup(r->pool, type->valuestring);
    sc_read_record(r, "model_type", c->model_type, r->file);
    if (c->family->no_cache)
        sc_read_fail(
            r, "model_type",
            sc_pool_printf(r->pool, "%s: %s", sc_read_quote(r, type), c->family->no_cache));
    if (!c->family->build)
        sc_read_unsupported(r, "model_type",
                            sc_pool_printf(r->pool,
                                           "%s: only its cache can be cast, not its forward pass "
                                           "(export --only cache); of %s both can",
                                           sc_read_quote(r, type), family_names(r)));
}

static void read_family(sc_reader *r) {
    read_sizes(r);
    if (!r->rc)
        read_window(r);
    if (!r->rc)
        sc_read_layers(r);
}

/* --generic: what the file does not say. */
static void note_assumptions(sc_reader *r) {
    const sc_config *c = r->config;
    const char *text = "";
    for (int i = 0; i < c->entries && text; i++)
        if (strcmp(c->entry[i].from, r->file))
            text = sc_pool_printf(r->pool, "%s%s%s %s", text, *text ? ", " : "", c->entry[i].key,
                                  c->entry[i].value);
    sc_read_note(r, text ? sc_pool_printf(r->pool, "assumed: %s", text) : NULL);
}

int sc_config_make(sc_config **config, sc_pool *pool, const char *path, const cJSON *json,
                   const cJSON *generation, bool generic, sc_error *err) {
    sc_config *c = sc_pool_alloc(pool, 1, sizeof *c);
    if (!c)
        return sc_oom(err, "reading the config");
    c->path = path;
    const char *slash = strrchr(path, '/');
    sc_reader r = { .config = c, .pool = pool, .file = slash ? slash + 1 : path, .err = err };
    if (!cJSON_IsObject(json))
        return sc_fail(err, SC_EINPUT, "%s: is no JSON object (is this a config.json?)", r.file);
    r.json = text_part(json, &r.prefix);
    r.outer = json;
    c->nested = r.json != json;
    find_family(&r, json, generic);
    if (!r.rc && c->family->read)
        c->family->read(&r);
    else if (!r.rc)
        read_family(&r);
    if (!r.rc)
        read_dtype(&r);
    if (!r.rc && c->generic)
        note_assumptions(&r);
    if (!r.rc && c->family->build)
        read_model(&r, generation);
    if (r.rc)
        return r.rc;
    *config = c;
    return SC_OK;
}
