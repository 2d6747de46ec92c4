/* check_tokenizer.c - codegen/tokenizer_pack.h into runtime/tokenizer.h, against the published ids.
 */
#include "../codegen/gguf.h"
#include "../codegen/json.h"
#include "../codegen/pool.h"
#include "../codegen/tokenizer_pack.h"
#include "../runtime/tokenizer.h"
#include "../runtime/tokenizer_file.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

Suite *tokenizer_suite(void);

#define AUSTEN "examples/austen/tokenizer.json"
#define EXPECTED "tests/reference/austen/expected.json"

static cJSON *read_json(const char *path) {
    cJSON *json = NULL;
    sc_error err = { 0 };
    ck_assert_msg(sc_json_read(&json, path, (size_t)1 << 24, &err) == 0, "%s", err.message);
    return json;
}

static void write_temporary(char *path, const unsigned char *image, size_t bytes) {
    strcpy(path, "/tmp/check_tokenizer.XXXXXX");
    const int file = mkstemp(path);
    ck_assert_int_ge(file, 0);
    ck_assert_int_eq(write(file, image, bytes), (ssize_t)bytes);
    close(file);
}

static sc_tokenizer *open_json(const cJSON *json) {
    unsigned char *image = NULL;
    size_t bytes = 0;
    sc_error err = { 0 };
    sc_tokenizer *t = NULL;
    char path[64];
    ck_assert_msg(sc_tokenizer_pack(&image, &bytes, json, "tokenizer.json", &err) == 0, "%s",
                  err.message);
    write_temporary(path, image, bytes);
    ck_assert_msg(sc_tokenizer_open(&t, path, &err) == 0, "%s", err.message);
    unlink(path);
    free(image);
    return t;
}

static sc_tokenizer *open_austen(void) {
    cJSON *json = read_json(AUSTEN);
    sc_tokenizer *t = open_json(json);
    cJSON_Delete(json);
    return t;
}

static void check_ids(const sc_tokenizer *t, const char *text, size_t bytes, const cJSON *want) {
    int32_t *ids = NULL;
    int count = 0;
    sc_error err = { 0 };
    ck_assert_msg(sc_tokenizer_encode(t, text, bytes, true, &ids, &count, &err) == 0, "%s",
                  err.message);
    ck_assert_msg(count == cJSON_GetArraySize(want), "\"%s\": %d ids, wanted %d", text, count,
                  cJSON_GetArraySize(want));
    const cJSON *item = want->child;
    for (int i = 0; i < count; i++, item = item->next)
        ck_assert_msg(ids[i] == item->valueint, "\"%s\": id %d is %d, wanted %d", text, i, ids[i],
                      item->valueint);
    free(ids);
}

/* What the ids decode to; malloc'd, with a NUL behind. */
static char *decode(const sc_tokenizer *t, const cJSON *ids, bool keep_special) {
    char *text = NULL;
    size_t length = 0, n;
    const char *piece;
    sc_decoder *d = NULL;
    ck_assert_int_eq(sc_decoder_create(&d, t, keep_special, false, NULL), 0);
    FILE *out = open_memstream(&text, &length);
    for (const cJSON *item = ids->child; item; item = item->next) {
        ck_assert_int_eq(sc_decoder_push(d, item->valueint, &piece, &n, NULL), 0);
        fwrite(piece, 1, n, out);
    }
    ck_assert_int_eq(sc_decoder_end(d, &piece, &n, NULL), 0);
    fwrite(piece, 1, n, out);
    fclose(out);
    sc_decoder_destroy(d);
    return text;
}

static void check_text(const sc_tokenizer *t, const cJSON *ids, const char *want) {
    char *text = decode(t, ids, true);
    ck_assert_str_eq(text, want);
    free(text);
}

START_TEST(encodes_as_published) {
    sc_tokenizer *t = open_austen();
    cJSON *expected = read_json(EXPECTED);
    const cJSON *encode = sc_json_get(expected, "encode");
    ck_assert_int_gt(cJSON_GetArraySize(encode), 0);
    for (const cJSON *item = encode->child; item; item = item->next) {
        const char *text = sc_json_get(item, "text")->valuestring;
        check_ids(t, text, strlen(text), sc_json_get(item, "ids"));
        check_text(t, sc_json_get(item, "ids"), text);
    }
    for (const cJSON *c = sc_json_get(expected, "cases")->child; c; c = c->next) {
        const char *text = sc_json_get(c, "text")->valuestring;
        check_ids(t, text, strlen(text), sc_json_get(c, "prompt"));
        check_text(t, sc_json_get(c, "tokens"), sc_json_get(c, "decoded")->valuestring);
    }
    ck_assert_int_eq(sc_tokenizer_size(t), 1024);
    ck_assert(sc_tokenizer_is_special(t, 0));
    ck_assert(!sc_tokenizer_is_special(t, 1));
    ck_assert(!sc_tokenizer_is_special(t, -1));
    cJSON_Delete(expected);
    sc_tokenizer_close(t);
}
END_TEST

/* ---- tests/reference/tokenizers: every kind against the `tokenizers` package ---- */

#define KINDS "tests/reference/tokenizers/"

static const char *const kinds[] = {
    "bert_split",
    "bloom",
    "byte_normalizer",
    "cl100k",
    "command_r",
    "contiguous",
    "deepseek3",
    "deepseek_coder",
    "deepseek_llm",
    "exaone",
    "falcon",
    "gemma",
    "gpt2",
    "gpt2_prefix",
    "inverted",
    "kimi",
    "llama2",
    "llama3",
    "metaspace",
    "metaspace_never",
    "mistral3",
    "mpt",
    "next",
    "next_regex",
    "nfd_nmt",
    "nfkc_lower",
    "nfkd_accents",
    "o200k",
    "opt",
    "precompiled",
    "previous",
    "qwen2",
    "qwen35",
    "removed",
    "seed",
    "starcoder2",
    "tekken",
    "tiny_aya",
    "unigram",
    "unigram_bytes",
    "unigram_whole",
    "unknown",
    "unknown_fused",
    "white_split",
    "whitespace",
};

static cJSON *read_kind(const char *name) {
    char path[128];
    snprintf(path, sizeof path, KINDS "%s.json", name);
    return read_json(path);
}

/* Puts the trained model in the place of its name; the options there go before its own. */
static void complete(cJSON *tokenizer, const cJSON *models) {
    cJSON *options = cJSON_DetachItemFromObject(tokenizer, "model");
    cJSON *model =
        cJSON_Duplicate(sc_json_get(models, sc_json_get(options, "base")->valuestring), true);
    for (const cJSON *item = options->child; item; item = item->next) {
        cJSON_DeleteItemFromObject(model, item->string);
        cJSON_AddItemToObject(model, item->string, cJSON_Duplicate(item, true));
    }
    cJSON_AddItemToObject(tokenizer, "model", model);
    cJSON_Delete(options);
}

START_TEST(a_kind_does_what_the_package_does) {
    cJSON *models = read_kind("models"), *lines = read_kind("lines"), *kind = read_kind(kinds[_i]);
    complete(cJSON_GetObjectItem(kind, "tokenizer"), models);
    sc_tokenizer *t = open_json(sc_json_get(kind, "tokenizer"));
    const cJSON *ids = sc_json_get(kind, "ids")->child;
    const cJSON *decoded = sc_json_get(kind, "decoded")->child;
    int checked = 0;
    for (const cJSON *line = lines->child; line; line = line->next, checked++) {
        char bytes[4096], *text;
        size_t n = 0;
        for (const cJSON *b = line->child; b; b = b->next)
            bytes[n++] = (char)b->valueint;
        bytes[n] = '\0';
        check_ids(t, bytes, n, ids);
        text = decode(t, ids, false);
        ck_assert_str_eq(text, decoded->valuestring);
        free(text);
        ids = ids->next;
        decoded = decoded->next;
    }
    ck_assert_int_gt(checked, 25);
    sc_tokenizer_close(t);
    cJSON_Delete(kind);
    cJSON_Delete(lines);
    cJSON_Delete(models);
}
END_TEST

START_TEST(takes_long_words) {
    enum { LENGTH = 100000 };
    sc_tokenizer *t = open_austen();
    char *text = malloc(LENGTH);
    ck_assert_ptr_nonnull(text);
    const char letters[] = { 'a', ' ', '\n', '!', '\xFF' };
    for (size_t k = 0; k < sizeof letters; k++) {
        int32_t *ids = NULL;
        int count = 0;
        memset(text, letters[k], LENGTH);
        ck_assert_int_eq(sc_tokenizer_encode(t, text, LENGTH, false, &ids, &count, NULL), 0);
        ck_assert_int_gt(count, 0);
        free(ids);
    }
    free(text);
    sc_tokenizer_close(t);
}
END_TEST

START_TEST(replaces_broken_bytes) {
    static const struct {
        const char *in, *out;
    } cases[] = {
        { "a\xFF"
          "b",
          "a\xEF\xBF\xBD"
          "b" },
        { "\xE2\x82", "\xEF\xBF\xBD" },
        { "\xE2\x82"
          "x",
          "\xEF\xBF\xBD"
          "x" },
        { "\xED\xA0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD" },
        { "\xC0\x80", "\xEF\xBF\xBD\xEF\xBF\xBD" },
        { "\xF0\x9F\xE2\x82\xAC", "\xEF\xBF\xBD\xE2\x82\xAC" },
        { "\xF0\x9F\x99\x82", "\xF0\x9F\x99\x82" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        for (size_t step = 1; step <= 5; step++) {
            char out[64];
            size_t n = 0, length = strlen(cases[i].in);
            sc_utf8_stream stream = { { 0 }, 0 };
            for (size_t at = 0; at < length; at += step) {
                const size_t part = length - at < step ? length - at : step;
                n += sc_utf8_push(&stream, cases[i].in + at, part, out + n);
            }
            n += sc_utf8_flush(&stream, out + n);
            out[n] = '\0';
            ck_assert_str_eq(out, cases[i].out);
        }
}
END_TEST

/* A vocabulary of every byte's letter (those of ASCII print as they are) and some more. */
static cJSON *small(const char *rest) {
    char text[2048];
    snprintf(
        text, sizeof text,
        "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":1,\"1\":2,\"\xC4\xA0\":3,\"ab\":4,"
        "\"\xC4\xA0"
        "a\":5,\"<s>\":6,\"aba\":7,\"\xC3\x83\":8,\"\xC2\xA9\":9},"
        "\"merges\":[\"a b\",[\"\xC4\xA0\",\"a\"]]},"
        "\"added_tokens\":[{\"id\":6,\"content\":\"<s>\",\"special\":true,\"lstrip\":true,"
        "\"rstrip\":true}]%s}",
        rest);
    cJSON *json = NULL;
    sc_error err = { 0 };
    ck_assert_msg(sc_json_parse(&json, "small", text, strlen(text), &err) == 0, "%s", err.message);
    return json;
}

#define BYTE_LEVEL ",\"pre_tokenizer\":{\"type\":\"ByteLevel\",\"add_prefix_space\":false}"

static void check_small(const char *rest, const char *text, const char *want) {
    cJSON *json = small(rest), *ids = cJSON_Parse(want);
    sc_tokenizer *t = open_json(json);
    check_ids(t, text, strlen(text), ids);
    sc_tokenizer_close(t);
    cJSON_Delete(ids);
    cJSON_Delete(json);
}

START_TEST(follows_the_options) {
    check_small(BYTE_LEVEL, "ab a11b", "[4,5,2,2,1]");
    check_small(BYTE_LEVEL, "a  <s> \n b<s>", "[0,6,1,6]");
    check_small(BYTE_LEVEL, "e\xCC\x81", "[]");
    check_small(",\"normalizer\":{\"type\":\"NFC\"}" BYTE_LEVEL, "e\xCC\x81", "[8,9]");
    check_small(",\"pre_tokenizer\":{\"type\":\"ByteLevel\"}", "a", "[5]");
    check_small(",\"pre_tokenizer\":{\"type\":\"slipcast_pre\",\"name\":\"smollm\"}", " a 1b",
                "[5,3,2,1]");
    check_small(",\"pre_tokenizer\":{\"type\":\"Sequence\",\"pretokenizers\":[{\"type\":\"Split\","
                "\"pattern\":{\"Regex\":\"b\"},\"behavior\":\"Removed\",\"invert\":true},"
                "{\"type\":\"ByteLevel\",\"add_prefix_space\":false,\"use_regex\":false}]}",
                "abab", "[1,1]");
    check_small(BYTE_LEVEL ",\"post_processor\":{\"type\":\"TemplateProcessing\",\"single\":["
                           "{\"SpecialToken\":{\"id\":\"<s>\",\"type_id\":0}},{\"Sequence\":{"
                           "\"id\":\"A\",\"type_id\":0}}],\"special_tokens\":{\"<s>\":{\"id\":"
                           "\"<s>\",\"ids\":[6],\"tokens\":[\"<s>\"]}}}",
                "ab", "[6,4]");
    cJSON *json = small(BYTE_LEVEL);
    cJSON_AddTrueToObject(cJSON_GetObjectItem(json, "model"), "ignore_merges");
    cJSON *ids = cJSON_Parse("[7]");
    sc_tokenizer *t = open_json(json);
    check_ids(t, "aba", 3, ids);
    sc_tokenizer_close(t);
    cJSON_Delete(ids);
    cJSON_Delete(json);
}
END_TEST

static void check_refused(cJSON *json, const char *message) {
    unsigned char *image = NULL;
    size_t bytes = 0;
    sc_error err = { 0 };
    ck_assert_int_eq(sc_tokenizer_pack(&image, &bytes, json, "tokenizer.json", &err), SC_EINPUT);
    ck_assert_ptr_null(image);
    ck_assert_msg(strncmp(err.message, message, strlen(message)) == 0, "%s", err.message);
    cJSON_Delete(json);
}

START_TEST(refuses_by_key) {
    check_refused(small(",\"pre_tokenizer\":{\"type\":\"UnicodeScripts\"}"),
                  "tokenizer.json: pre_tokenizer.type: \"UnicodeScripts\" is not supported (");
    check_refused(small(",\"pre_tokenizer\":{\"type\":\"slipcast_pre\",\"name\":\"klingon\"}"),
                  "tokenizer.json: tokenizer.ggml.pre: \"klingon\" is not supported (");
    check_refused(small(BYTE_LEVEL ",\"normalizer\":{\"type\":\"BertNormalizer\"}"),
                  "tokenizer.json: normalizer.type: \"BertNormalizer\" is not supported (");
    check_refused(small(BYTE_LEVEL ",\"post_processor\":{\"type\":\"TemplateProcessing\"}"),
                  "tokenizer.json: post_processor.single: is no list (");
    cJSON *json = small(BYTE_LEVEL);
    cJSON_AddItemToArray(cJSON_GetObjectItem(cJSON_GetObjectItem(json, "model"), "merges"),
                         cJSON_CreateString("b zz"));
    check_refused(json, "tokenizer.json: model.merges[2]: \"zz\" is not in model.vocab");
    json = small(BYTE_LEVEL);
    cJSON_AddNumberToObject(cJSON_GetObjectItem(cJSON_GetObjectItem(json, "model"), "vocab"), "z",
                            4);
    check_refused(json, "tokenizer.json: model.vocab: id 4 stands for two tokens");
}
END_TEST

/*
 * tests/fuzz/corpus/gguf/vocabulary: <unk> <s> </s> <0x0A> ▁ t h e ▁t he ▁the and the user's "x ",
 * scores falling with the id, so that ▁t (8) is merged before he (9) where both may be.
 */
START_TEST(a_gguf_of_scores_is_read) {
    sc_error err = { 0 };
    sc_gguf *gguf = NULL;
    sc_pool *pool = sc_pool_create();
    ck_assert_msg(sc_gguf_open_vocabulary(&gguf, pool, "tests/fuzz/corpus/gguf/vocabulary", &err) ==
                      0,
                  "%s", err.message);
    sc_tokenizer *t = open_json(gguf->tokenizer);
    static const struct {
        const char *text, *ids, *decoded;
    } table[] = {
        { "the", "[1,10,2]", "the" },                   /* ▁t, he, then both */
        { "the x e", "[1,10,4,11,4,7,2]", "the x  e" }, /* a space before each part */
        { "hthe\n", "[1,4,6,5,9,3,2]", "hthe\n" },      /* no token th; a byte */
        { "t\xC3\xA9", "[1,8,0,2]", "t<unk>" },         /* no bytes for it */
    };
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        cJSON *ids = cJSON_Parse(table[i].ids);
        char *text;
        check_ids(t, table[i].text, strlen(table[i].text), ids);
        text = decode(t, ids, false);
        ck_assert_str_eq(text, table[i].decoded);
        free(text);
        cJSON_Delete(ids);
    }
    sc_tokenizer_close(t);
    sc_gguf_close(gguf);
    sc_pool_destroy(pool);
}
END_TEST

/* Whole files that somebody made to hurt; each ends in its message, and at once. */
static const struct {
    const char *json, *message;
} hostile[] = {
    { "[]", "tokenizer.json: is no object (take the model's published tokenizer.json)" },
    { "{\"model\":{\"type\":\"WordPiece\",\"vocab\":{}}}",
      "tokenizer.json: model.type: \"WordPiece\" is not supported (BPE and Unigram are; pass ids "
      "instead of text)" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":[],\"merges\":[]}}",
      "tokenizer.json: model.vocab: is no object (take the model's published tokenizer.json)" },
    { "{\"model\":{\"type\":\"Unigram\",\"vocab\":{\"a\":0}}}",
      "tokenizer.json: model.vocab: is no list (take the model's published tokenizer.json)" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{},\"merges\":[]}}",
      "tokenizer.json: model.vocab: is empty (take the model's published tokenizer.json)" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":-1},\"merges\":[]}}",
      "tokenizer.json: model.vocab: an id is no integer from 0 to 4194303 (take the model's "
      "published tokenizer.json)" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":4194304},\"merges\":[]}}",
      "tokenizer.json: model.vocab: an id is no integer from 0 to 4194303 (take the model's "
      "published tokenizer.json)" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":\"0\"},\"merges\":[]}}",
      "tokenizer.json: model.vocab: an id is no integer from 0 to 4194303 (take the model's "
      "published tokenizer.json)" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"b\":0},\"merges\":[]}}",
      "tokenizer.json: model.vocab: id 0 stands for two tokens (take the model's published "
      "tokenizer.json)" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0,\"aa\":1},\"merges\":[\"a a\",\"aa aa\"]}}",
      "tokenizer.json: model.merges[1]: \"aaaa\" is not in model.vocab (take the model's published "
      "tokenizer.json)" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[\"a\"]}}",
      "tokenizer.json: model.merges[0]: is no pair of tokens (take the model's published "
      "tokenizer.json)" },
    { "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[],\"unk_token\":\"u\"}}",
      "tokenizer.json: model.unk_token: is not in model.vocab (take the model's published "
      "tokenizer.json)" },
    { "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"a\",NaN]]}}",
      "tokenizer.json: model.vocab: a score is not finite (take the model's published "
      "tokenizer.json)" },
    { "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"a\",\"b\"]]}}",
      "tokenizer.json: model.vocab: an entry is no pair of a token and its score (take the model's "
      "published tokenizer.json)" },
    { "{\"model\":{\"type\":\"Unigram\",\"unk_id\":1,\"vocab\":[[\"a\",0]]}}",
      "tokenizer.json: model.unk_id: is no token's id (take the model's published "
      "tokenizer.json)" },
    { "{\"model\":{\"type\":\"Unigram\",\"vocab\":[[\"a\",0]]}}",
      "tokenizer.json: model.unk_id: an id is no integer from 0 to 4194303 (take the model's "
      "published tokenizer.json)" },
    { "{\"model\":{\"vocab\":{\"a\":0},\"merges\":[]},\"added_tokens\":[{\"id\":0,\"content\":"
      "\"b\"}]}",
      "tokenizer.json: added_tokens: id 0 stands for two tokens (take the model's published "
      "tokenizer.json)" },
    { "{\"model\":{\"vocab\":{\"a\":0},\"merges\":[]},\"added_tokens\":[{\"id\":1,\"content\":"
      "\"a\"}]}",
      "tokenizer.json: added_tokens: one has another id in model.vocab (take the model's published "
      "tokenizer.json)" },
    { "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a)\\\\1\"},\"behavior\":"
      "\"Isolated\"}}",
      "tokenizer.json: pattern: an escape: \"(a)\\1\" is not supported (only what PCRE2 and "
      "Oniguruma read alike)" },
    { "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"[^a[^b]]\"},\"behavior\":"
      "\"Isolated\"}}",
      "tokenizer.json: pattern: a negation in a class: \"[^a[^b]]\" is not supported (only what "
      "PCRE2 and Oniguruma read alike)" },
    { "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(\"},\"behavior\":"
      "\"Isolated\"},\"model\":{\"vocab\":{\"a\":0},\"merges\":[]}}",
      "tokenizer.json: a pattern: PCRE2 does not take it: missing closing parenthesis at byte 1 "
      "(use "
      "a tokenizer with another pre_tokenizer)" },
    { "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":"
      "\"((a{1,100}){1,100}){1,100}\"},\"behavior\":\"Isolated\"},\"model\":{\"vocab\":{\"a\":0},"
      "\"merges\":[]}}",
      "tokenizer.json: a pattern: PCRE2 does not take it: regular expression is too large at byte "
      "26 "
      "(use a tokenizer with another pre_tokenizer)" },
    { "{\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"String\":\"\"},\"behavior\":"
      "\"Isolated\"}}",
      "tokenizer.json: pre_tokenizer.pattern: is empty (take the model's published "
      "tokenizer.json)" },
    { "{\"normalizer\":{\"type\":\"Precompiled\",\"precompiled_charsmap\":\"AAAA/w==\"},\"model\":{"
      "\"vocab\":{\"a\":0},\"merges\":[]}}",
      "tokenizer.json: normalizer.precompiled_charsmap: is no compiled map (take the model's "
      "published tokenizer.json)" },
    { "{\"decoder\":{\"type\":\"WordPiece\"}}",
      "tokenizer.json: decoder.type: \"WordPiece\" is not supported (ByteLevel, Metaspace, "
      "Replace, "
      "ByteFallback, Fuse, Strip and a Sequence of them are)" },
};

START_TEST(refuses_what_is_hostile) {
    cJSON *json = NULL;
    sc_error err = { 0 };
    unsigned char *image = NULL;
    size_t bytes = 0;
    const char *text = hostile[_i].json;
    ck_assert_msg(sc_json_parse(&json, "hostile", text, strlen(text), &err) == 0, "%s",
                  err.message);
    ck_assert_int_eq(sc_tokenizer_pack(&image, &bytes, json, "tokenizer.json", &err), SC_EINPUT);
    ck_assert_ptr_null(image);
    ck_assert_str_eq(err.message, hostile[_i].message);
    cJSON_Delete(json);
}
END_TEST

/* What packs well may still go wild on a text: that is an error too, and at once. */
static const struct {
    const char *parts, *message;
} wild[] = {
    { ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(a+)+$\"},\"behavior\":"
      "\"Isolated\"}",
      "text: the tokenizer's pattern 0 gives up: match limit exceeded (pass the text in parts)" },
    { ",\"pre_tokenizer\":{\"type\":\"Split\",\"pattern\":{\"Regex\":\"(?R)?a\"},\"behavior\":"
      "\"Isolated\"}",
      "text: the tokenizer's pattern 0 gives up: nested recursion at the same subject position "
      "(pass "
      "the text in parts)" },
    { ",\"normalizer\":{\"type\":\"Sequence\",\"normalizers\":["
      "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"aaaaaaaaaaaaaaaa\"},"
      "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"aaaaaaaaaaaaaaaa\"},"
      "{\"type\":\"Replace\",\"pattern\":{\"String\":\"a\"},\"content\":\"aaaaaaaaaaaaaaaa\"},"
      "{\"type\":\"Replace\",\"pattern\":{\"Regex\":\"a\"},\"content\":\"aaaaaaaaaaaaaaaa\"}]}",
      "text: the tokenizer's steps make more than 16 times as much of it (use the model's "
      "published "
      "tokenizer.json)" },
};

START_TEST(a_wild_step_ends_in_an_error) {
    cJSON *json = small(wild[_i].parts);
    sc_tokenizer *t = open_json(json);
    sc_error err = { 0 };
    int32_t *ids = NULL;
    int count = 0;
    static const char text[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!";
    ck_assert_int_eq(sc_tokenizer_encode(t, text, strlen(text), true, &ids, &count, &err),
                     SC_EINPUT);
    ck_assert_str_eq(err.message, wild[_i].message);
    sc_tokenizer_close(t);
    cJSON_Delete(json);
}
END_TEST

/* 1 MiB of one word: merging is by a heap, so that this takes a moment only. */
START_TEST(long_words_of_every_model_take_a_moment) {
    enum { LENGTH = 1 << 20 };
    static const char *const models_of[] = { "gpt2", "gemma", "unigram_whole" };
    cJSON *models = read_kind("models");
    char *text = malloc(LENGTH);
    ck_assert_ptr_nonnull(text);
    for (size_t i = 0; i < sizeof models_of / sizeof *models_of; i++) {
        cJSON *kind = read_kind(models_of[i]);
        complete(cJSON_GetObjectItem(kind, "tokenizer"), models);
        sc_tokenizer *t = open_json(sc_json_get(kind, "tokenizer"));
        int32_t *ids = NULL;
        int count = 0;
        memset(text, 'a', LENGTH);
        ck_assert_int_eq(sc_tokenizer_encode(t, text, LENGTH, false, &ids, &count, NULL), 0);
        ck_assert_int_gt(count, 0);
        free(ids);
        sc_tokenizer_close(t);
        cJSON_Delete(kind);
    }
    free(text);
    cJSON_Delete(models);
}
END_TEST

/* Whatever is damaged, with its checksum made right again or not, opens to an error or works. */
static void check_damage(const cJSON *json) {
    unsigned char *image = NULL, *again = NULL;
    size_t bytes = 0, same = 0;
    ck_assert_int_eq(sc_tokenizer_pack(&image, &bytes, json, "small", NULL), 0);
    ck_assert_int_eq(sc_tokenizer_pack(&again, &same, json, "small", NULL), 0);
    ck_assert_uint_eq(bytes, same);
    ck_assert_mem_eq(image, again, bytes);
    for (size_t at = 0; at < bytes; at++)
        for (int mend = 0; mend < 2; mend++) {
            sc_tokenizer *t = NULL;
            memcpy(again, image, bytes);
            again[at] ^= 0xFF;
            if (mend) {
                const uint64_t sum = sc_tokenizer_checksum(again + 16, bytes - 16);
                memcpy(again + 8, &sum, 8);
            }
            const int rc = sc_tokenizer_open_image(&t, again, bytes, "small", NULL);
            ck_assert(mend || rc == SC_EINPUT);
            int32_t *ids = NULL;
            int count;
            if (rc == 0 && sc_tokenizer_encode(t, "ab a<s>1", 8, true, &ids, &count, NULL) == 0)
                free(ids);
            sc_tokenizer_close(t);
        }
    free(again);
    free(image);
}

START_TEST(survives_damage) {
    static const char unigram[] =
        "{\"model\":{\"type\":\"Unigram\",\"unk_id\":0,\"vocab\":[[\"u\",0],[\"a\",-1],[\"ab\",-2]]"
        "},"
        "\"normalizer\":{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"_\"},"
        "\"added_tokens\":[{\"id\":3,\"content\":\" 1\",\"normalized\":true}]}";
    cJSON *json = small(BYTE_LEVEL);
    check_damage(json);
    cJSON_Delete(json);
    ck_assert_int_eq(sc_json_parse(&json, "small", unigram, strlen(unigram), NULL), 0);
    check_damage(json);
    cJSON_ReplaceItemInObject(cJSON_GetObjectItem(json, "model"), "type",
                              cJSON_CreateString("slipcast_spm"));
    check_damage(json);
    cJSON_Delete(json);
}
END_TEST

Suite *tokenizer_suite(void) {
    Suite *suite = suite_create("tokenizer");
    TCase *all = tcase_create("all");
    tcase_set_timeout(all, 60);
    tcase_add_test(all, encodes_as_published);
    tcase_add_loop_test(all, a_kind_does_what_the_package_does, 0,
                        (int)(sizeof kinds / sizeof *kinds));
    tcase_add_test(all, takes_long_words);
    tcase_add_test(all, replaces_broken_bytes);
    tcase_add_test(all, follows_the_options);
    tcase_add_test(all, refuses_by_key);
    tcase_add_test(all, a_gguf_of_scores_is_read);
    tcase_add_loop_test(all, refuses_what_is_hostile, 0, (int)(sizeof hostile / sizeof *hostile));
    tcase_add_loop_test(all, a_wild_step_ends_in_an_error, 0, (int)(sizeof wild / sizeof *wild));
    tcase_add_test(all, long_words_of_every_model_take_a_moment);
    tcase_add_test(all, survives_damage);
    suite_add_tcase(suite, all);
    return suite;
}
