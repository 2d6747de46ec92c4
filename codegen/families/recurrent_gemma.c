/* recurrent_gemma.c - block_types repeated; the recurrent ones keep their state themselves. */
#include <string.h>

#include "../families.h"

static void types(sc_reader *r) {
    sc_config *c = r->config;
    const cJSON *blocks = sc_read_item(r, "block_types");
    const int count = blocks ? cJSON_GetArraySize(blocks) : 3;
    if (blocks && (!cJSON_IsArray(blocks) || !count))
        sc_read_fail(r, "block_types", "is no list of blocks");
    for (int64_t i = 0; i < c->num_hidden_layers && !r->rc; i++) {
        const cJSON *item = blocks ? cJSON_GetArrayItem(blocks, (int)(i % count)) : NULL;
        const char *block = !blocks                ? (i % 3 == 2 ? "attention" : "recurrent")
                            : cJSON_IsString(item) ? item->valuestring
                                                   : "";
        if (!strcmp(block, "attention"))
            c->layer[i].type = SC_SLIDING_ATTENTION;
        else if (!strcmp(block, "recurrent"))
            c->layer[i].type = SC_LINEAR_ATTENTION;
        else
            sc_read_fail(r, "block_types",
                         sc_pool_printf(r->pool, "%s is none of recurrent, attention",
                                        sc_read_quote(r, item)));
    }
}

static const sc_alias aliases[] = {
    { "sliding_window", "attention_window_size" },
    { "layer_types", "layers_block_type" },
    { NULL, NULL },
};

const sc_family sc_family_recurrent_gemma = {
    .model_type = "recurrent_gemma",
    .alias = aliases,
    .hidden_size = 2560,
    .num_hidden_layers = 26,
    .num_attention_heads = 10,
    .num_key_value_heads = SC_NULL,
    .kv_heads_null = true,
    .head_dim = SC_NULL,
    .sliding_window = 2048,
    .types_computed = true,
    .types = types,
};
