/* families.c - the table of families, and what several of them share; see families.h. */
#include "families.h"

#include <string.h>

#include "json.h"

extern const sc_family sc_family_apertus, sc_family_bloom, sc_family_cohere, sc_family_cohere2,
    sc_family_deepseek_v3, sc_family_deepseek_v32, sc_family_deepseek_v4, sc_family_ernie4_5,
    sc_family_exaone4, sc_family_falcon, sc_family_falcon_h1, sc_family_gemma, sc_family_gemma2,
    sc_family_gemma3_text, sc_family_gemma3n_text, sc_family_gemma4_text, sc_family_glm4,
    sc_family_glm_moe_dsa, sc_family_gpt2, sc_family_gpt_neo, sc_family_gpt_neox, sc_family_gpt_oss,
    sc_family_gptj, sc_family_granite, sc_family_granitemoehybrid, sc_family_inkling2_text,
    sc_family_jamba, sc_family_lfm2, sc_family_llama, sc_family_llama4_text, sc_family_mamba2,
    sc_family_minimax, sc_family_ministral, sc_family_mistral, sc_family_mixtral, sc_family_mpt,
    sc_family_nemotron_h, sc_family_olmo2, sc_family_olmo3, sc_family_opt, sc_family_phi,
    sc_family_phi3, sc_family_qwen2, sc_family_qwen2_moe, sc_family_qwen3, sc_family_qwen3_5_text,
    sc_family_qwen3_moe, sc_family_qwen3_next, sc_family_recurrent_gemma, sc_family_seed_oss,
    sc_family_slipcast_cache, sc_family_smollm3, sc_family_stablelm, sc_family_starcoder2,
    sc_family_zamba2, sc_family_zaya;

static const sc_family *const families[] = {
    &sc_family_apertus,
    &sc_family_bloom,
    &sc_family_cohere,
    &sc_family_cohere2,
    &sc_family_deepseek_v3,
    &sc_family_deepseek_v32,
    &sc_family_deepseek_v4,
    &sc_family_ernie4_5,
    &sc_family_exaone4,
    &sc_family_falcon,
    &sc_family_falcon_h1,
    &sc_family_gemma,
    &sc_family_gemma2,
    &sc_family_gemma3_text,
    &sc_family_gemma3n_text,
    &sc_family_gemma4_text,
    &sc_family_glm4,
    &sc_family_glm_moe_dsa,
    &sc_family_gpt2,
    &sc_family_gpt_neo,
    &sc_family_gpt_neox,
    &sc_family_gpt_oss,
    &sc_family_gptj,
    &sc_family_granite,
    &sc_family_granitemoehybrid,
    &sc_family_inkling2_text,
    &sc_family_jamba,
    &sc_family_lfm2,
    &sc_family_llama,
    &sc_family_llama4_text,
    &sc_family_mamba2,
    &sc_family_minimax,
    &sc_family_ministral,
    &sc_family_mistral,
    &sc_family_mixtral,
    &sc_family_mpt,
    &sc_family_nemotron_h,
    &sc_family_olmo2,
    &sc_family_olmo3,
    &sc_family_opt,
    &sc_family_phi,
    &sc_family_phi3,
    &sc_family_qwen2,
    &sc_family_qwen2_moe,
    &sc_family_qwen3,
    &sc_family_qwen3_5_text,
    &sc_family_qwen3_moe,
    &sc_family_qwen3_next,
    &sc_family_recurrent_gemma,
    &sc_family_seed_oss,
    &sc_family_slipcast_cache,
    &sc_family_smollm3,
    &sc_family_stablelm,
    &sc_family_starcoder2,
    &sc_family_zamba2,
    &sc_family_zaya,
};

static const sc_family generic = {
    .hidden_size = SC_NULL,
    .num_hidden_layers = SC_NULL,
    .num_attention_heads = SC_NULL,
    .num_key_value_heads = SC_NULL,
    .kv_heads_null = true,
    .max_position_embeddings = SC_NULL,
};

const sc_family *sc_family_generic(void) { return &generic; }

const sc_family *sc_family_at(size_t i) {
    return i < sizeof families / sizeof *families ? families[i] : NULL;
}

const sc_family *sc_family_find(const char *model_type) {
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (!strcmp(families[i]->model_type, model_type))
            return families[i];
    return NULL;
}

void sc_types_max_window_layers(sc_reader *r) {
    sc_config *c = r->config;
    if (c->listed)
        return;
    const int64_t first = c->sliding_window ? sc_read_from_zero(r, "max_window_layers", 28) : 0;
    for (int64_t i = 0; i < c->num_hidden_layers; i++)
        c->layer[i].type =
            c->sliding_window && i >= first ? SC_SLIDING_ATTENTION : SC_FULL_ATTENTION;
}

void sc_types_by_rope(sc_reader *r, sc_layer_type with, sc_layer_type without,
                      bool empty_is_absent) {
    sc_config *c = r->config;
    const int64_t interval = sc_read_count(r, "no_rope_layer_interval", 4, false);
    const cJSON *list = sc_read_item(r, "no_rope_layers");
    const int entries = cJSON_IsArray(list) ? cJSON_GetArraySize(list) : -1;
    const bool absent = !list || cJSON_IsNull(list) || (empty_is_absent && !entries);
    if (!r->rc && !absent && entries != c->num_hidden_layers)
        sc_read_fail(r, "no_rope_layers",
                     sc_pool_printf(r->pool, "is no list of num_hidden_layers %lld entries",
                                    (long long)c->num_hidden_layers));
    for (int64_t i = 0; i < c->num_hidden_layers && !r->rc; i++) {
        int64_t rope = (i + 1) % interval != 0;
        if (!absent && !sc_json_int(cJSON_GetArrayItem(list, (int)i), &rope))
            sc_read_fail(r, "no_rope_layers",
                         sc_pool_printf(r->pool, "entry %lld is neither 0 nor 1", (long long)i));
        c->layer[i].no_rope = !rope;
        if (!c->listed)
            c->layer[i].type = rope ? with : without;
    }
}

void sc_widths_latent(sc_reader *r) {
    sc_config *c = r->config;
    const int64_t rank = sc_read_count(r, "kv_lora_rank", 512, false);
    if (c->num_key_value_heads != c->num_attention_heads)
        sc_read_unsupported(r, "num_key_value_heads",
                            sc_pool_printf(r->pool,
                                           "%lld is not num_attention_heads %lld: every head has "
                                           "keys and values of its own, made from the latent",
                                           (long long)c->num_key_value_heads,
                                           (long long)c->num_attention_heads));
    for (int64_t i = 0; i < c->num_hidden_layers; i++) {
        c->layer[i].kv_heads = 1;
        c->layer[i].head_dim = rank;
        c->layer[i].v_head_dim = c->head_dim; /* qk_rope_head_dim */
    }
}

void sc_widths_indexed(sc_reader *r) {
    sc_config *c = r->config;
    sc_widths_latent(r);
    const int64_t dim = sc_read_count(r, "index_head_dim", 128, false);
    for (int64_t i = 0; i < c->num_hidden_layers; i++)
        c->layer[i].index_head_dim = c->layer[i].type == SC_INDEXED_ATTENTION ? dim : 0;
}

void sc_widths_mamba2(sc_reader *r, int64_t channels, int64_t columns, int64_t heads,
                      int64_t head_dim, int64_t state_size) {
    const sc_state_config states[] = {
        { .name = "conv_state", .rank = 2, .dim = { channels, columns } },
        { .name = "recurrent_state",
          .rank = 3,
          .dim = { heads, head_dim, state_size },
          .float32 = true },
    };
    sc_states(r, 2, states);
}

int64_t sc_mamba_head_dim(sc_reader *r, int64_t inner, int64_t heads) {
    const cJSON *item = sc_read_item(r, "mamba_d_head");
    if (item && !(cJSON_IsString(item) && !strcmp(item->valuestring, "auto")))
        return sc_read_count(r, "mamba_d_head", 1, false);
    sc_read_record_count(r, "mamba_d_head", inner / heads, "rule: auto");
    return inner / heads;
}

void sc_widths_gated_delta(sc_reader *r) {
    const int64_t key_heads = sc_read_count(r, "linear_num_key_heads", 16, false);
    const int64_t value_heads = sc_read_count(r, "linear_num_value_heads", 32, false);
    const int64_t key_dim = sc_read_count(r, "linear_key_head_dim", 128, false);
    const int64_t value_dim = sc_read_count(r, "linear_value_head_dim", 128, false);
    const int64_t columns = sc_read_count(r, "linear_conv_kernel_dim", 4, false);
    sc_widths_mamba2(r, 2 * key_heads * key_dim + value_heads * value_dim, columns, value_heads,
                     key_dim, value_dim);
}
