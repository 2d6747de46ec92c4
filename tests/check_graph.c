/* check_graph.c - sc_config -> sc_graph: operations, names, shapes, rotary frequencies. */
#include "../codegen/graph.h"

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "support/graph.h"

static sc_pool *pool;
static sc_config *config;

static void begin(void) { pool = sc_pool_create(); }

static void end(void) { sc_pool_destroy(pool); }

/* Two layers, hidden 64, four heads of 16, two KV heads, ffn 96, vocab 99; rest: more keys. */
static sc_graph *made(const char *type, const char *rest) {
    char text[2048];
    snprintf(text, sizeof text,
             "{\"model_type\":\"%s\",\"vocab_size\":99,\"hidden_size\":64,\"intermediate_size\":96,"
             "\"num_hidden_layers\":2,\"num_attention_heads\":4,\"num_key_value_heads\":2,"
             "\"head_dim\":16%s}",
             type, rest);
    return graph_of(pool, text, &config);
}

/* Independent numbers: the formulas of transformers modeling_rope_utils.py, in Python's doubles; a
 * table's own steps are float32, two or three of them. */
static const struct {
    const char *rest;
    double want[8];
} freq_table[] = {
    { ",\"rope_scaling\":{\"type\":\"linear\",\"factor\":4.0}",
      { 0.25, 0.07905694150420949, 0.025, 0.007905694150420948, 0.0025, 0.0007905694150420948,
        0.00025, 7.905694150420948e-05 } },
    { ",\"rope_parameters\":{\"rope_type\":\"llama3\",\"factor\":4.0,\"low_freq_factor\":1.0,"
      "\"high_freq_factor\":4.0,\"original_max_position_embeddings\":32}",
      { 1.0, 0.12732395447351627, 0.025, 0.007905694150420948, 0.0025, 0.0007905694150420948,
        0.00025, 7.905694150420948e-05 } },
    { ",\"rope_theta\":500000.0,\"rope_scaling\":{\"rope_type\":\"llama3\",\"factor\":32.0,"
      "\"low_freq_factor\":1.0,\"high_freq_factor\":4.0,"
      "\"original_max_position_embeddings\":8192}",
      { 1.0, 0.19392274474868576, 0.03760603093086393, 0.007292664737217109, 0.00042955679655936815,
        8.570255489881478e-06, 1.6619674677953088e-06, 3.2229329303788936e-07 } },
    { ",\"slipcast_rope_freq_factors\":[1,2,1,1,1,1,1,4]",
      { 1, 0.15811388300841897, 0.1, 0.03162277660168379, 0.01, 0.0031622776601683794, 0.001,
        7.905694150420948e-05 } },
};

START_TEST(frequencies) {
    const sc_graph *g = made("llama", freq_table[_i].rest);
    ck_assert_int_eq(g->ropes, 1);
    ck_assert_int_eq(g->rope[0].rotary_dim, 16);
    for (int i = 0; i < 8; i++)
        ck_assert_double_eq_tol((double)g->rope[0].inv_freq[i] / freq_table[_i].want[i], 1, 4e-7);
}
END_TEST

static const struct {
    const char *type, *rest;
    bool qkv_bias, o_bias, mlp_bias, qk_norm;
    int window;
} family_table[] = {
    { "llama", "", false, false, false, false, 0 },
    { "llama", ",\"attention_bias\":true,\"mlp_bias\":true", true, true, true, false, 0 },
    { "mistral", ",\"sliding_window\":8", false, false, false, false, 8 },
    { "qwen2", "", true, false, false, false, 0 },
    { "qwen3", "", false, false, false, true, 0 },
    { "qwen3", ",\"attention_bias\":true", true, true, false, true, 0 },
};

static bool has_bias(const sc_op *op, int i) {
    return op->linear.bias && op->linear.bias->part[i].tensor;
}

START_TEST(a_layer_has_these_tensors) {
    const sc_graph *g = made(family_table[_i].type, family_table[_i].rest);
    static const sc_op_kind kinds[] = { SC_OP_ROW, SC_OP_LINEAR, SC_OP_ATTENTION, SC_OP_LINEAR,
                                        SC_OP_ROW, SC_OP_LINEAR, SC_OP_LINEAR };
    const sc_op_list *l = &g->layer[1];
    ck_assert_int_eq(l->ops, 7);
    for (int i = 0; i < 7; i++)
        ck_assert_int_eq(l->op[i].kind, kinds[i]);
    const sc_attention *a = sc_layer_attention(g, 1);
    ck_assert_ptr_eq(a, &l->op[2].attention);
    ck_assert_str_eq(l->op[0].row.w->part[0].tensor, "model.layers.1.input_layernorm.weight");
    ck_assert_str_eq(l->op[4].row.w->part[0].tensor,
                     "model.layers.1.post_attention_layernorm.weight");
    ck_assert_str_eq(l->op[1].linear.w->part[0].tensor, "model.layers.1.self_attn.q_proj.weight");
    ck_assert_str_eq(l->op[5].linear.w->part[0].tensor, "model.layers.1.mlp.gate_proj.weight");
    ck_assert_str_eq(g->lm_head->part[0].tensor, "lm_head.weight");
    ck_assert_int_eq(l->op[1].linear.w->part[0].rows, 64);
    ck_assert_int_eq(l->op[1].linear.w->part[1].rows, 32);
    ck_assert_int_eq(l->op[6].linear.in, 96);
    ck_assert_int_eq(a->rope, 0);
    ck_assert_int_eq(a->window, family_table[_i].window);
    for (int i = 0; i < 3; i++)
        ck_assert_int_eq(has_bias(&l->op[1], i), family_table[_i].qkv_bias);
    ck_assert_int_eq(has_bias(&l->op[5], 0), family_table[_i].mlp_bias);
    ck_assert_int_eq(has_bias(&l->op[5], 1), family_table[_i].mlp_bias);
    ck_assert_int_eq(has_bias(&l->op[6], 0), family_table[_i].mlp_bias);
    ck_assert_int_eq(has_bias(&l->op[3], 0), family_table[_i].o_bias);
    ck_assert_int_eq(a->q_norm != NULL, family_table[_i].qk_norm);
    ck_assert_int_eq(a->k_norm != NULL, family_table[_i].qk_norm);
}
END_TEST

START_TEST(it_prints_itself) {
    const sc_graph *g = made("qwen3", ",\"tie_word_embeddings\":true");
    char *text = NULL;
    size_t bytes = 0;
    FILE *out = open_memstream(&text, &bytes);
    ck_assert_ptr_nonnull(out);
    sc_graph_print(out, g, config);
    fclose(out);
    /* 99*64 + 2 * (2*64 + 2*16 + 64*(64+32+32+64) + 3*64*96) + 64 */
    ck_assert_ptr_nonnull(strstr(text, "parameters: 68160\n"));
    ck_assert_ptr_nonnull(strstr(text, "model.layers.0.self_attn.k_proj.weight [32, 64]\n"));
    ck_assert_ptr_nonnull(
        strstr(text, "lm_head (tied)\n        model.embed_tokens.weight [99, 64]\n"));
    free(text);
}
END_TEST

Suite *graph_suite(void);
Suite *graph_suite(void) {
    Suite *suite = suite_create("graph");
    TCase *tc = tcase_create("graph");
    tcase_add_checked_fixture(tc, begin, end);
    tcase_add_loop_test(tc, frequencies, 0, sizeof freq_table / sizeof *freq_table);
    tcase_add_loop_test(tc, a_layer_has_these_tensors, 0,
                        sizeof family_table / sizeof *family_table);
    tcase_add_test(tc, it_prints_itself);
    suite_add_tcase(suite, tc);
    return suite;
}
