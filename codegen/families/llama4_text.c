/* llama4_text.c - layers with rope attend within chunks, the others are full. */
#include "../families.h"

static void types(sc_reader *r) {
    const bool chunks = !cJSON_IsNull(sc_read_item(r, "attention_chunk_size"));
    sc_types_by_rope(r, chunks ? SC_CHUNKED_ATTENTION : SC_FULL_ATTENTION, SC_FULL_ATTENTION, true);
}

const sc_family sc_family_llama4_text = {
    .model_type = "llama4_text",
    .hidden_size = 5120,
    .num_hidden_layers = 48,
    .num_attention_heads = 40,
    .num_key_value_heads = 8,
    .head_dim = 128,
    .max_position_embeddings = 131072,
    .head_dim_null = true,
    .attention_chunk_size = 8192,
    .types = types,
};
