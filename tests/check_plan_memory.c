/* check_plan_memory.c - what fits: exactly, over real plans; what is no size is refused. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../codegen/export.h"
#include "../codegen/json.h"
#include "../codegen/plan_memory.h"
#include "support/run.h"

Suite *plan_memory_suite(void);

#define CONFIGS "tests/reference/configs/"

static sc_pool *pool;
static sc_source *source;

static void setup(void) { pool = sc_pool_create(); }

static void teardown(void) {
    sc_source_close(source);
    source = NULL;
    sc_pool_destroy(pool);
}

static const sc_plan *plan_of(const char *model, sc_export_options options) {
    const sc_plan *plan = NULL;
    sc_error err = { 0 };
    ck_assert_msg(!sc_source_open(&source, pool, model, false, false, &err), "%s", err.message);
    options.arch = "generic";
    options.only_cache = source->config->unsupported != NULL;
    ck_assert_msg(!sc_export_plan(&plan, pool, source, &options, &err), "%s", err.message);
    return plan;
}

/* The bytes of that plan, counted here from its own numbers. */
static uint64_t bytes_of(const sc_plan *plan, int64_t batch_size, int64_t max_cache_len) {
    sc_pool *mine = sc_pool_create();
    sc_plan *made = NULL;
    sc_error err = { 0 };
    sc_plan_options options = plan->options;
    options.batch_size = batch_size;
    options.max_cache_len = max_cache_len;
    ck_assert_msg(!sc_plan_make(&made, mine, plan->config, plan->graph, &options, &err), "%s",
                  err.message);
    const uint64_t bytes = made->arena_bytes + made->cache_scratch_bytes + made->scratch_bytes +
                           (plan->graph ? made->weights_bytes : 0);
    sc_pool_destroy(mine);
    return bytes;
}

static const struct {
    const char *model;
    sc_export_options options;
    const char *memory;
} fit_table[] = {
    { "examples/austen", { 0 }, "8MiB" },
    { "examples/austen", { .offloading = true, .dtype = "bfloat16" }, "6MiB" },
    { "examples/austen", { .rewind = 16, .kv_dtype = "q8_0" }, "7000001" },
    { CONFIGS "llama-3.1-8b", { .dtype = "bfloat16" }, "24GiB" },
    { CONFIGS "llama-3.1-8b", { .dtype = "bfloat16", .kv_dtype = "fp8_e4m3" }, "24GB" },
    { CONFIGS "llama-3.1-8b", { .dtype = "bfloat16", .offloading = true }, "17GiB" },
    { CONFIGS "mistral-7b-v0.1", { .dtype = "bfloat16" }, "16GiB" },
    { CONFIGS "mpt-7b", { .dtype = "bfloat16" }, "512MiB" },
    { CONFIGS "gemma-3-4b", { .offloading = true }, "2GiB" },
    { CONFIGS "falcon-h1-0.5b", { 0 }, "300MiB" },
    { CONFIGS "llama-4-scout", { .dtype = "bfloat16" }, "80GiB" },
    { CONFIGS "deepseek-v3.2", { .dtype = "bfloat16" }, "24GiB" },
    { CONFIGS "mamba-codestral-7b", { 0 }, "1GiB" },
    { CONFIGS "qwen3-next-80b-a3b", { .dtype = "bfloat16" }, "8GiB" },
};

/* What is printed fits, and one more does not, unless it is said that another limit holds. */
static void assert_longest(const sc_plan *plan, const sc_memory_fit *fit, uint64_t memory) {
    const int64_t positions = plan->config->max_position_embeddings;
    if (fit->limit == SC_LIMIT_MEMORY)
        ck_assert_uint_gt(bytes_of(plan, fit->batch_size,
                                   fit->max_cache_len + 1 > plan->options.rewind
                                       ? fit->max_cache_len + 1
                                       : plan->options.rewind),
                          memory);
    else
        ck_assert_int_eq(fit->max_cache_len, positions ? positions : SC_LONGEST_CACHE);
    if (!fit->max_cache_len)
        return;
    ck_assert_uint_eq(bytes_of(plan, fit->batch_size, fit->max_cache_len), fit->bytes);
    ck_assert_uint_le(fit->bytes, memory);
}

START_TEST(what_is_printed_fits_and_one_more_does_not) {
    const sc_plan *plan = plan_of(fit_table[_i].model, fit_table[_i].options);
    sc_memory memory;
    sc_error err = { 0 };
    uint64_t bytes;
    ck_assert(!sc_memory_read(&bytes, "--memory", fit_table[_i].memory, &err));
    ck_assert_msg(!sc_memory_make(&memory, plan, bytes, false, &err), "%s", err.message);
    ck_assert_int_eq(memory.lengths, 6);
    for (int i = 0; i < 6; i++) {
        ck_assert_int_eq(memory.length[i].batch_size, 1 << i);
        assert_longest(plan, &memory.length[i], bytes);
    }
    const sc_memory_fit *b = &memory.batch;
    ck_assert_int_eq(b->max_cache_len, plan->options.max_cache_len);
    if (b->limit == SC_LIMIT_MEMORY)
        ck_assert_uint_gt(bytes_of(plan, b->batch_size + 1, b->max_cache_len), bytes);
    else
        ck_assert_int_eq(b->batch_size, SC_WIDEST_BATCH);
    if (b->batch_size) {
        ck_assert_uint_eq(bytes_of(plan, b->batch_size, b->max_cache_len), b->bytes);
        ck_assert_uint_le(b->bytes, bytes);
    }
}
END_TEST

/* Against a search that tries everything. */
START_TEST(nothing_larger_fits) {
    enum { POSITIONS = 512, ROWS = 48 };
    const sc_plan *plan = plan_of("examples/austen", (sc_export_options){ .max_cache_len = 64 });
    static uint64_t by_length[POSITIONS + 1], by_row[ROWS + 1];
    for (int n = 1; n <= POSITIONS; n++)
        by_length[n] = bytes_of(plan, 2, n);
    for (int n = 1; n <= ROWS; n++)
        by_row[n] = bytes_of(plan, n, 64);
    for (uint64_t memory = 5250000; memory < by_row[ROWS]; memory += 10007) {
        sc_memory_fit longest, widest;
        int length = POSITIONS, rows = ROWS;
        while (length && by_length[length] > memory)
            length--;
        while (rows && by_row[rows] > memory)
            rows--;
        ck_assert(!sc_memory_longest(&longest, plan, 2, memory, NULL));
        ck_assert(!sc_memory_widest(&widest, plan, memory, NULL));
        ck_assert_int_eq(longest.max_cache_len, length);
        ck_assert_int_eq(widest.batch_size, rows);
        if (!length)
            ck_assert_uint_eq(longest.bytes, by_length[1]);
        if (!rows)
            ck_assert_uint_eq(widest.bytes, by_row[1]);
    }
}
END_TEST

static const struct {
    const char *text;
    uint64_t bytes; /* 0: refused */
} size_table[] = {
    { "1", 1 },
    { "1073741824", UINT64_C(1) << 30 },
    { "7B", 7 },
    { "3KiB", 3072 },
    { "3kB", 3000 },
    { "512MiB", UINT64_C(512) << 20 },
    { "24GiB", UINT64_C(24) << 30 },
    { "24GB", UINT64_C(24000000000) },
    { "2TiB", UINT64_C(2) << 40 },
    { "9223372036854775807", INT64_MAX },
    { "", 0 },
    { "0", 0 },
    { "0GiB", 0 },
    { "-1", 0 },
    { "+1", 0 },
    { " 1", 0 },
    { "24 GiB", 0 },
    { "24gib", 0 },
    { "24G", 0 },
    { "24GiBs", 0 },
    { "1.5GiB", 0 },
    { "1e9", 0 },
    { "0x10", 0 },
    { "GiB", 0 },
    { "lots", 0 },
    { "9223372036854775808", 0 },
    { "99999999999999999999", 0 },
    { "17179869184GiB", 0 },
};

START_TEST(a_size_is_a_whole_number_and_a_unit) {
    uint64_t bytes = 42;
    char *output, *talk, wanted[128];
    sc_error err = { 0 };
    const int rc = sc_memory_read(&bytes, "--memory", size_table[_i].text, &err);
    ck_assert_int_eq(rc, size_table[_i].bytes ? SC_OK : SC_EUSAGE);
    ck_assert_uint_eq(bytes, size_table[_i].bytes ? size_table[_i].bytes : 42);
    if (size_table[_i].bytes)
        return;
    snprintf(wanted, sizeof wanted, "--memory: \"%s\" is no size", size_table[_i].text);
    ck_assert_int_eq(
        run(&output, &talk, "$SLIPCAST plan examples/austen --memory '%s'", size_table[_i].text),
        2);
    ck_assert_str_eq(output, "");
    ck_assert_msg(!strncmp(talk, wanted, strlen(wanted)), "%s", talk);
    free(output);
    free(talk);
}
END_TEST

START_TEST(only_plan_asks_what_fits) {
    char *talk;
    ck_assert_int_eq(run(NULL, &talk, "$SLIPCAST inspect examples/austen --memory 1GiB"), 2);
    ck_assert_ptr_nonnull(strstr(talk, "--memory: is an unknown option"));
    free(talk);
    ck_assert_int_eq(run(NULL, &talk, "$SLIPCAST plan examples/austen --memory"), 2);
    ck_assert_ptr_nonnull(strstr(talk, "--memory: is unknown or lacks its value"));
    free(talk);
}
END_TEST

static cJSON *json_of(const char *words) {
    char *output;
    cJSON *json = NULL;
    sc_error err = { 0 };
    ck_assert_int_eq(run(&output, NULL, "$SLIPCAST plan %s --json --quiet", words), 0);
    ck_assert_msg(!sc_json_parse(&json, "plan", output, strlen(output), &err), "%s", err.message);
    free(output);
    return json;
}

START_TEST(json_has_it_under_memory) {
    cJSON *json = json_of("examples/austen --arch generic --memory 8MiB");
    const cJSON *memory = sc_json_get(json, "memory"), *first, *last;
    ck_assert_double_eq(sc_json_get(memory, "bytes")->valuedouble, 8 << 20);
    ck_assert(cJSON_IsTrue(sc_json_get(memory, "weights_counted")));
    ck_assert_int_eq(cJSON_GetArraySize(sc_json_get(memory, "longest")), 6);
    first = cJSON_GetArrayItem(sc_json_get(memory, "longest"), 0);
    last = cJSON_GetArrayItem(sc_json_get(memory, "longest"), 5);
    ck_assert_int_eq(sc_json_get(first, "max_cache_len")->valueint, 512);
    ck_assert_str_eq(sc_json_get(first, "limit")->valuestring, "max_position_embeddings");
    ck_assert_str_eq(sc_json_get(last, "limit")->valuestring, "memory");
    ck_assert_int_eq(sc_json_get(sc_json_get(memory, "widest"), "max_cache_len")->valueint, 512);
    cJSON_Delete(json);
    json = json_of(CONFIGS "mpt-7b --batch-size 3 --memory 1GiB");
    memory = sc_json_get(json, "memory");
    ck_assert(cJSON_IsFalse(sc_json_get(memory, "weights_counted")));
    ck_assert_int_eq(cJSON_GetArraySize(sc_json_get(memory, "longest")), 1);
    first = cJSON_GetArrayItem(sc_json_get(memory, "longest"), 0);
    ck_assert_int_eq(sc_json_get(first, "batch_size")->valueint, 3);
    cJSON_Delete(json);
    json = json_of("examples/austen");
    ck_assert_ptr_null(sc_json_get(json, "memory"));
    cJSON_Delete(json);
}
END_TEST

START_TEST(text_says_what_is_counted) {
    char *output;
    ck_assert_int_eq(run(&output, NULL,
                         "$SLIPCAST plan examples/austen --arch generic --memory 8MiB "
                         "--batch-size 1"),
                     0);
    ck_assert_str_eq(output,
                     "qwen3: what fits into 8388608 bytes (8 MiB), float32: weights (5 MiB), model "
                     "scratch, cache\n\n"
                     "largest max_cache_len\n"
                     "batch_size  max_cache_len             bytes  limit\n"
                     "         1            512           7462976  max_position_embeddings\n\n"
                     "largest batch_size\n"
                     "batch_size  max_cache_len             bytes  limit\n"
                     "         2            512           8380480  memory\n");
    free(output);
    ck_assert_int_eq(run(&output, NULL, "$SLIPCAST plan " CONFIGS "mpt-7b --quiet --memory 64KiB"),
                     0);
    ck_assert_ptr_nonnull(strstr(output, "the cache alone, no weights"));
    ck_assert_ptr_nonnull(strstr(output, "         1           none "));
    ck_assert_ptr_nonnull(strstr(output, "      none           2048 "));
    free(output);
}
END_TEST

Suite *plan_memory_suite(void) {
    Suite *suite = suite_create("plan_memory");
    TCase *tests = tcase_create("plan_memory");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, what_is_printed_fits_and_one_more_does_not, 0,
                        (int)(sizeof fit_table / sizeof *fit_table));
    tcase_add_test(tests, nothing_larger_fits);
    tcase_add_loop_test(tests, a_size_is_a_whole_number_and_a_unit, 0,
                        (int)(sizeof size_table / sizeof *size_table));
    tcase_add_test(tests, only_plan_asks_what_fits);
    tcase_add_test(tests, json_has_it_under_memory);
    tcase_add_test(tests, text_says_what_is_counted);
    suite_add_tcase(suite, tests);
    return suite;
}
