/* check_plan_html.c - the page of a plan and what fits into a memory: exact, whole, well-formed. */
#include <check.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../codegen/export.h"
#include "../codegen/json.h"
#include "../codegen/plan_memory.h"
#include "support/cast.h"
#include "support/run.h"

Suite *plan_html_suite(void);

#define FOLDER "build/test-castings/html"

static const char *const pages[] = {
    "examples/austen",
    "examples/austen --offloading --no-offload-only-non-sliding --kv-dtype q8_0",
    "tests/reference/configs/gemma-3n-e2b/config.json --offloading",
    "tests/reference/configs/falcon-h1-0.5b/config.json --dtype bfloat16 --batch-size 3",
    "tests/reference/configs/glm-5/config.json",
    "tests/reference/configs/mamba-codestral-7b/config.json",
};
enum { PAGES = sizeof pages / sizeof *pages };

static char *page_of(const char *plan) {
    char *page = NULL;
    ck_assert_int_eq(run(NULL, NULL, "mkdir -p %s && $SLIPCAST plan %s --html %s/page.html", FOLDER,
                         plan, FOLDER),
                     0);
    FILE *f = fopen(FOLDER "/page.html", "rb");
    ck_assert_ptr_nonnull(f);
    size_t bytes = 0;
    page = calloc(1, 1 << 22);
    ck_assert_ptr_nonnull(page);
    bytes = fread(page, 1, (1 << 22) - 1, f);
    fclose(f);
    ck_assert_uint_gt(bytes, 1000);
    return page;
}

/* Every tag is closed in order, as XML wants it; the script's text is not looked at. */
static void assert_balanced(const char *page) {
    static char open[64][32];
    int depth = 0;
    for (const char *at = strchr(page, '<'); at; at = strchr(at + 1, '<')) {
        if (at[1] == '!' || at[1] == '?')
            continue;
        const int closing = at[1] == '/';
        char name[32] = "";
        ck_assert_int_eq(sscanf(at + 1 + closing, "%31[a-z0-9A-Z]", name), 1);
        const char *end = strchr(at, '>');
        ck_assert_ptr_nonnull(end);
        if (closing) {
            ck_assert_int_gt(depth, 0);
            ck_assert_str_eq(open[--depth], name);
        } else if (end[-1] != '/') {
            ck_assert_int_lt(depth, 64);
            strcpy(open[depth++], name);
        }
        if (!closing && !strcmp(name, "script")) {
            at = strstr(at, "</script>");
            ck_assert_ptr_nonnull(at);
            depth--;
        }
    }
    ck_assert_int_eq(depth, 0);
}

static int count(const char *page, const char *what) {
    int found = 0;
    for (const char *at = strstr(page, what); at; at = strstr(at + 1, what))
        found++;
    return found;
}

static double number_of(const cJSON *plan, const char *key) {
    const cJSON *item = sc_json_get(plan, key);
    return item ? item->valuedouble : 0;
}

/* The rectangles by address are the arenas' bytes, and as wide as these: 968 of 1000 are an arena.
 */
START_TEST(a_page_is_well_formed_and_to_scale) {
    char *page = page_of(pages[_i]), *text;
    sc_error err = { 0 };
    cJSON *plan;
    ck_assert_int_eq(run(&text, NULL, "$SLIPCAST plan %s --json >%s/plan.json", pages[_i], FOLDER),
                     0);
    free(text);
    ck_assert_msg(!sc_json_read(&plan, FOLDER "/plan.json", 1 << 24, &err), "%s", err.message);
    assert_balanced(page);
    ck_assert_ptr_null(strstr(page, "http"));
    ck_assert_ptr_null(strstr(page, " src="));
    ck_assert_ptr_nonnull(strstr(page, "prefers-color-scheme"));
    const int layers = cJSON_GetArraySize(sc_json_get(plan, "layers"));
    for (int i = 0; i < layers; i++) {
        const cJSON *type =
            sc_json_get(cJSON_GetArrayItem(sc_json_get(plan, "layers"), i), "layer_type");
        ck_assert_msg(strstr(page, type->valuestring) != NULL, "no %s", type->valuestring);
    }
    double bytes = 0, narrowest = 1e9, widest = 0;
    const double arenas =
        number_of(plan, "arena_bytes") + number_of(sc_json_get(plan, "offload"), "host_bytes");
    for (const char *at = strstr(page, "data-bytes=\""); at; at = strstr(at + 1, "data-bytes=\"")) {
        const char *rect = at;
        while (*rect != '<')
            rect--;
        if (strncmp(rect, "<rect", 5))
            continue;
        double b, x, y, width, height;
        if (sscanf(strstr(rect, " x="),
                   " x=\"%lf\" y=\"%lf\" width=\"%lf\" height=\"%lf\" "
                   "data-bytes=\"%lf\"",
                   &x, &y, &width, &height, &b) != 5 ||
            height < 40)
            continue; /* the smaller one below sorts the same bytes by kind */
        bytes += b;
        const double scale = b / width;
        narrowest = scale < narrowest && b > 4096 ? scale : narrowest;
        widest = scale > widest && b > 4096 ? scale : widest;
    }
    ck_assert_msg(bytes == arenas, "%s: %.0f bytes are drawn, of %.0f", pages[_i], bytes, arenas);
    if (!sc_json_get(plan, "offload")) /* one arena, one scale, but for rounding to 1/1000 */
        ck_assert_msg(widest <= narrowest * 1.02, "%g and %g bytes per unit", narrowest, widest);
    ck_assert_int_ge(count(page, "<tr"), layers);
    cJSON_Delete(plan);
    free(page);
}
END_TEST

START_TEST(a_page_is_the_same_twice_and_whole_or_not_there) {
    char *one = page_of(pages[0]), *two = page_of(pages[0]), *talk;
    ck_assert_str_eq(one, two);
    ck_assert_int_eq(
        run(NULL, &talk, "$SLIPCAST plan examples/austen --html %s/none/page.html", FOLDER), 4);
    ck_assert_ptr_nonnull(strstr(talk, "/none/page.html"));
    free(talk);
    ck_assert_int_eq(run(NULL, NULL,
                         "rm -f %s/page.html && (ulimit -f 8; trap '' XFSZ; "
                         "$SLIPCAST plan examples/austen --html %s/page.html); test $? -eq 4 && "
                         "test $(ls %s | grep -c page) -eq 0",
                         FOLDER, FOLDER, FOLDER),
                     0);
    free(one);
    free(two);
}
END_TEST

START_TEST(what_the_model_says_is_escaped) {
    const char *config = "{\"model_type\": \"<b>&\\\"x\", \"hidden_size\": 64, "
                         "\"num_hidden_layers\": 2, \"num_attention_heads\": 4}";
    ck_assert_int_eq(run(NULL, NULL, "mkdir -p %s", FOLDER), 0);
    cast_write(FOLDER "/config.json", config, strlen(config));
    char *page = page_of(FOLDER "/config.json --generic --name x");
    assert_balanced(page);
    ck_assert_ptr_null(strstr(page, "<b>&"));
    ck_assert_ptr_nonnull(strstr(page, "&lt;b&gt;&amp;&quot;x"));
    free(page);
}
END_TEST

/* In a browser: the script runs without an error, and both colour schemes draw. */
START_TEST(a_browser_shows_it) {
    char *found;
    if (run(&found, NULL, "command -v chromium || command -v google-chrome")) {
        printf("no Chromium here: the page was not looked at\n");
        free(found);
        return;
    }
    found[strcspn(found, "\n")] = 0;
    free(page_of(pages[2]));
    for (int scheme = 0; scheme < 2; scheme++) {
        char *dom;
        ck_assert_int_eq(
            run(&dom, NULL,
                "cd %s && %s --headless --no-sandbox --disable-gpu --blink-settings="
                "preferredColorScheme=%d --window-size=1200,1600 --screenshot=shot%d.png "
                "page.html >log 2>&1 && test $(stat -c %%s shot%d.png) -gt 20000 && %s --headless "
                "--no-sandbox --disable-gpu --dump-dom page.html 2>/dev/null | tail -c 200",
                FOLDER, found, scheme, scheme, scheme, found),
            0);
        ck_assert_ptr_nonnull(strstr(dom, "</html>"));
        free(dom);
    }
    ck_assert_int_ne(run(NULL, NULL, "cmp -s %s/shot0.png %s/shot1.png", FOLDER, FOLDER), 0);
    ck_assert_int_ne(run(NULL, NULL, "grep -i 'uncaught' %s/log", FOLDER), 0);
    free(found);
}
END_TEST

static const struct {
    const char *config;
    bool only_cache;
    uint64_t bytes;
} fits[] = {
    { "tests/reference/configs/llama-3.2-1b/config.json", false, 16ULL << 30 },
    { "tests/reference/configs/gemma-2-2b/config.json", true, 1ULL << 30 },
    { "tests/reference/configs/falcon-h1-0.5b/config.json", true, 300 << 20 },
    { "examples/austen", false, 8 << 20 },
};
enum { FITS = sizeof fits / sizeof *fits };

/* The answers by planning again: they fit, one more does not. */
START_TEST(what_fits_is_exact) {
    sc_pool *pool = sc_pool_create();
    sc_source *source = NULL;
    const sc_plan *plan = NULL;
    sc_error err = { 0 };
    sc_memory memory;
    sc_memory_sizes sizes;
    const sc_export_options options = { .only_cache = fits[_i].only_cache, .arch = "generic" };
    ck_assert(!sc_source_open(&source, pool, fits[_i].config, false, false, &err));
    ck_assert_msg(!sc_export_plan(&plan, pool, source, &options, &err), "%s", err.message);
    ck_assert(!sc_memory_make(&memory, plan, fits[_i].bytes, false, &err));
    ck_assert_int_eq(memory.lengths, 6);
    int found = 0;
    for (int i = 0; i <= memory.lengths; i++) {
        const bool last = i == memory.lengths;
        const sc_memory_fit *fit = last ? &memory.batch : &memory.length[i];
        sc_plan_options o = plan->options;
        o.batch_size = fit->batch_size;
        o.max_cache_len = fit->max_cache_len;
        if (!o.batch_size || !o.max_cache_len)
            continue;
        ck_assert(!sc_memory_try(&sizes, plan->config, plan->graph, &o, &err));
        ck_assert_uint_le(sizes.needed, fits[_i].bytes);
        ck_assert_uint_eq(sizes.needed, fit->bytes);
        *(last ? &o.batch_size : &o.max_cache_len) += 1;
        if (fit->limit == SC_LIMIT_MEMORY) {
            ck_assert(!sc_memory_try(&sizes, plan->config, plan->graph, &o, &err));
            ck_assert_uint_gt(sizes.needed, fits[_i].bytes);
            found++;
        } else
            ck_assert_int_eq(fit->max_cache_len, plan->config->max_position_embeddings);
    }
    ck_assert_int_gt(found, 0);
    sc_source_close(source);
    sc_pool_destroy(pool);
}
END_TEST

START_TEST(a_size_is_a_number_with_a_unit) {
    static const struct {
        const char *text;
        uint64_t bytes; /* 0: refused */
    } sizes[] = { { "24GiB", 24ULL << 30 },
                  { "24GB", 24000000000 },
                  { "512MiB", 512 << 20 },
                  { "4096", 4096 },
                  { "", 0 },
                  { "GiB", 0 },
                  { "-1GiB", 0 },
                  { "1e400GiB", 0 },
                  { "99999999999GiB", 0 },
                  { "4096x", 0 } };
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        uint64_t bytes = 7;
        sc_error err = { 0 };
        const int rc = sc_memory_read(&bytes, "--memory", sizes[i].text, &err);
        ck_assert_msg(rc == (sizes[i].bytes ? SC_OK : SC_EUSAGE), "%s: %d", sizes[i].text, rc);
        if (sizes[i].bytes)
            ck_assert_uint_eq(bytes, sizes[i].bytes);
        else
            ck_assert_ptr_nonnull(strstr(err.message, "--memory"));
    }
}
END_TEST

Suite *plan_html_suite(void) {
    Suite *suite = suite_create("plan_html");
    TCase *tests = tcase_create("pages");
    tcase_set_timeout(tests, 120);
    tcase_add_loop_test(tests, a_page_is_well_formed_and_to_scale, 0, PAGES);
    tcase_add_test(tests, a_page_is_the_same_twice_and_whole_or_not_there);
    tcase_add_test(tests, what_the_model_says_is_escaped);
    tcase_add_test(tests, a_browser_shows_it);
    tcase_add_loop_test(tests, what_fits_is_exact, 0, FITS);
    tcase_add_test(tests, a_size_is_a_number_with_a_unit);
    suite_add_tcase(suite, tests);
    return suite;
}
