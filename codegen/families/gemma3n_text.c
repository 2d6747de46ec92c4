/* gemma3n_text.c - every fifth layer is full; the last num_kv_shared_layers share. Several residual
 * streams, which each layer predicts from one another and corrects by what it makes of one of them
 * (AltUp); a low-rank layer beside attention (LAuReL); MLPs that only the largest gates pass. */
#include <math.h>

#include "../families.h"
#include "../graph_build.h"

enum { MOST_STREAMS = 16 }; /* templates/ops/rows.c */

/* One number for all layers, or one for each; nothing said: usual. */
static double of_layer(sc_builder *b, const char *key, int layer, double usual) {
    const sc_config_value *value = sc_config_key(b->config, key);
    if (value->count > 1 && value->count != b->graph->layers)
        sc_build_fail(b, key, "wants one number, or one for each of the %d layers",
                      b->graph->layers);
    return b->rc || !value->count ? usual : value->list[value->count > 1 ? layer : 0];
}

/* Where the standard normal distribution reaches p. */
static double normal_quantile(double p) {
    double low = -40, high = 40;
    for (int i = 0; i < 200; i++) {
        const double middle = (low + high) / 2;
        *(erfc(-middle / sqrt(2)) / 2 < p ? &low : &high) = middle;
    }
    return low;
}

/* Stream i of them. */
static sc_span stream(const sc_builder *b, sc_span streams, int64_t i) {
    return sc_build_at(streams, i * b->graph->hidden);
}

/* What x says of the streams: one number each, times those of module: "coefs". */
static sc_span coefficients(sc_builder *b, sc_span x, int64_t streams, const char *module,
                            int64_t count) {
    const int64_t hidden = b->graph->hidden;
    const sc_span normed = sc_build_value(b, "normed", hidden);
    sc_build_norm(b, x, "altup.router_norm", hidden, normed);
    const sc_span routed =
        sc_build_linear(b, normed, hidden, sc_build_value(b, "modalities", streams),
                        &(sc_linear_spec){ .module = { "altup.modality_router" },
                                           .out = { streams },
                                           .scale = 1 / (float)hidden });
    sc_build_row(b, SC_ROW_TANH, routed, sc_nowhere, routed)->n[0] = streams;
    return sc_build_linear(b, routed, streams, sc_build_value(b, "coefs", count),
                           &(sc_linear_spec){ .module = { module }, .out = { count } });
}

/* The same length as that of the first stream: y = x |first| / |x|. */
static void match_magnitude(sc_builder *b, sc_span x, sc_span first) {
    sc_row_op *row = sc_build_row(b, SC_ROW_MAGNITUDE, x, first, x);
    row->n[0] = b->graph->hidden;
    row->f[0] = 1e-5f;
}

static sc_span mlp(sc_builder *b, sc_span x, sc_span out) {
    const int64_t hidden = b->graph->hidden;
    const int64_t ffn = (int64_t)of_layer(b, "intermediate_size", b->layer, 16384);
    const int sparse = b->graph->layers > 10 ? 10 : 0; /* layers that are so when nothing is said */
    const double sparsity =
        of_layer(b, "activation_sparsity_pattern", b->layer, b->layer < sparse ? 0.95 : 0);
    sc_span gated;
    if (sparsity > 0) {
        gated = sc_build_linear(b, x, hidden, sc_build_value(b, "ffn", ffn),
                                &(sc_linear_spec){ .module = { "mlp.gate_proj" }, .out = { ffn } });
        const sc_span up =
            sc_build_linear(b, x, hidden, sc_build_value(b, "up", ffn),
                            &(sc_linear_spec){ .module = { "mlp.up_proj" }, .out = { ffn } });
        sc_row_op *row = sc_build_row(b, SC_ROW_SPARSE_GATE, gated, up, gated);
        row->n[0] = ffn;
        row->f[0] = (float)normal_quantile(sparsity);
        row->act = b->config->hidden_act;
    } else
        gated = sc_build_gated(b, x, ffn, "mlp.gate_proj", "mlp.up_proj", false);
    return sc_build_linear(b, gated, ffn, out,
                           &(sc_linear_spec){ .module = { "mlp.down_proj" }, .out = { hidden } });
}

/* Attention and LAuReL of the active stream, then the MLP: what the layer makes of it. */
static sc_span activated(sc_builder *b, sc_span active) {
    const int64_t hidden = b->graph->hidden;
    const int64_t laurel_rank = sc_build_count(b, "laurel_rank");
    const sc_span normed = sc_build_value(b, "normed", hidden);
    const sc_span out = sc_build_value(b, "out", hidden);
    const sc_span laurel = sc_build_value(b, "laurel", hidden);
    const sc_span x = sc_build_value(b, "activated", hidden);
    sc_build_norm(b, active, "input_layernorm", hidden, normed);
    const sc_span low = sc_build_linear(
        b, normed, hidden, sc_build_value(b, "laurel_low", laurel_rank),
        &(sc_linear_spec){ .module = { "laurel.linear_left" }, .out = { laurel_rank } });
    sc_build_linear(b, low, laurel_rank, laurel,
                    &(sc_linear_spec){ .module = { "laurel.linear_right" }, .out = { hidden } });
    sc_build_norm(b, laurel, "laurel.post_laurel_norm", hidden, laurel);
    sc_build_add(b, normed, 1, laurel, 1, hidden, laurel);
    const sc_attention *a = sc_build_gemma4_attention(b, normed, false);
    sc_build_linear(b, a->out, sc_build_attended(b), out,
                    &(sc_linear_spec){ .module = { "self_attn.o_proj" },
                                       .out = { hidden },
                                       .bias = b->config->attention_bias });
    sc_build_norm(b, out, "post_attention_layernorm", hidden, out);
    sc_build_add(b, active, 1, out, 1, hidden, x);
    sc_build_add(b, x, sqrtf(0.5f), laurel, sqrtf(0.5f), hidden, x);
    sc_build_norm(b, x, "pre_feedforward_layernorm", hidden, normed);
    mlp(b, normed, out);
    sc_build_norm(b, out, "post_feedforward_layernorm", hidden, out);
    sc_build_add(b, x, 1, out, 1, hidden, x);
    return x;
}

static void layer(sc_builder *b, sc_span streams, int64_t count, int64_t at, sc_span input) {
    const int64_t hidden = b->graph->hidden;
    const sc_span active = stream(b, streams, at);
    sc_span coefs = coefficients(b, active, count, "altup.prediction_coefs", count * count);
    sc_row_op *row = sc_build_row(b, SC_ROW_PREDICT, streams, coefs, streams);
    row->n[0] = count * hidden;
    row->n[1] = count;
    const sc_span x = activated(b, active);
    coefs = coefficients(b, x, count, "altup.correction_coefs", count);
    sc_build_add(b, x, 1, active, -1, hidden, x); /* its innovation */
    row = sc_build_row(b, SC_ROW_CORRECT, x, coefs, streams);
    row->n[0] = count * hidden;
    row->n[1] = count;
    sc_span first = active;
    if (sc_build_flag(b, "altup_correct_scale")) {
        const sc_weight *scale = sc_build_floats(b, "altup.correct_output_scale", hidden, 0);
        row = sc_build_row(b, SC_ROW_SCALE, active, sc_nowhere, first = x);
        row->w = scale;
        row->n[0] = row->n[1] = hidden;
    }
    const sc_span out = sc_build_layer_input(b, first, input);
    for (int64_t i = 1; i < count; i++)
        sc_build_add(b, stream(b, streams, i), 1, out, 1, hidden, stream(b, streams, i));
}

static void build(sc_builder *b) {
    const int64_t hidden = b->graph->hidden;
    const int64_t count = sc_build_count(b, "altup_num_inputs");
    const int64_t active = sc_build_count(b, "altup_active_idx");
    if (count < 1 || count > MOST_STREAMS)
        sc_build_fail(b, "altup_num_inputs", "is not in 1 … %d", MOST_STREAMS);
    else if (active >= count)
        sc_build_fail(b, "altup_active_idx", "is none of the %d streams", (int)count);
    if (b->rc)
        return;
    sc_build_embedding(b, "model.embed_tokens.weight", sqrtf((float)hidden));
    const sc_span input = sc_build_layer_inputs(b);
    const sc_span streams = sc_build_value(b, "x", count * hidden);
    for (int64_t i = 1; i < count; i++) {
        const char *module =
            sc_pool_printf(b->pool, "model.altup_projections.%lld", (long long)i - 1);
        const char *field = sc_pool_printf(b->pool, "altup_proj_%lld", (long long)i);
        sc_build_linear(b, streams, hidden, stream(b, streams, i),
                        &(sc_linear_spec){ field, .module = { module }, .out = { hidden } });
        match_magnitude(b, stream(b, streams, i), streams);
    }
    for (int i = 0; i < b->graph->layers && !b->rc; i++) {
        sc_build_layer(b, "model.layers.", i);
        layer(b, streams, count, active, input);
    }
    sc_build_last(b);
    const sc_span mean = sc_build_value(b, "mean", hidden), out = sc_build_value(b, "out", hidden);
    sc_build_times(b, streams, 1 / (float)count, hidden, mean);
    for (int64_t i = 1; i < count; i++) {
        const char *module =
            sc_pool_printf(b->pool, "model.altup_unembed_projections.%lld", (long long)i - 1);
        const char *field = sc_pool_printf(b->pool, "altup_unembed_proj_%lld", (long long)i);
        sc_build_linear(b, stream(b, streams, i), hidden, out,
                        &(sc_linear_spec){ field, .module = { module }, .out = { hidden } });
        match_magnitude(b, out, streams);
        sc_build_add(b, mean, 1, out, 1 / (float)count, hidden, mean);
    }
    b->x = mean;
    b->graph->logits_softcap = sc_build_cap(b, "final_logit_softcapping");
    sc_build_finish(b, "model.norm", "lm_head.weight", false);
}

static const sc_key keys[] = {
    { "intermediate_size", SC_KEY_NUMBERS, 0, false },
    { "activation_sparsity_pattern", SC_KEY_NUMBERS, 0, false },
    { "hidden_size_per_layer_input", SC_KEY_COUNT, 256, false },
    { "vocab_size_per_layer_input", SC_KEY_COUNT, 262144, false },
    { "final_logit_softcapping", SC_KEY_REAL, 30, true },
    { "altup_num_inputs", SC_KEY_COUNT, 4, false },
    { "altup_active_idx", SC_KEY_COUNT, 0, false },
    { "altup_correct_scale", SC_KEY_FLAG, 1, false },
    { "altup_coef_clip", SC_KEY_NOTHING, 0, false }, /* of training */
    { "laurel_rank", SC_KEY_COUNT, 64, false },
    { "query_pre_attn_scalar", SC_KEY_NOTHING, 0, false }, /* published ones have it; scale is 1 */
    { .key = NULL },
};

const sc_family sc_family_gemma3n_text = {
    .model_type = "gemma3n_text",
    .hidden_size = 2048,
    .num_hidden_layers = 35,
    .num_attention_heads = 8,
    .num_key_value_heads = 2,
    .head_dim = 256,
    .max_position_embeddings = 32768,
    .sliding_window = 512,
    .window_not_null = true,
    .period = 5,
    .others = SC_SLIDING_ATTENTION,
    .shares_kv = true,
    .num_kv_shared_layers = 15,
    .build = build,
    .vocab_size = 262400,
    .bos_token_id = 2,
    .eos_token_id = 1,
    .hidden_act = "gelu_pytorch_tanh",
    .act_key = "hidden_activation",
    .tied = true,
    .attention_bias = true,
    .rope_theta = 1000000,
    .local_theta = 10000,
    .key = keys,
};
