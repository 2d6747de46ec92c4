/*
 * check_cuda_export.c - exports of CUDA castings from outside: options and their errors, which
 * files there are, what the manifest says, that bytes are the same; nvcc in place of NVRTC.
 *
 * NVRTC is tests/cuda/nvrtc.c, so nothing here needs a toolkit; check_nvrtc.c has the real one.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../codegen/json.h"
#include "support/run.h"

Suite *cuda_export_suite(void);

#define TINY "tests/reference/tiny/llama"
#define TOOLKIT "build/test-castings/nvrtc"

static char home[] = "/tmp/slipcast-cuda-XXXXXX";
static sc_pool *pool;

/* Runs with H, the folder of this test, and E, an export into $H/x for devices. */
static int shell(char **output, char **talk, const char *command) {
    return run(output, talk,
               "H=%s; export CUDA_HOME=$PWD/" TOOLKIT " SLIPCAST_CACHE=$H/cache; "
               "E=\"$SLIPCAST export " TINY " -o $H/x --quiet --target cuda\"; %s",
               home, command);
}

static void sh(const char *command) {
    char *talk;
    const int rc = shell(NULL, &talk, command);
    ck_assert_msg(!rc, "%s: exit %d: %s", command, rc, talk);
    free(talk);
}

/* What a command prints; the caller frees. */
static char *output_of(const char *command) {
    char *output, *talk;
    const int rc = shell(&output, &talk, command);
    ck_assert_msg(!rc, "%s: exit %d: %s", command, rc, talk);
    free(talk);
    return output;
}

static void build_toolkit(void) {
    ck_assert_int_eq(run(NULL, NULL,
                         "mkdir -p " TOOLKIT "/lib64 && ${CC:-cc} -std=gnu11 -O1 -Wall -Wextra "
                         "-Werror -shared -fPIC tests/cuda/nvrtc.c -o " TOOLKIT
                         "/lib64/libnvrtc.so.13"),
                     0);
}

static void setup(void) {
    strcpy(home + strlen(home) - 6, "XXXXXX");
    ck_assert_ptr_nonnull(mkdtemp(home));
    pool = sc_pool_create();
    ck_assert_ptr_nonnull(pool);
}

static void teardown(void) {
    run(NULL, NULL, "rm -rf %s", home);
    sc_pool_destroy(pool);
}

/* ---- what is refused ---- */

#define DEVICES "sm_80, sm_86, sm_87, sm_89, sm_90, sm_100, sm_103, sm_110, sm_120, sm_121"
#define PROCESSORS "native, generic, x86-64-v3, x86-64-v4, x86-64-v4-bf16"
#define CPU "$SLIPCAST export " TINY " -o $H/x "

static const struct {
    int status;
    const char *command, *message;
} refusals[] = {
    { 2, CPU "--target tpu", "--target: \"tpu\" is none of cpu, cuda" },
    { 2, CPU "--arch sm_90", "--arch: \"sm_90\" is a GPU's (add --target cuda)" },
    { 2, CPU "--target cpu --arch generic,sm_90",
      "--arch: \"sm_90\" is a GPU's (add --target cuda)" },
    { 2, CPU "--emit-only", "--emit-only: is for devices (add --target cuda)" },
    { 2, CPU "--offload-weights 1", "--offload-weights: is for devices (add --target cuda)" },
    { 2, "$E --arch sm_70", "--arch: \"sm_70\" is none of " DEVICES },
    { 2, "$E --arch sm_90a", "--arch: \"sm_90a\" is none of " DEVICES },
    { 2, "$E --arch sm_", "--arch: \"sm_\" is none of " DEVICES },
    { 2, "$E --arch sm_80,vax", "--arch: \"vax\" is none of " PROCESSORS ", sm_80, …, sm_121" },
    { 2, CPU "--arch vax", "--arch: \"vax\" is none of " PROCESSORS },
    { 2, "$E --arch generic,sm_80,native",
      "--arch: \"native\" is a second processor (one casting is for one; export another)" },
    { 2, CPU "--arch generic,generic",
      "--arch: \"generic\" is a second processor (one casting is for one; export another)" },
    { 2, "$E --arch sm_80,,sm_90",
      "--arch: \"sm_80,,sm_90\" has an empty name (one comma between two)" },
    { 2, "$E --arch sm_80,", "--arch: \"sm_80,\" has an empty name (one comma between two)" },
    { 2, "$E --arch ,", "--arch: \",\" has an empty name (one comma between two)" },
    { 2, "$E --arch ''", "--arch: \"\" has an empty name (one comma between two)" },
    { 2, "$E --offload-weights -1", "--offload-weights: \"-1\" is no whole number of 0 or more" },
    { 2, "$E --offload-weights x", "--offload-weights: \"x\" is no whole number of 0 or more" },
    { 2, "$E --offload-weights 3", "--offload-weights: 3, the model has 2 layers" },
    { 2, "$E --only cache --offload-weights 1",
      "--offload-weights: a cache alone has no weights (leave out --only cache)" },
    { 2, "$E --kv-dtype q8_0",
      "--kv-dtype: \"q8_0\" is none of float32, bfloat16, float16, which devices keep (or --target "
      "cpu)" },
    { 2, "$E --kv-dtype fp8_e4m3 --only cache",
      "--kv-dtype: \"fp8_e4m3\" is none of float32, bfloat16, float16, which devices keep (or "
      "--target cpu)" },
    { 4, "CUDA_HOME=/nonexistent $E",
      "--target cuda: /nonexistent/lib64: no libnvrtc (correct CUDA_HOME, or --emit-only and build "
      "with nvcc)" },
    { 4, "CUDA_HOME= CUDA_PATH=/nonexistent $E",
      "--target cuda: /nonexistent/lib64: no libnvrtc (correct CUDA_HOME, or --emit-only and build "
      "with nvcc)" },
    { 4, "STANDIN_NVRTC=12.4 $E --arch sm_90,sm_100",
      "--arch: \"sm_100\" is unknown to NVRTC 12.4 (leave it out, install another CUDA toolkit, or "
      "--emit-only and build with its nvcc)" },
    { 4, "STANDIN_NVRTC=no $E",
      "--target cuda: libnvrtc does not say its version (install CUDA 12 or later)" },
};

START_TEST(what_cannot_be_cast_is_one_line_and_leaves_nothing) {
    char *output, *talk;
    const int got = shell(&output, &talk, refusals[_i].command);
    const char *message = sc_pool_printf(pool, "%s\n", refusals[_i].message);
    ck_assert_msg(got == refusals[_i].status, "%s: exit %d: %s", refusals[_i].command, got, talk);
    ck_assert_str_eq(talk, message);
    ck_assert_str_eq(output, "");
    free(output);
    free(talk);
    sh("test ! -e $H/x");
}
END_TEST

START_TEST(a_template_that_does_not_compile_is_named_by_its_own_line) {
    char *talk;
    sh("$E --emit-only");
    char *line =
             output_of("grep -n -m1 rows0_kernel $H/x/llama_cuda.cu | cut -d: -f1 | tr -d '\\n'"),
         *template_line =
             output_of("grep -n -m1 '{{fn}}_kernel' templates/cuda/row_kernel.cu | cut -d: -f1 | "
                       "tr -d '\\n'");
    ck_assert_int_eq(
        shell(NULL, &talk, sc_pool_printf(pool, "rm -r $H/x; STANDIN_ERROR=%s $E", line)), 3);
    ck_assert_str_eq(
        talk, sc_pool_printf(pool,
                             "templates/cuda/row_kernel.cu:%s: warning #177-D: variable \"y\" was "
                             "declared but never referenced\n"
                             "templates/cuda/row_kernel.cu:%s: error: identifier \"x\" is "
                             "undefined\n    x;\n    ^\n\n"
                             "1 error detected in the compilation of \"llama_cuda.cu\".\n"
                             "templates/cuda/row_kernel.cu:%s: error: identifier \"x\" is "
                             "undefined (for sm_80; correct the template)\n",
                             template_line, template_line, template_line));
    sh("test ! -e $H/x");
    free(talk);
    free(line);
    free(template_line);
}
END_TEST

/* ---- what is made ---- */

#define TABLE(sm, kind) "{ .sm = " #sm ", .ptx = " #kind ", "

static const struct {
    const char *options, *arch, *sm;
    const char *const table[4]; /* the first words of its lines */
} targets[] = {
    { "--arch generic", "generic", "[80,90]", { TABLE(80, 0), TABLE(90, 0), TABLE(80, 1) } },
    { "--arch sm_90,x86-64-v3", "x86-64-v3", "[90]", { TABLE(90, 0), TABLE(90, 1) } },
    { "--arch sm_120,generic,sm_86,sm_120",
      "generic",
      "[86,120]",
      { TABLE(86, 0), TABLE(120, 0), TABLE(86, 1) } },
    { "--arch generic,sm_100 --only cache", "generic", "[100]", { TABLE(100, 0), TABLE(100, 1) } },
};

static cJSON *manifest(void) {
    cJSON *json;
    sc_error err = { 0 };
    ck_assert_msg(
        !sc_json_read(&json, sc_pool_printf(pool, "%s/x/manifest.json", home), 1 << 20, &err), "%s",
        err.message);
    return json;
}

START_TEST(a_casting_has_code_for_each_architecture_in_order) {
    sh(sc_pool_printf(pool, "$E %s", targets[_i].options));
    cJSON *json = manifest(), *options = cJSON_GetObjectItem(json, "options");
    char *sm = cJSON_PrintUnformatted(cJSON_GetObjectItem(options, "sm"));
    ck_assert_str_eq(sm, targets[_i].sm);
    ck_assert_str_eq(sc_json_get(options, "arch")->valuestring, targets[_i].arch);
    ck_assert_str_eq(sc_json_get(options, "target")->valuestring, "cuda");
    ck_assert(cJSON_IsFalse(sc_json_get(options, "emit_only")));
    ck_assert_str_eq(sc_json_get(json, "nvrtc")->valuestring, "13.0");
    char *lines = output_of("grep 'sm = ' $H/x/llama_cubin.c"), *rest = lines;
    for (int i = 0; targets[_i].table[i]; i++) {
        const char *line = strsep(&rest, "\n");
        ck_assert_msg(strstr(line, targets[_i].table[i]), "%s", line);
    }
    ck_assert_str_eq(rest, "");
    free(lines);
    cJSON_free(sm);
    cJSON_Delete(json);
}
END_TEST

/* Every line of the casting but its weights is new, or one of a casting for the processor. */
START_TEST(a_casting_for_devices_has_these_files_more) {
    sh("$E --arch generic && $SLIPCAST export " TINY " -o $H/y --quiet --arch generic");
    char *more = output_of("cd $H && diff -rq y x | sed -n 's/^Only in x//p' | tr -d '\\n'");
    ck_assert_str_eq(more, ": llama_cubin.c: llama_cuda.c: llama_cuda.cu: llama_cuda.h"
                           "/runtime: cublaslt.c/runtime: cublaslt.h/runtime: cuda.c/runtime: "
                           "cuda.h");
    sh("cmp $H/x/llama.weights $H/y/llama.weights && ! grep -rliE 'cubin|_cuda' $H/y");
    /* the kernels' sizes do not get into the processor's attention */
    sh("grep ATTENTION $H/x/llama_model.c >$H/sizes && test -s $H/sizes && "
       "grep ATTENTION $H/y/llama_model.c | cmp - $H/sizes");
    free(more);
}
END_TEST

START_TEST(a_cache_alone_has_what_its_kernels_need) {
    sh("$E --only cache && test -e $H/x/llama_cuda.cu && test -e $H/x/llama_cubin.c && "
       "test -e $H/x/runtime/cuda.c && test ! -e $H/x/runtime/cublaslt.c && $SLIPCAST verify "
       "$H/x " TINY);
}
END_TEST

/* Every array is 64-byte aligned, lines end by column 100, and the bytes are the compiler's. */
START_TEST(the_table_is_c_and_holds_what_nvrtc_made) {
    sh("$E --arch sm_80,sm_90 && ! grep -nE '.{101}' $H/x/llama_cubin.c && cat >$H/t.c <<'END'\n"
       "#include <stdio.h>\n"
       "#include \"x/llama_cuda.h\"\n"
       "int main(void) {\n"
       "    const sc_cubins *all = &llama_cubins;\n"
       "    printf(\"%d\", all->toolkit);\n"
       "    for (int i = 0; i < all->count; i++)\n"
       "        printf(\" %d %d %d %s %d\", all->cubin[i].sm, all->cubin[i].ptx,\n"
       "               (int)((size_t)all->cubin[i].bytes % 64),\n"
       "               strstr((const char *)all->cubin[i].bytes, \"=sm_\"),\n"
       "               (int)(all->cubin[i].size - strlen((const char *)all->cubin[i].bytes)));\n"
       "    return 0;\n"
       "}\n"
       "END\n"
       "${CC:-cc} -include string.h -I$H/x -I$H $H/t.c $H/x/llama_cubin.c -o $H/t");
    char *table =
        output_of("$H/t | sed 's/ [0-9a-f]\\{16\\}/ SUM/g; s/\\n.version 9.0//' | tr '\\n' ' '");
    ck_assert_str_eq(table, "13000 80 0 0 =sm_80 --std=c++17 SUM 1 90 0 0 =sm_90 --std=c++17 SUM 1 "
                            "80 1 0 =sm_80 --std=c++17 SUM .version 9.0  1");
    free(table);
}
END_TEST

START_TEST(a_plan_says_what_a_device_holds) {
    char *text = output_of("$SLIPCAST plan " TINY " --target cuda --arch generic,sm_100,sm_86 "
                           "--offload-weights 1 | grep -E 'sm_|device w|pinned|slots'");
    ck_assert_str_eq(text, "llama: llama, max_cache_len 128, batch_size 1, float32, generic, "
                           "sm_86, sm_100\n"
                           "device weights            288512  281.7 KiB\n"
                           "  of it slots             148480  145 KiB\n"
                           "pinned weights             74240  72.5 KiB\n");
    free(text);
    sh("$SLIPCAST plan " TINY " --target cuda --json >$H/plan && grep -q '\"device\": {\"sm\": "
       "\\[80, 90\\], \"weights_bytes\": 214272, \"weight_slot_bytes\": 0, "
       "\"pinned_weights_bytes\": 0, \"scratch_bytes\": [0-9]' $H/plan");
    sh("$SLIPCAST plan " TINY " --json >$H/plan && ! grep -q 'sm_' $H/plan");
    /* --memory counts the device's own weights and scratch: what one row needs is just enough. */
    sh("P='$SLIPCAST plan " TINY " --target cuda --batch-size 1 --memory'; "
       "bytes=$(eval $P 1TiB | awk '/max_position/ { print $3 }') && "
       "eval $P $bytes | grep -q ' 128  *'$bytes && "
       "! eval $P $((bytes - 1)) | grep -q max_position");
}
END_TEST

/* ---- the same bytes ---- */

START_TEST(exports_do_not_depend_on_where_when_and_by_whom) {
    sh("S=$(realpath $SLIPCAST); M=$(realpath " TINY "); mkdir -p $H/a/b && "
       "$E --arch generic,sm_90,sm_80 && (umask 077; cd $H/a; HOME=/ USER=x TZ=Asia/Tokyo "
       "LC_ALL=de_DE.UTF-8 TMPDIR=$H/a/b $S export $M -o ../y --quiet --target cuda "
       "--arch sm_80,sm_90,generic) && diff -r $H/x $H/y && ! grep -rlF -e $H $H/x");
}
END_TEST

START_TEST(verify_exports_again_with_the_same_options) {
    sh("$E --arch generic,sm_89 --dtype bfloat16 --offload-weights 1 && $SLIPCAST verify $H/x && "
       "$SLIPCAST verify $H/x " TINY);
    sh("rm -r $H/x; $E --emit-only --arch generic && $SLIPCAST verify $H/x " TINY);
    sh("$SLIPCAST export " TINY " -o $H/y --arch generic --quiet && ! grep -q target "
       "$H/y/manifest.json && $SLIPCAST verify $H/y " TINY);
}
END_TEST

static const struct {
    const char *command, *parts;
} doubts[] = {
    { "echo >>$H/x/llama_cubin.c; $SLIPCAST verify $H/x", "llama_cubin.c: sha256" },
    { "echo >>$H/x/llama_cuda.cu; $SLIPCAST verify $H/x", "llama_cuda.cu: sha256" },
    { "rm $H/x/runtime/cuda.c; $SLIPCAST verify $H/x", "runtime/cuda.c: missing" },
    { "STANDIN_NVRTC=13.1 $SLIPCAST verify $H/x " TINY,
      "manifest.json: nvrtc: \"13.0\" and \"13.1\"|outputs[llama_cubin.c]" },
    { "$SLIPCAST export " TINY " -o $H/y --quiet --arch generic; $SLIPCAST diff $H/x $H/y",
      "options.target: \"cuda\" and nothing|options.sm: [80,90] and nothing" },
    { "$SLIPCAST export " TINY " -o $H/y --quiet --arch generic,sm_80 --target cuda; "
      "$SLIPCAST diff $H/x $H/y",
      "options.sm[1]: 90 and nothing" },
    { "$SLIPCAST export " TINY " -o $H/y --quiet --arch generic --target cuda --offload-weights 2; "
      "$SLIPCAST diff $H/x $H/y",
      "options.offload_weights: 0 and 2" },
    { "$SLIPCAST export " TINY " -o $H/y --quiet --arch generic --target cuda --emit-only; "
      "$SLIPCAST diff $H/x $H/y",
      "options.emit_only: false and true" },
};

START_TEST(verify_and_diff_say_no_and_where) {
    char *output;
    sh("$E --arch generic");
    ck_assert_int_eq(shell(&output, NULL, doubts[_i].command), 1);
    char *list = sc_pool_strdup(pool, doubts[_i].parts), *rest = list;
    for (char *part; (part = strsep(&rest, "|"));)
        ck_assert_msg(strstr(output, part), "\"%s\" is not in \"%s\"", part, output);
    free(output);
}
END_TEST

START_TEST(packing_later_makes_the_same_bytes) {
    sh("$SLIPCAST export " TINY "/config.json -o $H/x --quiet --target cuda --arch generic,sm_100 "
       "--offload-weights 1 --dtype float16 && $SLIPCAST pack " TINY " $H/x --quiet && "
       "$SLIPCAST export " TINY " -o $H/y --quiet --target cuda --arch sm_100,generic "
       "--offload-weights 1 --dtype float16 && diff -r $H/x $H/y");
}
END_TEST

START_TEST(a_manifest_with_no_list_of_architectures_is_bad_input) {
    char *talk;
    sh("$E --emit-only --arch generic && sed -i 's/\"sm\":.*/\"sm\": [\"a\"],/' "
       "$H/x/manifest.json");
    ck_assert_int_eq(shell(NULL, &talk, "$SLIPCAST pack " TINY " $H/x"), 3);
    ck_assert_str_eq(
        talk,
        sc_pool_printf(pool, "%s/x/manifest.json: options.sm: is no list of numbers\n", home));
    free(talk);
}
END_TEST

/* The processor's program is in every casting; each target has one of its own in the cache. */
START_TEST(run_keeps_castings_by_target) {
    char *text[3];
    static const char *const options[] = { "--arch generic", "--arch generic --target cuda",
                                           "--arch generic,sm_90 --target cuda" };
    for (int i = 0; i < 3; i++) {
        text[i] = output_of(sc_pool_printf(pool,
                                           "$SLIPCAST run " TINY " %s --quiet --token-ids 3,1,4 "
                                           "--max-new-tokens 4 --device cpu",
                                           options[i]));
        ck_assert_str_eq(text[i], text[0]);
        char *folders = output_of("find $H/cache -name manifest.json | wc -l");
        ck_assert_int_eq(atoi(folders), i + 1);
        free(folders);
    }
    for (int i = 0; i < 3; i++)
        free(text[i]);
    sh("$SLIPCAST run " TINY " --arch generic --target cuda --quiet --token-ids 3 --max-new-tokens "
       "1 --device cpu --no-graph");
    char *talk;
    ck_assert_int_eq(shell(NULL, &talk,
                           "$SLIPCAST run " TINY
                           " --arch generic --quiet --token-ids 3 --no-graph"),
                     2);
    ck_assert_str_eq(talk, "llama: --no-graph: wants a casting exported with --target cuda\n");
    free(talk);
    /* What is there needs no NVRTC any more. */
    sh("CUDA_HOME=/nonexistent $SLIPCAST run " TINY " --arch generic --target cuda --quiet "
       "--token-ids 3,1,4 --max-new-tokens 4 --device cpu");
}
END_TEST

/* ---- nvcc in place of NVRTC ---- */

/* A library of the casting in $H/x, and its table as text. */
static char *built_table(const char *make) {
    sh(sc_pool_printf(pool, "%s >$H/log 2>&1 || { cat $H/log >&2; exit 1; }", make));
    sh("cat >$H/t.c <<'END'\n"
       "#include <stdio.h>\n"
       "#include \"x/llama_cuda.h\"\n"
       "int main(void) {\n"
       "    const sc_cubins *all = &llama_cubins;\n"
       "    printf(\"%d\", all->toolkit);\n"
       "    for (int i = 0; i < all->count; i++)\n"
       "        printf(\" %d %d %d %s\", all->cubin[i].sm, all->cubin[i].ptx,\n"
       "               (int)((size_t)all->cubin[i].bytes % 64),\n"
       "               all->cubin[i].bytes[0] == 127 ? \"elf\"\n"
       "               : all->cubin[i].bytes[all->cubin[i].size - 1] ? \"open\" : \"text\");\n"
       "    return 0;\n"
       "}\n"
       "END\n"
       "${CC:-cc} -I$H/x -I$H $H/t.c $H/x/llama_cubin.o -o $H/t");
    return output_of("$H/t");
}

#define LATER "$SLIPCAST export " TINY " -o $H/x --quiet --target cuda --emit-only --arch generic,"

/* An nvcc whose code is all bytes there are, and its arguments. */
START_TEST(make_calls_nvcc_for_what_was_only_emitted) {
    sh("cat >$H/nvcc <<'END'\n"
       "#!/bin/sh\n"
       "[ \"$1\" = --version ] && echo 'Cuda compilation tools, release 12.8, V12.8.93' && exit\n"
       "echo \"$@\" >>$(dirname $0)/calls\n"
       "for a; do [ \"$last\" = -o ] && file=$a; last=$a; done\n"
       "case $file in *.ptx) echo '.version 9.0' >$file ;;\n"
       "*) awk 'BEGIN { printf \"\\177ELF\"; for (i = 255; i > 0; i--) printf \"%c\", i }' >$file "
       ";;\n"
       "esac\n"
       "END\n"
       "chmod +x $H/nvcc && " LATER "sm_100,sm_86 && test ! -e $H/x/llama_cubin.c");
    char *table = built_table("make -C $H/x NVCC=$H/nvcc -j2");
    ck_assert_str_eq(table, "12080 86 0 0 elf 100 0 0 elf 86 1 0 text");
    free(table);
    char *calls = output_of("cat $H/calls");
    ck_assert_str_eq(calls, "-std=c++17 -cubin -arch=sm_86 -o llama_86.cubin llama_cuda.cu\n"
                            "-std=c++17 -cubin -arch=sm_100 -o llama_100.cubin llama_cuda.cu\n"
                            "-std=c++17 -ptx -arch=compute_86 -o llama.ptx llama_cuda.cu\n");
    free(calls);
    sh("test -e $H/x/libllama.so && make -s -C $H/x clean && $SLIPCAST verify $H/x && "
       "test $(ls $H/x | wc -l) = $(ls $H/x | grep -cvE 'cubin|ptx|[.](o|so|a)$')");
}
END_TEST

START_TEST(make_without_nvcc_says_so) {
    char *talk;
    sh(LATER "sm_80");
    ck_assert_int_ne(shell(NULL, &talk, "make -s -C $H/x NVCC=/nonexistent/nvcc llama_cubin.o"), 0);
    ck_assert_msg(strstr(talk, "/nonexistent/nvcc is missing (install the CUDA toolkit, or set "
                               "NVCC)"),
                  "%s", talk);
    sh("test ! -e $H/x/llama_cubin.c");
    free(talk);
}
END_TEST

START_TEST(nvcc_makes_the_same_table_as_nvrtc) {
    sh(LATER "sm_80,sm_90");
    char *table = built_table("make -C $H/x llama_cubin.o");
    ck_assert_msg(
        !strcmp(table + strspn(table, "0123456789"), " 80 0 0 elf 90 0 0 elf 80 1 0 text"), "%s",
        table);
    free(table);
}
END_TEST

static bool has_nvcc(void) {
    const bool there = !system("command -v nvcc >/dev/null 2>&1");
    if (!there)
        printf("cuda_export: no nvcc, the build with it is left out\n");
    return there;
}

#define COUNT(table) (int)(sizeof table / sizeof *table)

Suite *cuda_export_suite(void) {
    Suite *suite = suite_create("cuda_export");
    TCase *tests = tcase_create("export");
    tcase_add_unchecked_fixture(tests, build_toolkit, NULL);
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 300);
    tcase_add_loop_test(tests, what_cannot_be_cast_is_one_line_and_leaves_nothing, 0,
                        COUNT(refusals));
    tcase_add_test(tests, a_template_that_does_not_compile_is_named_by_its_own_line);
    tcase_add_loop_test(tests, a_casting_has_code_for_each_architecture_in_order, 0,
                        COUNT(targets));
    tcase_add_test(tests, a_casting_for_devices_has_these_files_more);
    tcase_add_test(tests, a_cache_alone_has_what_its_kernels_need);
    tcase_add_test(tests, a_plan_says_what_a_device_holds);
    tcase_add_test(tests, the_table_is_c_and_holds_what_nvrtc_made);
    tcase_add_test(tests, exports_do_not_depend_on_where_when_and_by_whom);
    tcase_add_test(tests, verify_exports_again_with_the_same_options);
    tcase_add_loop_test(tests, verify_and_diff_say_no_and_where, 0, COUNT(doubts));
    tcase_add_test(tests, packing_later_makes_the_same_bytes);
    tcase_add_test(tests, a_manifest_with_no_list_of_architectures_is_bad_input);
    tcase_add_test(tests, run_keeps_castings_by_target);
    tcase_add_test(tests, make_calls_nvcc_for_what_was_only_emitted);
    tcase_add_test(tests, make_without_nvcc_says_so);
    if (has_nvcc())
        tcase_add_test(tests, nvcc_makes_the_same_table_as_nvrtc);
    suite_add_tcase(suite, tests);
    return suite;
}
