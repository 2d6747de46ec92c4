/* nemotron_h.c - one operation per layer: Mamba-2, attention, experts or an MLP. */
#include <string.h>

#include "../families.h"
#include "../json.h"

static const char *pattern(sc_reader *r) {
    const cJSON *item = sc_read_item(r, "hybrid_override_pattern");
    return cJSON_IsString(item) ? item->valuestring : NULL;
}

/* The length of the list; num_hidden_layers is ignored, as NemotronHConfig does. */
static int64_t layer_count(sc_reader *r) {
    const cJSON *types = sc_read_item(r, "layer_types");
    const cJSON *declared = sc_read_item(r, "num_hidden_layers");
    int64_t count = 4, said;
    if (cJSON_IsArray(types))
        count = cJSON_GetArraySize(types);
    else if (pattern(r))
        count = (int64_t)strlen(pattern(r));
    if (!count)
        sc_read_fail(r, "layers_block_type", "is empty");
    if (declared && sc_json_int(declared, &said) && said != count)
        sc_read_note(r, sc_pool_printf(r->pool,
                                       "num_hidden_layers: %lld is not used, the list of layers "
                                       "has %lld",
                                       (long long)said, (long long)count));
    sc_read_record_count(r, "num_hidden_layers", count, "rule: length of the list of layers");
    return count;
}

static void types(sc_reader *r) {
    static const sc_layer_type usual[] = { SC_LINEAR_ATTENTION, SC_DUMMY, SC_FULL_ATTENTION,
                                           SC_DUMMY };
    sc_config *c = r->config;
    const char *text = pattern(r);
    for (int64_t i = 0; i < c->num_hidden_layers && !c->listed; i++) {
        if (!text)
            c->layer[i].type = usual[i];
        else if (text[i] == 'M')
            c->layer[i].type = SC_LINEAR_ATTENTION;
        else if (text[i] == '*')
            c->layer[i].type = SC_FULL_ATTENTION;
        else if (text[i] == 'E' || text[i] == '-')
            c->layer[i].type = SC_DUMMY;
        else
            sc_read_fail(
                r, "hybrid_override_pattern",
                sc_pool_printf(r->pool, "character %lld is none of M, E, *, -", (long long)i));
    }
}

/* NemotronHMamba2Mixer. */
static void widths(sc_reader *r) {
    const int64_t heads = sc_read_count(r, "mamba_num_heads", 128, false);
    const int64_t dim = sc_read_count(r, "mamba_head_dim", 64, false);
    const int64_t groups = sc_read_count(r, "n_groups", 8, false);
    const int64_t columns = sc_read_count(r, "conv_kernel", 4, false);
    const int64_t size = sc_read_count(r, "ssm_state_size", 128, false);
    sc_widths_mamba2(r, heads * dim + 2 * groups * size, columns, heads, dim, size);
}

static const sc_alias aliases[] = {
    { "layer_types", "layers_block_type" },
    { "n_groups", "mamba_n_groups" },
    { "conv_kernel", "mamba_d_conv" },
    { NULL, NULL },
};

const sc_family sc_family_nemotron_h = {
    .model_type = "nemotron_h",
    .alias = aliases,
    .hidden_size = 4096,
    .num_hidden_layers = 4,
    .num_attention_heads = 32,
    .num_key_value_heads = 8,
    .head_dim = 128,
    .max_position_embeddings = 4096,
    .sliding_window = SC_NULL,
    .layer_count = layer_count,
    .types = types,
    .widths = widths,
};
