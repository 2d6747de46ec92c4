/*
 * check_gpu_check.c - make gpu-check's program on the stand-in driver: what it writes, when it says
 * no, and when there is no device.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../codegen/json.h"
#include "support/cast.h"
#include "support/kernels.h"
#include "support/rig.h"
#include "support/run.h"

Suite *gpu_check_suite(void);

static const char folder[] = "build/test-castings/gpu-check";

/* Runs it with a small model, device code by what stands for nvcc. */
static int check(char **talk, const char *environment, const char *options) {
    char root[2048];
    ck_assert_ptr_nonnull(getcwd(root, sizeof root));
    return run(NULL, talk,
               "mkdir -p %s/made && cp %s %s/made/kernels.so && ROOT=%s HOST_KERNELS='%s' "
               "LD_LIBRARY_PATH=%s SC_STANDIN_KERNELS=./kernels.so %s %s/../gpu-check "
               "--slipcast $SLIPCAST --work %s/made --out %s/report.json --model small "
               "--nvcc %s/tests/cuda/nvcc --commit abc %s",
               folder, rig_kernels, folder, root, kernels_command(), standin_folder(), environment,
               standin_folder(), folder, folder, root, options);
}

static cJSON *report(void) {
    char path[256];
    cJSON *json = NULL;
    sc_error err = { 0 };
    snprintf(path, sizeof path, "%s/report.json", folder);
    ck_assert_msg(!sc_json_read(&json, path, 1 << 24, &err), "%s", err.message);
    return json;
}

static void begin(void) {
    ck_assert_int_eq(run(NULL, NULL, "rm -rf %s && mkdir -p %s", folder, folder), 0);
    rig_build();
}

static double number(const cJSON *object, const char *key) {
    const cJSON *item = sc_json_get(object, key);
    ck_assert_msg(cJSON_IsNumber(item), "%s: no number", key);
    return item->valuedouble;
}

static const char *text(const cJSON *object, const char *key) {
    const cJSON *item = sc_json_get(object, key);
    ck_assert_msg(cJSON_IsString(item), "%s: no text", key);
    return item->valuestring;
}

static bool is_ok(const cJSON *object) { return cJSON_IsTrue(sc_json_get(object, "ok")); }

static const cJSON *figure(const cJSON *json, const char *name) {
    const cJSON *one;
    cJSON_ArrayForEach(one, sc_json_get(sc_json_get(json, "bench"), "figures")) {
        if (!strcmp(text(one, "name"), name))
            return one;
    }
    ck_abort_msg("%s: there is no such figure", name);
    return NULL;
}

/* |a - b| within a millionth. */
static void near(double a, double b) {
    ck_assert_msg(a > b * (1 - 1e-6) && a < b * (1 + 1e-6), "%.9g, it should be %.9g", a, b);
}

START_TEST(tiny_models_and_figures_are_in_one_report) {
    begin();
    ck_assert_int_eq(check(NULL, "",
                           "--families llama "
                           "--variants resident,batch2,offloading,offload-weights "
                           "--share 1e-9 --offload-share 1e-9"),
                     0);
    cJSON *json = report();
    ck_assert(is_ok(json));
    ck_assert_str_eq(text(json, "commit"), "abc");
    ck_assert_str_eq(text(sc_json_get(json, "device"), "name"), "Stand-in 0");
    ck_assert_double_eq(number(sc_json_get(json, "device"), "sm"), 90);
    ck_assert_double_eq(number(sc_json_get(json, "device"), "driver"), 13000);
    ck_assert_double_gt(number(sc_json_get(json, "machine"), "processors"), 0);
    ck_assert_int_gt((int)strlen(text(sc_json_get(json, "versions"), "compiler")), 0);
    ck_assert_double_gt(number(json, "seconds"), 0);

    /* Three cases of one row in three variants, one of two rows; with the graph and without. */
    const cJSON *golden, *goldens = sc_json_get(json, "goldens");
    int llamas = 0, graphs = 0, offloaded = 0;
    cJSON_ArrayForEach(golden, goldens) {
        ck_assert(is_ok(golden));
        llamas += !strcmp(text(golden, "family"), "llama");
        graphs += cJSON_IsTrue(sc_json_get(golden, "graph"));
        offloaded += !strcmp(text(golden, "variant"), "offloading");
        ck_assert_double_le(number(golden, "largest_error"), number(golden, "tolerance"));
    }
    ck_assert_int_eq(llamas, 2 * (3 * 3 + 1));
    ck_assert_int_ge(offloaded, 2 * 3); /* ids and logits are the reference's there too */
    ck_assert_int_eq(2 * graphs, cJSON_GetArraySize(goldens));

    /* By hand: 3 layers of [64, 16 * 12] attention and 3 [64, 96] of the ffn, lm_head [256, 64],
     * 2 bytes each; 7 norms of 64 floats; K and V of 18 tokens, 2 heads of 16. */
    const double layers = 3 * 64 * (16 * 12 + 3 * 96) * 2.0;
    const double read = layers + 256 * 64 * 2 + 7 * 64 * 4 + 3 * 2 * 18 * 2 * 16 * 2.0;
    near(number(figure(json, "decode_bytes_per_token"), "value"), read);
    near(number(figure(json, "offload_weights_bytes_per_token"), "value"), layers + 6 * 64 * 4);
    near(number(figure(json, "offloading_bytes_per_token"), "value"), 3 * 2 * 64 * 2 * 16 * 2.0);
    /* The stand-in's memory: 1 GHz, 64 bits, both edges. */
    near(number(figure(json, "decode_share_of_bandwidth"), "value"),
         read * number(figure(json, "decode"), "value") / 16e9);
    near(number(figure(json, "offloading_share_of_pcie"), "value"),
         number(figure(json, "offloading_bytes_per_token"), "value") *
             number(figure(json, "offloading_decode"), "value") /
             (1e9 * number(figure(json, "pinned_to_device"), "value")));
    ck_assert_double_eq(number(figure(json, "decode_share_of_bandwidth"), "target"), 1e-9);
    ck_assert_double_gt(number(figure(json, "prefill"), "value"), 0);
    ck_assert_double_gt(number(figure(json, "decode_without_graph"), "value"), 0);
    cJSON_Delete(json);
}
END_TEST

START_TEST(a_figure_below_its_target_is_a_no) {
    char *talk = NULL;
    begin();
    ck_assert_int_eq(check(&talk, "", "--only bench --bandwidth 1000 --offload-share 1e-9"), 1);
    ck_assert_msg(strstr(talk, "gpu-check: no: see build/test-castings/gpu-check/report.json\n"),
                  "%s", talk);
    cJSON *json = report();
    ck_assert(!is_ok(json));
    ck_assert(!is_ok(figure(json, "decode_share_of_bandwidth")));
    ck_assert_double_eq(number(figure(json, "decode_share_of_bandwidth"), "target"), 0.85);
    ck_assert(is_ok(figure(json, "offload_weights_share_of_pcie")));
    ck_assert_double_eq(number(sc_json_get(json, "bench"), "bandwidth_bytes_per_second"), 1e12);
    cJSON_Delete(json);
    free(talk);
}
END_TEST

/* One id of one case is another; the other cases are as they were. Beside it a model of a family
 * that there is not. */
static void spoil(void) {
    cJSON *json = NULL;
    char path[256];
    ck_assert_int_eq(
        run(NULL, NULL,
            "mkdir -p %s/tiny && cd %s/tiny && cp -r $OLDPWD/tests/reference/tiny/llama . && "
            "cp -r llama strange && sed -i 's/\"model_type\": \"llama\"/\"model_type\": "
            "\"strange\"/' strange/config.json",
            folder, folder),
        0);
    snprintf(path, sizeof path, "%s/tiny/llama/expected.json", folder);
    ck_assert_int_eq(sc_json_read(&json, path, 1 << 24, NULL), 0);
    cJSON *one = cJSON_GetObjectItem(cJSON_GetObjectItem(json, "cases"), "long");
    cJSON *id = cJSON_GetArrayItem(cJSON_GetObjectItem(one, "tokens")->child, 2);
    cJSON_SetNumberHelper(id, id->valueint ? id->valueint - 1 : 1);
    char *whole = cJSON_Print(json);
    cast_write(path, whole, strlen(whole));
    free(whole);
    cJSON_Delete(json);
}

START_TEST(a_wrong_golden_is_a_no_and_the_others_are_heard) {
    char options[256], *talk = NULL;
    begin();
    spoil();
    snprintf(options, sizeof options, "--only goldens --variants resident --reference %s/tiny",
             folder);
    ck_assert_int_eq(check(&talk, "", options), 1);
    cJSON *json = report();
    const cJSON *golden;
    int good = 0, bad = 0;
    ck_assert(!is_ok(json));
    cJSON_ArrayForEach(golden, sc_json_get(json, "goldens")) {
        const bool ok = is_ok(golden);
        ck_assert_int_eq(ok, strcmp(text(golden, "case"), "long") != 0);
        ck_assert(ok || strstr(text(golden, "reason"), "the reference has"));
        good += ok;
        bad += !ok;
    }
    ck_assert_int_eq(good, 4);
    ck_assert_int_eq(bad, 2);
    const cJSON *left_out = sc_json_get(json, "left_out");
    ck_assert_int_eq(cJSON_GetArraySize(left_out), 1);
    ck_assert_str_eq(text(left_out->child, "family"), "strange");
    ck_assert_ptr_nonnull(strstr(text(left_out->child, "reason"), "\"strange\""));
    cJSON_Delete(json);
    free(talk);
}
END_TEST

static const struct {
    const char *environment, *options, *talk;
    int code;
} refused[] = {
    { "SC_STANDIN_DEVICES=0", "", "cuda:0: no such device: there are 0 (--device cpu)\n", 4 },
    { "", "--device cuda:1", "cuda:1: no such device: there are 1 (--device cpu)\n", 4 },
    { "", "--share much", "gpu-check: --share: \"much\" is no positive number\n", 2 },
    { "", "--only", "gpu-check: --only: is unknown or lacks its value\n", 2 },
    { "", "--families none", NULL, 2 },
};

START_TEST(no_device_is_one_line) {
    char *talk = NULL;
    begin();
    ck_assert_int_eq(check(&talk, refused[_i].environment, refused[_i].options), refused[_i].code);
    if (refused[_i].talk)
        ck_assert_str_eq(talk, refused[_i].talk);
    free(talk);
}
END_TEST

START_TEST(no_driver_is_one_line) {
    char *talk = NULL;
    begin();
    if (!run(NULL, &talk, "ldconfig -p | grep -q libcuda.so.1"))
        printf("gpu_check: there is a driver, so its absence is left out\n");
    else {
        free(talk);
        ck_assert_int_eq(check(&talk, "LD_LIBRARY_PATH=", ""), 4);
        ck_assert_msg(!strncmp(talk, "cuda:0: no driver: libcuda.so.1: ", 33), "%s", talk);
        ck_assert_ptr_eq(strchr(talk, '\n'), talk + strlen(talk) - 1);
    }
    free(talk);
}
END_TEST

Suite *gpu_check_suite(void) {
    Suite *suite = suite_create("gpu_check");
    if (!kernels_available("tests of make gpu-check"))
        return suite;
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 600);
    if (!*cast_sanitize) { /* minutes of compilers and fibers: without sanitizers alone */
        tcase_add_test(all, tiny_models_and_figures_are_in_one_report);
        tcase_add_test(all, a_figure_below_its_target_is_a_no);
        tcase_add_test(all, a_wrong_golden_is_a_no_and_the_others_are_heard);
    }
    tcase_add_loop_test(all, no_device_is_one_line, 0, sizeof refused / sizeof *refused);
    tcase_add_test(all, no_driver_is_one_line);
    suite_add_tcase(suite, all);
    return suite;
}
