/* falcon.c - every layer is full; multi_query shares one key/value head among all. */
#include "../families.h"

/* FalconAttention: one shared head, or, after the groups are spread over the queries, all. */
static void widths(sc_reader *r) {
    sc_config *c = r->config;
    if (sc_read_item(r, "head_dim"))
        sc_read_fail(r, "head_dim", "falcon computes it, hidden_size / num_attention_heads");
    const bool grouped = sc_read_flag(r, "new_decoder_architecture", false);
    const bool shared = !grouped && sc_read_flag(r, "multi_query", true);
    if (!shared)
        return;
    c->num_key_value_heads = 1;
    for (int64_t i = 0; i < c->num_hidden_layers; i++)
        c->layer[i].kv_heads = 1;
    sc_read_record_count(r, "num_key_value_heads", 1, "rule: multi_query");
}

static const sc_alias aliases[] = {
    { "hidden_size", "n_embed" },
    { NULL, NULL },
};

const sc_family sc_family_falcon = {
    .model_type = "falcon",
    .alias = aliases,
    .hidden_size = 4544,
    .num_hidden_layers = 32,
    .num_attention_heads = 71,
    .num_key_value_heads = 0,
    .max_position_embeddings = 2048,
    .widths = widths,
};
