/* check_readers.c - the readers of outside files: JSON, safetensors, GGUF and the tensors in them.
 */
#include <check.h>
#include <locale.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../codegen/gguf.h"
#include "../codegen/json.h"
#include "../codegen/mxfp4.h"
#include "../codegen/safetensors.h"

Suite *readers_suite(void);

static char folder[64];
static sc_pool *pool;
static sc_error err;

static void setup(void) {
    strcpy(folder, "/tmp/readers-XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(folder));
    pool = sc_pool_create();
    ck_assert_ptr_nonnull(pool);
    memset(&err, 0, sizeof err);
}

static void teardown(void) {
    static const char *const names[] = { "f", "model.safetensors", "model.safetensors.index.json",
                                         "a.safetensors", "b.safetensors" };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        unlink(sc_pool_printf(pool, "%s/%s", folder, names[i]));
    rmdir(folder);
    sc_pool_destroy(pool);
}

static const char *put_file(const char *name, const void *data, size_t bytes) {
    const char *path = sc_pool_printf(pool, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    ck_assert_ptr_nonnull(file);
    ck_assert_uint_eq(fwrite(data, 1, bytes, file), bytes);
    fclose(file);
    return path;
}

static void assert_one_line(int status, const char *part) {
    ck_assert_int_eq(status, SC_EINPUT);
    ck_assert_int_eq(err.code, SC_EINPUT);
    ck_assert_ptr_null(strchr(err.message, '\n'));
    ck_assert_msg(strstr(err.message, part), "\"%s\" is not in \"%s\"", part, err.message);
}

/* ---- JSON ---- */

#define TEXT(literal) literal, sizeof(literal) - 1

static const struct {
    const char *text;
    size_t bytes;
    const char *refusal; /* NULL: accepted */
} json_table[] = {
    { TEXT(" {\"a\": [1, -2.5e-3, true, false, null, \"x\\n\\u00e9\\ud83d\\ude00\"]} \n"), NULL },
    { TEXT("[Infinity, -Infinity, NaN]"), NULL },
    { TEXT("{\"a\": 1, \"A\": 2}"), NULL }, /* case matters */
    { TEXT("{\"a\": 1,\n \"a\": 2}"), "line 2: key \"a\" is there twice" },
    { TEXT("{\"a\": 1, \"\\u0061\": 2}"), "there twice" },
    { TEXT("{} x"), "more text" },
    { TEXT("{}\0"), "NUL" },
    { TEXT("[\"a\0b\"]"), "NUL" },
    { TEXT("[\"\\u0000\"]"), "NUL" },
    { TEXT("[\"\\ud800\"]"), "surrogate" },
    { TEXT("[\"\\udc00\"]"), "surrogate" },
    { TEXT("[\"\xc0\xaf\"]"), "UTF-8" },
    { TEXT("[\"\xed\xa0\x80\"]"), "UTF-8" },
    { TEXT("[\"\xf4\x90\x80\x80\"]"), "UTF-8" },
    { TEXT("[\"\xe2\x82"), "UTF-8" },
    { TEXT("[\"a\nb\"]"), "control" },
    { TEXT("[\"\\q\"]"), "escape" },
    { TEXT("[01]"), "expected" },
    { TEXT("[1.]"), "value" },
    { TEXT("[+1]"), "value" },
    { TEXT("[0x10]"), "expected" },
    { TEXT("[1,]"), "value" },
    { TEXT("{\"a\": 1,}"), "string" },
    { TEXT("{a: 1}"), "string" },
    { TEXT(""), "ends early" },
    { TEXT("["), "ends early" },
    { TEXT("\xef\xbb\xbf{}"), "value" },
};

START_TEST(json_is_read_strictly) {
    cJSON *json = NULL;
    const int status =
        sc_json_parse(&json, "x.json", json_table[_i].text, json_table[_i].bytes, &err);
    if (json_table[_i].refusal) {
        assert_one_line(status, json_table[_i].refusal);
        ck_assert_ptr_null(json);
    } else {
        ck_assert_msg(status == SC_OK, "%s", err.message);
        cJSON_Delete(json);
    }
}
END_TEST

START_TEST(json_nests_64_deep_and_no_deeper) {
    char text[10001];
    cJSON *json = NULL;
    memset(text, '[', 64);
    memset(text + 64, ']', 64);
    ck_assert_int_eq(sc_json_parse(&json, "x", text, 128, &err), SC_OK);
    cJSON_Delete(json);
    memset(text, '[', 5000);
    memset(text + 5000, ']', 5000);
    assert_one_line(sc_json_parse(&json, "x", text, 10000, &err), "deeper than 64");
    memset(text + 65, ']', 65);
    assert_one_line(sc_json_parse(&json, "x", text, 130, &err), "deeper than 64");
}
END_TEST

START_TEST(json_numbers_are_exact_in_any_locale) {
    static const char text[] = "[1.5, Infinity, -Infinity, NaN, 2.9, 1e300, \"3\", 7, "
                               "9007199254740993, -4, 1e999]";
    cJSON *json = NULL;
    int64_t value = -1;
    setlocale(LC_ALL, "de_DE.UTF-8"); /* where it is installed, its decimal point is a comma */
    ck_assert_int_eq(sc_json_parse(&json, "x", text, sizeof text - 1, &err), SC_OK);
    setlocale(LC_ALL, "C");
    ck_assert(cJSON_GetArrayItem(json, 0)->valuedouble > 1.4999);
    ck_assert(isinf(cJSON_GetArrayItem(json, 1)->valuedouble));
    ck_assert(cJSON_GetArrayItem(json, 2)->valuedouble < -1e308);
    ck_assert(isnan(cJSON_GetArrayItem(json, 3)->valuedouble));
    for (int i = 0; i < 11; i++)
        ck_assert_int_eq(sc_json_int(cJSON_GetArrayItem(json, i), &value), i == 7 || i == 9);
    ck_assert_int_eq(value, -4);
    ck_assert_int_eq(sc_json_int(NULL, &value), 0);
    ck_assert_ptr_null(sc_json_get(json, "a"));
    cJSON_Delete(json);
}
END_TEST

START_TEST(json_files_have_a_limit) {
    cJSON *json = NULL;
    const char *path = put_file("f", "{\"Ab\": 1}", 9);
    assert_one_line(sc_json_read(&json, path, 8, &err), "at most 8");
    ck_assert_int_eq(sc_json_read(&json, path, 9, &err), SC_OK);
    ck_assert_ptr_nonnull(sc_json_get(json, "Ab"));
    ck_assert_ptr_null(sc_json_get(json, "ab"));
    cJSON_Delete(json);
    assert_one_line(sc_json_read(&json, folder, 9, &err), "regular file");
    assert_one_line(sc_json_read(&json, "/nonexistent.json", 9, &err), "/nonexistent.json");
}
END_TEST

/* ---- safetensors ---- */

static size_t make_safetensors(unsigned char *out, const char *header, size_t data_bytes) {
    const size_t length = strlen(header);
    for (int i = 0; i < 8; i++)
        out[i] = (unsigned char)(length >> 8 * i);
    memcpy(out + 8, header, length);
    for (size_t i = 0; i < data_bytes; i++)
        out[8 + length + i] = (unsigned char)(i * 7);
    return 8 + length + data_bytes;
}

#define ENTRY(type, shape, from, to)                                                               \
    "{\"dtype\":\"" type "\",\"shape\":" shape ",\"data_offsets\":[" from "," to "]}"

static const struct {
    const char *header;
    size_t data_bytes;
    const char *refusal; /* NULL: accepted */
} safetensors_table[] = {
    { "{\"a\":" ENTRY("F32", "[2]", "0", "8") "}", 8, NULL },
    { "{\"b\":" ENTRY("F32", "[2]", "8", "16") ",\"a\":" ENTRY("F32", "[2]", "0", "8") "}", 16,
      NULL },
    { "{\"a\":" ENTRY("F32", "[]", "0", "4") "}", 4, NULL },
    { "{\"a\":" ENTRY("F32", "[2,0]", "0", "0") "}", 0, NULL },
    { "{}", 0, NULL },
    { "{\"__metadata__\":{\"format\":\"pt\"}}", 0, NULL },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4],\"x\":1}}", 4, NULL },
    { "  {\"a\":" ENTRY("F32", "[1]", "0", "4") "}   ", 4, NULL },
    { "{\"a\":" ENTRY("I64", "[1]", "0", "8") "}", 8, NULL }, /* listed, not readable */
    { "{\"a\":" ENTRY("F32", "[2]", "0", "8") ",\"b\":" ENTRY("F32", "[2]", "0", "8") "}", 8,
      "another" },
    { "{\"a\":" ENTRY("F32", "[2]", "0", "8") ",\"b\":" ENTRY("F32", "[2]", "4", "12") "}", 12,
      "another" },
    { "{\"a\":" ENTRY("F32", "[1]", "0", "4") ",\"b\":" ENTRY("F32", "[1]", "8", "12") "}", 12,
      "no tensor" },
    { "{\"a\":" ENTRY("F32", "[1]", "4", "8") "}", 8, "no tensor" },
    { "{\"a\":" ENTRY("F32", "[1]", "0", "4") "}", 5, "after the last" },
    { "{\"a\":" ENTRY("F32", "[2]", "0", "8") "}", 7, "past the end" },
    { "{\"a\":" ENTRY("F32", "[2]", "0", "4") "}", 4, "do not match" },
    { "{\"a\":" ENTRY("F4", "[3]", "0", "1") "}", 1, "do not match" },
    { "{\"a\":" ENTRY("F32", "[1]", "8", "4") "}", 8, "backwards" },
    { "{\"a\":" ENTRY("F32", "[1]", "-4", "0") "}", 4, "below 0" },
    { "{\"a\":" ENTRY("F32", "[-1]", "0", "4") "}", 4, "no size" },
    { "{\"a\":" ENTRY("F32", "[1.5]", "0", "6") "}", 6, "no size" },
    { "{\"a\":" ENTRY("F32", "[4611686018427387904,8]", "0", "4") "}", 4, "no size" },
    { "{\"a\":" ENTRY("F32", "[4294967296,4294967296]", "0", "4") "}", 4, "overflows" },
    { "{\"a\":" ENTRY("F32", "[1,1,1,1,1,1,1,1,1]", "0", "4") "}", 4, "8 dimensions" },
    { "{\"a\":" ENTRY("F99", "[1]", "0", "4") "}", 4, "unknown" },
    { "{\"a\":{\"dtype\":1,\"shape\":[1],\"data_offsets\":[0,4]}}", 4, "dtype" },
    { "{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,4]}}", 4, "shape" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1]}}", 4, "data_offsets" },
    { "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4,4]}}", 4, "data_offsets" },
    { "{\"__metadata__\":{\"format\":1}}", 0, "no string" },
    { "{\"__metadata__\":[]}", 0, "no object" },
    { "{\"a\":1}", 0, "no object" },
    { "{\"\":" ENTRY("F32", "[1]", "0", "4") "}", 4, "empty" },
    { "{\"a\\nb\":" ENTRY("F32", "[1]", "0", "4") "}", 4, "unprintable" },
    { "{\"a\":" ENTRY("F32", "[1]", "0", "4") ",\"a\":" ENTRY("F32", "[1]", "4", "8") "}", 8,
      "twice" },
    { "{\"\xff\":" ENTRY("F32", "[1]", "0", "4") "}", 4, "UTF-8" },
    { "no json", 0, "value" },
    { "[]", 0, "no JSON object" },
};

START_TEST(safetensors_are_judged_as_the_reference_does) {
    static unsigned char bytes[4096];
    sc_tensors *tensors = NULL;
    const size_t size =
        make_safetensors(bytes, safetensors_table[_i].header, safetensors_table[_i].data_bytes);
    const int status = sc_safetensors_open_file(&tensors, pool, put_file("f", bytes, size), &err);
    if (safetensors_table[_i].refusal) {
        assert_one_line(status, safetensors_table[_i].refusal);
        ck_assert_ptr_null(tensors);
    } else {
        ck_assert_msg(status == SC_OK, "%s", err.message);
        sc_tensors_close(tensors);
    }
}
END_TEST

static const struct {
    const char *bytes;
    size_t count;
    const char *refusal;
} raw_table[] = {
    { TEXT(""), "0 bytes" },
    { TEXT("abc"), "3 bytes" },
    { TEXT("\x01\xe1\xf5\x05\0\0\0\0{}"), "at most 100000000" },
    { TEXT("\xff\xff\xff\xff\xff\xff\xff\xff{}"), "at most 100000000" },
    { TEXT("\x03\0\0\0\0\0\0\0{}"), "in a file of 10" },
    { TEXT("version https://git-lfs.github.com/spec/v1\noid sha256:00\nsize 1\n"), "git-lfs" },
};

#define PAIR(blocks, scales, from)                                                                 \
    "{\"w_blocks\":" ENTRY("U8", blocks, "0", from) ",\"w_scales\":" scales "}"

static const struct {
    const char *header, *refusal;
    size_t data_bytes;
} mxfp4_table[] = {
    { PAIR("[1,2,16]", ENTRY("U8", "[1,2]", "32", "34"), "32"), NULL, 34 },
    { "{\"w_blocks\":" ENTRY("U8", "[1,2,16]", "0", "32") "}", "w_scales", 32 },
    { PAIR("[1,2,16]", ENTRY("U8", "[2,1]", "32", "34"), "32"), "w_scales", 34 },
    { PAIR("[1,2,8]", ENTRY("U8", "[1,2]", "16", "18"), "16"), "blocks, 16", 18 },
    { PAIR("[1,2,16]", ENTRY("I8", "[1,2]", "32", "34"), "32"), "U8", 34 },
};

/* By the table of the MX specification, 5.3.3: sign, two bits of exponent, one of mantissa. */
static float e2m1(unsigned bits) {
    const int exponent = (int)(bits >> 1 & 3);
    const float fraction = (float)(bits & 1) / 2;
    const float size = exponent ? (1 + fraction) * (float)(1 << exponent) / 2 : fraction;
    return bits & 8 ? -size : size;
}

START_TEST(blocks_and_scales_are_one_tensor) {
    unsigned char bytes[1024];
    sc_tensors *tensors = NULL;
    const size_t size = make_safetensors(bytes, mxfp4_table[_i].header, mxfp4_table[_i].data_bytes);
    const char *path = put_file("f", bytes, size);
    ck_assert_int_eq(sc_safetensors_open_file(&tensors, pool, path, &err), SC_OK);
    const int status = sc_mxfp4_pair(tensors, pool, &err);
    if (mxfp4_table[_i].refusal) {
        assert_one_line(status, mxfp4_table[_i].refusal);
        sc_tensors_close(tensors);
        return;
    }
    ck_assert_int_eq(status, SC_OK);
    const sc_tensor *t = sc_tensors_find(tensors, "w");
    float row[64];
    ck_assert_ptr_nonnull(t);
    ck_assert_int_eq(tensors->count, 1);
    ck_assert_int_eq(t->rank, 2);
    ck_assert_int_eq(t->shape[1], 64);
    const unsigned char *data = bytes + size - 34; /* byte i is 7 i */
    bytes[size - 1] = 129;
    put_file("f", bytes, size);
    sc_tensors_close(tensors);
    ck_assert_int_eq(sc_safetensors_open_file(&tensors, pool, path, &err), SC_OK);
    ck_assert_int_eq(sc_mxfp4_pair(tensors, pool, &err), SC_OK);
    ck_assert_int_eq(sc_tensor_read(sc_tensors_find(tensors, "w"), 0, 1, row, &err), SC_OK);
    for (int i = 0; i < 64; i++) {
        const unsigned half = (unsigned)data[i / 2] >> (i % 2 ? 4 : 0) & 15u;
        const double scale = pow(2, (i < 32 ? (7 * 32) % 256 : 129) - 127);
        ck_assert_double_eq((double)row[i], (double)e2m1(half) * scale);
    }
    sc_tensors_close(tensors);
    bytes[size - 1] = 255;
    put_file("f", bytes, size);
    ck_assert_int_eq(sc_safetensors_open_file(&tensors, pool, path, &err), SC_OK);
    ck_assert_int_eq(sc_mxfp4_pair(tensors, pool, &err), SC_OK);
    assert_one_line(sc_tensor_read(sc_tensors_find(tensors, "w"), 0, 1, row, &err), "block 1");
    sc_tensors_close(tensors);
}
END_TEST

START_TEST(what_is_no_safetensors_file_is_refused) {
    sc_tensors *tensors = NULL;
    const char *path = put_file("f", raw_table[_i].bytes, raw_table[_i].count);
    assert_one_line(sc_safetensors_open_file(&tensors, pool, path, &err), raw_table[_i].refusal);
}
END_TEST

START_TEST(no_truncation_of_safetensors_is_accepted) {
    static unsigned char bytes[512];
    const size_t size = make_safetensors(bytes, safetensors_table[1].header, 16);
    for (size_t cut = 0; cut < size; cut++) {
        sc_tensors *tensors = NULL;
        const char *path = put_file("f", bytes, cut);
        assert_one_line(sc_safetensors_open_file(&tensors, pool, path, &err), path);
    }
}
END_TEST

static void put_shard(const char *name, const char *tensor) {
    unsigned char bytes[512];
    const char *header = sc_pool_printf(pool, "{\"%s\":" ENTRY("F32", "[1]", "0", "4") "}", tensor);
    put_file(name, bytes, make_safetensors(bytes, header, 4));
}

static const struct {
    const char *map, *refusal;
} shard_table[] = {
    { "{\"x\":\"a.safetensors\",\"y\":\"b.safetensors\"}", NULL },
    { "{\"x\":\"a.safetensors\",\"y\":\"c.safetensors\"}", "c.safetensors" },
    { "{\"x\":\"b.safetensors\",\"y\":\"a.safetensors\"}", "weight_map.x" },
    { "{\"x\":\"a.safetensors\",\"y\":\"b.safetensors\",\"z\":\"a.safetensors\"}", "weight_map.z" },
    { "{\"x\":\"../a.safetensors\"}", "plain file name" },
    { "{\"x\":\"/tmp/a.safetensors\"}", "plain file name" },
    { "{\"x\":\"..\"}", "plain file name" },
    { "{\"x\":\"\"}", "plain file name" },
    { "{\"x\":1}", "plain file name" },
    { "[]", "weight_map" },
};

START_TEST(shards_are_those_of_the_index) {
    sc_tensors *tensors = NULL;
    put_shard("a.safetensors", "x");
    put_shard("b.safetensors", "y");
    const char *index = sc_pool_printf(pool, "{\"weight_map\":%s}", shard_table[_i].map);
    put_file("model.safetensors.index.json", index, strlen(index));
    const int status = sc_safetensors_open(&tensors, pool, folder, &err);
    if (shard_table[_i].refusal) {
        assert_one_line(status, shard_table[_i].refusal);
        return;
    }
    ck_assert_msg(status == SC_OK, "%s", err.message);
    ck_assert_int_eq(tensors->count, 2);
    ck_assert_ptr_nonnull(sc_tensors_find(tensors, "y"));
    ck_assert_ptr_null(sc_tensors_find(tensors, "z"));
    sc_tensors_close(tensors);
}
END_TEST

START_TEST(a_tensor_in_two_shards_is_refused) {
    static const char index[] =
        "{\"weight_map\":{\"x\":\"a.safetensors\",\"y\":\"b.safetensors\"}}";
    sc_tensors *tensors = NULL;
    put_shard("a.safetensors", "x");
    put_shard("b.safetensors", "x");
    put_file("model.safetensors.index.json", index, sizeof index - 1);
    assert_one_line(sc_safetensors_open(&tensors, pool, folder, &err), "twice");
}
END_TEST

START_TEST(a_folder_without_weights_is_told_which_names_were_tried) {
    sc_tensors *tensors = NULL;
    assert_one_line(sc_safetensors_open(&tensors, pool, folder, &err), "model.safetensors.index");
    put_shard("model.safetensors", "x");
    ck_assert_int_eq(sc_safetensors_open(&tensors, pool, folder, &err), SC_OK);
    sc_tensors_close(tensors);
}
END_TEST

/* ---- values ---- */

static double half_value(unsigned half) {
    const int exponent = (int)(half >> 10 & 31);
    const double fraction = half & 1023, sign = half & 0x8000 ? -1 : 1;
    return sign * (exponent ? ldexp(1024 + fraction, exponent - 25) : ldexp(fraction, -24));
}

static const struct {
    sc_dtype dtype;
    const char *type;
    int block, bytes;
} dtype_table[] = {
    { SC_F32, "F32", 1, 4 },     { SC_F16, "F16", 1, 2 },     { SC_BF16, "BF16", 1, 2 },
    { SC_Q8_0, "Q8_0", 32, 34 }, { SC_Q4_0, "Q4_0", 32, 18 }, { SC_Q4_1, "Q4_1", 32, 20 },
    { SC_Q5_0, "Q5_0", 32, 22 }, { SC_Q5_1, "Q5_1", 32, 24 },
};

static unsigned word(const unsigned char *p) { return p[0] + 256u * p[1]; }

/* Element i of a block, by arithmetic on doubles and rounded once. */
static float expected(sc_dtype dtype, const unsigned char *b, int i) {
    const double d = half_value(word(b)), m = dtype >= SC_Q8_0 ? half_value(word(b + 2)) : 0;
    const bool five = dtype == SC_Q5_0 || dtype == SC_Q5_1;
    const int heads[] = { [SC_Q4_0] = 2, [SC_Q4_1] = 4, [SC_Q5_0] = 6, [SC_Q5_1] = 8 };
    float f;
    if (dtype == SC_F32) {
        memcpy(&f, b, 4);
        return f;
    }
    if (dtype == SC_F16)
        return (float)d;
    if (dtype == SC_BF16) {
        const unsigned bits = word(b) * 65536u;
        memcpy(&f, &bits, 4);
        return f;
    }
    if (dtype == SC_Q8_0)
        return (float)(d * (int8_t)b[2 + i]);
    const int head = heads[dtype];
    int q = i < 16 ? b[head + i] % 16 : b[head + i - 16] / 16;
    if (five)
        q += b[head - 4 + i / 8] >> i % 8 & 1 ? 16 : 0;
    return dtype == SC_Q4_0   ? (float)(d * (q - 8))
           : dtype == SC_Q5_0 ? (float)(d * (q - 16))
                              : (float)(d * q + m);
}

/* Random bytes, but with scales that are finite halves. */
static void fill_block(unsigned char *b, int bytes, sc_dtype dtype) {
    for (int i = 0; i < bytes; i++)
        b[i] = (unsigned char)(rand() >> 7);
    if (dtype != SC_BF16)
        b[dtype == SC_F32 ? 3 : 1] &= 0xbb;
    if (dtype == SC_Q4_1 || dtype == SC_Q5_1)
        b[3] &= 0xbb;
    if (dtype == SC_BF16)
        b[1] &= 0xbf;
}

START_TEST(every_type_reads_as_its_formula_says) {
    enum { ROWS = 700, WIDTH = 96 };
    const int block = dtype_table[_i].block, bytes = dtype_table[_i].bytes;
    const int blocks = ROWS * WIDTH / block;
    unsigned char *data = malloc((size_t)(blocks * bytes) + 3);
    float *out = malloc(ROWS * WIDTH * sizeof *out);
    srand(1);
    for (int i = 0; i < blocks; i++)
        fill_block(data + 3 + i * bytes, bytes, dtype_table[_i].dtype);
    const char *path = put_file("f", data, (size_t)(blocks * bytes) + 3);
    sc_tensor t = { .name = "t",
                    .file = path,
                    .type = dtype_table[_i].type,
                    .dtype = dtype_table[_i].dtype,
                    .rank = 3,
                    .shape = { 7, 100, WIDTH },
                    .offset = 3,
                    .bytes = (uint64_t)(blocks * bytes) };
    uint64_t size;
    ck_assert_int_eq(sc_tensors_open_fd(&t.fd, &size, path, &err), SC_OK);
    ck_assert_int_eq(sc_tensor_read(&t, 0, ROWS, out, &err), SC_OK);
    for (int i = 0; i < ROWS * WIDTH; i++) {
        const float want = expected(t.dtype, data + 3 + i / block * bytes, i % block);
        ck_assert_msg(memcmp(&out[i], &want, 4) == 0, "element %d: %a, not %a", i, (double)out[i],
                      (double)want);
    }
    /* Some rows alone are the same rows; rows that are not there are refused. */
    float some[2 * WIDTH];
    ck_assert_int_eq(sc_tensor_read(&t, 11, 2, some, &err), SC_OK);
    ck_assert_int_eq(memcmp(some, out + 11 * WIDTH, sizeof some), 0);
    assert_one_line(sc_tensor_read(&t, ROWS - 1, 2, some, &err), "rows");
    assert_one_line(sc_tensor_read(&t, -1, 1, some, &err), "rows");
    t.offset += 1; /* now the file is one byte short */
    assert_one_line(sc_tensor_read(&t, 0, ROWS, out, &err), "ends early");
    close(t.fd);
    free(out);
    free(data);
}
END_TEST

START_TEST(halves_at_the_edges_are_exact) {
    static const struct {
        unsigned half, bits;
    } edge[] = { { 0x0000, 0 },          { 0x8000, 0x80000000 }, { 0x0001, 0x33800000 },
                 { 0x83ff, 0xb87fc000 }, { 0x0400, 0x38800000 }, { 0x7bff, 0x477fe000 },
                 { 0x7c00, 0x7f800000 }, { 0xfc00, 0xff800000 }, { 0x7e01, 0x7fc02000 } };
    unsigned char data[18];
    float out[9];
    for (int i = 0; i < 9; i++) {
        data[2 * i] = (unsigned char)edge[i].half;
        data[2 * i + 1] = (unsigned char)(edge[i].half >> 8);
    }
    sc_tensor t = { .name = "t",
                    .file = put_file("f", data, 18),
                    .dtype = SC_F16,
                    .rank = 1,
                    .shape = { 9 },
                    .bytes = 18 };
    uint64_t size;
    ck_assert_int_eq(sc_tensors_open_fd(&t.fd, &size, t.file, &err), SC_OK);
    ck_assert_int_eq(sc_tensor_read(&t, 0, 1, out, &err), SC_OK);
    for (int i = 0; i < 9; i++)
        ck_assert_int_eq(memcmp(&out[i], &edge[i].bits, 4), 0);
    close(t.fd);
}
END_TEST

START_TEST(interleaved_rows_come_back_in_the_checkpoints_order) {
    enum { HEADS = 3, DIM = 8, WIDTH = 5, ROWS = HEADS * DIM };
    float stored[ROWS * WIDTH], out[ROWS * WIDTH];
    for (int h = 0; h < HEADS; h++)
        for (int j = 0; j < 2; j++)
            for (int i = 0; i < DIM / 2; i++)
                for (int c = 0; c < WIDTH; c++)
                    stored[(h * DIM + i * 2 + j) * WIDTH + c] =
                        (float)((h * DIM + j * DIM / 2 + i) * WIDTH + c);
    sc_tensor t = { .name = "t",
                    .file = put_file("f", stored, sizeof stored),
                    .dtype = SC_F32,
                    .rank = 2,
                    .shape = { ROWS, WIDTH },
                    .bytes = sizeof stored,
                    .interleaved_heads = HEADS };
    uint64_t size;
    ck_assert_int_eq(sc_tensors_open_fd(&t.fd, &size, t.file, &err), SC_OK);
    ck_assert_int_eq(sc_tensor_read(&t, 7, ROWS - 7, out, &err), SC_OK);
    for (int i = 0; i < (ROWS - 7) * WIDTH; i++)
        ck_assert_int_eq((int)out[i], 7 * WIDTH + i);
    close(t.fd);
    /* A bias is turned in the same way, element by element. */
    float bias[ROWS];
    for (int row = 0; row < ROWS; row++)
        bias[row] = stored[row * WIDTH] / WIDTH;
    t.file = put_file("f", bias, sizeof bias);
    t.rank = 1;
    ck_assert_int_eq(sc_tensors_open_fd(&t.fd, &size, t.file, &err), SC_OK);
    ck_assert_int_eq(sc_tensor_read(&t, 0, 1, out, &err), SC_OK);
    for (int i = 0; i < ROWS; i++)
        ck_assert_int_eq((int)out[i], i);
    close(t.fd);
}
END_TEST

/* ---- GGUF ---- */

static unsigned char made[16384];
static size_t made_bytes;

static void raw(const void *data, size_t bytes) {
    ck_assert_uint_le(made_bytes + bytes, sizeof made);
    memcpy(made + made_bytes, data, bytes);
    made_bytes += bytes;
}

static void u32(uint32_t value) { raw(&value, 4); }
static void u64(uint64_t value) { raw(&value, 8); }

static void string(const char *text) {
    u64(strlen(text));
    raw(text, strlen(text));
}

static void key(const char *name, uint32_t type) {
    string(name);
    u32(type);
}

static void key_u32(const char *name, uint32_t value) {
    key(name, 4);
    u32(value);
}

static void key_f32(const char *name, float value) {
    key(name, 6);
    raw(&value, 4);
}

static void key_string(const char *name, const char *text) {
    key(name, 8);
    string(text);
}

static void key_strings(const char *name, const char *const *text, int count) {
    key(name, 9);
    u32(8);
    u64((uint64_t)count);
    for (int i = 0; i < count; i++)
        string(text[i]);
}

static void tensor(const char *name, uint64_t width, uint64_t rows, uint32_t type, uint64_t at) {
    string(name);
    u32(rows ? 2 : 1);
    u64(width);
    if (rows)
        u64(rows);
    u32(type);
    u64(at);
}

/* The faults that make_gguf can build in. */
typedef enum {
    SOUND,
    MAGIC,
    VERSION_0,
    VERSION_1,
    VERSION_4,
    BIG_ENDIAN_3,
    PAIRS,
    TENSORS,
    KEY_SIZE,
    KEY_EMPTY,
    KEY_TWICE,
    TYPE,
    ARRAY_TYPE,
    ARRAY_COUNT,
    ARRAY_DEEP,
    BOOL_2,
    ALIGN_3,
    ALIGN_0,
    ALIGN_TYPE,
    NAME_SIZE,
    NAME_EMPTY,
    DIMS,
    DIM_0,
    DIM_NEGATIVE,
    DIM_PRODUCT,
    DIM_BYTES,
    GGML_TYPE,
    BLOCK,
    MISALIGNED,
    PAST_END,
    OFFSET_WRAP,
    OVERLAP,
    NAME_TWICE,
    ARCH,
    SPLIT,
    YARN,
    HEADS_ARRAY,
    EXPERTS,
    NO_EMBEDDING,
    TOKEN_TWICE,
    TOKEN_NUL,
    TYPE_COUNT,
    FAULTS
} fault;

static const char *const fault_refusals[FAULTS] = {
    [MAGIC] = "no GGUF",
    [VERSION_0] = "version: 0",
    [VERSION_1] = "version: 1",
    [VERSION_4] = "version: 4",
    [BIG_ENDIAN_3] = "little-endian",
    [PAIRS] = "more metadata",
    [TENSORS] = "more tensors",
    [KEY_SIZE] = "longer than",
    [KEY_EMPTY] = "empty",
    [KEY_TWICE] = "twice",
    [TYPE] = "unknown type",
    [ARRAY_TYPE] = "unknown type",
    [ARRAY_COUNT] = "longer than",
    [ARRAY_DEEP] = "deeper",
    [BOOL_2] = "bool",
    [ALIGN_3] = "power of two",
    [ALIGN_0] = "power of two",
    [ALIGN_TYPE] = "power of two",
    [NAME_SIZE] = "longer than",
    [NAME_EMPTY] = "empty",
    [DIMS] = "4 dimensions",
    [DIM_0] = "no size",
    [DIM_NEGATIVE] = "no size",
    [DIM_PRODUCT] = "overflows",
    [DIM_BYTES] = "overflows",
    [GGML_TYPE] = "unknown",
    [BLOCK] = "blocks",
    [MISALIGNED] = "aligned",
    [PAST_END] = "past the end",
    [OFFSET_WRAP] = "past the end",
    [OVERLAP] = "another",
    [NAME_TWICE] = "twice",
    [ARCH] = "general.architecture",
    [SPLIT] = "split.count",
    [YARN] = "scaling",
    [HEADS_ARRAY] = "head_count_kv",
    [EXPERTS] = "expert_count",
    [NO_EMBEDDING] = "token_embd",
    [TOKEN_TWICE] = "twice",
    [TOKEN_NUL] = "NUL",
    [TYPE_COUNT] = "token_type",
};

/* Extra metadata and its count, by fault. */
static int put_fault_pair(fault f) {
    switch (f) {
    case KEY_SIZE:
        u64(UINT64_MAX);
        return 1;
    case KEY_EMPTY:
        key_u32("", 1);
        return 1;
    case KEY_TWICE:
        key_u32("general.file_type", 1);
        return 1;
    case TYPE:
        key("x", 13);
        u64(0);
        return 1;
    case ARRAY_TYPE:
        key("x", 9);
        u32(99);
        u64(1);
        return 1;
    case ARRAY_COUNT:
        key("x", 9);
        u32(8);
        u64(UINT64_MAX / 8);
        return 1;
    case ARRAY_DEEP:
        key("x", 9);
        for (int i = 0; i < 6; i++) {
            u32(9);
            u64(1);
        }
        return 1;
    case BOOL_2:
        key("x", 7);
        raw("\2", 1);
        return 1;
    case ALIGN_3:
        key_u32("general.alignment", 3);
        return 1;
    case ALIGN_0:
        key_u32("general.alignment", 0);
        return 1;
    case ALIGN_TYPE:
        key_f32("general.alignment", 32);
        return 1;
    case SPLIT:
        key_u32("split.count", 2);
        return 1;
    case YARN:
        key_string("llama.rope.scaling.type", "yarn");
        return 1;
    case HEADS_ARRAY:
        key("llama.attention.head_count_kv", 9);
        u32(4);
        u64(1);
        u32(1);
        return 1;
    case EXPERTS:
        key_u32("llama.expert_count", 8);
        return 1;
    default:
        return 0;
    }
}

static void put_tokenizer(fault f) {
    const char *const tokens[] = { "a", "b", f == TOKEN_TWICE ? "a" : "ab", "<s>", "<u>", "[PAD]" };
    const char *const merges[] = { "a b" };
    const int32_t kind[] = { 1, 1, 1, 3, 4, 5 };
    key_string("tokenizer.ggml.model", "gpt2");
    key_string("tokenizer.ggml.pre", "llama-bpe");
    key_strings("tokenizer.ggml.tokens", tokens, 6);
    if (f == TOKEN_NUL)
        made[made_bytes - 1] = 0;
    key("tokenizer.ggml.token_type", 9);
    u32(5);
    u64(f == TYPE_COUNT ? 5 : 6);
    raw(kind, f == TYPE_COUNT ? 20 : 24);
    key_strings("tokenizer.ggml.merges", merges, 1);
    key_u32("tokenizer.ggml.bos_token_id", 3);
    key_u32("tokenizer.ggml.eos_token_id", 4);
    key_string("tokenizer.chat_template", "{{ x }}");
}

/* All value types that no key above has. */
static void put_other_types(void) {
    static const unsigned bytes[] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };
    for (uint32_t type = 0; type < 13; type++)
        if (bytes[type]) {
            key(sc_pool_printf(pool, "other.%u", type), type);
            raw("\1\0\0\0\0\0\0\0", bytes[type]);
        }
    key("other.nested", 9);
    u32(9);
    u64(2);
    for (int i = 0; i < 2; i++) {
        u32(0);
        u64(3);
        raw("abc", 3);
    }
}

static void put_tensors(fault f) {
    const uint64_t shape = f == DIM_0 ? 0 : f == DIM_NEGATIVE ? UINT64_MAX : 8;
    if (f == NAME_SIZE)
        u64(UINT64_MAX);
    string(f == NAME_EMPTY ? "" : f == NO_EMBEDDING ? "x" : "token_embd.weight");
    u32(f == DIMS ? 5 : 2);
    u64(f == DIM_PRODUCT ? (uint64_t)1 << 40 : f == DIM_BYTES ? (uint64_t)1 << 61 : shape);
    u64(f == DIM_PRODUCT ? (uint64_t)1 << 40 : f == DIM_BYTES ? 2 : 6);
    u32(f == GGML_TYPE ? 4 : f == BLOCK ? 8 : 0);
    u64(f == MISALIGNED ? 8 : f == PAST_END ? 1 << 20 : f == OFFSET_WRAP ? UINT64_MAX - 31 : 0);
    /* 8 x 8 floats: 256 bytes each, two heads of four. */
    tensor("blk.0.attn_q.weight", 8, 8, 0, f == OVERLAP ? 160 : 192);
    tensor("blk.0.attn_k.weight", 8, 4, 0, 448);
    tensor(f == NAME_TWICE ? "blk.0.attn_q.weight" : "blk.0.attn_v.weight", 8, 4, 0, 576);
    tensor("rope_freqs.weight", 2, 0, 0, 704);
    tensor("blk.0.ffn_down.weight", 256, 1, 12, 736);
}

static void make_gguf(fault f, const char *arch, uint32_t version) {
    made_bytes = 0;
    raw(f == MAGIC ? "GGUX" : "GGUF", 4);
    u32(f == VERSION_0      ? 0
        : f == VERSION_1    ? 1
        : f == VERSION_4    ? 4
        : f == BIG_ENDIAN_3 ? 3u << 24
                            : version);
    u64(f == TENSORS ? UINT64_MAX / 32 : 6);
    const size_t count_at = made_bytes;
    u64(0);
    uint64_t pairs;
    key_string("general.architecture", f == ARCH ? "mamba" : arch);
    key_u32("general.file_type", 0);
    key_u32(sc_pool_printf(pool, "%s.embedding_length", arch), 8);
    key_u32(sc_pool_printf(pool, "%s.feed_forward_length", arch), 16);
    key_u32(sc_pool_printf(pool, "%s.block_count", arch), 1);
    key_u32(sc_pool_printf(pool, "%s.context_length", arch), 64);
    key_u32(sc_pool_printf(pool, "%s.attention.head_count", arch), 2);
    if (f != HEADS_ARRAY)
        key_u32(sc_pool_printf(pool, "%s.attention.head_count_kv", arch), 1);
    key_f32(sc_pool_printf(pool, "%s.attention.layer_norm_rms_epsilon", arch), 1e-5f);
    key_f32(sc_pool_printf(pool, "%s.rope.scaling.factor", arch), 2);
    key_u32(sc_pool_printf(pool, "%s.attention.sliding_window", arch), 4);
    put_tokenizer(f);
    put_other_types();
    pairs = f == PAIRS ? UINT64_MAX / 16 : 11 + 8 + 12 - (f == HEADS_ARRAY);
    pairs += (uint64_t)put_fault_pair(f);
    memcpy(made + count_at, &pairs, 8);
    put_tensors(f);
    while (made_bytes % 32)
        raw("", 1);
    for (int i = 0; i < 176; i++) {
        const float value = (float)i;
        raw(&value, 4);
    }
    raw("\0\0\x80\x3f\0\0\0\x41", 8); /* the factors 1 and 8, then padding and a Q4_K block */
    for (int i = 0; i < 24 + 144; i++)
        raw("", 1);
}

START_TEST(a_lying_gguf_is_refused) {
    sc_gguf *gguf = NULL;
    make_gguf((fault)_i, "llama", 3);
    assert_one_line(sc_gguf_open(&gguf, pool, put_file("f", made, made_bytes), &err),
                    fault_refusals[_i]);
    ck_assert_ptr_null(gguf);
}
END_TEST

START_TEST(no_truncation_of_a_gguf_is_accepted) {
    make_gguf(SOUND, "llama", 3);
    for (size_t cut = 0; cut < made_bytes; cut++) {
        sc_gguf *gguf = NULL;
        const char *path = put_file("f", made, cut);
        assert_one_line(sc_gguf_open(&gguf, pool, path, &err), path);
        if (cut % 64 == 0) { /* keep the pool small */
            sc_pool_destroy(pool);
            pool = sc_pool_create();
        }
    }
}
END_TEST

START_TEST(no_flipped_byte_of_a_gguf_crashes) {
    make_gguf(SOUND, "llama", 3);
    for (size_t at = 0; at < made_bytes; at++) {
        sc_gguf *gguf = NULL;
        made[at] ^= 0xff;
        if (sc_gguf_open(&gguf, pool, put_file("f", made, made_bytes), &err) == SC_OK)
            sc_gguf_close(gguf);
        made[at] ^= 0xff;
        if (at % 64 == 0) {
            sc_pool_destroy(pool);
            pool = sc_pool_create();
        }
    }
}
END_TEST

static double number(const cJSON *object, const char *name) {
    const cJSON *item = sc_json_get(object, name);
    ck_assert_msg(cJSON_IsNumber(item), "%s", name);
    return item->valuedouble;
}

static const char *text(const cJSON *object, const char *name) {
    const cJSON *item = sc_json_get(object, name);
    ck_assert_msg(cJSON_IsString(item), "%s", name);
    return item->valuestring;
}

static const struct {
    const char *arch, *model_type;
    uint32_t version;
} arch_table[] = { { "llama", "mistral", 3 },
                   { "llama", "mistral", 2 },
                   { "qwen2", "qwen2", 3 },
                   { "qwen3", "qwen3", 3 } };

START_TEST(a_gguf_speaks_as_a_checkpoint_does) {
    sc_gguf *gguf = NULL;
    float out[64];
    const bool llama = _i < 2;
    make_gguf(SOUND, arch_table[_i].arch, arch_table[_i].version);
    const int status = sc_gguf_open(&gguf, pool, put_file("f", made, made_bytes), &err);
    ck_assert_msg(status == SC_OK, "%s", err.message);
    const cJSON *config = gguf->config;
    ck_assert_str_eq(text(config, "model_type"), arch_table[_i].model_type);
    static const struct {
        const char *key;
        double value;
    } want[] = { { "hidden_size", 8 },
                 { "intermediate_size", 16 },
                 { "num_hidden_layers", 1 },
                 { "num_attention_heads", 2 },
                 { "num_key_value_heads", 1 },
                 { "head_dim", 4 },
                 { "max_position_embeddings", 64 },
                 { "vocab_size", 6 },
                 { "sliding_window", 4 },
                 { "rope_theta", 10000 },
                 { "bos_token_id", 3 },
                 { "eos_token_id", 4 } };
    for (size_t i = 0; i < sizeof want / sizeof *want; i++)
        ck_assert_msg(fabs(number(config, want[i].key) - want[i].value) < 1e-12, "%s", want[i].key);
    ck_assert(!((float)number(config, "rms_norm_eps") < 1e-5f) &&
              !((float)number(config, "rms_norm_eps") > 1e-5f));
    ck_assert_str_eq(text(sc_json_get(config, "rope_scaling"), "rope_type"), "linear");
    ck_assert(cJSON_IsTrue(sc_json_get(config, "tie_word_embeddings")));
    const cJSON *factors = sc_json_get(config, "slipcast_rope_freq_factors");
    ck_assert_int_eq(cJSON_GetArraySize(factors), 2);
    ck_assert_int_eq(cJSON_GetArrayItem(factors, 1)->valueint, 8);
    ck_assert_str_eq(gguf->chat_template, "{{ x }}");
    ck_assert_int_eq((int)number(gguf->generation, "eos_token_id"), 4);

    const cJSON *model = sc_json_get(gguf->tokenizer, "model");
    ck_assert_int_eq((int)number(sc_json_get(model, "vocab"), "ab"), 2);
    ck_assert_int_eq(cJSON_GetArraySize(sc_json_get(model, "vocab")), 3);
    ck_assert_str_eq(sc_json_get(model, "merges")->child->valuestring, "a b");
    ck_assert(cJSON_IsTrue(sc_json_get(model, "ignore_merges")));
    const cJSON *added = sc_json_get(gguf->tokenizer, "added_tokens");
    ck_assert_int_eq(cJSON_GetArraySize(added), 2);
    ck_assert(cJSON_IsTrue(sc_json_get(added->child, "special")));
    ck_assert(cJSON_IsFalse(sc_json_get(added->child->next, "special")));
    ck_assert_str_eq(text(sc_json_get(gguf->tokenizer, "pre_tokenizer"), "name"), "llama-bpe");

    ck_assert_int_eq(gguf->tensors->count, 5);
    const sc_tensor *q = sc_tensors_find(gguf->tensors, "model.layers.0.self_attn.q_proj.weight");
    ck_assert_ptr_nonnull(q);
    ck_assert_int_eq(q->interleaved_heads, llama ? 2 : 0);
    ck_assert_int_eq(sc_tensor_read(q, 0, 8, out, &err), SC_OK);
    /* The first element of row 1: stored as row 2 where heads are interleaved. */
    ck_assert_int_eq((int)out[8], llama ? 48 + 16 : 48 + 8);
    const sc_tensor *down = sc_tensors_find(gguf->tensors, "model.layers.0.mlp.down_proj.weight");
    ck_assert_ptr_nonnull(down);
    ck_assert_int_eq(down->dtype, SC_DTYPE_OTHER);
    ck_assert_int_eq((int)down->shape[1], 256);
    assert_one_line(sc_tensor_read(down, 0, 1, out, &err), "Q4_K");
    sc_gguf_close(gguf);
}
END_TEST

#define ROWS_OF(table) ((int)(sizeof(table) / sizeof *(table)))

Suite *readers_suite(void) {
    Suite *suite = suite_create("readers");
    TCase *tcase = tcase_create("readers");
    tcase_add_checked_fixture(tcase, setup, teardown);
    tcase_set_timeout(tcase, 60);
    tcase_add_loop_test(tcase, json_is_read_strictly, 0, ROWS_OF(json_table));
    tcase_add_test(tcase, json_nests_64_deep_and_no_deeper);
    tcase_add_test(tcase, json_numbers_are_exact_in_any_locale);
    tcase_add_test(tcase, json_files_have_a_limit);
    tcase_add_loop_test(tcase, safetensors_are_judged_as_the_reference_does, 0,
                        ROWS_OF(safetensors_table));
    tcase_add_loop_test(tcase, what_is_no_safetensors_file_is_refused, 0, ROWS_OF(raw_table));
    tcase_add_loop_test(tcase, blocks_and_scales_are_one_tensor, 0, ROWS_OF(mxfp4_table));
    tcase_add_test(tcase, no_truncation_of_safetensors_is_accepted);
    tcase_add_loop_test(tcase, shards_are_those_of_the_index, 0, ROWS_OF(shard_table));
    tcase_add_test(tcase, a_tensor_in_two_shards_is_refused);
    tcase_add_test(tcase, a_folder_without_weights_is_told_which_names_were_tried);
    tcase_add_loop_test(tcase, every_type_reads_as_its_formula_says, 0, ROWS_OF(dtype_table));
    tcase_add_test(tcase, halves_at_the_edges_are_exact);
    tcase_add_test(tcase, interleaved_rows_come_back_in_the_checkpoints_order);
    tcase_add_loop_test(tcase, a_lying_gguf_is_refused, SOUND + 1, FAULTS);
    tcase_add_test(tcase, no_truncation_of_a_gguf_is_accepted);
    tcase_add_test(tcase, no_flipped_byte_of_a_gguf_crashes);
    tcase_add_loop_test(tcase, a_gguf_speaks_as_a_checkpoint_does, 0, ROWS_OF(arch_table));
    suite_add_tcase(suite, tcase);
    return suite;
}
