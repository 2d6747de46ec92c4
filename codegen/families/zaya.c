/* zaya.c - every layer is hybrid: attention over convolved queries, keys and delayed values. */
#include "../families.h"

/* ZayaAttention: two convolutions over queries and keys; half of the values are one token late. */
static void widths(sc_reader *r) {
    const sc_config *c = r->config;
    const int64_t columns =
        sc_read_count(r, "cca_time0", 2, false) + sc_read_count(r, "cca_time1", 2, false) - 2;
    const int64_t keys = c->num_key_value_heads * c->head_dim;
    const sc_state_config states[] = {
        { .name = "conv_state",
          .rank = 2,
          .dim = { keys + c->num_attention_heads * c->head_dim, columns } },
        { .name = "recurrent_state", .rank = 1, .dim = { keys / 2 } },
    };
    sc_states(r, 2, states);
}

const sc_family sc_family_zaya = {
    .model_type = "zaya",
    .hidden_size = 2048,
    .num_hidden_layers = 40,
    .num_attention_heads = 8,
    .num_key_value_heads = 2,
    .head_dim = 128,
    .max_position_embeddings = 131072,
    .sliding_window = SC_NULL,
    .period = SC_NEVER,
    .others = SC_HYBRID,
    .widths = widths,
};
