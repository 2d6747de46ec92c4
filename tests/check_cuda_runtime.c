/* check_cuda_runtime.c - runtime/cuda.c on the stand-in driver: what it refuses, copies, closes. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "support/kernels.h"
#include "support/rig.h"

Suite *cuda_runtime_suite(void);

/* Code for sm_80 alone, which by its PTX every later architecture takes. */
static const unsigned char image[] = "// PTX";
static const sc_cubin codes[] = { { 80, 0, image, sizeof image }, { 80, 1, image, sizeof image } };
static const sc_cubin late = { 100, 0, image, sizeof image };

static const struct {
    int sm;
    sc_cubins cubins;
    const char *message;
} strangers[] = {
    { 75,
      { 13000, 2, codes },
      "cuda:0: its architecture sm_75 has no device code in this casting, which has sm_80, sm_80 "
      "(PTX) (export can make it for sm_80 and later; --device cpu)" },
    { 89,
      { 13000, 1, &late },
      "cuda:0: its architecture sm_89 has no device code in this casting, which has sm_100 (export "
      "with --arch sm_80, or --device cpu)" },
};

START_TEST(the_way_out_is_one_that_export_has) {
    sc_cuda *cuda = NULL;
    sc_error err = { 0 };
    standin_open()->reset(&(sc_standin_settings){ .sm = strangers[_i].sm });
    ck_assert_int_eq(sc_cuda_open(&cuda, "cuda:0", &strangers[_i].cubins, 0, &err), SC_EENV);
    ck_assert_str_eq(err.message, strangers[_i].message);
    standin_check_clean(__func__);
}
END_TEST

static sc_cuda *open_device(int64_t fail) {
    const sc_cubins cubins = { 13000, 2, codes };
    sc_cuda *cuda = NULL;
    sc_error err = { 0 };
    standin_open()->reset(&(sc_standin_settings){ .kernels = rig_kernels, .fail = fail });
    ck_assert_msg(!sc_cuda_open(&cuda, "cuda:0", &cubins, 0, &err), "%s", err.message);
    return cuda;
}

/* The context is let go all the same, and what else is on the stack stays there. */
START_TEST(a_close_that_cannot_make_the_context_current_pops_no_other) {
    sc_standin_log log;
    const standin *driver = standin_open();
    CUcontext mine = NULL, popped = NULL;
    sc_cuda *cuda = open_device(0);
    driver->log(&log);
    sc_cuda_close(cuda);
    standin_check_clean(__func__);
    cuda = open_device(log.calls + 3); /* behind retain and push below */
    ck_assert_int_eq(driver->api.DevicePrimaryCtxRetain(&mine, 0), 0);
    ck_assert_int_eq(driver->api.CtxPushCurrent(mine), 0);
    sc_cuda_close(cuda);
    driver->log(&log);
    ck_assert_str_eq(log.failed, "cuCtxPushCurrent");
    ck_assert_int_eq(driver->api.CtxPopCurrent(&popped), 0);
    ck_assert_ptr_eq(popped, mine);
    ck_assert_int_eq(driver->api.DevicePrimaryCtxRelease(0), 0);
    standin_check_clean(__func__);
}
END_TEST

/* ---- runs that lie further apart than a copy in two dimensions takes ---- */

enum { MOST_COPIES = 4 };
static struct {
    CUdeviceptr to, from;
    size_t bytes;
} copied[MOST_COPIES];
static int copies, copies_2d;

static CUresult take_copy(CUdeviceptr to, CUdeviceptr from, size_t bytes, CUstream stream) {
    (void)stream;
    ck_assert_int_lt(copies, MOST_COPIES);
    copied[copies].to = to;
    copied[copies].from = from;
    copied[copies++].bytes = bytes;
    return 0;
}

static CUresult take_copy_2d(const sc_copy_2d *copy, CUstream stream) {
    enum { INVALID_VALUE = 1 };
    (void)stream;
    copies_2d++;
    return copy->srcPitch > 0x7fffffff || copy->dstPitch > 0x7fffffff ? INVALID_VALUE : 0;
}

static void *at(uint64_t address) { return (void *)(uintptr_t)address; }

START_TEST(runs_too_far_apart_for_one_copy_are_copied_one_by_one) {
    sc_cuda cuda = { .api = { .MemcpyAsync = take_copy, .Memcpy2DAsync = take_copy_2d } };
    const size_t far = 0x80000000;
    copies = copies_2d = 0;
    sc_cuda_copy_runs(&cuda, NULL, at(0x1000), far, at(0x2000), 96, 64, 3);
    ck_assert_int_eq(copies, 3);
    ck_assert_int_eq(copies_2d, 0);
    for (int i = 0; i < 3; i++) {
        ck_assert_uint_eq(copied[i].to, 0x1000 + 0x80000000ull * (unsigned)i);
        ck_assert_uint_eq(copied[i].from, 0x2000 + 96ull * (unsigned)i);
        ck_assert_uint_eq(copied[i].bytes, 64);
    }
    copies = 0;
    sc_cuda_copy_runs(&cuda, NULL, at(0x1000), 96, at(0x2000), far, 64, 2);
    ck_assert_int_eq(copies, 2);
    ck_assert_uint_eq(copied[1].from, 0x80002000);
    copies = 0;
    sc_cuda_copy_runs(&cuda, NULL, at(0x1000), far - 1, at(0x2000), far - 1, 64, 2);
    ck_assert_int_eq(copies, 0);
    ck_assert_int_eq(copies_2d, 1);
    sc_cuda_copy_runs(&cuda, NULL, at(0x1000), far, at(0x2000), far, far,
                      2); /* one run, in truth */
    ck_assert_int_eq(copies, 1);
    ck_assert_uint_eq(copied[0].bytes, 2 * far);
    ck_assert_str_eq(cuda.failed, "");
}
END_TEST

Suite *cuda_runtime_suite(void) {
    Suite *suite = suite_create("cuda_runtime");
    if (!kernels_available("tests of runtime/cuda.c"))
        return suite;
    TCase *tests = tcase_create("all");
    tcase_add_unchecked_fixture(tests, rig_build, NULL);
    tcase_add_loop_test(tests, the_way_out_is_one_that_export_has, 0,
                        sizeof strangers / sizeof *strangers);
    tcase_add_test(tests, a_close_that_cannot_make_the_context_current_pops_no_other);
    tcase_add_test(tests, runs_too_far_apart_for_one_copy_are_copied_one_by_one);
    suite_add_tcase(suite, tests);
    return suite;
}
