/*
 * check_nvrtc.c - device code by the real NVRTC, where there is one: every family for every kind of
 * architecture, what its kernels take, errors with the template's own line, the same bytes again.
 *
 * No device and no driver is needed. check_cuda_export.c has what can be told without NVRTC.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../codegen/cubin.h"
#include "support/cast.h"
#include "support/ptxas.h"
#include "support/run.h"

Suite *nvrtc_suite(void);

static sc_pool *pool;
static sc_nvrtc *nvrtc;
static sc_error err;

static void setup(void) {
    pool = sc_pool_create();
    ck_assert_ptr_nonnull(pool);
    ck_assert_msg(!sc_nvrtc_open(&nvrtc, pool, &err), "%s", err.message);
}

static void teardown(void) { sc_pool_destroy(pool); }

/* ---- every kernel ---- */

#define TINY "tests/reference/tiny/"
#define CONFIG "tests/reference/configs/"

static const struct {
    const char *model;
    sc_export_options options;
} models[] = {
    { TINY "llama", { .dtype = "bfloat16" } },
    { TINY "llama_rope3_bias", { .dtype = "bfloat16" } },
    { TINY "mistral", { .dtype = "bfloat16", .offloading = true, .offload_sliding = true } },
    { TINY "qwen2", { .dtype = "bfloat16" } },
    { TINY "qwen2_sliding", { .dtype = "bfloat16" } },
    { TINY "qwen3", { .dtype = "bfloat16", .offloading = true } },
    { TINY "llama", { .dtype = "float32", .batch_size = 3 } },
    { TINY "qwen2_sliding", { .dtype = "float16", .batch_size = 9 } }, /* no decode linears */
    { TINY "qwen3", { .dtype = "float16", .kv_dtype = "float32", .batch_size = 8 } },
    { TINY "mistral", { .dtype = "float32", .kv_dtype = "bfloat16" } },
    { TINY "bloom", { .dtype = "float16" } },
    { TINY "cohere2", { .dtype = "bfloat16" } },
    { TINY "exaone4", { .dtype = "bfloat16" } },
    { TINY "gpt_neo", { .dtype = "float32", .batch_size = 2 } },
    { TINY "mixtral", { .dtype = "float32", .batch_size = 2 } },
    { TINY "opt", { .dtype = "bfloat16", .batch_size = 9 } },
    { TINY "gpt_oss", { .dtype = "bfloat16" } },
    { TINY "gemma3n_text", { .dtype = "bfloat16" } },
    { TINY "nemotron_h", { .dtype = "float16" } },
    { TINY "llama4_text", { .dtype = "float16" } },
    { TINY "phi3", { .dtype = "bfloat16" } },
    { TINY "qwen3_moe", { .dtype = "bfloat16", .batch_size = 9 } },
    { TINY "stablelm", { .dtype = "bfloat16" } },
    { CONFIG "qwen3-next-80b-a3b", { .dtype = "bfloat16" } },
    { CONFIG "deepseek-v3.2", { .dtype = "bfloat16", .offloading = true } },
    { TINY "deepseek_v3", { .dtype = "float32", .batch_size = 9 } },
    { TINY "lfm2", { .dtype = "float32" } },
    { TINY "falcon_h1", { .dtype = "bfloat16", .offloading = true } },
    { CONFIG "jamba-v0.1", { .dtype = "float16" } },
    { CONFIG "mamba-codestral-7b", { .dtype = "bfloat16", .batch_size = 9 } },
    { TINY "deepseek_v32", { .dtype = "bfloat16" } },
    { TINY "ernie4_5", { .dtype = "float16", .batch_size = 2 } },
    { TINY "falcon", { .dtype = "float32" } },
    { TINY "falcon_new", { .dtype = "bfloat16" } },
    { TINY "gemma", { .dtype = "float16", .batch_size = 2 } },
    { TINY "gemma2", { .dtype = "float32" } },
    { TINY "gemma3_text", { .dtype = "bfloat16" } },
    { TINY "gemma4_text", { .dtype = "float16", .batch_size = 2 } },
    { TINY "glm4", { .dtype = "float32" } },
    { TINY "gpt2", { .dtype = "bfloat16" } },
    { TINY "gpt_neox", { .dtype = "float16", .batch_size = 2 } },
    { TINY "granite", { .dtype = "float32" } },
    { TINY "jamba", { .dtype = "bfloat16" } },
    { TINY "llama_yarn", { .dtype = "float16", .batch_size = 2 } },
    { TINY "mamba2", { .dtype = "float32" } },
    { TINY "olmo2", { .dtype = "bfloat16" } },
    { TINY "olmo3", { .dtype = "float16", .batch_size = 2 } },
    { TINY "phi", { .dtype = "float32" } },
    { TINY "phi3_sliding", { .dtype = "bfloat16" } },
    { TINY "qwen3_next", { .dtype = "float16", .batch_size = 2 } },
    { TINY "seed_oss", { .dtype = "float32" } },
    { TINY "smollm3", { .dtype = "bfloat16" } },
    { TINY "starcoder2", { .dtype = "float16", .batch_size = 2 } },
    { CONFIG "gemma-2-2b", { .dtype = "bfloat16" } },
    { CONFIG "mixtral-8x7b", { .dtype = "bfloat16" } },
    { CONFIG "llama-3.1-8b", { .dtype = "bfloat16" } },
    { CONFIG "llama-3.1-8b", { .dtype = "bfloat16", .batch_size = 8 } },
    { CONFIG "llama-3.1-8b", { .dtype = "float32", .batch_size = 4 } },
};
enum { MODELS = sizeof models / sizeof *models };
static const int sms[] = { 80, 90, 100 };
enum { SMS = sizeof sms / sizeof *sms };

/* sin and cos of a large angle take it apart in local memory; every other frame is a spill, or an
 * array whose index the compiler does not know. */
static bool may_have_a_frame(const ptxas_kernel *kernel) {
    return !strcmp(kernel->kernel, "embed_kernel");
}

START_TEST(every_kernel_compiles_and_none_of_decode_spills) {
    const int m = _i / SMS, sm = sms[_i % SMS];
    sc_export_options options = models[m].options;
    options.target = "cuda";
    ptxas_report report;
    ck_assert_msg(!ptxas_compile(&report, nvrtc, pool, models[m].model, &options, sm, &err), "%s",
                  err.message);
    ck_assert_int_ge(report.kernels, 8);
    for (int i = 0; i < report.kernels; i++) {
        const ptxas_kernel *k = &report.kernel[i];
        ck_assert_msg(k->shared <= 48 << 10, "%s, sm_%d: %s: %d shared bytes", models[m].model, sm,
                      k->kernel, k->shared);
        if (ptxas_is_decode(k))
            ck_assert_msg(!k->spill && (!k->stack || may_have_a_frame(k)),
                          "%s, sm_%d: %s: %d bytes of spills, a frame of %d", models[m].model, sm,
                          k->kernel, k->spill, k->stack);
    }
    ck_assert_msg(!*report.warnings, "%s, sm_%d: %s", models[m].model, sm, report.warnings);
}
END_TEST

/* ---- errors ---- */

/* The kernel of sources[i] is wrong on line 4, or in a part; all have one list of two shapes. */
static const struct {
    const char *source, *message;
} broken[] = {
    { "extern \"C\" __global__ void one_kernel(float *x) {\n"
      "    x[0] = 1;\n"
      "    x[1] = 2;\n"
      "    x[2] = nothing;\n"
      "}\n",
      "templates/cuda/broken.cu:4: error: identifier \"nothing\" is undefined" },
    { "{{! a note that leaves }}\n"
      "{{#shapes}}\n"
      "extern \"C\" __global__ void k{{id}}_kernel(float *x) {\n"
      "    x[0] = {{id}} +* 2 nothing;\n"
      "}\n"
      "{{/shapes}}\n",
      "templates/cuda/broken.cu:4: error: " },
    { "{{#shapes}}\n"
      "enum { WIDTH{{id}} = {{id}} };\n"
      "{{/shapes}}\n"
      "{{> cuda/bias.cu}}\n", /* knows nothing of its constants here */
      "templates/cuda/bias.cu:" },
    { "{{#shapes}}\n"
      "{{id}};\n" /* a line that begins with a value */
      "{{/shapes}}\n",
      "templates/cuda/broken.cu:2: error: " },
    { "extern \"C\" __global__ void two_kernel(float *x) { asm(\"frob %0;\" : : \"l\"(x)); }\n",
      "ptxas " },
};

START_TEST(a_compile_error_names_the_template_and_its_line) {
    sc_template_map map = { 0 };
    sc_values *values = sc_values_make(pool);
    for (int i = 0; i < 2; i++)
        sc_values_int(sc_values_add(values, "shapes"), "id", i);
    char *text = NULL;
    size_t bytes;
    ck_assert_msg(!sc_template_render_text(&text, &bytes, &map, "templates/cuda/broken.cu",
                                           broken[_i].source, values, &err),
                  "%s", err.message);
    sc_nvrtc_code code;
    const char *log = NULL;
    ck_assert_int_eq(sc_cubin_compile(&code, NULL, &log, nvrtc, pool, "toy_cuda.cu", text, &map, 80,
                                      false, &err),
                     SC_EINPUT);
    ck_assert_msg(!strncmp(err.message, broken[_i].message, strlen(broken[_i].message)), "%s",
                  err.message);
    ck_assert_msg(strstr(err.message, "(for sm_80; correct the template)"), "%s", err.message);
    ck_assert_msg(!strstr(log, "toy_cuda.cu("), "%s", log);
    free(map.piece);
    free(text);
}
END_TEST

/* ---- exports ---- */

START_TEST(an_architecture_that_nvrtc_does_not_know_is_named) {
    sc_nvrtc_code code;
    const char *log;
    ck_assert_int_eq(sc_nvrtc_compile(&code, NULL, &log, nvrtc, pool, "x.cu", "", 999, false, &err),
                     SC_EENV);
    char wanted[160];
    const int version = sc_nvrtc_version(nvrtc);
    snprintf(wanted, sizeof wanted, "--arch: \"sm_999\" is unknown to NVRTC %d.%d (",
             version / 1000, version % 1000 / 10);
    ck_assert_msg(strstr(err.message, wanted) == err.message, "%s", err.message);
}
END_TEST

/* Nor does a later day's: nothing in a cubin is of the clock. */
START_TEST(real_cubins_do_not_depend_on_where_when_and_by_whom) {
    char *talk;
    const int rc = run(
        NULL, &talk,
        "H=$(mktemp -d) && S=$(realpath $SLIPCAST) && M=$(realpath " TINY "qwen2_sliding) && "
        "$S export $M -o $H/x --quiet --target cuda --arch generic,sm_80,sm_100 && sleep 1.1 && "
        "mkdir -p $H/a/tmp && (umask 077; cd $H/a; HOME=/ USER=x TZ=Asia/Tokyo TMPDIR=$H/a/tmp "
        "LC_ALL=C $S export $M -o ../y --quiet --target cuda --arch sm_100,sm_80,generic) && "
        "diff -r $H/x $H/y && ! grep -rlF -e $H -e $PWD $H/x && $S verify $H/x $M && rm -r $H");
    ck_assert_msg(!rc, "%s", talk);
    free(talk);
}
END_TEST

/* One line when there is no NVRTC. */
static bool has_nvrtc(void) {
    sc_pool *own = sc_pool_create();
    sc_error missing = { 0 };
    const bool there = own && !sc_nvrtc_open(&nvrtc, own, &missing);
    if (!there)
        printf("nvrtc: left out: %s\n", missing.message);
    sc_pool_destroy(own);
    return there;
}

Suite *nvrtc_suite(void) {
    Suite *suite = suite_create("nvrtc");
    if (*cast_sanitize) { /* minutes of compilers and fibers: without sanitizers alone */
        printf("nvrtc: left out under sanitizers\n");
        return suite;
    }
    TCase *tests = tcase_create("compile");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 600);
    if (has_nvrtc()) {
        tcase_add_loop_test(tests, every_kernel_compiles_and_none_of_decode_spills, 0,
                            MODELS * SMS);
        tcase_add_loop_test(tests, a_compile_error_names_the_template_and_its_line, 0,
                            (int)(sizeof broken / sizeof *broken));
        tcase_add_test(tests, an_architecture_that_nvrtc_does_not_know_is_named);
        tcase_add_test(tests, real_cubins_do_not_depend_on_where_when_and_by_whom);
    }
    suite_add_tcase(suite, tests);
    return suite;
}
