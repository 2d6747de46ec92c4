/*
 * check_cuda_latent.c - latent attention and its indexer on the stand-in driver: sizes that are no
 * multiple of anything, several tiles of heads, several shares of a long row. The processor, which
 * the reference has judged, says what is right.
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "support/cast.h"
#include "support/device.h"
#include "support/noise.h"
#include "support/run.h"
#include "support/standin.h"

Suite *cuda_latent_suite(void);

#define COMMON                                                                                     \
    "\"vocab_size\":61,\"hidden_size\":36,\"intermediate_size\":20,\"num_hidden_layers\":2,"       \
    "\"max_position_embeddings\":512,"
#define DENSE "\"first_k_dense_replace\":2,"
#define MIXTURE                                                                                    \
    "\"first_k_dense_replace\":1,\"n_routed_experts\":12,\"num_experts_per_tok\":3,"               \
    "\"n_group\":4,\"topk_group\":2,\"moe_intermediate_size\":10,\"n_shared_experts\":1,"

static const struct {
    const char *name, *config, *options;
    int batch, tokens; /* of each row's prompt */
    double tolerance;
} models[] = {
    /* no low rank, neither heads nor their parts whole loads, rope in halves */
    { "odd",
      "{\"model_type\":\"deepseek_v3\"," COMMON MIXTURE
      "\"q_lora_rank\":null,\"kv_lora_rank\":21,\"qk_nope_head_dim\":11,\"qk_rope_head_dim\":6,"
      "\"v_head_dim\":9,\"num_attention_heads\":5,\"num_key_value_heads\":5,"
      "\"rope_interleave\":false}",
      "", 1, 30, 1e-4 },
    { "odd16",
      "{\"model_type\":\"deepseek_v3\"," COMMON DENSE
      "\"q_lora_rank\":13,\"kv_lora_rank\":21,\"qk_nope_head_dim\":11,\"qk_rope_head_dim\":6,"
      "\"v_head_dim\":9,\"num_attention_heads\":5,\"num_key_value_heads\":5}",
      "--dtype float16", 2, 30, 0.02 },
    /* three tiles of heads in float32, two in halves, the last one not whole; a rank of which each
     * warp has more than a block of 64 and a rest; shares */
    { "tiles",
      "{\"model_type\":\"deepseek_v3\"," COMMON DENSE
      "\"q_lora_rank\":24,\"kv_lora_rank\":328,\"qk_nope_head_dim\":16,\"qk_rope_head_dim\":40,"
      "\"v_head_dim\":8,\"num_attention_heads\":18,\"num_key_value_heads\":18}",
      "", 1, 150, 1e-4 },
    { "tiles16",
      "{\"model_type\":\"deepseek_v3\"," COMMON DENSE
      "\"q_lora_rank\":24,\"kv_lora_rank\":328,\"qk_nope_head_dim\":16,\"qk_rope_head_dim\":40,"
      "\"v_head_dim\":8,\"num_attention_heads\":18,\"num_key_value_heads\":18}",
      "--dtype float16 --offloading", 1, 150, 0.02 },
    /* nine rows: products in decode too */
    { "rows",
      "{\"model_type\":\"deepseek_v3\"," COMMON DENSE
      "\"q_lora_rank\":24,\"kv_lora_rank\":20,\"qk_nope_head_dim\":12,\"qk_rope_head_dim\":8,"
      "\"v_head_dim\":12,\"num_attention_heads\":3,\"num_key_value_heads\":3}",
      "--dtype float16 --kv-dtype float32", 9, 6, 0.02 },
    /* of 150 keys 70 are seen; more heads than fit at once */
    { "indexed",
      "{\"model_type\":\"deepseek_v32\"," COMMON MIXTURE
      "\"q_lora_rank\":18,\"kv_lora_rank\":20,\"qk_nope_head_dim\":12,\"qk_rope_head_dim\":6,"
      "\"v_head_dim\":10,\"num_attention_heads\":4,\"num_key_value_heads\":4,"
      "\"index_n_heads\":11,\"index_head_dim\":10,\"index_topk\":70}",
      "", 2, 150, 1e-4 },
    { "wide_index",
      "{\"model_type\":\"deepseek_v32\"," COMMON DENSE
      "\"q_lora_rank\":18,\"kv_lora_rank\":20,\"qk_nope_head_dim\":12,\"qk_rope_head_dim\":6,"
      "\"v_head_dim\":10,\"num_attention_heads\":4,\"num_key_value_heads\":4,"
      "\"index_n_heads\":20,\"index_head_dim\":640,\"index_topk\":3}",
      "--offloading --offload-weights 1", 1, 20, 1e-4 },
    /* more keys may be seen than there are */
    { "indexed16",
      "{\"model_type\":\"deepseek_v32\"," COMMON DENSE
      "\"q_lora_rank\":18,\"kv_lora_rank\":20,\"qk_nope_head_dim\":12,\"qk_rope_head_dim\":6,"
      "\"v_head_dim\":10,\"num_attention_heads\":4,\"num_key_value_heads\":4,"
      "\"index_n_heads\":3,\"index_head_dim\":16,\"index_topk\":2048}",
      "--dtype float16", 2, 30, 0.02 },
};
enum { MODELS = sizeof models / sizeof *models, STEPS = 3, MOST_BATCH = 9, VOCAB = 61 };
enum { ALL_LOGITS = 1 };

/* Sanitizers make fibers slow: the smallest of each. */
static const int sanitized[] = { 0, 1, 6 };

/* Logits of every position of the prompt, in pieces, then of some tokens one by one; the second row
 * begins with padding. */
static float *generate(const device_casting *c, const char *device, int batch, int tokens,
                       size_t *count) {
    const sc_casting *api = c->api;
    const sc_options choice = { .device = device };
    const int64_t padding[MOST_BATCH] = { 0, 2 };
    const size_t row = (size_t)(tokens + STEPS) * VOCAB;
    sc_model *m = NULL;
    sc_cache *cache = NULL;
    sc_error err = { 0 };
    ck_assert_msg(!api->model_open(&m, c->weights, &choice, &err), "%s", err.message);
    ck_assert_msg(!api->cache_create_on(&cache, device, &err), "%s", err.message);
    if (batch > 1)
        ck_assert_msg(!api->cache_pad(cache, padding, &err), "%s", err.message);
    *count = (size_t)batch * row;
    float *all = malloc(*count * sizeof *all);
    int32_t ids[MOST_BATCH * 256];
    for (int done = 0, n; done < tokens + STEPS; done += n) {
        n = done >= tokens ? 1 : done ? tokens - done : (tokens + 2) / 3;
        float *piece = malloc((size_t)(batch * n * VOCAB) * sizeof *piece);
        ck_assert(all && piece);
        for (int i = 0; i < batch * n; i++)
            ids[i] = (i / n * 7 + (done + i % n) * 29) % VOCAB;
        ck_assert_msg(!api->model_forward(m, cache, ids, n, piece, ALL_LOGITS, &err), "%s",
                      err.message);
        for (int b = 0; b < batch; b++)
            memcpy(all + (size_t)b * row + done * VOCAB, piece + b * n * VOCAB,
                   (size_t)(n * VOCAB) * sizeof *all);
        free(piece);
    }
    api->cache_destroy(cache);
    api->model_close(m);
    return all;
}

START_TEST(a_device_computes_what_the_processor_does) {
    const int i = *cast_sanitize ? sanitized[_i] : _i;
    char name[64], folder[128], options[128];
    size_t count;
    snprintf(name, sizeof name, "latent-%s", models[i].name);
    snprintf(folder, sizeof folder, "build/test-castings/noise-%s", models[i].name);
    snprintf(options, sizeof options, "--max-cache-len %d --batch-size %d %s",
             models[i].tokens + 30, models[i].batch, models[i].options);
    noise_model(folder, models[i].config);
    const device_casting *c = device_cast(name, folder, options);
    device_begin(c, &(sc_standin_settings){ .seed = 5 });
    float *theirs = generate(c, "cpu", models[i].batch, models[i].tokens, &count);
    float *ours = generate(c, "cuda:0", models[i].batch, models[i].tokens, &count);
    float largest = 0, error = 0;
    for (size_t k = 0; k < count; k++) {
        ck_assert(isfinite(ours[k]) && isfinite(theirs[k]));
        largest = fmaxf(largest, fabsf(theirs[k]));
        error = fmaxf(error, fabsf(ours[k] - theirs[k]));
    }
    ck_assert_msg(error <= models[i].tolerance * largest, "%s: an error of %g of the largest",
                  models[i].name, (double)(error / largest));
    free(ours);
    free(theirs);
    standin_check_clean(name);
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
