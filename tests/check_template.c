/* check_template.c - the template language: what it makes, and what it refuses. */
#include "../codegen/template.h"

#include <check.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

static sc_pool *pool;
static sc_values *values;

/* name = toy, n = -7; empty: no item; on, off: flags; rows: two items a, b with inner lists. */
static void begin(void) {
    pool = sc_pool_create();
    values = sc_values_make(pool);
    ck_assert_int_eq(sc_values_set(values, "name", "toy"), SC_OK);
    ck_assert_int_eq(sc_values_int(values, "n", -7), SC_OK);
    ck_assert_int_eq(sc_values_flag(values, "on", true), SC_OK);
    ck_assert_int_eq(sc_values_flag(values, "off", false), SC_OK);
    for (int i = 0; i < 2; i++) {
        sc_values *row = sc_values_add(values, "rows");
        ck_assert_int_eq(sc_values_set(row, "id", i ? "b" : "a"), SC_OK);
        ck_assert_int_eq(sc_values_flag(row, "last", i == 1), SC_OK);
        for (int k = 0; k <= i; k++)
            ck_assert_int_eq(sc_values_int(sc_values_add(row, "cells"), "k", k), SC_OK);
    }
}

static void end(void) { sc_pool_destroy(pool); }

static const struct {
    const char *source, *text;
} made_table[] = {
    { "", "" },
    { "int x;\n", "int x;\n" },
    { "int {{name}}_{{ n }};", "int toy_-7;" },
    { "{{name}}{{name}}\n", "toytoy\n" },
    { "{ {1}, {2} } }}", "{ {1}, {2} } }}" },
    /* sections: repeat, if, if not */
    { "{{#rows}}{{id}},{{/rows}}", "a,b," },
    { "{{#rows}}{{name}}.{{id}} {{/rows}}", "toy.a toy.b " },
    { "{{#rows}}{{id}}{{^last}}, {{/last}}{{/rows}}", "a, b" },
    { "{{#rows}}{{#cells}}{{id}}{{k}} {{/cells}}{{/rows}}", "a0 b0 b1 " },
    { "{{#on}}yes{{/on}}{{^on}}no{{/on}}", "yes" },
    { "{{#off}}yes{{/off}}{{^off}}no{{/off}}", "no" },
    { "{{#off}}{{#never}}{{such}}{{/never}}{{/off}}.", "." },
    { "{{^rows}}{{#rows}}x{{/rows}}{{/rows}}.", "." },
    /* tags alone on their line take the line with them */
    { "a\n{{#on}}\nb\n{{/on}}\nc\n", "a\nb\nc\n" },
    { "a\n  {{#on}} \t\n  b\n  {{/on}}\nc\n", "a\n  b\nc\n" },
    { "{{#rows}}\n    {{id}};\n{{/rows}}\n", "    a;\n    b;\n" },
    { "{{! why }}\nx{{! not alone }}\n", "x\n" },
    { "{{! two\n lines }}\nx", "x" },
    { "x\n{{#on}}\ny\n{{/on}}", "x\ny\n" },
    { "a {{#on}}\nb {{/on}}\n", "a \nb \n" },
    { "  {{name}}\n", "  toy\n" }, /* a value never takes its line */
    { "{{#on}}{{/on}}\n", "\n" },  /* two tags are not alone */
};

START_TEST(a_template_makes_this_text) {
    char *text = NULL;
    size_t bytes = 0;
    sc_error err = { 0 };
    ck_assert_msg(
        !sc_template_render_text(&text, &bytes, NULL, "t.c", made_table[_i].source, values, &err),
        "%s", err.message);
    ck_assert_str_eq(text, made_table[_i].text);
    ck_assert_uint_eq(bytes, strlen(made_table[_i].text));
    free(text);
}
END_TEST

static const struct {
    const char *source, *message;
} wrong_table[] = {
    { "a\n  b{{slots}}\n", "t.c:2:4: {{slots}}: no such value (docs/templates.md)" },
    { "{{#rows}}\n{{k}}{{/rows}}", "t.c:2:1: {{k}}: no such value (docs/templates.md)" },
    { "{{#rings}}{{/rings}}", "t.c:1:1: {{#rings}}: no such list (docs/templates.md)" },
    { "{{^rings}}{{/rings}}", "t.c:1:1: {{^rings}}: no such list (docs/templates.md)" },
    { "{{#name}}{{/name}}", "t.c:1:1: {{#name}}: a value, not a list (docs/templates.md)" },
    { "{{rows}}", "t.c:1:1: {{rows}}: a list, not a value (docs/templates.md)" },
    { "\n {{#on}}x", "t.c:2:2: {{#on}}: the section is never closed (add its {{/...}})" },
    { "{{#off}}x", "t.c:1:1: {{#off}}: the section is never closed (add its {{/...}})" },
    { "x{{/on}}", "t.c:1:2: {{/on}}: closes nothing (no section is open here)" },
    { "{{#on}}{{#rows}}{{/on}}{{/rows}}",
      "t.c:1:17: {{/on}}: closes a section that is not the innermost" },
    { "{{#off}}{{#on}}{{/off}}{{/on}}",
      "t.c:1:16: {{/off}}: closes a section that is not the innermost" },
    { "int a[] = {{1, 2}, {3, 4}};",
      "t.c:1:11: {{1, 2}, {3, 4}}: not a tag (write { { for two braces; docs/templates.md)" },
    { "{{}}", "t.c:1:1: {{}}: not a tag (write { { for two braces; docs/templates.md)" },
    { "{{a b}}", "t.c:1:1: {{a b}}: not a tag (write { { for two braces; docs/templates.md)" },
    { "x {{name}\n", "t.c:1:3: {{: no }} ends it (docs/templates.md)" },
    { "{{> no/such.c}}", "t.c:1:1: {{> no/such.c}}: no such part (templates/ has the parts)" },
};

START_TEST(a_wrong_template_is_refused_with_this_message) {
    char *text = NULL;
    size_t bytes = 17;
    sc_error err = { 0 };
    ck_assert_int_eq(
        sc_template_render_text(&text, &bytes, NULL, "t.c", wrong_table[_i].source, values, &err),
        SC_EINPUT);
    ck_assert_str_eq(err.message, wrong_table[_i].message);
    ck_assert_int_eq(err.code, SC_EINPUT);
    ck_assert_ptr_null(text);
    ck_assert_uint_eq(bytes, 17);
}
END_TEST

static const struct {
    float number;
    const char *text;
} float_table[] = {
    { 1e-6f, "1e-06f" },
    { 0.125f, "0.125f" },
    { 1.0f, "1.0f" },
    { 0.0f, "0.0f" },
    { -0.0f, "-0.0f" },
    { 10000.0f, "10000.0f" },
    { 1e6f, "1000000.0f" },
    { 1e7f, "1e+07f" },
    { 0.1f, "0.1f" },
    { -2.5f, "-2.5f" },
    { 0x1.555556p-2f, "0.33333334f" }, /* a third: eight digits */
    { 0x1.fffffep+127f, "3.4028235e+38f" },
    { 0x1p-149f, "1e-45f" },
    { INFINITY, "INFINITY" },
    { -INFINITY, "-INFINITY" },
    { NAN, "NAN" },
};

static void check_float(int i) {
    char *text = NULL;
    size_t bytes;
    ck_assert_int_eq(sc_values_float(values, "f", float_table[i].number), SC_OK);
    ck_assert_int_eq(sc_template_render_text(&text, &bytes, NULL, "t.c", "{{f}}", values, NULL),
                     SC_OK);
    ck_assert_str_eq(text, float_table[i].text);
    free(text);
}

START_TEST(a_float_is_the_shortest_literal) { check_float(_i); }
END_TEST

START_TEST(the_locale_does_not_reach_a_literal) {
    /* Where no such locale is installed, this repeats the case above. */
    if (!setlocale(LC_NUMERIC, "de_DE.UTF-8"))
        setlocale(LC_NUMERIC, "de_DE.utf8");
    check_float(_i);
    setlocale(LC_NUMERIC, "C");
}
END_TEST

START_TEST(a_name_is_a_value_or_a_list) {
    ck_assert_int_eq(sc_values_set(values, "rows", "x"), SC_ESTATE);
    ck_assert_int_eq(sc_values_flag(values, "name", true), SC_ESTATE);
    ck_assert_ptr_null(sc_values_add(values, "name"));
}
END_TEST

START_TEST(the_first_name_that_nobody_used_is_told) {
    static const struct {
        const char *source, *unused;
    } steps[] = {
        { "", "name" },
        { "{{name}}{{#on}}{{/on}}{{^off}}{{/off}}", "n" },
        { "{{n}}", "rows" },
        { "{{#rows}}{{#last}}{{id}}{{/last}}{{/rows}}", "cells" },
        { "{{#rows}}{{#cells}}{{/cells}}{{/rows}}", "k" },
        { "{{#rows}}{{#last}}{{#cells}}{{k}}{{/cells}}{{/last}}{{/rows}}", NULL },
    };
    for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
        char *text = NULL;
        size_t bytes;
        ck_assert_int_eq(
            sc_template_render_text(&text, &bytes, NULL, "t.c", steps[i].source, values, NULL),
            SC_OK);
        free(text);
        ck_assert_pstr_eq(sc_values_unused(values), steps[i].unused);
    }
}
END_TEST

/* For each line of the text its line in the source. */
static const struct {
    const char *source;
    int lines[6];
} origin_table[] = {
    { "a\nb\nc\n", { 1, 2, 3 } },
    { "{{! why }}\na\n{{#off}}\nb\n{{/off}}\nc\n", { 2, 6 } },
    { "{{#rows}}\nint {{id}};\n{{/rows}}\nend\n", { 2, 2, 4 } },
    { "{{#rows}}\n{{id}};\n\n{{/rows}}\n{{name}}\n", { 2, 3, 2, 3, 5 } }, /* values first */
    { "{{lines}}\nend\n", { 1, 1, 2 } }, /* a value with a line end */
    { "{{! one\n two }}\na {{#on}}\nb {{/on}}\nc\n", { 3, 4, 5 } },
    { "{{nothing}}{{#on}}\n{{/on}}\nb\n", { 1, 3 } }, /* an empty value */
};

START_TEST(a_line_of_the_text_knows_where_it_comes_from) {
    sc_template_map map = { 0 };
    char *text = NULL;
    size_t bytes;
    int line = 0;
    sc_values_set(values, "lines", "x\ny");
    sc_values_set(values, "nothing", "");
    ck_assert_ptr_null(sc_template_origin(&line, &map, "", 1));
    ck_assert_int_eq(
        sc_template_render_text(&text, &bytes, &map, "t.c", origin_table[_i].source, values, NULL),
        SC_OK);
    for (int i = 0; i < 6 && origin_table[_i].lines[i]; i++) {
        ck_assert_str_eq(sc_template_origin(&line, &map, text, i + 1), "t.c");
        ck_assert_msg(line == origin_table[_i].lines[i], "line %d of\n%s comes from %d", i + 1,
                      text, line);
    }
    free(map.piece);
    free(text);
}
END_TEST

START_TEST(the_program_carries_the_runtime) {
    const unsigned char *bytes = NULL;
    size_t size = 0;
    ck_assert_int_eq(sc_template_source(&bytes, &size, "runtime/error.h", NULL), SC_OK);
    ck_assert_uint_eq(size, strlen((const char *)bytes));
    ck_assert_ptr_nonnull(strstr((const char *)bytes, "SC_ESTATE"));
}
END_TEST

START_TEST(an_unknown_template_is_refused) {
    char *text = NULL;
    size_t bytes;
    sc_error err;
    ck_assert_int_eq(sc_template_render(&text, &bytes, NULL, "nope.c", values, &err), SC_EINPUT);
    ck_assert_str_eq(err.message, "templates/nope.c: no such file in this slipcast (rebuild it)");
}
END_TEST

START_TEST(a_text_may_be_long) {
    char *text = NULL;
    size_t bytes;
    for (int i = 0; i < 30000; i++)
        ck_assert_ptr_nonnull(sc_values_add(values, "many"));
    ck_assert_int_eq(sc_template_render_text(&text, &bytes, NULL, "t.c",
                                             "{{#many}}{{name}}\n{{/many}}", values, NULL),
                     SC_OK);
    ck_assert_uint_eq(bytes, 120000);
    ck_assert_uint_eq(strlen(text), 120000);
    free(text);
}
END_TEST

#define COUNT(table) ((int)(sizeof(table) / sizeof *(table)))

Suite *template_suite(void);
Suite *template_suite(void) {
    Suite *suite = suite_create("template");
    TCase *tcase = tcase_create("template");
    tcase_add_checked_fixture(tcase, begin, end);
    tcase_add_loop_test(tcase, a_template_makes_this_text, 0, COUNT(made_table));
    tcase_add_loop_test(tcase, a_wrong_template_is_refused_with_this_message, 0,
                        COUNT(wrong_table));
    tcase_add_loop_test(tcase, a_line_of_the_text_knows_where_it_comes_from, 0,
                        COUNT(origin_table));
    tcase_add_loop_test(tcase, a_float_is_the_shortest_literal, 0, COUNT(float_table));
    tcase_add_loop_test(tcase, the_locale_does_not_reach_a_literal, 0, COUNT(float_table));
    tcase_add_test(tcase, a_name_is_a_value_or_a_list);
    tcase_add_test(tcase, the_first_name_that_nobody_used_is_told);
    tcase_add_test(tcase, the_program_carries_the_runtime);
    tcase_add_test(tcase, an_unknown_template_is_refused);
    tcase_add_test(tcase, a_text_may_be_long);
    suite_add_tcase(suite, tcase);
    return suite;
}
