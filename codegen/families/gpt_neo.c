/* gpt_neo.c - every layer is full: the reference's cache keeps all that a local layer sees, and
 * more. */
#include <string.h>

#include "../families.h"
#include "../graph_build.h"
#include "../json.h"

/* One layer's word: "local" sees a window, though its cache keeps everything. */
static void set_layer(sc_reader *r, int64_t i, const cJSON *word, int64_t window) {
    const bool local = cJSON_IsString(word) && !strcmp(word->valuestring, "local");
    if (!local && !(cJSON_IsString(word) && !strcmp(word->valuestring, "global")))
        sc_read_fail(r, "attention_types", "a layer is neither global nor local");
    r->config->layer[i].mask_window = local ? window : 0;
}

/* attention_types: [[[word, …], times], …]; attention_layers: the same layer by layer. */
static void widths(sc_reader *r) {
    sc_config *c = r->config;
    const int64_t window = sc_read_count(r, "window_size", 256, false);
    const cJSON *layers = sc_read_item(r, "attention_layers"), *word, *run;
    const cJSON *types = sc_read_item(r, "attention_types");
    int64_t i = 0, times;
    if (cJSON_IsArray(layers)) {
        cJSON_ArrayForEach(word, layers) {
            if (i < c->num_hidden_layers)
                set_layer(r, i, word, window);
            i++;
        }
    } else if (cJSON_IsArray(types)) {
        cJSON_ArrayForEach(run, types) {
            const cJSON *words = cJSON_GetArrayItem(run, 0);
            if (!cJSON_IsArray(words) || !sc_json_int(cJSON_GetArrayItem(run, 1), &times) ||
                times < 1 || times > c->num_hidden_layers) {
                sc_read_fail(r, "attention_types", "is no list of words and how often");
                return;
            }
            while (times--)
                cJSON_ArrayForEach(word, words) {
                    if (i < c->num_hidden_layers)
                        set_layer(r, i, word, window);
                    i++;
                }
        }
    } else /* the class: global and local by turns */
        for (; i < c->num_hidden_layers; i++)
            c->layer[i].mask_window = i % 2 ? window : 0;
    if (!r->rc && i != c->num_hidden_layers)
        sc_read_fail(r, "attention_types",
                     sc_pool_printf(r->pool, "%lld layers for num_layers %lld", (long long)i,
                                    (long long)c->num_hidden_layers));
}

static void build(sc_builder *b) {
    const sc_config *c = b->config;
    const int64_t hidden = b->graph->hidden;
    const int64_t ffn = sc_build_width(b, "intermediate_size");
    b->norm.layer_norm = b->norm.bias = true;
    sc_build_embedding(b, "transformer.wte.weight", 1);
    sc_build_positions(b, "transformer.wpe.weight", c->max_position_embeddings, 0);
    for (int i = 0; i < b->graph->layers && !b->rc; i++) {
        sc_build_layer(b, "transformer.h.", i);
        const sc_span normed = sc_build_normed(b, "ln_1");
        const sc_span qkv = sc_build_linear(
            b, normed, hidden, sc_build_value(b, "qkv", 3 * hidden),
            &(sc_linear_spec){ .field = "qkv_proj",
                               .module = { "attn.attention.q_proj", "attn.attention.k_proj",
                                           "attn.attention.v_proj" },
                               .out = { hidden, hidden, hidden } });
        sc_attention *a = sc_build_attention(b, qkv, -1);
        a->scale = 1;
        sc_build_onto(b, a->out, hidden, "attn.attention.out_proj", true, 1);
        const sc_span up = sc_build_plain(b, sc_build_normed(b, "ln_2"), ffn, "mlp.c_fc", true);
        sc_build_onto(b, up, ffn, "mlp.c_proj", true, 1);
    }
    sc_build_finish(b, "transformer.ln_f", "lm_head.weight", false);
}

static const sc_key keys[] = {
    { "intermediate_size", SC_KEY_COUNT, SC_NULL, false },
    { .key = NULL },
};

static const sc_alias aliases[] = {
    { "num_attention_heads", "num_heads" },
    { "num_hidden_layers", "num_layers" },
    { NULL, NULL },
};

const sc_family sc_family_gpt_neo = {
    .model_type = "gpt_neo",
    .alias = aliases,
    .hidden_size = 2048,
    .num_hidden_layers = 24,
    .num_attention_heads = 16,
    .max_position_embeddings = 2048,
    .widths = widths,
    .head_dim_computed = true,
    .build = build,
    .vocab_size = 50257,
    .bos_token_id = 50256,
    .eos_token_id = 50256,
    .hidden_act = "gelu_new",
    .act_key = "activation_function",
    .eps = 1e-5,
    .eps_key = "layer_norm_epsilon",
    .tied = true,
    .no_rope = true,
    .key = keys,
};
