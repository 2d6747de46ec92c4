/*
 * check_plan_html.c - the page of a plan: well-formed, whole, to scale, escaped, the same twice;
 * and looked at in a browser when the machine has one.
 */
#include <check.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../codegen/export.h"
#include "../codegen/file.h"
#include "support/run.h"

Suite *plan_html_suite(void);

#define CONFIGS "tests/reference/configs/"

static char home[] = "/tmp/slipcast-html-XXXXXX";
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
}

static void teardown(void) {
    sh("chmod -R u+w $H && rm -rf $H");
    sc_pool_destroy(pool);
}

static char *read_page(const char *name) {
    char *page;
    size_t bytes;
    sc_error err = { 0 };
    ck_assert_msg(!sc_file_read(&page, &bytes, sc_pool_printf(pool, "%s/%s", home, name), 1 << 24,
                                pool, &err),
                  "%s", err.message);
    ck_assert_uint_eq(strlen(page), bytes);
    return page;
}

static const struct {
    const char *model, *options;
    bool offloads;
    sc_export_options read;
} page_table[] = {
    { "examples/austen", "", false, { 0 } },
    { "examples/austen", "--offloading", true, { .offloading = true } },
    { CONFIGS "gemma-3n-e2b", "--dtype bfloat16", false, { .dtype = "bfloat16" } },
    { CONFIGS "gemma-3n-e2b",
      "--offloading --batch-size 2",
      true,
      { .offloading = true, .batch_size = 2 } },
    { CONFIGS "falcon-h1-0.5b", "--dtype bfloat16", false, { .dtype = "bfloat16" } },
    /* q8_0 rows before float32 states: padding */
    { CONFIGS "falcon-h1-0.5b",
      "--kv-dtype q8_0 --offloading --max-cache-len 33",
      true,
      { .kv_dtype = "q8_0", .offloading = true, .max_cache_len = 33 } },
    { CONFIGS "gemma-3-4b", "--offloading --rewind 8", true, { .offloading = true, .rewind = 8 } },
    { CONFIGS "llama-4-scout", "--max-cache-len 65536", false, { .max_cache_len = 65536 } },
    { CONFIGS "deepseek-v3.2", "", false, { 0 } },
    { CONFIGS "qwen3-next-80b-a3b", "", false, { 0 } },
    { CONFIGS "mamba-codestral-7b", "", false, { 0 } },
    { CONFIGS "glm-5", "", false, { 0 } },
    { "examples/austen",
      "--offloading --no-offload-only-non-sliding --kv-dtype q8_0",
      true,
      { .offloading = true, .offload_sliding = true, .kv_dtype = "q8_0" } },
};
enum { PAGES = sizeof page_table / sizeof *page_table };

static char *make_page(int i) {
    sh(sc_pool_printf(pool, "$SLIPCAST plan %s %s --arch generic --quiet --html $H/page.html",
                      page_table[i].model, page_table[i].options));
    return read_page("page.html");
}

static const sc_plan *make_plan(int i) {
    const sc_plan *plan = NULL;
    sc_source *source = NULL;
    sc_error err = { 0 };
    sc_export_options options = page_table[i].read;
    ck_assert_msg(!sc_source_open(&source, pool, page_table[i].model, false, false, &err), "%s",
                  err.message);
    options.arch = "generic";
    options.only_cache = source->config->unsupported != NULL;
    ck_assert_msg(!sc_export_plan(&plan, pool, source, &options, &err), "%s", err.message);
    sc_source_close(source);
    return plan;
}

/* ---- well-formed ---- */

/* One of the five that escaping makes, or a number. */
static bool good_reference(const char *at) {
    static const char *const good[] = { "&amp;", "&lt;", "&gt;", "&quot;", "&#39;" };
    for (size_t i = 0; i < sizeof good / sizeof *good; i++)
        if (!strncmp(at, good[i], strlen(good[i])))
            return true;
    return false;
}

/* The end of a tag; its quotes are balanced and no < is in it. */
static const char *end_of_tag(const char *at) {
    bool quoted = false;
    for (; *at && (quoted || *at != '>'); at++) {
        ck_assert_msg(*at != '<', "< in a tag: %.60s", at);
        quoted ^= *at == '"';
    }
    ck_assert_msg(*at == '>', "a tag without an end");
    return at;
}

/* Every tag is closed by its own name; no stray < or &. */
static void assert_well_formed(const char *page) {
    enum { DEEPEST = 32 };
    static const char doctype[] = "<!DOCTYPE html>\n";
    const char *open[DEEPEST];
    size_t length[DEEPEST];
    int depth = 0;
    ck_assert_msg(!strncmp(page, doctype, strlen(doctype)), "%.40s", page);
    for (const char *c = page + strlen(doctype); *c; c++) {
        if (*c == '&')
            ck_assert_msg(good_reference(c), "a stray &: %.40s", c);
        if (*c != '<')
            continue;
        const bool closes = c[1] == '/';
        const char *name = c + 1 + closes, *end = end_of_tag(c + 1);
        const size_t n = strcspn(name, " \n/>");
        ck_assert_msg(n > 0, "no name: %.40s", c);
        if (closes) {
            ck_assert_msg(depth && length[depth - 1] == n && !strncmp(open[depth - 1], name, n),
                          "%.*s is closed, %.20s was open", (int)n, name,
                          depth ? open[depth - 1] : "nothing");
            depth--;
        } else if (end[-1] != '/') {
            ck_assert_int_lt(depth, DEEPEST);
            open[depth] = name;
            length[depth++] = n;
        }
        c = end;
    }
    ck_assert_msg(!depth, "%.20s is not closed", depth ? open[depth - 1] : "");
}

START_TEST(a_page_is_well_formed_and_asks_for_nothing) {
    const char *page = make_page(_i);
    static const char *const none[] = {
        "http", "src=",    "href=",  "url(",    "@import", "<link",
        "<img", "<iframe", "fetch(", "XMLHttp", "<object", "/tmp/"
    };
    assert_well_formed(page);
    for (size_t i = 0; i < sizeof none / sizeof *none; i++)
        ck_assert_msg(!strstr(page, none[i]), "%s is in the page", none[i]);
    sh("if command -v xmllint >/dev/null; then xmllint --noout $H/page.html; fi");
}
END_TEST

/* ---- layers ---- */

/* The text of the k-th cell of a row. */
static const char *cell(const char *row, int k) {
    const char *at = row;
    for (int i = 0; i <= k; i++) {
        at = strstr(at, "<td");
        ck_assert_ptr_nonnull(at);
        at = strchr(at, '>') + 1;
    }
    return sc_pool_printf(pool, "%.*s", (int)strcspn(at, "<"), at);
}

static void assert_buffer(const char *row, int first, const sc_plan_buffer_view *v) {
    const char *name = v->index ? sc_pool_printf(pool, "%s %d", v->name, v->index) : v->name;
    ck_assert_str_eq(cell(row, first), name);
    ck_assert_str_eq(cell(row, first + 1), v->shape);
    ck_assert_str_eq(cell(row, first + 2), sc_dtype_name(v->dtype));
    ck_assert_str_eq(cell(row, first + 3), sc_pool_printf(pool, "%zu", v->buffer.bytes));
    ck_assert_str_eq(cell(row, first + 4), sc_pool_printf(pool, "%zu", v->buffer.offset));
    ck_assert_str_eq(cell(row, first + 5), v->host ? "host" : "device");
}

START_TEST(every_layer_has_its_rows) {
    const char *page = make_page(_i);
    const sc_plan *plan = make_plan(_i);
    for (int i = 0; i < plan->layers; i++) {
        const char *row = strstr(page, sc_pool_printf(pool, "<tbody id=\"layer-%d\" ", i));
        sc_plan_buffer_view view;
        ck_assert_msg(row != NULL, "layer %d has no row", i);
        ck_assert_str_eq(cell(row, 0), sc_pool_printf(pool, "%d", i));
        ck_assert_str_eq(cell(row, 1), sc_layer_type_name(plan->config->layer[i].type));
        const bool any = sc_plan_buffer(&view, plan, i, 0);
        if (any)
            assert_buffer(row, 2, &view);
        else
            ck_assert_str_eq(cell(row, 2), plan->config->layer[i].kv_source != i
                                               ? "reads another layer's keys and values"
                                               : "nothing is kept");
        const int after = any ? 8 : 3;
        const int64_t length = sc_plan_max_length(plan, i);
        ck_assert_str_eq(cell(row, after + 1),
                         length < 0 ? "none" : sc_pool_printf(pool, "%lld", (long long)length));
        ck_assert_str_eq(cell(row, after + 2), sc_plan_is_croppable(plan, i) ? "yes" : "no");
        for (int n = 1; sc_plan_buffer(&view, plan, i, n); n++)
            assert_buffer(row, after + 3 + (n - 1) * 6, &view);
    }
    ck_assert_ptr_null(strstr(page, sc_pool_printf(pool, "id=\"layer-%d\"", plan->layers)));
}
END_TEST

/* ---- to scale ---- */

static double attribute(const char *tag, const char *name) {
    const char *at = strstr(tag, name);
    ck_assert_msg(at && at < strchr(tag, '>'), "no %s in %.80s", name, tag);
    return strtod(at + strlen(name), NULL);
}

/* The rectangles of one group follow one another, are as wide as their bytes, and fill the arena.
 * Returns where the group ends. */
static const char *assert_scale(const char *group, double arena) {
    const char *end = strstr(group, "</g>"), *rect = group;
    double bytes = 0, wide = 0, first = -1;
    ck_assert_double_eq(attribute(group, "data-arena-bytes=\""), arena);
    while ((rect = strstr(rect + 1, "<rect ")) && rect < end) {
        const double x = attribute(rect, " x=\""), width = attribute(rect, " width=\"");
        if (first < 0)
            first = x;
        ck_assert_double_eq_tol(x, first + wide, 0.002 + bytes * 1e-12);
        bytes += attribute(rect, "data-bytes=\"");
        wide = x + width - first;
    }
    ck_assert_double_eq(bytes, arena);
    ck_assert_double_eq_tol(wide, 956, 0.002);
    /* Once more for each, now that the whole is known. */
    for (rect = group; (rect = strstr(rect + 1, "<rect ")) && rect < end;)
        ck_assert_double_eq_tol(attribute(rect, " width=\""),
                                attribute(rect, "data-bytes=\"") / arena * wide, 0.002);
    return end;
}

START_TEST(rectangles_are_to_scale_and_fill_the_arenas) {
    const char *page = make_page(_i);
    const sc_plan *plan = make_plan(_i);
    const double arena[] = { (double)plan->arena_bytes, (double)plan->host_bytes };
    for (int i = 0; i <= page_table[_i].offloads; i++) {
        page = strstr(page, "<g class=\"by-layer\"");
        ck_assert_ptr_nonnull(page);
        page = assert_scale(page, arena[i]);
        page = strstr(page, "<g class=\"by-kind\"");
        ck_assert_ptr_nonnull(page);
        page = assert_scale(page, arena[i]);
    }
    ck_assert_ptr_null(strstr(page, "<g class=\"by-layer\""));
}
END_TEST

START_TEST(a_curve_is_the_plan_of_that_length) {
    const char *page = make_page(0);
    /* 4 sliding layers of 64 and 2 full ones, K and V [1, 2, slots, 32] float32 */
    const char *ours = strstr(page, "<g class=\"curve0\">"), *full = strstr(page, "curve1\"><poly");
    int points = 0;
    ck_assert_ptr_nonnull(ours);
    ck_assert_ptr_nonnull(full);
    full = strstr(page, "<g class=\"curve1\">");
    ck_assert_ptr_nonnull(full);
    for (double length = 256; length <= 131072; length *= 2, points++) {
        ours = strstr(ours + 1, "<circle ");
        full = strstr(full + 1, "<circle ");
        ck_assert_double_eq(attribute(ours, "data-bytes=\""), (4 * 64 + 2 * length) * 512);
        ck_assert_double_eq(attribute(full, "data-bytes=\""), 6 * length * 512);
    }
    ck_assert_int_eq(points, 10);
}
END_TEST

START_TEST(devices_hold_what_memory_says) {
    const char *page = make_page(4), *row = strstr(page, "<th class=\"right\">8 GiB</th>");
    char *output;
    ck_assert_ptr_nonnull(row);
    ck_assert_int_eq(run(&output, NULL,
                         "$SLIPCAST plan " CONFIGS
                         "falcon-h1-0.5b --dtype bfloat16 --arch generic --quiet "
                         "--memory 8GiB | awk 'NF == 4 {print $1, $2}' | tail -n 8"),
                     0);
    const char *line = output;
    for (int i = 0; i < 6; i++) {
        ck_assert_ptr_nonnull(line);
        ck_assert_int_eq(atoi(line), 1 << i);
        /* a cell and the star's place in it */
        ck_assert_str_eq(cell(row, i), sc_pool_printf(pool, "%d", atoi(strchr(line, ' '))));
        line = strchr(line, '\n') + 1;
    }
    free(output);
}
END_TEST

/* The number of a fact in the page. */
static long long fact(const char *page, const char *name) {
    const char *at = strstr(page, sc_pool_printf(pool, "<dt>%s</dt><dd>", name));
    ck_assert_msg(at != NULL, "%s: there is no such fact", name);
    return atoll(strstr(at, "<dd>") + 4);
}

/* The numbers are those that plan --json says, which check_cuda_export works out. */
START_TEST(a_page_of_a_cuda_casting_has_the_devices_bytes) {
    sh("$SLIPCAST plan tests/reference/tiny/llama --target cuda --arch generic,sm_80,sm_90 "
       "--offload-weights 2 --quiet --html $H/page.html");
    const char *page = read_page("page.html");
    char *output;
    long long weights, slots, pinned, scratch;
    assert_well_formed(page);
    ck_assert_int_eq(run(&output, NULL,
                         "$SLIPCAST plan tests/reference/tiny/llama --target cuda --arch "
                         "generic,sm_80,sm_90 --offload-weights 2 --json | tail -n 2"),
                     0);
    ck_assert_int_eq(sscanf(output,
                            "  \"device\": {\"sm\": [80, 90], \"weights_bytes\": %lld, "
                            "\"weight_slot_bytes\": %lld, \"pinned_weights_bytes\": %lld, "
                            "\"scratch_bytes\": %lld}",
                            &weights, &slots, &pinned, &scratch),
                     4);
    ck_assert_int_eq(fact(page, "device weights"), weights);
    ck_assert_int_eq(fact(page, "of it slots of weights"), slots);
    ck_assert_int_eq(fact(page, "pinned weights"), pinned);
    ck_assert_int_eq(fact(page, "device scratch"), scratch);
    ck_assert_int_eq(fact(page, "offload_weights"), 2);
    ck_assert_ptr_nonnull(strstr(page, "<dd>sm_80</dd>"));
    ck_assert_ptr_nonnull(strstr(page, "<dd>sm_90</dd>"));
    ck_assert_ptr_nonnull(strstr(page, "Counted: device weights, device scratch, cache arena"));
    free(output);
}
END_TEST

/* ---- text of the model ---- */

static void write_model_type(const char *json) {
    sh(sc_pool_printf(pool,
                      "sed 's|\"model_type\": *\"[^\"]*\"|\"model_type\": %s|' "
                      "tests/reference/tiny/llama/config.json >$H/config.json && "
                      "$SLIPCAST plan $H/config.json --generic --quiet --html $H/page.html",
                      json));
}

START_TEST(what_the_model_says_is_escaped) {
    write_model_type("\"<b>\\&<script>alert(1)</script>\\\\\\\"x\"");
    const char *page = read_page("page.html");
    assert_well_formed(page);
    ck_assert_ptr_nonnull(
        strstr(page, "<h1>&lt;b&gt;&amp;&lt;script&gt;alert(1)&lt;/script&gt;&quot;x</h1>"));
    ck_assert_ptr_null(strstr(page, "<b>"));
    ck_assert_ptr_null(strstr(page, "<script>alert"));
    sh("if command -v xmllint >/dev/null; then xmllint --noout $H/page.html; fi");
}
END_TEST

START_TEST(json_of_such_a_model_is_json) {
    char *output;
    write_model_type("\"a\\\\\\\"b\"");
    ck_assert_int_eq(
        run(&output, NULL, "$SLIPCAST plan %s/config.json --generic --quiet --json", home), 0);
    ck_assert_ptr_nonnull(strstr(output, "\"model_type\": \"a\\\"b\","));
    free(output);
}
END_TEST

/* ---- the file ---- */

START_TEST(two_pages_are_the_same_bytes_wherever_they_and_the_model_are) {
    char *output;
    sh("mkdir $H/a && cp " CONFIGS "gemma-3-4b/config.json $H/a/other.json");
    sh("$SLIPCAST plan " CONFIGS "gemma-3-4b --offloading --html $H/1.html --quiet");
    sh("sleep 1; LC_ALL=de_DE.UTF-8 TZ=Asia/Tokyo $SLIPCAST plan $H/a/other.json --offloading "
       "--html $H/a/2.html --quiet");
    sh("cmp $H/1.html $H/a/2.html && test $(ls -A $H | wc -l) = 2");
    ck_assert_int_eq(run(&output, NULL, "$SLIPCAST plan examples/austen --html %s/1.html", home),
                     0);
    ck_assert_str_eq(output, "");
    free(output);
    ck_assert_int_eq(
        run(&output, NULL, "$SLIPCAST plan examples/austen --json --html %s/1.html", home), 0);
    ck_assert_int_eq(*output, '{');
    free(output);
}
END_TEST

static const struct {
    int status;
    const char *place, *says;
} place_table[] = {
    { 4, "$H/none/page.html", "none/page.html: No such file" },
    { 4, "$H/file/page.html", "file/page.html: Not a directory" },
    { 4, "$H/folder", "folder: Is a directory" },
    { 2, "-", "--html: \"-\" is no file" },
    { 2, "''", "--html: \"\" is no file" },
    { 2, "", "--html: is unknown or lacks its value" },
};

START_TEST(a_place_that_cannot_be_written_leaves_nothing) {
    char *output, *talk;
    sh("mkdir $H/folder && echo old >$H/file");
    ck_assert_int_eq(run(&output, &talk, "H=%s; $SLIPCAST plan examples/austen --html %s", home,
                         place_table[_i].place),
                     place_table[_i].status);
    ck_assert_str_eq(output, "");
    ck_assert_msg(strstr(talk, place_table[_i].says) != NULL, "%s", talk);
    sh("test \"$(ls -A $H | tr '\\n' ' ')\" = 'file folder ' && test \"$(cat $H/file)\" = old && "
       "test -z \"$(ls -A $H/folder)\"");
    free(output);
    free(talk);
}
END_TEST

START_TEST(a_disk_that_is_full_leaves_the_old_page) {
    char *talk;
    sh("echo old >$H/page.html");
    ck_assert_int_eq(run(NULL, &talk,
                         "H=%s; (ulimit -f 8; $SLIPCAST plan examples/austen --html $H/page.html)",
                         home),
                     4);
    ck_assert_ptr_nonnull(strstr(talk, "page.html: File too large"));
    sh("test \"$(ls -A $H)\" = page.html && test \"$(cat $H/page.html)\" = old");
    free(talk);
}
END_TEST

/* ---- in a browser ---- */

#define BROWSER                                                                                    \
    "B=$(command -v chromium || command -v chromium-browser || command -v google-chrome) || "      \
    "exit 77; "
#define HEADLESS                                                                                   \
    "timeout 60 \"$B\" --headless --no-sandbox --disable-gpu --hide-scrollbars "                   \
    "--no-first-run --user-data-dir=$H/profile --window-size=1100,1600 "

/* Points at the third rectangle and writes down what came of it. */
static const char probe[] =
    "<script>\n"
    "var rect = document.querySelectorAll('.by-layer rect')[2];\n"
    "rect.dispatchEvent(new MouseEvent('mouseover', { bubbles: true }));\n"
    "document.body.setAttribute('data-probe', [document.getElementById('read').textContent,\n"
    "    document.querySelectorAll('tbody.lit').length,\n"
    "    getComputedStyle(document.body).backgroundColor,\n"
    "    document.documentElement.scrollWidth - window.innerWidth].join('|'));\n"
    "</script>\n</body>";

static void add_probe(void) {
    char *page = read_page("page.html"), *end = strstr(page, "</body>");
    sc_error err = { 0 };
    ck_assert_ptr_nonnull(end);
    const char *probed =
        sc_pool_printf(pool, "%.*s%s%s", (int)(end - page), page, probe, end + strlen("</body>"));
    ck_assert(
        !sc_file_write(sc_pool_printf(pool, "%s/probed.html", home), probed, strlen(probed), &err));
}

static void assert_picture(const char *name) {
    char *bytes;
    size_t size;
    sc_error err = { 0 };
    ck_assert_msg(!sc_file_read(&bytes, &size, sc_pool_printf(pool, "%s/%s", home, name), 1 << 26,
                                pool, &err),
                  "%s", err.message);
    const unsigned char *u = (const unsigned char *)bytes;
    ck_assert_uint_gt(size, 20000);
    ck_assert(!memcmp(bytes, "\x89PNG\r\n\x1a\n", 8));
    ck_assert_int_eq(u[18] << 8 | u[19], 1100);
    ck_assert_int_eq(u[22] << 8 | u[23], 1600);
}

START_TEST(a_browser_shows_it_light_and_dark) {
    static const struct {
        const char *options, *page;
    } looks[] = { { "", "rgb(255, 255, 255)" },
                  { "--blink-settings=preferredColorScheme=0 ", "rgb(18, 22, 27)" } };
    char *output;
    make_page(3);
    if (run(NULL, &output, BROWSER "true") == 77) {
        fprintf(stderr, "check_plan_html: no Chromium here, the page was not looked at\n");
        free(output);
        return;
    }
    free(output);
    add_probe();
    for (int i = 0; i < 2; i++) {
        ck_assert_int_eq(run(&output, NULL,
                             "H=%s; " BROWSER HEADLESS "%s--dump-dom file://$H/probed.html "
                             "2>$H/log | grep -e data-script -e data-probe",
                             home, looks[i].options),
                         0);
        ck_assert_msg(strstr(output, "data-script=\"ready\"") != NULL, "%s", output);
        const char *wanted = sc_pool_printf(
            pool,
            "layer 1, sliding_attention: keys [2, 2, 512, 256] float32, 2097152 bytes (2 MiB) "
            "at 4194304|1|%s|0\"",
            looks[i].page);
        ck_assert_msg(strstr(output, wanted) != NULL, "%s, not %s", output, wanted);
        free(output);
        sh(sc_pool_printf(pool, BROWSER HEADLESS "%s--screenshot=$H/%d.png file://$H/page.html",
                          looks[i].options, i));
        assert_picture(i ? "1.png" : "0.png");
    }
    sh("! cmp -s $H/0.png $H/1.png");
}
END_TEST

Suite *plan_html_suite(void) {
    Suite *suite = suite_create("plan_html");
    TCase *tests = tcase_create("plan_html");
    tcase_add_checked_fixture(tests, setup, teardown);
    tcase_set_timeout(tests, 240);
    tcase_add_loop_test(tests, a_page_is_well_formed_and_asks_for_nothing, 0, PAGES);
    tcase_add_loop_test(tests, every_layer_has_its_rows, 0, PAGES);
    tcase_add_loop_test(tests, rectangles_are_to_scale_and_fill_the_arenas, 0, PAGES);
    tcase_add_test(tests, a_curve_is_the_plan_of_that_length);
    tcase_add_test(tests, devices_hold_what_memory_says);
    tcase_add_test(tests, a_page_of_a_cuda_casting_has_the_devices_bytes);
    tcase_add_test(tests, what_the_model_says_is_escaped);
    tcase_add_test(tests, json_of_such_a_model_is_json);
    tcase_add_test(tests, two_pages_are_the_same_bytes_wherever_they_and_the_model_are);
    tcase_add_loop_test(tests, a_place_that_cannot_be_written_leaves_nothing, 0,
                        (int)(sizeof place_table / sizeof *place_table));
    tcase_add_test(tests, a_disk_that_is_full_leaves_the_old_page);
    tcase_add_test(tests, a_browser_shows_it_light_and_dark);
    suite_add_tcase(suite, tests);
    return suite;
}
