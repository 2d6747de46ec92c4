/* check_casting.c - castings end to end: the reference's tiny models, by the command and its dump.
 */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../codegen/json.h"
#include "../codegen/safetensors.h"
#include "support/cast.h"
#include "support/run.h"

Suite *casting_suite(void);

static const char *const families[] = { "bloom",         "cohere2",
                                        "deepseek_v3",   "deepseek_v32",
                                        "ernie4_5",      "exaone4",
                                        "falcon",        "falcon_h1",
                                        "falcon_new",    "gemma",
                                        "gemma2",        "gemma3_text",
                                        "gemma3n_text",  "gemma4_text",
                                        "glm4",          "gpt2",
                                        "gpt_neo",       "gpt_neox",
                                        "gpt_oss",       "gpt_oss_mxfp4",
                                        "granite",       "jamba",
                                        "lfm2",          "llama",
                                        "llama4_text",   "llama_rope3_bias",
                                        "llama_yarn",    "mamba2",
                                        "mistral",       "mixtral",
                                        "nemotron_h",    "olmo2",
                                        "olmo3",         "opt",
                                        "phi",           "phi3",
                                        "phi3_sliding",  "qwen2",
                                        "qwen2_sliding", "qwen3",
                                        "qwen3_moe",     "qwen3_next",
                                        "seed_oss",      "smollm3",
                                        "stablelm",      "starcoder2" };
static const char *const cases[] = { "short", "long", "batch2", "chunked" };
/* Models of tests/reference/states/. */
static const char *const switched[] = { "falcon_h1_gate_norm", "falcon_h1_norm_gate",
                                        "jamba_bias",          "lfm2_bias",
                                        "mamba2_limits",       "nemotron_h_latent",
                                        "qwen3_next_bias" };
enum { SWITCHED = sizeof switched / sizeof *switched };
/* Those with convolutions or recurrent states. */
static const char *const stateful[] = { "falcon_h1", "jamba",      "lfm2",
                                        "mamba2",    "nemotron_h", "qwen3_next" };
enum { STATEFUL = sizeof stateful / sizeof *stateful };
enum { FAMILIES = sizeof families / sizeof *families, CASES = sizeof cases / sizeof *cases };

/* "1,2;3,4" from [[1, 2], [3, 4]], or "5,7,7" from [5, 7, 7]. */
static void list_text(char *text, const cJSON *list) {
    *text = 0;
    const cJSON *item;
    int i = 0;
    cJSON_ArrayForEach(item, list) {
        if (cJSON_IsArray(item)) {
            if (i++)
                strcat(text, ";");
            list_text(text + strlen(text), item);
        } else
            sprintf(text + strlen(text), "%s%d", i++ ? "," : "", item->valueint);
    }
}

/* How close is close: float32 sums in another order, relative to the largest logit of the case. */
static const double tolerance = 1e-4;

static void compare(const char *what, const float *ours, const float *theirs, size_t count,
                    double largest) {
    size_t worst;
    const double d = largest_difference(ours, theirs, count, &worst);
    ck_assert_msg(d <= tolerance * largest,
                  "%s: index %zu: %g, the reference has %g (largest error %g)", what, worst,
                  (double)ours[worst], (double)theirs[worst], d);
}

static double absmax(const float *x, size_t count) {
    double most = 0;
    for (size_t i = 0; i < count; i++)
        most = fabs((double)x[i]) > most ? fabs((double)x[i]) : most;
    return most;
}

/* "key_cache_3" of "long.cache.3.keys", "conv_state_0_1" of "long.cache.0.conv_state.1". */
static void dumped_name(char name[96], const char *reference) {
    int layer, index = 0;
    char kind[32];
    ck_assert(sscanf(reference, "long.cache.%d.%31[a-z_].%d", &layer, kind, &index) >= 2);
    const char *what = !strcmp(kind, "keys") ? "key_cache" : kind;
    what = !strcmp(kind, "values") ? "value_cache" : what;
    const int n = snprintf(name, 96, "%s_%d", what, layer);
    if (index)
        snprintf(name + n, 96 - (size_t)n, "_%d", index);
}

/* Of gpt_neo there is none to compare: the reference's README. */
static void check_cache(const sc_tensors *dump, const sc_tensors *expected) {
    for (int i = 0; i < expected->count; i++) {
        const char *theirs_name = expected->tensor[i].name;
        char ours_name[96];
        int rank, other_rank;
        int64_t shape[8], other[8];
        if (strncmp(theirs_name, "long.cache.", 11))
            continue;
        dumped_name(ours_name, theirs_name);
        float *ours = tensor_floats(dump, ours_name, &rank, shape);
        float *theirs = tensor_floats(expected, theirs_name, &other_rank, other);
        size_t count = 1;
        ck_assert_int_eq(rank, other_rank);
        for (int d = 0; d < rank; d++) {
            ck_assert_int_eq(shape[d], other[d]);
            count *= (size_t)shape[d];
        }
        compare(ours_name, ours, theirs, count, absmax(theirs, count));
        free(ours);
        free(theirs);
    }
}

/* Logits, tokens and cache of a model's case are those in the folder of numbers. */
static void check_case(const char *model, const char *numbers, const char *name, const char *arch) {
    char path[512], ids[8192], chunks[256] = "", text[512];
    sc_error err = { 0 };
    cJSON *json;
    snprintf(path, sizeof path, "%s/expected.json", numbers);
    ck_assert_msg(!sc_json_read(&json, path, 1 << 24, &err), "%s", err.message);
    const cJSON *one = sc_json_get(sc_json_get(json, "cases"), name),
                *tokens = sc_json_get(one, "tokens");
    list_text(ids, sc_json_get(one, "prompt"));
    if (sc_json_get(one, "chunks")) {
        strcpy(chunks, "--prefill-chunk ");
        list_text(chunks + strlen(chunks), sc_json_get(one, "chunks"));
    }
    const int steps = sc_json_get(one, "decode_steps")->valueint;
    char *printed;
    const int status =
        run(&printed, NULL,
            "$SLIPCAST run %s --arch %s --max-cache-len %d "
            "--token-ids '%s' --max-new-tokens %d "
            "--ignore-eos %s --dump build/dump.safetensors",
            model, arch, sc_json_get(json, "max_cache_len")->valueint, ids, steps + 1, chunks);
    ck_assert_int_eq(status, 0);
    list_text(ids, tokens);
    for (char *c = ids; *c; c++)
        if (*c == ';')
            *c = '\n';
    strcat(ids, "\n");
    ck_assert_str_eq(printed, ids);

    sc_pool *pool = sc_pool_create();
    sc_tensors *dump, *expected;
    snprintf(path, sizeof path, "%s/expected.safetensors", numbers);
    ck_assert_msg(!sc_safetensors_open_file(&dump, pool, "build/dump.safetensors", &err), "%s",
                  err.message);
    ck_assert_msg(!sc_safetensors_open_file(&expected, pool, path, &err), "%s", err.message);
    int rank;
    int64_t shape[8], pre[8], dec[8];
    float *logits = tensor_floats(dump, "logits", &rank, shape);
    snprintf(text, sizeof text, "%s.prefill_logits", name);
    float *prefill = tensor_floats(expected, text, &rank, pre);
    snprintf(text, sizeof text, "%s.decode_logits", name);
    float *decode = tensor_floats(expected, text, &rank, dec);
    ck_assert_int_eq(shape[0], pre[0]);
    ck_assert_int_eq(shape[1], pre[1] + dec[1]);
    ck_assert_int_eq(shape[2], pre[2]);
    const double largest = absmax(prefill, (size_t)(pre[0] * pre[1] * pre[2]));
    for (int64_t b = 0; b < shape[0]; b++) {
        const float *row = logits + b * shape[1] * shape[2];
        compare("prefill", row, prefill + b * pre[1] * pre[2], (size_t)(pre[1] * pre[2]), largest);
        compare("decode", row + pre[1] * pre[2], decode + b * dec[1] * dec[2],
                (size_t)(dec[1] * dec[2]), largest);
    }
    if (!strcmp(name, "long"))
        check_cache(dump, expected);
    free(logits);
    free(prefill);
    free(decode);
    free(printed);
    sc_tensors_close(dump);
    sc_tensors_close(expected);
    sc_pool_destroy(pool);
    cJSON_Delete(json);
}

/* The reference's numbers, or where it has a case wrong those of tests/reference/make_states.py. */
static void check_family(const char *family, const char *name, const char *arch) {
    char model[256], numbers[256], path[256];
    cJSON *json = NULL;
    snprintf(model, sizeof model, "tests/reference/tiny/%s", family);
    snprintf(numbers, sizeof numbers, "tests/reference/states/%s", family);
    snprintf(path, sizeof path, "tests/reference/states/%s/expected.json", family);
    sc_json_read(&json, path, 1 << 24, NULL);
    const bool mended = sc_json_get(sc_json_get(json, "cases"), name);
    cJSON_Delete(json);
    check_case(model, mended ? numbers : model, name, arch);
}

START_TEST(a_casting_computes_what_the_reference_does) {
    check_family(families[_i / CASES], cases[_i % CASES], "native");
}
END_TEST

/* Other switches of layers with states than the reference's tiny models have, by their formulas in
 * doubles: tests/reference/states.py. */
START_TEST(switches_of_states_do_what_their_formulas_say) {
    char folder[256];
    snprintf(folder, sizeof folder, "tests/reference/states/%s", switched[_i / 3]);
    check_case(folder, folder, cases[1 + _i % 3], _i % 2 ? "native" : "generic");
}
END_TEST

/* By turns: the families share their kernels. */
START_TEST(every_arch_computes_what_the_reference_does) {
    static const char *const archs[] = { "generic", "x86-64-v3" };
    check_family(families[_i], "long", archs[_i % 2]);
}
END_TEST

/* It knows of functions that gcc lets pass unused. */
START_TEST(clang_finds_nothing_in_a_casting) {
    if (run(NULL, NULL, "command -v clang >/dev/null"))
        return;
    ck_assert_int_eq(
        run(NULL, NULL,
            "rm -rf build/test-castings/clang && $SLIPCAST export tests/reference/tiny/%s -o "
            "build/test-castings/clang --name cast --arch generic --max-cache-len 44 --quiet && "
            "cd build/test-castings/clang && clang -fsyntax-only -std=gnu11 -Wall -Wextra "
            "-Wpedantic -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wvla "
            "-Werror cast_model.c cast_cache.c cast_main.c",
            families[_i]),
        0);
}
END_TEST

/* Weights, activations and cache in two bytes: of every family within a share of the largest logit
 * that is twice what the worst of them needs. Rounding the matrices alone moves the logits of
 * states.py by 0.11 of jamba and by 0.2 of qwen3_next: tokens choose other experts. */
START_TEST(two_bytes_per_weight_stay_close) {
    const bool chooses_experts =
        !strcmp(families[_i], "jamba") || !strcmp(families[_i], "qwen3_next");
    const double allowed = chooses_experts ? 0.2 : 0.06;
    const bool chooses =
        !strcmp(families[_i], "deepseek_v32"); /* 6 keys, of scores that are close */
    const char *dtype = chooses ? "float16" : "bfloat16";
    char ids[8192];
    sc_error err = { 0 };
    cJSON *json;
    snprintf(ids, sizeof ids, "tests/reference/tiny/%s/expected.json", families[_i]);
    ck_assert_msg(!sc_json_read(&json, ids, 1 << 24, &err), "%s", err.message);
    list_text(ids, sc_json_get(sc_json_get(sc_json_get(json, "cases"), "long"), "prompt"));
    cJSON_Delete(json);
    ck_assert_int_eq(run(NULL, NULL,
                         "$SLIPCAST run tests/reference/tiny/%s --dtype %s --max-cache-len 44 "
                         "--token-ids '%s' --max-new-tokens 1 --ignore-eos --dump "
                         "build/dump.safetensors",
                         families[_i], dtype, ids),
                     0);
    sc_pool *pool = sc_pool_create();
    sc_tensors *dump, *expected;
    snprintf(ids, sizeof ids, "tests/reference/tiny/%s/expected.safetensors", families[_i]);
    ck_assert_msg(!sc_safetensors_open_file(&dump, pool, "build/dump.safetensors", &err), "%s",
                  err.message);
    ck_assert_msg(!sc_safetensors_open_file(&expected, pool, ids, &err), "%s", err.message);
    int rank;
    int64_t shape[8], other[8];
    float *ours = tensor_floats(dump, "logits", &rank, shape);
    float *theirs = tensor_floats(expected, "long.prefill_logits", &rank, other);
    const size_t count = (size_t)(other[0] * other[1] * other[2]);
    size_t worst;
    ck_assert_int_eq(shape[1], other[1]);
    const double d = largest_difference(ours, theirs, count, &worst);
    ck_assert_msg(d <= allowed * absmax(theirs, count), "%s: %g at %zu", families[_i], d, worst);
    free(ours);
    free(theirs);
    sc_tensors_close(dump);
    sc_tensors_close(expected);
    sc_pool_destroy(pool);
}
END_TEST

/* The dump of a run, whole, as bytes: equal bytes are equal bits. */
static char *dump_of(const char *options, size_t *bytes) {
    ck_assert_int_eq(
        run(NULL, NULL, "$SLIPCAST run %s --ignore-eos --dump build/bits.safetensors", options), 0);
    FILE *f = fopen("build/bits.safetensors", "rb");
    ck_assert_ptr_nonnull(f);
    char *all = malloc(1 << 26);
    *bytes = fread(all, 1, 1 << 26, f);
    fclose(f);
    return all;
}

#define LONG_IDS                                                                                   \
    "2,45,89,731,361,14,412,837,340,474,480,354,311,553,273,370,509,659,12,411,266,310,318,964,"   \
    "333,660,340,341,70,"                                                                          \
    "950,680,291,75,364,423,84,351,774,604,361,14,412,837,340,694,952,333,281,339,314,14,411,34,"  \
    "322,321,364,474,840,"                                                                         \
    "277,330,27,411,70,284,454,14,494,483,643,736,403,922,12,283,330,273,304,382"

static const char *const cuts[] = { "--threads 2",
                                    "--threads 3",
                                    "--threads 8",
                                    "--threads 1 --prefill-chunk 1",
                                    "--threads 2 --prefill-chunk 3",
                                    "--threads 2 --prefill-chunk 7",
                                    "--threads 3 --prefill-chunk 65,1,9" };

START_TEST(threads_and_chunks_do_not_change_a_bit) {
    static const char *const dtypes[] = { "float32", "bfloat16", "float16" };
    const int all = (int)(sizeof cuts / sizeof *cuts);
    char options[4096];
    size_t bytes, other_bytes;
    const char *model =
        "examples/austen --max-cache-len 128 --max-new-tokens 12 --token-ids " LONG_IDS;
    snprintf(options, sizeof options, "%s --dtype %s --threads 1", model, dtypes[_i / all]);
    char *one = dump_of(options, &bytes);
    snprintf(options, sizeof options, "%s --dtype %s %s", model, dtypes[_i / all], cuts[_i % all]);
    char *other = dump_of(options, &other_bytes);
    ck_assert_uint_eq(bytes, other_bytes);
    ck_assert_msg(!memcmp(one, other, bytes), "%s differs", options);
    free(one);
    free(other);
}
END_TEST

/* Law 1, to the bit: one token at a time by three threads, or all at once by one. */
START_TEST(no_family_sees_how_its_prompt_is_cut) {
    static const char *const ids = "9,200,31,7,7,88,140,3,250,61,12,99,5,170,33,18,76,240,11,64,2";
    char options[512];
    size_t bytes, other_bytes;
    snprintf(options, sizeof options,
             "tests/reference/tiny/%s --max-cache-len 44 --token-ids %s --max-new-tokens 3 "
             "--threads 1",
             families[_i], ids);
    char *one = dump_of(options, &bytes);
    strcpy(strstr(options, "--threads"), "--threads 3 --prefill-chunk 1");
    char *other = dump_of(options, &other_bytes);
    ck_assert_uint_eq(bytes, other_bytes);
    ck_assert_msg(!memcmp(one, other, bytes), "%s differs", families[_i]);
    free(one);
    free(other);
}
END_TEST

static sc_tensors *open_dump(sc_pool *pool, const char *options, const char *file) {
    sc_error err = { 0 };
    sc_tensors *dump;
    ck_assert_int_eq(run(NULL, NULL, "$SLIPCAST run %s --ignore-eos --dump %s", options, file), 0);
    ck_assert_msg(!sc_safetensors_open_file(&dump, pool, file, &err), "%s", err.message);
    return dump;
}

/* A row alone, and the same one as second of three, the first shorter, the third longer. */
START_TEST(a_row_of_a_batch_equals_the_row_alone) {
    static const char *const dtypes[] = { "float32", "bfloat16", "float16" };
    char options[4096];
    sc_pool *pool = sc_pool_create();
    const char *ids = "2,45,89,731,361,14,412,837,340,474,480,354,311,553,273,370,509,659,12,411";
    snprintf(options, sizeof options,
             "examples/austen --max-cache-len 128 --max-new-tokens 60 --dtype %s --token-ids '%s'",
             dtypes[_i], ids);
    sc_tensors *alone = open_dump(pool, options, "build/alone.safetensors");
    snprintf(options, sizeof options,
             "examples/austen --max-cache-len 128 --max-new-tokens 60 --dtype %s --token-ids "
             "'7,8,9;%s;1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,20,21,22,23,24,25'",
             dtypes[_i], ids);
    sc_tensors *batch = open_dump(pool, options, "build/batch.safetensors");
    int rank;
    int64_t shape[8], other[8];
    float *one = tensor_floats(alone, "logits", &rank, shape),
          *three = tensor_floats(batch, "logits", &rank, other);
    ck_assert_int_eq(other[1], shape[1] + 5); /* five tokens of padding */
    ck_assert(!memcmp(one, three + (other[1] + 5) * other[2],
                      (size_t)(shape[1] * shape[2]) * sizeof *one));
    free(one);
    free(three);
    sc_tensors_close(alone);
    sc_tensors_close(batch);
    sc_pool_destroy(pool);
}
END_TEST

/* Law 2, to the bit: a row alone, and the same one padded on the left beside a longer one. */
START_TEST(no_family_sees_its_padding) {
    static const char *const ids = "9,200,31,7,7,88,140,3,250,61,12,99,5,170";
    char options[512];
    sc_pool *pool = sc_pool_create();
    const int start = snprintf(options, sizeof options,
                               "tests/reference/tiny/%s --max-cache-len 44 --max-new-tokens 3 "
                               "--token-ids ",
                               families[_i]);
    strcpy(options + start, ids);
    sc_tensors *alone = open_dump(pool, options, "build/alone.safetensors");
    snprintf(options + start, sizeof options - (size_t)start,
             "'%s;33,18,76,240,11,64,2,9,55,180,23,77,41,90,6,31,8,220,14'", ids);
    sc_tensors *beside = open_dump(pool, options, "build/batch.safetensors");
    int rank;
    int64_t shape[8], other[8];
    float *one = tensor_floats(alone, "logits", &rank, shape);
    float *two = tensor_floats(beside, "logits", &rank, other);
    ck_assert_int_eq(other[1], shape[1] + 5); /* five tokens of padding */
    ck_assert_msg(!memcmp(one, two + 5 * other[2], (size_t)(shape[1] * shape[2]) * sizeof *one),
                  "%s differs", families[_i]);
    free(one);
    free(two);
    sc_tensors_close(alone);
    sc_tensors_close(beside);
    sc_pool_destroy(pool);
}
END_TEST

#define STATE_IDS "9,20,31,7,7,88,14,3,25,61,12,99,4,5,6,2,71"

/* Laws 1 and 2 of what a convolution or a recurrence remembers, to the bit, in every dtype: however
 * the prompt is cut, and with padding on the left of it. */
START_TEST(states_see_neither_cuts_nor_padding) {
    const char *dtypes[] = { "float32", _i % 4 < 2 ? "bfloat16" : "float16" };
    char options[512];
    size_t bytes, other_bytes;
    const int start = snprintf(options, sizeof options,
                               "tests/reference/tiny/%s --dtype %s --max-cache-len 44 "
                               "--max-new-tokens 5 --token-ids ",
                               stateful[_i / 2], dtypes[_i % 2]);
    strcpy(options + start, STATE_IDS);
    char *one = dump_of(options, &bytes);
    strcat(options, " --prefill-chunk 5,1,2 --threads 3");
    char *other = dump_of(options, &other_bytes);
    ck_assert_uint_eq(bytes, other_bytes);
    ck_assert_msg(!memcmp(one, other, bytes), "%s differs", options);
    free(one);
    free(other);

    sc_pool *pool = sc_pool_create();
    strcpy(options + start, STATE_IDS);
    sc_tensors *alone = open_dump(pool, options, "build/alone.safetensors");
    strcpy(options + start, "'7,8,9;" STATE_IDS ";1,2,3,4,5,6,7,8,9,10,11,12,13,14,15,16,17,18,19,"
                            "20,21,22' --prefill-chunk 4");
    sc_tensors *batch = open_dump(pool, options, "build/batch.safetensors");
    for (int i = 0; i < alone->count; i++) {
        const char *name = alone->tensor[i].name;
        int rank;
        int64_t shape[8], of_batch[8], row = 1, padding = 0;
        if (strcmp(name, "logits") && !strstr(name, "_state_"))
            continue;
        float *ours = tensor_floats(alone, name, &rank, shape),
              *rows = tensor_floats(batch, name, &rank, of_batch);
        for (int d = 1; d < rank; d++)
            row *= of_batch[d];
        if (!strcmp(name, "logits"))
            padding = (of_batch[1] - shape[1]) * of_batch[2];
        ck_assert_msg(!memcmp(ours, rows + row + padding, (size_t)(row - padding) * sizeof *ours),
                      "%s: %s of the padded row differs", stateful[_i / 2], name);
        free(ours);
        free(rows);
    }
    sc_tensors_close(alone);
    sc_tensors_close(batch);
    sc_pool_destroy(pool);
}
END_TEST

/* Eight tokens in one process, or five and three in two: the states are in the saved cache. */
START_TEST(a_session_keeps_states) {
    char *whole, *first, *second;
    const char *model = stateful[_i];
    ck_assert_int_eq(run(NULL, NULL, "rm -f build/test-castings/session"), 0);
#define RUN_STATES "$SLIPCAST run tests/reference/tiny/%s --max-cache-len 44 --ignore-eos "
    ck_assert_int_eq(
        run(&whole, NULL, RUN_STATES "--token-ids " STATE_IDS " --max-new-tokens 8", model), 0);
    ck_assert_int_eq(run(&first, NULL,
                         RUN_STATES "--token-ids " STATE_IDS " --max-new-tokens 5 "
                                    "--session build/test-castings/session",
                         model),
                     0);
    first[strlen(first) - 1] = 0; /* the newline */
    const char *last = strrchr(first, ',') + 1;
    ck_assert_int_eq(run(&second, NULL,
                         RUN_STATES "--token-ids %s --max-new-tokens 3 "
                                    "--session build/test-castings/session",
                         model, last),
                     0);
    ck_assert_msg(!strncmp(whole, first, strlen(first)), "%s, then %s", first, second);
    ck_assert_str_eq(whole + strlen(first) + 1, second);
    free(whole);
    free(first);
    free(second);
}
END_TEST

/* What two bytes per weight, key and value cost: the largest difference of a logit to float32, as
 * a share of the largest logit; what the archs are allowed is half of it to twice of it. float16
 * has three bits more than bfloat16, of which some archs round the activations too. */
static const struct {
    const char *model, *dtype;
    double seen;
} halves[] = {
    { "tests/reference/tiny/llama", "bfloat16", 0.022 },
    { "tests/reference/tiny/llama", "float16", 0.0024 },
    { "tests/reference/tiny/qwen3", "bfloat16", 0.01 },
    { "tests/reference/tiny/qwen3", "float16", 0.0009 },
    { "examples/austen", "bfloat16", 0.0026 },
    { "examples/austen", "float16", 0.00022 },
};
static const char *const half_archs[] = { "generic", "x86-64-v3", "native" };
enum {
    HALVES = sizeof halves / sizeof *halves,
    HALF_ARCHS = sizeof half_archs / sizeof *half_archs
};

static float *logits_of(const char *model, const char *dtype, const char *arch, size_t *count) {
    char options[4096];
    int rank;
    int64_t shape[8];
    sc_pool *pool = sc_pool_create();
    snprintf(options, sizeof options,
             "%s --dtype %s --arch %s --max-cache-len 128 --max-new-tokens 1 --token-ids %s", model,
             dtype, arch,
             strcmp(model, "examples/austen") ? "1,2,3,5,8,13,21,34,55,89,7,77,70,6" : LONG_IDS);
    sc_tensors *dump = open_dump(pool, options, "build/halves.safetensors");
    float *logits = tensor_floats(dump, "logits", &rank, shape);
    *count = (size_t)(shape[0] * shape[1] * shape[2]);
    sc_tensors_close(dump);
    sc_pool_destroy(pool);
    return logits;
}

START_TEST(halves_stay_near_float32) {
    const int half = _i / HALF_ARCHS;
    const char *arch = half_archs[_i % HALF_ARCHS], *model = halves[half].model;
    size_t count, other, worst;
    float *exact = logits_of(model, "float32", arch, &count),
          *ours = logits_of(model, halves[half].dtype, arch, &other);
    ck_assert_uint_eq(count, other);
    const double off = largest_difference(exact, ours, count, &worst) / absmax(exact, count);
    ck_assert_msg(off <= 2 * halves[half].seen && off >= halves[half].seen / 2,
                  "%s %s %s: number %zu is off by %g of the largest, seen were %g", model,
                  halves[half].dtype, arch, worst, off, halves[half].seen);
    free(exact);
    free(ours);
}
END_TEST

START_TEST(the_bundled_model_writes_what_the_reference_writes) {
    static const char *const names[] = { "truth", "elizabeth", "long" };
    char ids[4096], wanted[4096];
    sc_error err = { 0 };
    cJSON *json;
    ck_assert_msg(!sc_json_read(&json, "tests/reference/austen/expected.json", 1 << 24, &err), "%s",
                  err.message);
    const cJSON *one = sc_json_get(sc_json_get(json, "cases"), names[_i]);
    list_text(ids, sc_json_get(one, "prompt"));
    list_text(wanted, sc_json_get(one, "tokens"));
    strcat(wanted, "\n");
    char *printed;
    ck_assert_int_eq(
        run(&printed, NULL,
            "$SLIPCAST run examples/austen --token-ids %s --max-new-tokens 80 --ignore-eos", ids),
        0);
    ck_assert_str_eq(printed, wanted);
    free(printed);
    cJSON_Delete(json);
}
END_TEST

#define SESSION                                                                                    \
    "$SLIPCAST run examples/austen --token-ids %s --max-new-tokens %d --ignore-eos "               \
    "--session build/test-castings/session"

/* A session: the reference's 80 tokens in two processes; the last token of the first one was never
 * fed, so the second one begins with it. */
START_TEST(a_session_goes_on_where_it_ended) {
    enum { FIRST = 30, ALL = 80 };
    char ids[4096], first[4096], second[4096], last[16];
    sc_error err = { 0 };
    cJSON *json;
    ck_assert_msg(!sc_json_read(&json, "tests/reference/austen/expected.json", 1 << 24, &err), "%s",
                  err.message);
    const cJSON *one = sc_json_get(sc_json_get(json, "cases"), "truth");
    cJSON *tokens = cJSON_Duplicate(sc_json_get(one, "tokens"), true), *tail = cJSON_CreateArray();
    ck_assert(tokens && tail && cJSON_GetArraySize(tokens) == ALL);
    for (int i = FIRST; i < ALL; i++)
        cJSON_AddItemToArray(tail, cJSON_DetachItemFromArray(tokens, FIRST));
    snprintf(last, sizeof last, "%d", cJSON_GetArrayItem(tokens, FIRST - 1)->valueint);
    list_text(ids, sc_json_get(one, "prompt"));
    list_text(first, tokens);
    list_text(second, tail);
    char *printed;
    ck_assert_int_eq(run(NULL, NULL, "rm -f build/test-castings/session"), 0);
    ck_assert_int_eq(run(&printed, NULL, SESSION, ids, FIRST), 0);
    ck_assert_str_eq(printed, strcat(first, "\n"));
    free(printed);
    ck_assert_int_eq(run(&printed, NULL, SESSION, last, ALL - FIRST), 0);
    ck_assert_str_eq(printed, strcat(second, "\n"));
    free(printed);
    cJSON_Delete(tokens);
    cJSON_Delete(tail);
    cJSON_Delete(json);
}
END_TEST

static void add_all(TCase *tests) {
    tcase_add_loop_test(tests, a_casting_computes_what_the_reference_does, 0, FAMILIES * CASES);
    tcase_add_loop_test(tests, no_family_sees_how_its_prompt_is_cut, 0, FAMILIES);
    tcase_add_loop_test(tests, no_family_sees_its_padding, 0, FAMILIES);
    tcase_add_loop_test(tests, clang_finds_nothing_in_a_casting, 0, FAMILIES);
    tcase_add_loop_test(tests, two_bytes_per_weight_stay_close, 0, FAMILIES);
    tcase_add_loop_test(tests, every_arch_computes_what_the_reference_does, 0, FAMILIES);
    tcase_add_loop_test(tests, threads_and_chunks_do_not_change_a_bit, 0,
                        3 * (int)(sizeof cuts / sizeof *cuts));
    tcase_add_loop_test(tests, switches_of_states_do_what_their_formulas_say, 0, SWITCHED * 3);
    tcase_add_loop_test(tests, states_see_neither_cuts_nor_padding, 0, STATEFUL * 2);
    tcase_add_loop_test(tests, halves_stay_near_float32, 0, HALVES * HALF_ARCHS);
}

Suite *casting_suite(void) {
    Suite *suite = suite_create("casting");
    TCase *tests = tcase_create("end to end");
    tcase_add_unchecked_fixture(tests, run_share_runtime, NULL);
    tcase_set_timeout(tests, 300);
    /* Castings are the same programs whoever casts them: what sanitizers see is the casting of each
     * family, once. */
    for (int i = 0; i < FAMILIES && *cast_sanitize; i++)
        tcase_add_loop_test(tests, a_casting_computes_what_the_reference_does, i * CASES + 1,
                            i * CASES + 2);
    if (!*cast_sanitize)
        add_all(tests);
    tcase_add_loop_test(tests, a_session_keeps_states, 0, STATEFUL);
    tcase_add_loop_test(tests, a_row_of_a_batch_equals_the_row_alone, 0, 3);
    tcase_add_loop_test(tests, the_bundled_model_writes_what_the_reference_writes, 0, 3);
    tcase_add_test(tests, a_session_goes_on_where_it_ended);
    suite_add_tcase(suite, tests);
    return suite;
}
