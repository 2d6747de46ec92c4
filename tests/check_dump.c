/* check_dump.c - runtime/dump.h: the bytes are safetensors, and a failure leaves no file. */
#include "../runtime/dump.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

Suite *dump_suite(void);

static char folder[64], path[128];

static void make_folder(void) {
    strcpy(folder, "/tmp/check_dump.XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/out.safetensors", folder);
}

static void remove_folder(void) {
    unlink(path);
    ck_assert_int_eq(rmdir(folder), 0); /* fails if anything was left aside */
}

static size_t read_file(unsigned char *data, size_t room) {
    FILE *file = fopen(path, "rb");
    ck_assert_ptr_nonnull(file);
    size_t bytes = fread(data, 1, room, file);
    fclose(file);
    return bytes;
}

START_TEST(writes_safetensors) {
    static const float f32[6] = { 1, 2, 3, 4, 5, 6 };
    static const int32_t i32[1] = { -7 };
    static const uint16_t bf16[3] = { 0x3f80, 0x4000, 0x4040 };
    static const int64_t shape[2] = { 2, 3 }, three = 3, none[2] = { 0, 4 };
    static const char header[] =
        "{\"f\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,24]},"
        "\"e\":{\"dtype\":\"F32\",\"shape\":[0,4],\"data_offsets\":[24,24]},"
        "\"i\":{\"dtype\":\"I32\",\"shape\":[],\"data_offsets\":[24,28]},"
        "\"b\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[28,34]},"
        "\"h\":{\"dtype\":\"F16\",\"shape\":[3],\"data_offsets\":[34,40]}}";
    sc_dump *dump;
    sc_error err;
    ck_assert_int_eq(sc_dump_begin(&dump, path), SC_OK);
    ck_assert_int_eq(sc_dump_add(dump, "b", "BF16", 1, &three, bf16), SC_OK);
    ck_assert_int_eq(sc_dump_add(dump, "h", "F16", 1, &three, bf16), SC_OK);
    ck_assert_int_eq(sc_dump_add(dump, "f", "F32", 2, shape, f32), SC_OK);
    ck_assert_int_eq(sc_dump_add(dump, "e", "F32", 2, none, NULL), SC_OK);
    ck_assert_int_eq(sc_dump_add(dump, "i", "I32", 0, NULL, i32), SC_OK);
    ck_assert_int_eq(sc_dump_end(dump, &err), SC_OK);

    unsigned char data[1024];
    size_t bytes = read_file(data, sizeof data), text = sizeof header - 1;
    size_t padded = (text + 7) / 8 * 8;
    ck_assert_uint_eq(bytes, 8 + padded + 40);
    ck_assert_uint_eq(data[0] + 256u * data[1], padded);
    ck_assert_mem_eq(data + 2, "\0\0\0\0\0\0", 6);
    ck_assert_mem_eq(data + 8, header, text);
    for (size_t i = text; i < padded; i++)
        ck_assert_int_eq(data[8 + i], ' ');
    ck_assert_mem_eq(data + 8 + padded, f32, 24);
    ck_assert_mem_eq(data + 8 + padded + 24, i32, 4);
    ck_assert_mem_eq(data + 8 + padded + 28, bf16, 6);
}
END_TEST

START_TEST(many_and_none) {
    static const float one = 1;
    for (int count = 0; count <= 200; count += 100) {
        sc_dump *dump;
        ck_assert_int_eq(sc_dump_begin(&dump, path), SC_OK);
        for (int i = 0; i < count; i++) {
            char name[32];
            snprintf(name, sizeof name, "layers.%d", i);
            ck_assert_int_eq(sc_dump_add(dump, name, "F32", 0, NULL, &one), SC_OK);
        }
        ck_assert_int_eq(sc_dump_end(dump, NULL), SC_OK);
    }
}
END_TEST

static void refuses(const char *name, const char *dtype, int rank, const int64_t *shape,
                    const char *reason) {
    static const float one = 1;
    sc_dump *dump;
    sc_error err;
    ck_assert_int_eq(sc_dump_begin(&dump, path), SC_OK);
    ck_assert_int_eq(sc_dump_add(dump, "first", "F32", 0, NULL, &one), SC_OK);
    ck_assert_int_eq(sc_dump_add(dump, name, dtype, rank, shape, &one), SC_EUSAGE);
    ck_assert_int_eq(sc_dump_add(dump, "last", "F32", 0, NULL, &one), SC_EUSAGE);
    ck_assert_int_eq(sc_dump_end(dump, &err), SC_EUSAGE);
    ck_assert_msg(strstr(err.message, reason) != NULL, "%s", err.message);
    ck_assert_int_ne(access(path, F_OK), 0);
}

START_TEST(refuses_bad_tensors) {
    static const int64_t negative = -1, huge[3] = { INT64_MAX, 4, 4 };
    refuses("first", "F32", 0, NULL, "first: added twice");
    refuses("a\"b", "F32", 0, NULL, "not a tensor's name");
    refuses("__metadata__", "F32", 0, NULL, "not a tensor's name");
    refuses("x", "F64", 0, NULL, "\"F64\" is none of F32, I32, BF16, F16");
    refuses("x", "F32", 9, huge, "rank 9");
    refuses("x", "F32", 1, &negative, "negative or too large");
    refuses("x", "F32", 3, huge, "negative or too large");
}
END_TEST

START_TEST(says_why_it_cannot_write) {
    sc_dump *dump;
    sc_error err;
    ck_assert_int_eq(sc_dump_begin(&dump, "/nonexistent/out.safetensors"), SC_OK);
    ck_assert_int_eq(sc_dump_end(dump, &err), SC_EENV);
    ck_assert_ptr_nonnull(strstr(err.message, "cannot create: No such file"));
    ck_assert_int_eq(sc_dump_begin(&dump, folder), SC_OK); /* a folder: the rename fails */
    ck_assert_int_eq(sc_dump_add(NULL, "x", "F32", 0, NULL, &err), SC_EENV);
    static const int64_t three = 3;
    ck_assert_int_eq(sc_dump_add(dump, "x", "F32", 1, &three, "0123456789ab"), SC_OK);
    ck_assert_int_eq(sc_dump_end(dump, &err), SC_EENV);
    ck_assert_ptr_nonnull(strstr(err.message, "cannot write: Is a directory"));
    ck_assert_int_eq(sc_dump_end(NULL, &err), SC_EENV);
}
END_TEST

Suite *dump_suite(void) {
    Suite *suite = suite_create("dump");
    TCase *tests = tcase_create("dump");
    tcase_add_checked_fixture(tests, make_folder, remove_folder);
    tcase_add_test(tests, writes_safetensors);
    tcase_add_test(tests, many_and_none);
    tcase_add_test(tests, refuses_bad_tensors);
    tcase_add_test(tests, says_why_it_cannot_write);
    suite_add_tcase(suite, tests);
    return suite;
}
