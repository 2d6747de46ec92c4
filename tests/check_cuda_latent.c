/*
 * check_cuda_latent.c - latent attention and its indexer on the stand-in driver: sizes that are no
 * multiple of anything, several tiles of heads, several shares of a long row. The processor, which
 * the reference has judged, says what is right.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/agree.h"
#include "support/cast.h"
#include "support/device.h"
#include "support/run.h"

Suite *cuda_latent_suite(void);

#define COMMON                                                                                     \
    "\"vocab_size\":61,\"hidden_size\":36,\"intermediate_size\":20,\"num_hidden_layers\":2,"       \
    "\"max_position_embeddings\":512,"
#define DENSE "\"first_k_dense_replace\":2,"
#define MIXTURE                                                                                    \
    "\"first_k_dense_replace\":1,\"n_routed_experts\":12,\"num_experts_per_tok\":3,"               \
    "\"n_group\":4,\"topk_group\":2,\"moe_intermediate_size\":10,\"n_shared_experts\":1,"

static const agree_model models[] = {
    /* no low rank, neither heads nor their parts whole loads, rope in halves */
    { "latent-odd",
      "{\"model_type\":\"deepseek_v3\"," COMMON MIXTURE
      "\"q_lora_rank\":null,\"kv_lora_rank\":21,\"qk_nope_head_dim\":11,\"qk_rope_head_dim\":6,"
      "\"v_head_dim\":9,\"num_attention_heads\":5,\"num_key_value_heads\":5,"
      "\"rope_interleave\":false}",
      "", 1, 30, 1e-4 },
    { "latent-odd16",
      "{\"model_type\":\"deepseek_v3\"," COMMON DENSE
      "\"q_lora_rank\":13,\"kv_lora_rank\":21,\"qk_nope_head_dim\":11,\"qk_rope_head_dim\":6,"
      "\"v_head_dim\":9,\"num_attention_heads\":5,\"num_key_value_heads\":5}",
      "--dtype float16", 2, 30, 0.02 },
    /* three tiles of heads in float32, two in halves, the last one not whole; a rank of which each
     * warp has more than a block of 64 and a rest; shares */
    { "latent-tiles",
      "{\"model_type\":\"deepseek_v3\"," COMMON DENSE
      "\"q_lora_rank\":24,\"kv_lora_rank\":328,\"qk_nope_head_dim\":16,\"qk_rope_head_dim\":40,"
      "\"v_head_dim\":8,\"num_attention_heads\":18,\"num_key_value_heads\":18}",
      "", 1, 150, 1e-4 },
    { "latent-tiles16",
      "{\"model_type\":\"deepseek_v3\"," COMMON DENSE
      "\"q_lora_rank\":24,\"kv_lora_rank\":328,\"qk_nope_head_dim\":16,\"qk_rope_head_dim\":40,"
      "\"v_head_dim\":8,\"num_attention_heads\":18,\"num_key_value_heads\":18}",
      "--dtype float16 --offloading", 1, 150, 0.02 },
    /* nine rows: products in decode too */
    { "latent-rows",
      "{\"model_type\":\"deepseek_v3\"," COMMON DENSE
      "\"q_lora_rank\":24,\"kv_lora_rank\":20,\"qk_nope_head_dim\":12,\"qk_rope_head_dim\":8,"
      "\"v_head_dim\":12,\"num_attention_heads\":3,\"num_key_value_heads\":3}",
      "--dtype float16 --kv-dtype float32", 9, 6, 0.02 },
    /* of 150 keys 70 are seen; more heads than fit at once */
    { "latent-indexed",
      "{\"model_type\":\"deepseek_v32\"," COMMON MIXTURE
      "\"q_lora_rank\":18,\"kv_lora_rank\":20,\"qk_nope_head_dim\":12,\"qk_rope_head_dim\":6,"
      "\"v_head_dim\":10,\"num_attention_heads\":4,\"num_key_value_heads\":4,"
      "\"index_n_heads\":11,\"index_head_dim\":10,\"index_topk\":70}",
      "", 2, 150, 1e-4 },
    { "latent-wide_index",
      "{\"model_type\":\"deepseek_v32\"," COMMON DENSE
      "\"q_lora_rank\":18,\"kv_lora_rank\":20,\"qk_nope_head_dim\":12,\"qk_rope_head_dim\":6,"
      "\"v_head_dim\":10,\"num_attention_heads\":4,\"num_key_value_heads\":4,"
      "\"index_n_heads\":20,\"index_head_dim\":640,\"index_topk\":3}",
      "--offloading --offload-weights 1", 1, 20, 1e-4 },
    /* more keys may be seen than there are */
    { "latent-indexed16",
      "{\"model_type\":\"deepseek_v32\"," COMMON DENSE
      "\"q_lora_rank\":18,\"kv_lora_rank\":20,\"qk_nope_head_dim\":12,\"qk_rope_head_dim\":6,"
      "\"v_head_dim\":10,\"num_attention_heads\":4,\"num_key_value_heads\":4,"
      "\"index_n_heads\":3,\"index_head_dim\":16,\"index_topk\":2048}",
      "--dtype float16", 2, 30, 0.02 },
};
enum { MODELS = sizeof models / sizeof *models };

/* Sanitizers make fibers slow: the smallest of each. */
static const int sanitized[] = { 0, 1, 6 };

START_TEST(a_device_computes_what_the_processor_does) {
    agree_check(&models[*cast_sanitize ? sanitized[_i] : _i]);
}
END_TEST

/* What no kernel can do, and the operation that the error names. */
static const struct {
    const char *config, *operation;
} beyond[] = {
    { "{\"model_type\":\"deepseek_v3\"," COMMON
      "\"first_k_dense_replace\":1,\"n_routed_experts\":80,\"num_experts_per_tok\":3,"
      "\"n_group\":40,\"topk_group\":2,\"moe_intermediate_size\":10,\"n_shared_experts\":1,"
      "\"q_lora_rank\":8,\"kv_lora_rank\":16,\"qk_nope_head_dim\":8,\"qk_rope_head_dim\":8,"
      "\"v_head_dim\":8,\"num_attention_heads\":2,\"num_key_value_heads\":2}",
      "\"route = route router, 80 x 3 x 1 x 1 x 40 x 2" },
    { "{\"model_type\":\"deepseek_v3\"," COMMON DENSE
      "\"q_lora_rank\":8,\"kv_lora_rank\":1024,\"qk_nope_head_dim\":8,\"qk_rope_head_dim\":8,"
      "\"v_head_dim\":8,\"num_attention_heads\":2,\"num_key_value_heads\":2}",
      "\"attended_latent = attention" },
};
enum { BEYOND = sizeof beyond / sizeof *beyond };

START_TEST(what_has_no_kernel_is_named) {
    char *talk;
    static const char folder[] = "build/test-castings/beyond";
    ck_assert_int_eq(run(NULL, NULL, "rm -rf %s && mkdir -p %s", folder, folder), 0);
    cast_write("build/test-castings/beyond/config.json", beyond[_i].config,
               strlen(beyond[_i].config));
    ck_assert_int_eq(run(NULL, &talk,
                         "$SLIPCAST export %s -o %s/out --target cuda --emit-only --name cast",
                         folder, folder),
                     2);
    ck_assert_msg(strstr(talk, beyond[_i].operation) && strstr(talk, "has no kernel"), "%s", talk);
    ck_assert_int_ne(run(NULL, NULL, "test -e %s/out", folder), 0);
    free(talk);
}
END_TEST

Suite *cuda_latent_suite(void) {
    Suite *suite = suite_create("cuda_latent");
    if (!device_available())
        return suite;
    TCase *tests = tcase_create("latent");
    tcase_set_timeout(tests, 600);
    tcase_add_loop_test(tests, a_device_computes_what_the_processor_does, 0,
                        *cast_sanitize ? (int)(sizeof sanitized / sizeof *sanitized) : MODELS);
    tcase_add_loop_test(tests, what_has_no_kernel_is_named, 0, BEYOND);
    suite_add_tcase(suite, tests);
    return suite;
}
