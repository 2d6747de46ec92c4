/* check_standin_errors.c - the stand-in driver's errors, settings, failing calls and lost waits. */
#include <check.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "support/cast.h"
#include "support/kernels.h"
#include "support/rig.h"

Suite *standin_errors_suite(void);

enum {
    INVALID_VALUE = 1,
    OUT_OF_MEMORY = 2,
    NOT_INITIALIZED = 3,
    NO_DEVICE = 100,
    INVALID_DEVICE = 101,
    INVALID_IMAGE = 200,
    INVALID_CONTEXT = 201,
    FILE_NOT_FOUND = 301,
    INVALID_HANDLE = 400,
    NOT_FOUND = 500,
    CONTEXT_IS_DESTROYED = 709,
    NOT_SUPPORTED = 801,
    UNKNOWN = 999
};

static rig r;

static const sc_cuda_api *reset(const sc_standin_settings *settings) {
    standin_open()->reset(settings);
    return &standin_open()->api;
}

START_TEST(a_driver_wants_to_be_initialised) {
    const sc_cuda_api *api = reset(&(sc_standin_settings){ .devices = 2, .sm = 90 });
    int n = -1;
    CUdevice device = -1;
    CUcontext context = NULL;
    char name[64];
    ck_assert_int_eq(api->DeviceGetCount(&n), NOT_INITIALIZED);
    ck_assert_int_eq(api->DevicePrimaryCtxRetain(&context, 0), NOT_INITIALIZED);
    ck_assert_int_eq(api->DriverGetVersion(&n), 0);
    ck_assert_int_eq(n, 13000);
    ck_assert_int_eq(api->Init(1), INVALID_VALUE);
    ck_assert_int_eq(api->Init(0), 0);
    ck_assert_int_eq(api->DeviceGetCount(&n), 0);
    ck_assert_int_eq(n, 2);
    ck_assert_int_eq(api->DeviceGet(&device, 2), INVALID_DEVICE);
    ck_assert_int_eq(api->DeviceGet(&device, 1), 0);
    ck_assert_int_eq(api->DeviceGetName(name, sizeof name, device), 0);
    ck_assert_str_eq(name, "Stand-in 1");
    ck_assert_int_eq(api->DeviceGetAttribute(&n, 75, device), 0);
    ck_assert_int_eq(n, 9);
    ck_assert_int_eq(api->DeviceGetAttribute(&n, 76, device), 0);
    ck_assert_int_eq(n, 0);
    ck_assert_int_eq(api->DeviceGetAttribute(&n, 76, -1), INVALID_DEVICE);
}
END_TEST

START_TEST(there_may_be_no_device) {
    const sc_cuda_api *api = reset(&(sc_standin_settings){ .devices = -1, .driver = 12040 });
    int n = -1;
    ck_assert_int_eq(api->Init(0), NO_DEVICE);
    ck_assert_int_eq(api->DriverGetVersion(&n), 0);
    ck_assert_int_eq(n, 12040);
    ck_assert_int_eq(api->DeviceGetCount(&n), NOT_INITIALIZED);
}
END_TEST

START_TEST(a_call_wants_a_current_context) {
    const sc_cuda_api *api = reset(&(sc_standin_settings){ .seed = 1 });
    CUdeviceptr at;
    CUcontext context = NULL, popped = NULL;
    ck_assert_int_eq(api->MemAlloc(&at, 8), NOT_INITIALIZED);
    ck_assert_int_eq(api->Init(0), 0);
    ck_assert_int_eq(api->MemAlloc(&at, 8), INVALID_CONTEXT);
    ck_assert_int_eq(api->CtxPopCurrent(&popped), INVALID_CONTEXT);
    ck_assert_int_eq(api->CtxPushCurrent(NULL), INVALID_CONTEXT);
    ck_assert_int_eq(api->DevicePrimaryCtxRetain(&context, 0), 0);
    ck_assert_int_eq(api->MemAlloc(&at, 8), INVALID_CONTEXT);
    ck_assert_int_eq(api->CtxPushCurrent(context), 0);
    ck_assert_int_eq(api->MemAlloc(&at, 8), 0);
    ck_assert_int_eq(api->MemFree(at), 0);
    ck_assert_int_eq(api->DevicePrimaryCtxRelease(0), 0);
    ck_assert_int_eq(api->MemAlloc(&at, 8), CONTEXT_IS_DESTROYED);
    ck_assert_int_eq(api->CtxPopCurrent(&popped), 0);
    ck_assert_ptr_eq(popped, context);
    ck_assert_int_eq(api->DevicePrimaryCtxRelease(0), INVALID_CONTEXT);
    standin_check_clean(__func__);
}
END_TEST

START_TEST(memory_runs_out) {
    rig_open(&r, &(sc_standin_settings){ .memory = 1 << 20 });
    CUdeviceptr first = 0, second = 0;
    size_t left = 0, all = 0;
    ck_assert_int_eq(r.api->MemAlloc(&first, 0), INVALID_VALUE);
    ck_assert_int_eq(r.api->MemAlloc(&first, (1 << 20) + 1), OUT_OF_MEMORY);
    ck_assert_int_eq(r.api->MemAlloc(&first, SIZE_MAX), OUT_OF_MEMORY);
    RIG(&r, MemAlloc, &first, 1000);
    RIG(&r, MemGetInfo, &left, &all);
    ck_assert_uint_eq(all, 1 << 20);
    ck_assert_uint_eq(left, all - 1024);
    ck_assert_int_eq(r.api->MemAlloc(&second, left + 1), OUT_OF_MEMORY);
    RIG(&r, MemAlloc, &second, left);
    RIG(&r, MemFree, first);
    RIG(&r, MemFree, second);
    RIG(&r, MemGetInfo, &left, &all);
    ck_assert_uint_eq(left, all);
    rig_close(&r);
    standin_check_clean(__func__);
}
END_TEST

START_TEST(addresses_tell_whose_they_are) {
    rig_open_seed(&r, 1);
    unsigned char *device = rig_device(&r, 300), *pinned = rig_pinned(&r, 300);
    unsigned type = 0;
    int plain = 0;
    ck_assert_uint_eq(rig_word(device) % 256, 0);
    RIG(&r, PointerGetAttribute, &type, 2, rig_word(device + 299));
    ck_assert_uint_eq(type, 2);
    RIG(&r, PointerGetAttribute, &type, 2, rig_word(pinned));
    ck_assert_uint_eq(type, 1);
    ck_assert_int_eq(r.api->PointerGetAttribute(&type, 2, rig_word(&plain)), INVALID_VALUE);
    ck_assert_int_eq(r.api->PointerGetAttribute(&type, 2, rig_word(device + 300)), INVALID_VALUE);
    ck_assert_int_eq(r.api->MemsetD8Async(rig_word(pinned), 0, 8, r.a), INVALID_VALUE);
    for (int i = 0; i < 300; i++)
        ck_assert_int_eq(device[i] & pinned[i], 0xff);
    rig_free(&r, device);
    rig_free_pinned(&r, pinned);
    rig_close(&r);
    standin_check_clean(__func__);
}
END_TEST

START_TEST(code_must_look_like_code) {
    rig_open_seed(&r, 1);
    CUmodule module = NULL;
    CUfunction function = NULL;
    ck_assert_int_eq(r.api->ModuleLoadData(&module, "no code"), INVALID_IMAGE);
    ck_assert_int_eq(r.api->ModuleLoadData(&module, NULL), INVALID_IMAGE);
    RIG(&r, ModuleLoadData, &module, "\177ELF\2");
    RIG(&r, ModuleUnload, module);
    ck_assert_int_eq(r.api->ModuleUnload(module), INVALID_HANDLE);
    RIG(&r, ModuleLoadData, &module, ".version 7.0");
    ck_assert_int_eq(r.api->ModuleGetFunction(&function, module, "no_kernel"), NOT_FOUND);
    RIG(&r, ModuleGetFunction, &function, module, "write_kernel");
    RIG(&r, ModuleUnload, module);
    ck_assert_int_eq(r.api->LaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, r.a, NULL, NULL),
                     INVALID_HANDLE);
    rig_close(&r);
    standin_check_clean(__func__);
}
END_TEST

static const struct {
    unsigned grid[3], block[3], shared;
    int result;
} sizes[] = {
    { { 1, 1, 1 }, { 1024, 1, 1 }, 0, 0 },
    { { 1, 1, 1 }, { 32, 32, 1 }, 48 * 1024, 0 },
    { { 1, 1, 1 }, { 1025, 1, 1 }, 0, INVALID_VALUE },
    { { 1, 1, 1 }, { 32, 33, 1 }, 0, INVALID_VALUE },
    { { 1, 1, 1 }, { 1, 1, 65 }, 0, INVALID_VALUE },
    { { 1, 1, 1 }, { 0, 1, 1 }, 0, INVALID_VALUE },
    { { 0, 1, 1 }, { 1, 1, 1 }, 0, INVALID_VALUE },
    { { 1, 65536, 1 }, { 1, 1, 1 }, 0, INVALID_VALUE },
    { { 1, 1, 1 }, { 1, 1, 1 }, 48 * 1024 + 1, INVALID_VALUE },
};

START_TEST(a_launch_has_sizes_of_a_device) {
    rig_open_seed(&r, 1);
    CUfunction function = NULL;
    int *at = (int *)(void *)rig_device(&r, 4);
    const uint64_t words[2] = { rig_word(at), 7 };
    size_t bytes = sizeof words;
    void *extra[] = { (void *)1, (void *)(uintptr_t)words, (void *)2, &bytes, NULL };
    RIG(&r, ModuleGetFunction, &function, r.module, "write_kernel");
    const unsigned *g = sizes[_i].grid, *b = sizes[_i].block;
    ck_assert_int_eq(r.api->LaunchKernel(function, g[0], g[1], g[2], b[0], b[1], b[2],
                                         sizes[_i].shared, r.a, NULL, extra),
                     sizes[_i].result);
    void *parameters[1] = { at };
    ck_assert_int_eq(r.api->LaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, r.a, parameters, NULL),
                     NOT_SUPPORTED);
    ck_assert_int_eq(r.api->LaunchKernel(function, 1, 1, 1, 1, 1, 1, 0, NULL, NULL, extra),
                     INVALID_HANDLE);
    RIG(&r, StreamSynchronize, r.a);
    ck_assert_int_eq(*at, sizes[_i].result ? -1 : 7);
    rig_free(&r, at);
    rig_close(&r);
    standin_check_clean(__func__);
}
END_TEST

START_TEST(rows_must_fit_their_pitch) {
    rig_open_seed(&r, 1);
    void *device = rig_device(&r, 64), *pinned = rig_pinned(&r, 64);
    sc_copy_2d copy = { .srcMemoryType = 4,
                        .srcDevice = rig_word(pinned),
                        .srcPitch = 8,
                        .dstMemoryType = 4,
                        .dstDevice = rig_word(device),
                        .dstPitch = 8,
                        .WidthInBytes = 9,
                        .Height = 1 };
    ck_assert_int_eq(r.api->Memcpy2DAsync(&copy, r.a), INVALID_VALUE);
    copy.srcPitch = copy.dstPitch = 0x80000000; /* CU_DEVICE_ATTRIBUTE_MAX_PITCH is one less */
    ck_assert_int_eq(r.api->Memcpy2DAsync(&copy, r.a), INVALID_VALUE);
    copy.srcPitch = copy.dstPitch = 16;
    copy.srcMemoryType = 3;
    ck_assert_int_eq(r.api->Memcpy2DAsync(&copy, r.a), INVALID_VALUE);
    copy.srcMemoryType = 4;
    copy.Height = 0;
    RIG(&r, Memcpy2DAsync, &copy, r.a);
    rig_free(&r, device);
    rig_free_pinned(&r, pinned);
    rig_close(&r);
    standin_check_clean(__func__);
}
END_TEST

START_TEST(errors_have_names) {
    const sc_cuda_api *api = reset(&(sc_standin_settings){ .fail = 1 }); /* texts never fail */
    const char *text = NULL;
    ck_assert_int_eq(api->GetErrorName(2, &text), 0);
    ck_assert_str_eq(text, "CUDA_ERROR_OUT_OF_MEMORY");
    ck_assert_int_eq(api->GetErrorString(2, &text), 0);
    ck_assert_str_eq(text, "out of memory");
    ck_assert_int_eq(api->GetErrorName(12345, &text), INVALID_VALUE);
    ck_assert_ptr_null(text);
}
END_TEST

/* --- what runtime/cuda.c makes of it --- */

static const sc_cubin code = { 80, 1, (const unsigned char *)"// code", 8 };
static const sc_cubins codes = { 12000, 1, &code };

/* A device in use, in short; SC_OK or the error that was met. */
static int use_device(sc_error *err) {
    sc_cuda *cuda = NULL;
    unsigned char *x = NULL, *p = NULL, plain[64];
    CUevent event = NULL;
    int rc = sc_cuda_open(&cuda, "cuda", &codes, 64, err);
    if (rc)
        return rc;
    rc = sc_cuda_enter(cuda, err);
    if (rc) {
        sc_cuda_close(cuda);
        return rc;
    }
    rc = sc_cuda_alloc(cuda, &x, 64, err);
    if (!rc)
        rc = sc_cuda_alloc_host(cuda, &p, 64, err);
    if (!rc)
        rc = sc_cuda_event(cuda, &event, err);
    if (!rc) {
        memset(p, 5, 64);
        sc_cuda_copy(cuda, cuda->copies, x, p, 64);
        SC_CUDA(cuda, EventRecord, event, cuda->copies);
        SC_CUDA(cuda, StreamWaitEvent, cuda->compute, event, 0);
        sc_cuda_move_runs(cuda, cuda->compute, plain, 64, x, 64, 64, 1);
        rc = sc_cuda_finish(cuda, cuda->compute, err);
        if (!rc)
            rc = sc_cuda_finish(cuda, cuda->copies, err);
        ck_assert(rc || plain[63] == 5);
    }
    sc_cuda_wait(cuda);
    sc_cuda_free_event(cuda, event);
    sc_cuda_free(cuda, x);
    sc_cuda_free_host(cuda, p);
    sc_cuda_leave(cuda);
    sc_cuda_close(cuda);
    return rc;
}

/*
 * Whichever call fails, nothing is left, and it is noticed: all but the push of the close, and the
 * waits for both streams before what they use is freed, here and there.
 */
START_TEST(every_call_can_fail) {
    enum { UNNOTICED = 1 + 2 * 2 };
    int64_t calls = 0;
    int unnoticed = 0;
    for (int64_t fail = 0; fail <= calls; fail++) {
        sc_error err = { 0 };
        sc_standin_log log;
        reset(&(sc_standin_settings){ .seed = 2, .fail = fail, .kernels = rig_kernels });
        const int rc = use_device(&err);
        standin_open()->log(&log);
        ck_assert_msg(fail ? log.calls >= fail : rc == SC_OK, "%s", err.message);
        if (!fail)
            calls = log.calls;
        unnoticed += fail && !rc;
        if (fail != calls - 2) /* the push: what it cannot reach stays */
            standin_check_clean(__func__);
    }
    ck_assert_int_gt(calls, 20);
    ck_assert_int_eq(unnoticed, UNNOTICED);
}
END_TEST

/* Two writes that nothing orders, the second after a call that failed. */
static const char *race_after_failure(CUresult (*call)(void), const char *name) {
    static sc_standin_log log;
    rig_open_seed(&r, 1);
    standin_open()->log(&log);
    const int64_t before = log.calls + 2; /* the allocation, the first write */
    rig_close(&r);
    rig_open(&r, &(sc_standin_settings){ .seed = 1, .fail = before + 1, .quiet = 1 });
    unsigned char *x = rig_device(&r, 64);
    RIG(&r, MemsetD8Async, rig_word(x), 1, 64, r.a);
    ck_assert_int_eq(call(), UNKNOWN);
    RIG(&r, MemsetD8Async, rig_word(x), 2, 64, r.b);
    rig_free(&r, x);
    rig_close(&r);
    standin_open()->log(&log);
    ck_assert_str_eq(log.failed, name);
    return log.mistake;
}

static CUresult synchronize(void) { return r.api->StreamSynchronize(r.a); }
static CUresult record(void) { return r.api->EventRecord(r.event[0], r.a); }
static CUresult wait_event(void) { return r.api->StreamWaitEvent(r.b, r.event[0], 0); }
static CUresult ask(void) { return r.api->MemGetInfo(&(size_t){ 0 }, &(size_t){ 0 }); }

START_TEST(a_race_after_a_failed_wait_is_no_report) {
    ck_assert_str_eq(race_after_failure(synchronize, "cuStreamSynchronize"), "");
    ck_assert_str_eq(race_after_failure(record, "cuEventRecord"), "");
    ck_assert_str_eq(race_after_failure(wait_event, "cuStreamWaitEvent"), "");
    ck_assert_str_eq(race_after_failure(ask, "cuMemGetInfo"),
                     "cuMemsetD8Async writes what cuMemsetD8Async writes, and nothing orders them");
}
END_TEST

/* The wait of use_device: without it the bounce holds what the device had before, or part of it. */
START_TEST(a_lost_wait_is_a_report_or_wrong) {
    sc_error err = { 0 };
    sc_standin_log log;
    reset(&(sc_standin_settings){ .seed = 1, .kernels = rig_kernels });
    ck_assert_int_eq(use_device(&err), SC_OK);
    standin_open()->log(&log);
    ck_assert_int_eq(log.wait_places, 1);
    reset(&(sc_standin_settings){ .seed = 1, .drop_wait = 1, .kernels = rig_kernels, .quiet = 1 });
    ck_assert_int_eq(use_device(&err), SC_EENV);
    ck_assert_ptr_nonnull(strstr(err.message, "CUDA_ERROR_ILLEGAL_ADDRESS"));
    standin_open()->log(&log);
    ck_assert_str_eq(log.mistake,
                     "cuMemcpyAsync reads what cuMemcpyAsync writes, and nothing orders them");
}
END_TEST

START_TEST(what_is_left_is_counted) {
    rig_open_seed(&r, 1);
    CUdeviceptr at;
    sc_standin_log log;
    RIG(&r, MemAlloc, &at, 100);
    CUstream stream;
    RIG(&r, StreamCreate, &stream, 0);
    rig_close(&r);
    standin_open()->log(&log);
    ck_assert_int_eq(log.allocations, 1);
    ck_assert_int_eq(log.streams, 1);
    ck_assert_int_eq(log.contexts, 0);
    reset(NULL);
    standin_check_clean(__func__);
}
END_TEST

/* A process of its own, whose settings are its environment. */
START_TEST(the_environment_sets_it_too) {
    const char path[] = "build/test-castings/standin.log";
    fflush(NULL);
    const pid_t child = fork();
    if (!child) {
        setenv("SC_STANDIN_KERNELS", rig_kernels, 1);
        setenv("SC_STANDIN_SEED", "7", 1);
        setenv("SC_STANDIN_FAIL", "14", 1);
        setenv("SC_STANDIN_LOG", path, 1);
        setenv("SC_STANDIN_SM", "90", 1);
        setenv("SC_STANDIN_MEMORY", "100000", 1);
        reset(NULL);
        sc_error err;
        exit(use_device(&err) == SC_EENV ? 0 : 1);
    }
    int status = -1;
    size_t bytes = 0;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
    char *text = cast_file(path, &bytes);
    ck_assert_ptr_nonnull(strstr(text, "\nmistakes 0\nallocations 0\npinned 0\nstreams 0\n"));
    ck_assert_int_eq(strncmp(text, "failed cuCtxPushCurrent\ncalls ", 30), 0);
    free(text);
}
END_TEST

Suite *standin_errors_suite(void) {
    Suite *suite = suite_create("standin_errors");
    if (!kernels_available("standin_errors"))
        return suite;
    TCase *tests = tcase_create("errors");
    tcase_add_unchecked_fixture(tests, rig_build, NULL);
    tcase_set_timeout(tests, 60);
    tcase_add_test(tests, a_driver_wants_to_be_initialised);
    tcase_add_test(tests, there_may_be_no_device);
    tcase_add_test(tests, a_call_wants_a_current_context);
    tcase_add_test(tests, memory_runs_out);
    tcase_add_test(tests, addresses_tell_whose_they_are);
    tcase_add_test(tests, code_must_look_like_code);
    tcase_add_loop_test(tests, a_launch_has_sizes_of_a_device, 0,
                        (int)(sizeof sizes / sizeof *sizes));
    tcase_add_test(tests, rows_must_fit_their_pitch);
    tcase_add_test(tests, errors_have_names);
    tcase_add_test(tests, every_call_can_fail);
    tcase_add_test(tests, a_race_after_a_failed_wait_is_no_report);
    tcase_add_test(tests, a_lost_wait_is_a_report_or_wrong);
    tcase_add_test(tests, what_is_left_is_counted);
    tcase_add_test(tests, the_environment_sets_it_too);
    suite_add_tcase(suite, tests);
    return suite;
}
