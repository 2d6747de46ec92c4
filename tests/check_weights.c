/* check_weights.c - runtime/weights.h and runtime/checksum.h: only the right file is opened. */
#include "../runtime/checksum.h"
#include "../runtime/weights.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

Suite *weights_suite(void);

enum { FILE_BYTES = 64 + 256 };

typedef struct {
    sc_weights_header header;
    unsigned char data[FILE_BYTES - 64];
} image;

static char path[64];

static void make_path(void) {
    strcpy(path, "/tmp/check_weights.XXXXXX");
    int file = mkstemp(path);
    ck_assert_int_ge(file, 0);
    close(file);
}

static void remove_path(void) { unlink(path); }

static image good_image(void) {
    image im = { .header = { .magic = { 'S', 'C', 'W', 'E', 'I', 'G', 'H', '1' },
                             .bytes = FILE_BYTES } };
    for (size_t i = 0; i < sizeof im.data; i++)
        im.data[i] = (unsigned char)(i * 7);
    for (size_t i = 0; i < sizeof im.header.layout; i++)
        im.header.layout[i] = (uint8_t)(i + 0xa0);
    im.header.checksum = sc_checksum_of(im.data, sizeof im.data);
    return im;
}

static void write_file(const void *data, size_t bytes) {
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(data, 1, bytes, file), bytes);
    fclose(file);
}

static void refuses(const char *file, uint64_t bytes, bool check, const char *reason) {
    image good = good_image();
    sc_weights *weights = NULL;
    sc_error err = { 0 };
    ck_assert_int_eq(sc_weights_open(&weights, file, good.header.layout, bytes, check, &err),
                     SC_EINPUT);
    ck_assert_ptr_null(weights);
    ck_assert_msg(strstr(err.message, reason) != NULL, "%s", err.message);
    ck_assert_int_eq(strncmp(err.message, file, strlen(file)), 0);
}

START_TEST(opens_and_reads) {
    image im = good_image();
    write_file(&im, sizeof im);
    for (int check = 0; check < 2; check++) {
        sc_weights *weights = NULL;
        sc_error err;
        ck_assert_int_eq(sc_weights_open(&weights, path, im.header.layout, FILE_BYTES, check, &err),
                         SC_OK);
        ck_assert_mem_eq(sc_weights_at(weights, 64), im.data, sizeof im.data);
        ck_assert_uint_eq((uintptr_t)sc_weights_at(weights, 128) % SC_WEIGHTS_ALIGN, 0);
        sc_weights_close(weights);
    }
    sc_weights_close(NULL);
}
END_TEST

START_TEST(refuses_missing) {
    refuses("/nonexistent/weights.bin", FILE_BYTES, false, "cannot open: No such file");
    refuses("/tmp", FILE_BYTES, false, "not a regular file");
}
END_TEST

START_TEST(refuses_wrong_magic) {
    image im = good_image();
    im.header.magic[7] = '2';
    write_file(&im, sizeof im);
    refuses(path, FILE_BYTES, false, "magic");
}
END_TEST

START_TEST(refuses_truncated) {
    image im = good_image();
    static const size_t sizes[] = { 0, 1, 63, 64, FILE_BYTES - 1 };
    for (int i = 0; i < 5; i++) {
        write_file(&im, sizes[i]);
        refuses(path, FILE_BYTES, true, "truncated");
    }
}
END_TEST

START_TEST(refuses_wrong_size) {
    image im = good_image();
    write_file(&im, sizeof im);
    refuses(path, FILE_BYTES + 64, false, "bytes: 320, the header says 320, the casting wants 384");
    im.header.bytes = FILE_BYTES - 64;
    write_file(&im, sizeof im);
    refuses(path, FILE_BYTES, false, "bytes: 320, the header says 256");
    im.header.bytes = 0;
    write_file(&im, sizeof im);
    refuses(path, 0, false, "bytes");
}
END_TEST

START_TEST(refuses_another_casting) {
    image im = good_image();
    im.header.layout[0] = 0x5b;
    write_file(&im, sizeof im);
    refuses(path, FILE_BYTES, false,
            "belongs to another casting (5ba1a2a3a4a5a6a7, this one wants a0a1a2a3a4a5a6a7)");
}
END_TEST

START_TEST(refuses_damage_when_asked) {
    image im = good_image();
    im.data[255] ^= 1;
    write_file(&im, sizeof im);
    refuses(path, FILE_BYTES, true, "checksum");
    sc_weights *weights = NULL;
    ck_assert_int_eq(sc_weights_open(&weights, path, im.header.layout, FILE_BYTES, false, NULL),
                     SC_OK);
    sc_weights_close(weights);
}
END_TEST

/* Byte i is (131 i + 7) mod 256. The sums are those of python-xxhash: xxhash.xxh64(data). */
static const struct {
    size_t bytes;
    uint64_t sum;
} vectors[] = {
    { 0, 0xef46db3751d8e999u },   { 1, 0xa96c7f0ce858bbb7u },   { 3, 0xbed43740ee6332bbu },
    { 4, 0xfa212ae44b3bb23du },   { 7, 0x2744460dd675d2c0u },   { 8, 0x994b676b71ce94ddu },
    { 14, 0x574269377227d80au },  { 31, 0x6711d55e306b5d8fu },  { 32, 0x7f7b8e3bc5d6e25u },
    { 33, 0x9f85eeb4e1cbe9fu },   { 63, 0xb7c9968c066cb6a5u },  { 64, 0x50d4159a0411632eu },
    { 100, 0x9ddada11d3dc2d8fu }, { 101, 0x8742d6c2018318fdu }, { 1000, 0xbf0bdbcc82eb373u },
};

START_TEST(checksum_vectors) {
    unsigned char data[1000];
    for (size_t i = 0; i < sizeof data; i++)
        data[i] = (unsigned char)(i * 131 + 7);
    for (size_t v = 0; v < sizeof vectors / sizeof vectors[0]; v++) {
        ck_assert_uint_eq(sc_checksum_of(data, vectors[v].bytes), vectors[v].sum);
        for (size_t step = 1; step < 70; step++) {
            sc_checksum sum;
            sc_checksum_begin(&sum);
            for (size_t at = 0; at < vectors[v].bytes; at += step) {
                size_t left = vectors[v].bytes - at;
                sc_checksum_add(&sum, data + at, left < step ? left : step);
            }
            sc_checksum_add(&sum, NULL, 0);
            ck_assert_uint_eq(sc_checksum_end(&sum), vectors[v].sum);
        }
    }
    ck_assert_uint_eq(sc_checksum_of("abc", 3), 0x44bc2cf5ad770999u);
}
END_TEST

Suite *weights_suite(void) {
    Suite *suite = suite_create("weights");
    TCase *tests = tcase_create("weights");
    tcase_add_checked_fixture(tests, make_path, remove_path);
    tcase_add_test(tests, opens_and_reads);
    tcase_add_test(tests, refuses_missing);
    tcase_add_test(tests, refuses_wrong_magic);
    tcase_add_test(tests, refuses_truncated);
    tcase_add_test(tests, refuses_wrong_size);
    tcase_add_test(tests, refuses_another_casting);
    tcase_add_test(tests, refuses_damage_when_asked);
    tcase_add_test(tests, checksum_vectors);
    suite_add_tcase(suite, tests);
    return suite;
}
