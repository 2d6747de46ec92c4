/*
 * check_cuda_sizes.c - every family on the stand-in driver in other sizes than the reference's tiny
 * models have: rows that end within a load, odd widths, other windows, padding.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../codegen/json.h"
#include "support/agree.h"
#include "support/cast.h"
#include "support/device.h"

Suite *cuda_sizes_suite(void);

/* The last ones keep the widths that their states or heads are made of. */
static const char *const families[] = {
    "bloom",         "cohere2",    "ernie4_5",    "exaone4",      "falcon",
    "falcon_new",    "gemma",      "gemma2",      "gemma3_text",  "gemma4_text",
    "glm4",          "gpt2",       "gpt_neo",     "gpt_neox",     "gpt_oss",
    "granite",       "lfm2",       "llama",       "llama4_text",  "llama_rope3_bias",
    "llama_yarn",    "mistral",    "mixtral",     "olmo2",        "olmo3",
    "opt",           "phi",        "phi3",        "phi3_sliding", "qwen2",
    "qwen2_sliding", "qwen3",      "qwen3_moe",   "seed_oss",     "smollm3",
    "stablelm",      "starcoder2", "deepseek_v3", "deepseek_v32", "falcon_h1",
    "gemma3n_text",  "jamba",      "mamba2",      "nemotron_h",   "qwen3_next",
};
enum { FAMILIES = sizeof families / sizeof *families, NARROW = 37 };

static const struct {
    const char *key;
    int value;
} sizes[] = {
    { "vocab_size", AGREE_VOCAB },
    { "vocab_size_per_layer_input", AGREE_VOCAB },
    { "intermediate_size", 27 },
    { "intermediate_size_mlp", 29 },
    { "ffn_dim", 29 },
    { "n_inner", 29 },
    { "moe_intermediate_size", 22 },
    { "shared_expert_intermediate_size", 29 },
    { "sliding_window", 9 },
    { "attention_chunk_size", 9 },
};

/* A number, or each of a list. */
static void set(cJSON *config, const char *key, int value) {
    cJSON *item = cJSON_GetObjectItemCaseSensitive(config, key), *one;
    if (cJSON_IsNumber(item))
        cJSON_SetNumberValue(item, value);
    cJSON_ArrayForEach(one, item) {
        if (cJSON_IsNumber(one))
            cJSON_SetNumberValue(one, value);
    }
}

static int number(const cJSON *config, const char *key) {
    const cJSON *item = cJSON_GetObjectItemCaseSensitive(config, key);
    return cJSON_IsNumber(item) ? item->valueint : 0;
}

/* Heads of another width, and more of them where that is a key of its own; a part of a head that
 * turns stays an even number, and so do longrope's tables. */
static void set_heads(cJSON *config, const char *text) {
    const int heads = number(config, "num_attention_heads") + number(config, "n_head") +
                      number(config, "num_heads");
    const int kv = number(config, "num_key_value_heads");
    const int dim = strstr(text, "_factor\"") ? 24 : 20;
    if (strstr(text, "short_factor"))
        return;
    if (number(config, "head_dim")) {
        set(config, "hidden_size", 44);
        set(config, "head_dim", dim);
        set(config, "num_attention_heads", 6);
        set(config, "num_key_value_heads", kv == heads ? 6 : 2);
    } else {
        set(config, "hidden_size", heads * dim);
        set(config, "word_embed_proj_dim", heads * dim);
        set(config, "n_embd", heads * dim);
    }
}

/* In halves where no expert and no key is chosen, which rounding would have chosen otherwise. */
static void check_family(int which, bool halves) {
    static const char *const ids[] = { "bos_token_id", "eos_token_id", "pad_token_id" };
    char path[128], name[64];
    size_t bytes;
    cJSON *config = NULL;
    sc_error err = { 0 };
    snprintf(path, sizeof path, "tests/reference/tiny/%s/config.json", families[which]);
    char *text = cast_file(path, &bytes);
    ck_assert_msg(!sc_json_parse(&config, path, text, bytes, &err), "%s", err.message);
    for (size_t i = 0; i < sizeof ids / sizeof *ids; i++)
        cJSON_DeleteItemFromObjectCaseSensitive(config, ids[i]);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
        set(config, sizes[i].key, sizes[i].value);
    cJSON_DeleteItemFromObjectCaseSensitive(config, "block_auto_adjust_ff_dim");
    if (!strcmp(families[which], "lfm2")) /* its true would make another width of 27 */
        cJSON_AddFalseToObject(config, "block_auto_adjust_ff_dim");
    if (which < NARROW)
        set_heads(config, text);
    halves &= !strstr(text, "expert") && !strstr(text, "index_topk");
    char *made = cJSON_PrintUnformatted(config);
    snprintf(name, sizeof name, "sizes-%s", families[which]);
    agree_check(&(agree_model){ .name = name,
                                .config = made,
                                .options = halves ? "--dtype float16" : "",
                                .batch = 1 + which % 2,
                                .tokens = 20,
                                .tolerance = halves ? 0.04 : 1e-4 });
    free(made);
    free(text);
    cJSON_Delete(config);
}

START_TEST(any_size_will_do) { check_family(_i, _i / 2 % 2); }
END_TEST

Suite *cuda_sizes_suite(void) {
    Suite *suite = suite_create("cuda_sizes");
    if (*cast_sanitize || !device_available())
        return suite; /* the reference's tiny models are run with sanitizers */
    TCase *tests = tcase_create("sizes");
    tcase_set_timeout(tests, 600);
    tcase_add_loop_test(tests, any_size_will_do, 0, FAMILIES);
    suite_add_tcase(suite, tests);
    return suite;
}
