/*
 * check_cli.c - the command from outside: exit codes, the one line of complaint, what is left
 * behind, and that exports are reproducible.
 *
 * Models are the reference's tiny ones, copied and spoilt; each test works in a folder of its own.
 */
#include <check.h>
#include <dirent.h>
#include <fcntl.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../codegen/json.h"
#include "../codegen/safetensors.h"
#include "support/run.h"

Suite *cli_suite(void);

#define TINY "tests/reference/tiny/llama"

/* m/ holds models, w/ what the command writes: empty after every refusal. */
static char home[] = "/tmp/slipcast-cli-XXXXXX";
static sc_pool *pool;

static void sh(const char *command) {
    char *talk;
    ck_assert_msg(run(NULL, &talk, "H=%s; %s", home, command) == 0, "%s: %s", command, talk);
    free(talk);
}

static void setup(void) {
    strcpy(home + strlen(home) - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(home));
    pool = sc_pool_create();
    ck_assert_ptr_nonnull(pool);
    sh("mkdir $H/m $H/w $H/cache && cp " TINY "/config.json " TINY "/model.safetensors $H/m");
}

static void teardown(void) {
    sh("chmod -R u+w $H && rm -rf $H");
    sc_pool_destroy(pool);
}

static int entries(const char *folder) {
    DIR *dir = opendir(sc_pool_printf(pool, "%s/%s", home, folder));
    ck_assert_ptr_nonnull(dir);
    int count = -2; /* . and .. */
    while (readdir(dir))
        count++;
    closedir(dir);
    return count;
}

/* text holds every part of parts, which are apart by '|'. */
static void assert_holds(const char *text, const char *parts) {
    char *list = sc_pool_strdup(pool, parts), *rest = list;
    for (char *part; (part = strsep(&rest, "|"));)
        ck_assert_msg(strstr(text, part), "\"%s\" is not in \"%s\"", part, text);
}

/* The command ends with that status, nothing on stdout, one line on stderr that holds the parts. */
static void refuse(int status, const char *parts, const char *command) {
    char *output, *talk;
    const int got = run(&output, &talk, "H=%s; export SLIPCAST_CACHE=$H/cache; %s", home, command);
    const char *line = strchr(talk, '\n');
    ck_assert_msg(got == status, "%s: exit %d, not %d: %s", command, got, status, talk);
    ck_assert_msg(!*output, "%s: wrote \"%s\"", command, output);
    ck_assert_msg(line && !line[1] && line > talk, "%s: not one line: \"%s\"", command, talk);
    assert_holds(talk, parts);
    ck_assert_msg(entries("w") == 0, "%s: left something behind", command);
    free(output);
    free(talk);
}

/* ---- usage ---- */

#define EXPORT "$SLIPCAST export $H/m -o $H/w/x "

static const struct {
    const char *command, *parts;
} usage_table[] = {
    { "$SLIPCAST frob", "frob|no such command" },
    { "$SLIPCAST \"a\nb\"", "a?b" },
    { "$SLIPCAST export", "which model" },
    { "$SLIPCAST verify", "which model" },
    { "$SLIPCAST export $H/m", "-o" },
    { "$SLIPCAST export $H/m -o", "-o|value" },
    { EXPORT "--frob", "--frob" },
    { EXPORT "--frob 3", "--frob|unknown" },
    { EXPORT "more", "more|too many" },
    { "$SLIPCAST inspect $H/m more", "more|too many" },
    { "$SLIPCAST plan $H/m more", "more|too many" },
    { "$SLIPCAST run $H/m more -p x", "more|too many" },
    { "$SLIPCAST pack $H/m", "MODEL and DIR" },
    { "$SLIPCAST diff $H/m", "two castings" },
    { "$SLIPCAST verify a b c", "c|too many" },
    { EXPORT "--max-cache-len", "--max-cache-len|value" },
    { EXPORT "--max-cache-len 0", "--max-cache-len|\"0\"" },
    { EXPORT "--max-cache-len -5", "--max-cache-len|\"-5\"" },
    { EXPORT "--max-cache-len 12x", "--max-cache-len|\"12x\"" },
    { EXPORT "--max-cache-len ''", "--max-cache-len|\"\"" },
    { EXPORT "--max-cache-len 1e3", "--max-cache-len|\"1e3\"" },
    { EXPORT "--max-cache-len 99999999999999999999", "--max-cache-len|99999999999999999999" },
    { EXPORT "--max-cache-len 99999999999999", "--max-cache-len|99999999999999" },
    { EXPORT "--batch-size 1.5", "--batch-size|\"1.5\"" },
    { EXPORT "--batch-size 1000000000000", "--batch-size|1000000000000" },
    { EXPORT "--dtype float8", "--dtype|\"float8\"|float32|bfloat16|float16" },
    { EXPORT "--arch vax", "--arch|\"vax\"|native" },
    { EXPORT "--target tpu", "--target|\"tpu\"|cpu" },
    { EXPORT "--name 1a", "--name|\"1a\"|identifier" },
    { EXPORT "--name ''", "--name|\"\"|identifier" },
    { EXPORT "--name a-b", "--name|\"a-b\"|identifier" },
    { EXPORT "--name ../x", "--name|\"../x\"|identifier" },
    { EXPORT "--name \"a\nb\"", "--name|\"a?b\"|identifier" },
    { EXPORT "--name \xc3\xa9t\xc3\xa9", "--name|identifier" },
    { EXPORT "--name runtime", "--name|\"runtime\"|taken" },
    { EXPORT "--name all", "--name|\"all\"|taken" },
    { EXPORT "--name sc_threads", "--name|\"sc_threads\"|taken" },
    { "$SLIPCAST run $H/m", "-p" },
    { "$SLIPCAST run $H/m -p", "-p|value" },
    { "$SLIPCAST run $H/m -p x --frob 1", "--frob" },
    { "$SLIPCAST export $H/m -o $H/m", "$H/m|manifest.json|another place" },
};

START_TEST(wrong_words_are_usage) {
    const char *parts = usage_table[_i].parts;
    if (!strncmp(parts, "$H", 2))
        parts = sc_pool_printf(pool, "%s%s", home, parts + 2);
    refuse(2, parts, usage_table[_i].command);
}
END_TEST

START_TEST(help_goes_to_stdout_and_no_word_at_all_is_usage) {
    char *output, *talk;
    ck_assert_int_eq(run(&output, &talk, "$SLIPCAST --help"), 0);
    ck_assert_str_eq(talk, "");
    assert_holds(output, "inspect|plan|export|pack|run|bench|verify|diff|Exit codes");
    free(output);
    free(talk);
    ck_assert_int_eq(run(&output, &talk, "$SLIPCAST"), 2);
    ck_assert_str_eq(output, "");
    free(output);
    free(talk);
}
END_TEST

/* ---- config.json ---- */

/* Sets, with value NULL removes, a key of config.json in $H/m. */
static void edit_config(const char *key, const char *value) {
    char *path = sc_pool_printf(pool, "%s/m/config.json", home);
    cJSON *json;
    sc_error err = { 0 };
    ck_assert_msg(!sc_json_read(&json, path, 1 << 20, &err), "%s", err.message);
    cJSON_DeleteItemFromObjectCaseSensitive(json, key);
    if (value)
        cJSON_AddRawToObject(json, key, value);
    char *text = cJSON_Print(json);
    FILE *f = fopen(path, "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
    cJSON_free(text);
    cJSON_Delete(json);
}

static const struct {
    const char *key, *value, *parts;
} config_table[] = {
    { "model_type", "\"gpt9\"", "config.json|model_type|\"gpt9\"" },
    { "model_type", NULL, "config.json|model_type" },
    { "rope_parameters", "{\"rope_type\": \"ntk2\"}", "config.json|rope_type|\"ntk2\"|linear" },
    { "num_attention_heads", "5", "config.json|num_key_value_heads|5" },
    { "num_key_value_heads", "3", "config.json|num_key_value_heads|3" },
    { "layer_types", "[\"full_attention\"]", "config.json|layer_types" },
    { "layer_types", "[\"full_attention\", \"frob\"]", "config.json|layer_types|frob" },
    { "hidden_size", "NaN", "config.json|hidden_size" },
    { "hidden_size", "Infinity", "config.json|hidden_size" },
    { "hidden_size", "64.5", "config.json|hidden_size|64.5" },
    { "hidden_size", "\"64\"", "config.json|hidden_size|\"64\"" },
    { "hidden_size", "4611686018427387904", "config.json|hidden_size" },
    { "hidden_size", "-64", "config.json|hidden_size|-64" },
    { "vocab_size", "[]", "config.json|vocab_size" },
    { "vocab_size", "1e18", "config.json|vocab_size" },
    { "num_hidden_layers", "1e9", "config.json|num_hidden_layers" },
    { "rms_norm_eps", "NaN", "config.json|rms_norm_eps" },
    { "rms_norm_eps", "\"small\"", "config.json|rms_norm_eps" },
    { "tie_word_embeddings", "3", "config.json|tie_word_embeddings" },
    { "hidden_act", "\"frob\\n*/\"", "config.json|hidden_act" },
    { "model_type", "\"a\\nb*/{{x}}\"", "config.json|model_type" },
};

START_TEST(a_wrong_config_is_bad_input) {
    edit_config(config_table[_i].key, config_table[_i].value);
    refuse(3, config_table[_i].parts, EXPORT);
}
END_TEST

static const struct {
    const char *command, *parts;
} input_table[] = {
    { "$SLIPCAST export $H/none -o $H/w/x", "/none|no such model" },
    { "$SLIPCAST export $H/w -o $H/w/x", "config.json" },
    { "echo '{' >$H/m/config.json; " EXPORT, "config.json" },
    { "echo '{} {}' >$H/m/config.json; " EXPORT, "config.json" },
    { "printf '' >$H/m/config.json; " EXPORT, "config.json" },
    { "echo '[1]' >$H/m/config.json; " EXPORT, "config.json" },
    { "rm $H/m/config.json; mkfifo $H/m/config.json; " EXPORT, "config.json" },
    { "echo '{' >$H/m/tokenizer.json; " EXPORT, "tokenizer.json" },
    { "echo '{}' >$H/m/tokenizer.json; " EXPORT, "tokenizer.json" },
    { "echo '[' >$H/m/generation_config.json; " EXPORT, "generation_config.json" },
    { "printf 'GGUF' >$H/m/x.gguf; $SLIPCAST export $H/m/x.gguf -o $H/w/x", "x.gguf" },
    { "truncate -s 100000 $H/m/model.safetensors; " EXPORT, "model.safetensors" },
    { "truncate -s 3 $H/m/model.safetensors; " EXPORT, "model.safetensors|3 bytes" },
    { "truncate -s 0 $H/m/model.safetensors; " EXPORT, "model.safetensors|0 bytes" },
    { "echo x >>$H/m/model.safetensors; " EXPORT, "model.safetensors|after the last tensor" },
    { "printf 'version https://git-lfs.github.com/spec/v1\\noid sha256:00\\nsize 5\\n' "
      ">$H/m/model.safetensors; " EXPORT,
      "model.safetensors|git-lfs pointer|git lfs pull" },
    { "$SLIPCAST verify $H/w", "manifest.json" },
    { "$SLIPCAST verify $H/none", "manifest.json" },
    { "$SLIPCAST diff $H/w $H/none", "manifest.json" },
    { "$SLIPCAST pack $H/m $H/w", "manifest.json" },
    { "$SLIPCAST run $H/none -p x", "/none|no such model" },
    { "$SLIPCAST run $H/m/config.json --token-ids 1", "config.json|no weights" },
    { "rm $H/m/model.safetensors; $SLIPCAST run $H/m --token-ids 1", "model.safetensors" },
};

START_TEST(a_wrong_file_is_bad_input) { refuse(3, input_table[_i].parts, input_table[_i].command); }
END_TEST

/* ---- model.safetensors ---- */

typedef enum { KEEP, DROP, RENAME, FLATTEN, RETYPE, ENLARGE, SCALE, ADD } change;

typedef struct {
    const char *name;
    change what;
    const char *to; /* RENAME, RETYPE, ADD: a copy of that name */
} edit;

static void put_u64(FILE *f, uint64_t n) {
    for (int i = 0; i < 8; i++)
        fputc((int)(n >> 8 * i & 255), f);
}

static void add_entry(cJSON *header, const sc_tensor *t, const char *name, const edit *e,
                      uint64_t *at) {
    cJSON *entry = cJSON_AddObjectToObject(header, name);
    cJSON_AddStringToObject(entry, "dtype", e && e->what == RETYPE ? e->to : t->type);
    cJSON *shape = cJSON_AddArrayToObject(entry, "shape"), *range;
    int64_t elements = 1;
    for (int i = 0; i < t->rank; i++)
        elements *= t->shape[i];
    if (e && e->what == FLATTEN)
        cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)elements));
    else
        for (int i = 0; i < t->rank; i++)
            cJSON_AddItemToArray(shape, cJSON_CreateNumber((double)t->shape[i]));
    range = cJSON_AddArrayToObject(entry, "data_offsets");
    cJSON_AddItemToArray(range, cJSON_CreateNumber((double)*at));
    cJSON_AddItemToArray(range, cJSON_CreateNumber((double)(*at += t->bytes)));
}

/* Scaled: another number; enlarged: 65520, the least that float16 has no number for. */
static void put_bytes(FILE *f, const sc_tensor *t, change what) {
    unsigned char *bytes = malloc(t->bytes);
    ck_assert_ptr_nonnull(bytes);
    ck_assert_int_eq(sc_tensors_pread(t->fd, t->file, bytes, t->bytes, t->offset, NULL), 0);
    if (what == SCALE)
        bytes[2] ^= 64;
    if (what == ENLARGE)
        memcpy(bytes + 4 * 65, (const unsigned char[]){ 0x00, 0xf0, 0x7f, 0x47 }, 4);
    fwrite(bytes, 1, t->bytes, f);
    free(bytes);
}

/* The tiny model's tensors number first, first + step, … with one edit, as the file m/NAME. */
static void write_model(const char *file, int first, int step, const edit *e) {
    sc_tensors *tensors;
    sc_error err = { 0 };
    uint64_t at = 0;
    cJSON *header = cJSON_CreateObject();
    FILE *f = fopen(sc_pool_printf(pool, "%s/m/%s", home, file), "wb");
    ck_assert_ptr_nonnull(f);
    ck_assert_msg(!sc_safetensors_open_file(&tensors, pool, TINY "/model.safetensors", &err), "%s",
                  err.message);
    for (int pass = 0; pass < 2; pass++) {
        for (int i = first; i < tensors->count; i += step) {
            const sc_tensor *t = &tensors->tensor[i];
            const edit *mine = e && !strcmp(e->name, t->name) ? e : NULL;
            if (mine && mine->what == DROP)
                continue;
            const bool add = mine && (mine->what == ADD || mine->what == SCALE);
            if (pass)
                put_bytes(f, t, mine && mine->what == ENLARGE ? ENLARGE : KEEP);
            else
                add_entry(header, t, mine && mine->what == RENAME ? mine->to : t->name, mine, &at);
            if (add && pass)
                put_bytes(f, t, mine->what);
            else if (add)
                add_entry(header, t, mine->to, NULL, &at);
        }
        if (!pass) {
            char *text = cJSON_PrintUnformatted(header);
            put_u64(f, strlen(text));
            fputs(text, f);
            cJSON_free(text);
        }
    }
    fclose(f);
    cJSON_Delete(header);
    sc_tensors_close(tensors);
}

static const struct {
    edit edit;
    const char *parts;
} tensor_table[] = {
    { { "model.norm.weight", DROP, NULL }, "model.safetensors|model.norm.weight|missing" },
    { { "model.layers.1.mlp.up_proj.weight", RENAME, "model.layers.1.mlp.upp_proj.weight" },
      "model.safetensors|model.layers.1.mlp.up_proj.weight|missing" },
    { { "model.layers.1.self_attn.k_proj.weight", FLATTEN, NULL },
      "model.safetensors|model.layers.1.self_attn.k_proj.weight|[2048]|[32, 64]" },
    { { "model.embed_tokens.weight", RETYPE, "I32" },
      "model.safetensors|model.embed_tokens.weight|I32|F32" },
    { { "model.embed_tokens.weight", RETYPE, "Q99" },
      "model.safetensors|model.embed_tokens.weight|Q99" },
};

START_TEST(a_tensor_that_is_not_as_the_config_says_is_bad_input) {
    write_model("model.safetensors", 0, 1, &tensor_table[_i].edit);
    refuse(3, tensor_table[_i].parts, EXPORT);
}
END_TEST

/* Of a linear, and of the embedding. bfloat16 ends where float32 does. */
START_TEST(a_weight_beyond_float16_is_bad_input) {
    const edit o_proj = { "model.layers.0.self_attn.o_proj.weight", ENLARGE, NULL };
    write_model("model.safetensors", 0, 1, &o_proj);
    refuse(3, "model.safetensors|model.layers.0.self_attn.o_proj.weight|65520 at [1, 1]|bfloat16",
           EXPORT "--dtype float16");
    const edit embedding = { "model.embed_tokens.weight", ENLARGE, NULL };
    write_model("model.safetensors", 0, 1, &embedding);
    refuse(3, "model.safetensors|model.embed_tokens.weight|65520 at [1, 1]|bfloat16",
           EXPORT "--dtype float16");
    sh(EXPORT "--dtype bfloat16 --quiet");
}
END_TEST

START_TEST(another_size_in_the_config_names_tensor_and_both_shapes) {
    edit_config("num_key_value_heads", "1");
    refuse(3, "model.safetensors|k_proj.weight|[32, 64]|[16, 64]", EXPORT);
}
END_TEST

START_TEST(untied_without_lm_head_is_bad_input) {
    edit_config("tie_word_embeddings", "false");
    refuse(3, "model.safetensors|lm_head.weight|missing", EXPORT);
}
END_TEST

START_TEST(an_extra_tensor_is_a_warning) {
    char *talk;
    write_model("model.safetensors", 0, 1,
                &(edit){ "model.norm.weight", ADD, "model.frob.weight" });
    ck_assert_int_eq(run(NULL, &talk, "H=%s; " EXPORT, home), 0);
    assert_holds(talk, "model.safetensors|model.frob.weight|not used");
    ck_assert_int_eq(entries("w"), 1);
    free(talk);
}
END_TEST

START_TEST(tied_with_an_equal_lm_head_is_the_casting_without_it) {
    char *talk;
    write_model("model.safetensors", 0, 1,
                &(edit){ "model.embed_tokens.weight", ADD, "lm_head.weight" });
    ck_assert_int_eq(run(NULL, &talk, "H=%s; " EXPORT, home), 0);
    ck_assert_str_eq(talk, "");
    sh("$SLIPCAST export " TINY " -o $H/w/y && cmp $H/w/x/llama.weights $H/w/y/llama.weights");
    free(talk);
}
END_TEST

START_TEST(tied_with_another_lm_head_uses_it_and_says_so) {
    char *talk;
    write_model("model.safetensors", 0, 1,
                &(edit){ "model.embed_tokens.weight", SCALE, "lm_head.weight" });
    ck_assert_int_eq(run(NULL, &talk, "H=%s; " EXPORT, home), 0);
    assert_holds(talk, "config.json|tie_word_embeddings|lm_head.weight|is used");
    free(talk);
    edit_config("tie_word_embeddings", "false");
    sh("$SLIPCAST export $H/m -o $H/w/y && cmp $H/w/x/llama.weights $H/w/y/llama.weights && "
       "cmp $H/w/x/llama_model.c $H/w/y/llama_model.c");
}
END_TEST

/* ---- shards ---- */

static void write_index(const char *second, const char *swap) {
    sc_tensors *tensors;
    sc_error err = { 0 };
    ck_assert_msg(!sc_safetensors_open_file(&tensors, pool, TINY "/model.safetensors", &err), "%s",
                  err.message);
    cJSON *json = cJSON_CreateObject(), *map = cJSON_AddObjectToObject(json, "weight_map");
    for (int i = 0; i < tensors->count; i++) {
        const char *name = tensors->tensor[i].name;
        const bool odd = (i % 2 != 0) != (swap && !strcmp(swap, name));
        cJSON_AddStringToObject(map, name, odd ? second : "model-00001-of-00002.safetensors");
    }
    char *text = cJSON_Print(json);
    FILE *f = fopen(sc_pool_printf(pool, "%s/m/model.safetensors.index.json", home), "w");
    ck_assert_ptr_nonnull(f);
    fputs(text, f);
    fclose(f);
    cJSON_free(text);
    cJSON_Delete(json);
    sc_tensors_close(tensors);
    sh("rm $H/m/model.safetensors");
}

static void write_shards(const edit *e) {
    write_model("model-00001-of-00002.safetensors", 0, 2, e);
    write_model("model-00002-of-00002.safetensors", 1, 2, e);
}

#define SHARD2 "model-00002-of-00002.safetensors"

START_TEST(shards_make_the_same_weights_as_one_file) {
    write_shards(NULL);
    write_index(SHARD2, NULL);
    sh(EXPORT "&& $SLIPCAST export " TINY " -o $H/w/y && "
              "cmp $H/w/x/llama.weights $H/w/y/llama.weights && $SLIPCAST verify $H/w/x $H/m");
}
END_TEST

START_TEST(a_missing_shard_is_named) {
    write_shards(NULL);
    write_index(SHARD2, NULL);
    sh("rm $H/m/" SHARD2);
    refuse(3, SHARD2, EXPORT);
}
END_TEST

START_TEST(a_tensor_in_the_wrong_shard_is_named) {
    write_shards(NULL);
    write_index(SHARD2, "model.norm.weight");
    refuse(3, "index.json|model.norm.weight|" SHARD2, EXPORT);
}
END_TEST

START_TEST(a_tensor_in_no_shard_is_named) {
    write_shards(&(edit){ "model.norm.weight", DROP, NULL });
    write_index(SHARD2, NULL);
    refuse(3, "index.json|model.norm.weight", EXPORT);
}
END_TEST

START_TEST(a_shard_outside_the_folder_is_refused) {
    write_shards(NULL);
    sh("mv $H/m/" SHARD2 " $H/" SHARD2);
    write_index("../" SHARD2, NULL);
    refuse(3, "index.json|../" SHARD2, EXPORT);
}
END_TEST

/* ---- the environment ---- */

static const struct {
    const char *command, *parts;
} environment_table[] = {
    { "CC=/nonexistent $SLIPCAST run $H/m --token-ids 1", "make|/nonexistent" },
    { "S=$(realpath $SLIPCAST); PATH=/nonexistent $S run $H/m --token-ids 1", "make" },
    { "(ulimit -f 100; " EXPORT ")", "llama.weights|File too large" },
    { "$SLIPCAST export $H/m -o /dev/null/x", "/dev/null/x" },
    { "$SLIPCAST export $H/m -o $H/none/x", "/none/x|No such file" },
    { "$SLIPCAST export $H/m -o $H/m/config.json/x", "config.json/x|Not a directory" },
    { "SLIPCAST_CACHE=/dev/null/x $SLIPCAST run $H/m --token-ids 1", "/dev/null|SLIPCAST_CACHE" },
    { "$SLIPCAST inspect $H/m >/dev/full", "standard output|No space left" },
    { "$SLIPCAST plan $H/m --json >/dev/full", "standard output|No space left" },
};

START_TEST(what_the_system_refuses_is_environment) {
    refuse(4, environment_table[_i].parts, environment_table[_i].command);
}
END_TEST

START_TEST(a_full_disk_leaves_nothing_behind) {
    if (geteuid() != 0 || run(NULL, NULL, "mount -t tmpfs -o size=128k none %s/w 2>&1", home))
        return; /* no mounts here: ulimit above stands for it */
    refuse(4, "No space left", EXPORT);
    sh("umount $H/w");
}
END_TEST

START_TEST(an_old_casting_survives_a_failed_export) {
    sh(EXPORT "&& cp -r $H/w/x $H/old");
    char *talk;
    ck_assert_int_eq(run(NULL, &talk, "H=%s; (ulimit -f 100; " EXPORT "--name other)", home), 4);
    ck_assert_int_eq(entries("w"), 1);
    free(talk);
    sh("diff -r $H/old $H/w/x && $SLIPCAST verify $H/w/x");
}
END_TEST

/* ---- a casting that runs ---- */

/* Built once for all of these: the casting in c/, of examples/austen with a cache of 32. */
static char built[] = "/tmp/slipcast-cli-XXXXXX";

static void build_once(void) {
    strcpy(built + strlen(built) - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(built));
    char *talk;
    const int rc = run(NULL, &talk,
                       "$SLIPCAST export examples/austen -o %s/c --max-cache-len 32 && "
                       "make -s -j2 -C %s/c qwen3",
                       built, built);
    ck_assert_msg(!rc, "%s", talk);
    free(talk);
}

static void drop_built(void) { run(NULL, NULL, "rm -rf %s", built); }

static void own_casting(void) {
    setup();
    sh(sc_pool_printf(pool, "cp -r %s/c $H/c", built));
}

#define FLIP(file, at)                                                                             \
    "printf '\\253' | dd of=$H/c/" file " bs=1 seek=" at " conv=notrunc 2>$H/dd && "

static const struct {
    int status;
    const char *command, *parts;
} run_table[] = {
    { 3, "$H/c/qwen3 --token-ids $(seq -s , 1 33)", "33 tokens|32|max_cache_len" },
    { 3, "$SLIPCAST run $H/c --token-ids $(seq -s , 1 33)", "33 tokens|32|max_cache_len" },
    { 3, "$H/c/qwen3 --token-ids 1,99999999", "--token-ids|99999999|vocab_size" },
    { 3, "$H/c/qwen3 --token-ids 1,-1", "--token-ids|-1|vocab_size" },
    { 2, "$H/c/qwen3 --token-ids 1,x", "--token-ids|1,x" },
    { 2, "$H/c/qwen3 --token-ids ''", "--token-ids" },
    { 2, "$H/c/qwen3 --token-ids '1;2'", "--token-ids|1;2|batch" },
    { 2, "$H/c/qwen3 -p ''", "prompt 1|no token" },
    { 2, "$H/c/qwen3", "-p TEXT" },
    { 2, "$H/c/qwen3 -p a -p b", "-p|\"b\"" },
    { 2, "$H/c/qwen3 -p a --frob 1", "--frob" },
    { 2, "$H/c/qwen3 -p a --frob", "--frob" },
    { 2, "$H/c/qwen3 -p a --temperature nan", "--temperature|nan" },
    { 2, "$H/c/qwen3 -p a --top-p 1.5", "--top-p|1.5" },
    { 2, "$H/c/qwen3 -p a --top-k -1", "--top-k|-1" },
    { 2, "$H/c/qwen3 -p a --threads 0", "--threads|0" },
    { 2, "$H/c/qwen3 -p a --max-new-tokens 1x", "--max-new-tokens|1x" },
    { 2, "$H/c/qwen3 -p a --prefill-chunk 1,,2", "--prefill-chunk|1,,2" },
    { 2, "$H/c/qwen3 -p a --prefill-chunk 0", "--prefill-chunk|0" },
    { 2, "$H/c/qwen3 --bench 40,40,1", "--bench|40,40,1|32" },
    { 2, "$H/c/qwen3 --bench 1,1,1x", "--bench|1,1,1x" },
    { 2, "$SLIPCAST run $H/c -p a --top-k x", "--top-k|\"x\"" },
    { 4, "$H/c/qwen3 -p a --max-new-tokens 2 --dump $H/none/d >$H/o", "/none/d" },
    { 4, "$H/c/qwen3 -p a --max-new-tokens 2 >/dev/full", "standard output|No space left" },
    { 3, "rm $H/c/qwen3.weights; $H/c/qwen3 -p a", "qwen3.weights|No such file" },
    { 3, "truncate -s -1 $H/c/qwen3.weights; $H/c/qwen3 -p a", "qwen3.weights|truncated" },
    { 3, "echo x >>$H/c/qwen3.weights; $H/c/qwen3 -p a", "qwen3.weights|bytes" },
    { 3, "echo x >$H/c/qwen3.weights; $H/c/qwen3 -p a", "qwen3.weights|truncated" },
    { 3, FLIP("qwen3.weights", "0") "$H/c/qwen3 -p a", "qwen3.weights|magic" },
    { 3, FLIP("qwen3.weights", "1000000") "$H/c/qwen3 -p a --check", "qwen3.weights|checksum" },
    { 3,
      "$SLIPCAST export examples/austen -o $H/d --max-cache-len 16 --quiet && "
      "cp $H/d/qwen3.weights $H/c && $H/c/qwen3 -p a",
      "qwen3.weights|another casting" },
    { 3, FLIP("qwen3.tokenizer", "5000") "$H/c/qwen3 -p a", "qwen3.tokenizer" },
    { 3, "truncate -s 100 $H/c/qwen3.tokenizer; $H/c/qwen3 -p a", "qwen3.tokenizer" },
    { 3, "rm $H/c/qwen3.tokenizer; $H/c/qwen3 -p a", "qwen3.tokenizer" },
    { 3, "echo x >$H/s; $H/c/qwen3 -p a --session $H/s", "/s" },
};

START_TEST(a_casting_refuses_what_it_cannot_do) {
    refuse(run_table[_i].status, run_table[_i].parts, run_table[_i].command);
}
END_TEST

START_TEST(a_casting_runs_from_anywhere_and_without_its_sources) {
    char *here, *there;
    ck_assert_int_eq(run(&here, NULL, "cd / && %s/c/qwen3 -p 'It is' --max-new-tokens 8", home), 0);
    sh("mkdir $H/e && cp $H/c/qwen3 $H/c/qwen3.weights $H/c/qwen3.tokenizer $H/e && rm -r $H/c");
    ck_assert_int_eq(run(&there, NULL, "%s/e/qwen3 -p 'It is' --max-new-tokens 8", home), 0);
    ck_assert_str_eq(here, there);
    ck_assert_msg(!strncmp(here, "It is", 5), "%s", here);
    free(here);
    free(there);
}
END_TEST

/* ---- the same bytes, and whether they still are ---- */

START_TEST(exports_do_not_depend_on_where_when_and_by_whom) {
    sh("S=$(realpath $SLIPCAST); mkdir $H/a $H/b && cp -r examples/austen $H/a/one && "
       "cp -r examples/austen $H/b/another-name && touch -d 2001-01-01 $H/b/another-name/* && "
       "(umask 000; TZ=Asia/Tokyo LC_ALL=C $S export $H/a/one -o $H/w/x --quiet) && "
       "(umask 077; cd $H/b; HOME=/ USER=x TZ=America/Lima LC_ALL=tr_TR.UTF-8 LANG=de_DE.UTF-8 "
       "MAKEFLAGS=-j9 $S export another-name -o y --quiet) && diff -r $H/w/x $H/b/y && "
       "(cd $H/w/x && find . -printf '%p %m\\n' | sort) >$H/modes1 && "
       "(cd $H/b/y && find . -printf '%p %m\\n' | sort) >$H/modes2 && cmp $H/modes1 $H/modes2");
    sh("! grep -rlF -e $H -e another-name $H/w/x");
}
END_TEST

START_TEST(builds_do_not_depend_on_where_and_when) {
    sh("mkdir -p $H/b/deep/er && $SLIPCAST export $H/m -o $H/w/x --quiet && "
       "cp -r $H/w/x $H/b/deep/er/y && make -s -j2 -C $H/w/x && "
       "(cd $H/b/deep/er/y && TZ=Asia/Tokyo make -s) && "
       "for f in llama libllama.so libllama.a; do cmp $H/w/x/$f $H/b/deep/er/y/$f || exit 1; done");
}
END_TEST

/* no says so on stdout and in one line on stderr. */
static void doubt(const char *parts, const char *command) {
    char *output, *talk;
    ck_assert_int_eq(run(&output, &talk, "H=%s; %s", home, command), 1);
    ck_assert_ptr_eq(strchr(talk, '\n'), strrchr(talk, '\n'));
    ck_assert_msg(*talk, "%s: said nothing", command);
    assert_holds(output, parts);
    free(output);
    free(talk);
}

START_TEST(verify_says_yes_to_what_was_exported) {
    sh(EXPORT "&& $SLIPCAST verify $H/w/x && $SLIPCAST verify $H/w/x $H/m && "
              "$SLIPCAST verify $H/w/x " TINY " && $SLIPCAST diff $H/w/x $H/w/x");
}
END_TEST

static const struct {
    const char *command, *parts;
} doubt_table[] = {
    { "printf '\\001' | dd of=$H/w/x/llama.weights bs=1 seek=9999 conv=notrunc 2>$H/dd; "
      "$SLIPCAST verify $H/w/x",
      "llama.weights|sha256" },
    { "echo >>$H/w/x/llama_model.c; $SLIPCAST verify $H/w/x", "llama_model.c|sha256" },
    { "echo >>$H/w/x/runtime/error.c; $SLIPCAST verify $H/w/x $H/m", "runtime/error.c|sha256" },
    { "rm $H/w/x/llama.h; $SLIPCAST verify $H/w/x", "llama.h|missing" },
    { "sed -i s/1e-06/1e-05/ $H/m/config.json; $SLIPCAST verify $H/w/x $H/m",
      "manifest.json|inputs|config.json|outputs" },
    { "printf '\\001' | dd of=$H/m/model.safetensors bs=1 seek=99999 conv=notrunc 2>$H/dd; "
      "$SLIPCAST verify $H/w/x $H/m",
      "manifest.json|inputs|model.safetensors|outputs|llama.weights" },
    { "$SLIPCAST export $H/m -o $H/d --max-cache-len 64 --quiet; $SLIPCAST diff $H/w/x $H/d",
      "options.max_cache_len: 128 and 64" },
    { "$SLIPCAST export $H/m -o $H/d --dtype bfloat16 --quiet; $SLIPCAST diff $H/w/x $H/d",
      "options.dtype|float32|bfloat16" },
};

START_TEST(verify_and_diff_say_no_and_where) {
    sh(EXPORT);
    doubt(doubt_table[_i].parts, doubt_table[_i].command);
}
END_TEST

START_TEST(verify_leaves_nothing_in_the_temporary_folder) {
    sh(EXPORT "&& TMPDIR=$H/cache $SLIPCAST verify $H/w/x $H/m");
    ck_assert_int_eq(entries("cache"), 0);
    sh("rm $H/m/model.safetensors; TMPDIR=$H/cache $SLIPCAST verify $H/w/x $H/m; [ $? = 1 ]");
    ck_assert_int_eq(entries("cache"), 0);
    sh("echo '{' >$H/m/config.json; TMPDIR=$H/cache $SLIPCAST verify $H/w/x $H/m; [ $? = 3 ]");
    ck_assert_int_eq(entries("cache"), 0);
}
END_TEST

/* ---- pack ---- */

START_TEST(packing_later_makes_the_same_bytes) {
    sh("$SLIPCAST export $H/m/config.json -o $H/w/x --max-cache-len 48 --name later && "
       "! ls $H/w/x/later.weights 2>$H/e && $SLIPCAST verify $H/w/x && "
       "$SLIPCAST pack $H/m $H/w/x && "
       "$SLIPCAST export $H/m -o $H/w/y --max-cache-len 48 --name later && "
       "diff -r $H/w/x $H/w/y");
    sh("$SLIPCAST pack $H/m $H/w/x && diff -r $H/w/x $H/w/y"); /* again: nothing changes */
}
END_TEST

static const struct {
    const char *command, *parts;
} pack_table[] = {
    { "$SLIPCAST pack $H/m/config.json $H/x", "config.json|no weights" },
    { "rm $H/m/model.safetensors; $SLIPCAST pack $H/m $H/x", "/m|model.safetensors" },
    { "$SLIPCAST pack tests/reference/tiny/qwen3 $H/x", "qwen3/config.json|/x|sha256" },
    { "truncate -s -1 $H/m/model.safetensors; $SLIPCAST pack $H/m $H/x", "model.safetensors" },
};

START_TEST(packing_refuses_what_does_not_belong) {
    sh("$SLIPCAST export $H/m/config.json -o $H/x --quiet && cp -r $H/x $H/y");
    refuse(3, pack_table[_i].parts, pack_table[_i].command);
    sh("diff -r $H/x $H/y");
}
END_TEST

/* ---- nothing of the model folder reaches the sources ---- */

#define HOSTILE "\\\"frob\\n*/ int frob; /* {{frob}} \\\\ \\u0001 %s ${frob} `frob`"

START_TEST(strings_of_the_config_reach_no_source) {
    edit_config("architectures", "[\"" HOSTILE "\"]");
    edit_config("_name_or_path", "\"" HOSTILE "\"");
    edit_config("transformers_version", "\"" HOSTILE "\"");
    edit_config(HOSTILE, "\"" HOSTILE "\"");
    sh("$SLIPCAST export $H/m -o $H/w/x --quiet && ! grep -r frob $H/w/x");
    edit_config("model_type", "\"" HOSTILE "\"");
    sh("rm -r $H/w/x");
    refuse(3, "config.json|model_type", EXPORT);
}
END_TEST

/* --generic takes any model_type: where one of a source's comments or strings quotes it, none of
 * its bytes may end them. */
START_TEST(a_generic_model_type_reaches_the_sources_as_an_identifier) {
    edit_config("model_type", "\"" HOSTILE "\"");
    sh("$SLIPCAST export $H/m -o $H/w/x --quiet --generic --only cache --name x && cd $H/w/x && "
       "make -s && ! grep -r '[^_A-Za-z]frob\\|frob[^_A-Za-z]' *.[ch] Makefile && "
       "grep -q '.model_type = \"_frob____int_frob' x_table.c");
}
END_TEST

static const struct {
    const char *model_type, *words;
} nameless_table[] = {
    { "\"2d\"", "--name|\"2d\"|identifier|model_type" },
    { "\"\"", "--name|\"\"|identifier|model_type" },
    { "\"sc-x\"", "--name|\"sc_x\"|taken|model_type" },
    { "\"a234567890123456789012345678901234567890123456789\"", "--name|identifier|model_type" },
};

START_TEST(a_model_type_that_makes_no_name_is_told_how_to_get_one) {
    edit_config("model_type", nameless_table[_i].model_type);
    refuse(2, nameless_table[_i].words, EXPORT "--generic --only cache");
    sh("$SLIPCAST export $H/m -o $H/w/x --quiet --generic --only cache --name x");
}
END_TEST

/* ---- sizes of the real world ---- */

START_TEST(a_llama_2_7b_is_cast_from_its_config_alone) {
    sh("rm $H/m/*; echo '{\"architectures\": [\"LlamaForCausalLM\"], \"model_type\": \"llama\", "
       "\"bos_token_id\": 1, \"eos_token_id\": 2, \"hidden_act\": \"silu\", \"hidden_size\": 4096, "
       "\"intermediate_size\": 11008, \"max_position_embeddings\": 4096, "
       "\"num_attention_heads\": 32, \"num_hidden_layers\": 32, \"num_key_value_heads\": 32, "
       "\"pretraining_tp\": 1, \"rms_norm_eps\": 1e-05, \"rope_scaling\": null, "
       "\"tie_word_embeddings\": false, \"torch_dtype\": \"float16\", \"vocab_size\": 32000}' "
       ">$H/m/config.json");
    char *output, *talk;
    ck_assert_int_eq(run(&output, &talk, "H=%s; " EXPORT, home), 0);
    assert_holds(output, "llama, 32 layers|cache 4 GiB|no weights yet|slipcast pack");
    ck_assert_str_eq(talk, "");
    free(output);
    free(talk);
    sh("$SLIPCAST export $H/m/config.json -o $H/w/y --quiet && diff -r $H/w/x $H/w/y && "
       "test $(du -sk $H/w/x | cut -f1) -lt 1024");
}
END_TEST

#define ROWS(table) (int)(sizeof(table) / sizeof *(table))

Suite *cli_suite(void) {
    Suite *suite = suite_create("cli");
    TCase *each = tcase_create("command"), *casting = tcase_create("casting");
    tcase_add_checked_fixture(each, setup, teardown);
    tcase_set_timeout(each, 300);
    tcase_add_loop_test(each, wrong_words_are_usage, 0, ROWS(usage_table));
    tcase_add_test(each, help_goes_to_stdout_and_no_word_at_all_is_usage);
    tcase_add_loop_test(each, a_wrong_config_is_bad_input, 0, ROWS(config_table));
    tcase_add_loop_test(each, a_wrong_file_is_bad_input, 0, ROWS(input_table));
    tcase_add_loop_test(each, a_tensor_that_is_not_as_the_config_says_is_bad_input, 0,
                        ROWS(tensor_table));
    tcase_add_test(each, a_weight_beyond_float16_is_bad_input);
    tcase_add_test(each, another_size_in_the_config_names_tensor_and_both_shapes);
    tcase_add_test(each, untied_without_lm_head_is_bad_input);
    tcase_add_test(each, an_extra_tensor_is_a_warning);
    tcase_add_test(each, tied_with_an_equal_lm_head_is_the_casting_without_it);
    tcase_add_test(each, tied_with_another_lm_head_uses_it_and_says_so);
    tcase_add_test(each, shards_make_the_same_weights_as_one_file);
    tcase_add_test(each, a_missing_shard_is_named);
    tcase_add_test(each, a_tensor_in_the_wrong_shard_is_named);
    tcase_add_test(each, a_tensor_in_no_shard_is_named);
    tcase_add_test(each, a_shard_outside_the_folder_is_refused);
    tcase_add_loop_test(each, what_the_system_refuses_is_environment, 0, ROWS(environment_table));
    tcase_add_test(each, a_full_disk_leaves_nothing_behind);
    tcase_add_test(each, an_old_casting_survives_a_failed_export);
    tcase_add_test(each, exports_do_not_depend_on_where_when_and_by_whom);
    tcase_add_test(each, builds_do_not_depend_on_where_and_when);
    tcase_add_test(each, verify_says_yes_to_what_was_exported);
    tcase_add_loop_test(each, verify_and_diff_say_no_and_where, 0, ROWS(doubt_table));
    tcase_add_test(each, verify_leaves_nothing_in_the_temporary_folder);
    tcase_add_test(each, packing_later_makes_the_same_bytes);
    tcase_add_loop_test(each, packing_refuses_what_does_not_belong, 0, ROWS(pack_table));
    tcase_add_test(each, strings_of_the_config_reach_no_source);
    tcase_add_test(casting, a_generic_model_type_reaches_the_sources_as_an_identifier);
    tcase_add_loop_test(casting, a_model_type_that_makes_no_name_is_told_how_to_get_one, 0,
                        ROWS(nameless_table));
    tcase_add_test(each, a_llama_2_7b_is_cast_from_its_config_alone);
    suite_add_tcase(suite, each);
    tcase_add_unchecked_fixture(casting, build_once, drop_built);
    tcase_add_checked_fixture(casting, own_casting, teardown);
    tcase_set_timeout(casting, 300);
    tcase_add_loop_test(casting, a_casting_refuses_what_it_cannot_do, 0, ROWS(run_table));
    tcase_add_test(casting, a_casting_runs_from_anywhere_and_without_its_sources);
    suite_add_tcase(suite, casting);
    return suite;
}
