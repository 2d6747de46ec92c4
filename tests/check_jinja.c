/* check_jinja.c - chat templates: against Jinja2's texts, refusals whole, and hostile ones. */
#include <check.h>
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "../codegen/file.h"
#include "../codegen/jinja.h"
#include "../codegen/json.h"
#include "support/cast.h"

Suite *jinja_suite(void);

static sc_pool *pool;

static void begin(void) {
    setenv("TZ", "UTC0", 1); /* where the reference's clock stands */
    tzset();
    pool = sc_pool_create();
    ck_assert_ptr_nonnull(pool);
}

static void end(void) { sc_pool_destroy(pool); }

static cJSON *json_of(const char *path) {
    sc_error err = { 0 };
    cJSON *json = NULL;
    ck_assert_msg(!sc_json_read(&json, path, 16 << 20, &err), "%s", err.message);
    return json;
}

/* Reads and renders; NULL and *err when that is refused. The caller frees. */
static char *rendered(const char *template, size_t bytes, const cJSON *values, time_t now,
                      sc_error *err) {
    const sc_jinja *read = NULL;
    char *text = NULL;
    size_t count = 0;
    int rc = sc_jinja_read(&read, pool, "chat_template", template, bytes, err);
    if (!rc)
        rc = sc_jinja_render(&text, &count, read, values, now, err);
    ck_assert(!rc == (text != NULL));
    ck_assert(!rc || (rc == SC_EINPUT && err->message[0] && !strchr(err->message, '\n')));
    return text;
}

static bool ends_with(const char *text, const char *end) {
    const size_t n = strlen(text), m = strlen(end);
    return n >= m && !strcmp(text + n - m, end);
}

/* Every conversation of one file of tests/reference/chat. Returns how many there were. */
static int check_template(const char *name) {
    sc_error err = { 0 };
    char path[512], *template;
    size_t bytes;
    snprintf(path, sizeof path, "tests/reference/chat/%s", name);
    ck_assert_msg(!sc_file_read(&template, &bytes, path, 1 << 20, pool, &err), "%s", err.message);
    strcpy(path + strlen(path) - strlen("jinja"), "json");
    cJSON *json = json_of(path);
    const time_t now = (time_t)sc_json_get(json, "now")->valuedouble;
    const cJSON *one;
    int count = 0;
    cJSON_ArrayForEach(one, sc_json_get(json, "cases")) {
        const char *what = sc_json_get(one, "name")->valuestring;
        const cJSON *text = sc_json_get(one, "text"), *error = sc_json_get(one, "error");
        char *made = rendered(template, bytes, sc_json_get(one, "values"), now, &err);
        if (text)
            ck_assert_msg(made && !strcmp(made, text->valuestring), "%s: %s:\n%s\nwanted\n%s", name,
                          what, made ? made : err.message, text->valuestring);
        else
            ck_assert_msg(
                !made && (!cJSON_IsString(error) || ends_with(err.message, error->valuestring)),
                "%s: %s: %s", name, what, made ? made : err.message);
        free(made);
        count++;
    }
    cJSON_Delete(json);
    return count;
}

static int is_jinja(const struct dirent *e) { return ends_with(e->d_name, ".jinja"); }

START_TEST(a_published_template_makes_the_text_that_jinja2_makes) {
    struct dirent **file;
    const int n = scandir("tests/reference/chat", &file, is_jinja, alphasort);
    int count = 0;
    ck_assert_int_gt(n, 20);
    for (int i = 0; i < n; i++) {
        count += check_template(file[i]->d_name);
        free(file[i]);
    }
    free(file);
    ck_assert_int_gt(count, 500);
}
END_TEST

START_TEST(a_small_template_makes_what_jinja2_makes) {
    cJSON *given = json_of("tests/reference/jinja/templates.json"),
          *wanted = json_of("tests/reference/jinja/expected.json");
    const cJSON *template, *text = sc_json_get(wanted, "texts")->child;
    const time_t now = (time_t)sc_json_get(wanted, "now")->valuedouble;
    cJSON_ArrayForEach(template, sc_json_get(given, "templates")) {
        sc_error err = { 0 };
        const char *t = template->valuestring;
        ck_assert_ptr_nonnull(text);
        char *made = rendered(t, strlen(t), sc_json_get(given, "values"), now, &err);
        if (cJSON_IsString(text))
            ck_assert_msg(made && !strcmp(made, text->valuestring), "%s:\n%s\nwanted\n%s", t,
                          made ? made : err.message, text->valuestring);
        else
            ck_assert_msg(!made, "%s: made %s", t, made);
        free(made);
        text = text->next;
    }
    cJSON_Delete(given);
    cJSON_Delete(wanted);
}
END_TEST

START_TEST(smollm2_greets_as_transformers_had_it) {
    cJSON *json = json_of("tests/reference/smollm2/expected.json"), *values = cJSON_CreateObject();
    const cJSON *chat = sc_json_get(json, "chat");
    sc_error err = { 0 };
    char *template;
    size_t bytes;
    ck_assert(!sc_file_read(&template, &bytes, "tests/reference/chat/smollm2.jinja", 1 << 20, pool,
                            &err));
    cJSON_AddItemToObject(values, "messages", cJSON_Duplicate(sc_json_get(chat, "messages"), 1));
    cJSON_AddTrueToObject(values, "add_generation_prompt");
    char *made = rendered(template, bytes, values, 0, &err);
    ck_assert_msg(made != NULL, "%s", err.message);
    ck_assert_str_eq(made, sc_json_get(chat, "text")->valuestring);
    free(made);
    cJSON_Delete(values);
    cJSON_Delete(json);
}
END_TEST

/* tests/errors/jinja/NAME.jinja is refused, when read or when rendered; NAME.err is the message. */
START_TEST(what_is_refused_is_named_with_its_line) {
    struct dirent **file;
    cJSON *values = cJSON_Parse("{\"messages\": [{\"role\": \"user\"}], \"bos_token\": \"<s>\"}");
    const int n = scandir("tests/errors/jinja", &file, is_jinja, alphasort);
    ck_assert_int_gt(n, 0);
    for (int i = 0; i < n; i++) {
        sc_error err = { 0 };
        char path[512], *template, *wanted;
        size_t bytes;
        snprintf(path, sizeof path, "tests/errors/jinja/%s", file[i]->d_name);
        ck_assert(!sc_file_read(&template, &bytes, path, 1 << 20, pool, &err));
        strcpy(path + strlen(path) - strlen("jinja"), "err");
        size_t size;
        ck_assert_msg(!sc_file_read(&wanted, &size, path, 1 << 20, pool, &err), "%s", err.message);
        wanted[strcspn(wanted, "\n")] = 0;
        char *made = rendered(template, bytes, values, 0, &err);
        ck_assert_msg(!made, "%s: made %s", path, made);
        ck_assert_msg(!strcmp(err.message, wanted), "%s:\n%s\nwanted\n%s", path, err.message,
                      wanted);
        free(file[i]);
    }
    free(file);
    cJSON_Delete(values);
}
END_TEST

/* head, middle repeated to fill bytes, tail. The caller frees. */
static char *filled(const char *head, const char *middle, const char *tail, size_t bytes) {
    char *text = malloc(bytes + strlen(head) + strlen(middle) + strlen(tail) + 1), *at = text;
    ck_assert_ptr_nonnull(text);
    at = stpcpy(at, head);
    for (size_t n = strlen(middle); (size_t)(at - text) + n <= bytes;)
        at = stpcpy(at, middle);
    strcpy(at, tail);
    return text;
}

enum { MIB = 1 << 20 };
static const struct {
    const char *head, *middle, *tail; /* the middle comes again and again, to fill bytes */
    size_t bytes;
    const char *message; /* somewhere in it; NULL: there is none */
} hostile[] = {
    { "{{ ", "(", "", MIB - 9, "nest" },
    { "{{ ", "[", "", MIB - 9, "nest" },
    { "{{ ", "- ", "x }}", MIB - 9, "nest" },
    { "{{ ", "not ", "x }}", MIB - 9, "nest" },
    { "{{ x", ".x", " }}", MIB - 9, "nest" },
    { "{{ x", " + 1", " }}", MIB - 9, "nest" },
    { "{{ x", "|list", " }}", MIB - 9, "nest" },
    { "{{ x", "(1)", " }}", MIB - 9, "nest" },
    { "{{ 1", " if 1 else 2", " }}", MIB - 9, "nest" },
    { "{{ 1", " ~ 1", " }}", MIB - 9, NULL },
    { "", "{% if x %}", "", MIB - 9, "nest" },
    { "", "{% for x in y %}", "", MIB - 9, "nest" },
    { "", "{% macro a() %}", "", MIB - 9, "nest" },
    { "", "{% set x %}", "", MIB - 9, "nest" },
    { "{% if x %}", "{% elif x %}", "{% endif %}", MIB - 40, NULL },
    { "", "{{ a }}", "", MIB - 9, NULL },
    { "", "{#", "", MIB - 9, "no end" },
    { "{{ '", "x", "", MIB - 9, "no end" },
    { "{{ ", "1", " }}", MIB - 9, "digits" },
    { "", "x", "", MIB + 1, "at most" },
    { "{% macro m(n) %}{{ m(n + 1) }}{% endmacro %}{{ m(0) }}", "", "", 0, "nest" },
    { "{% macro m() %}{% for x in range(99999) %}{{ m() }}{% endfor %}{% endmacro %}{{ m() }}", "",
      "", 0, "too" },
    { "{% for a in range(99999) %}{% for b in range(99999) %}{% endfor %}{% endfor %}", "", "", 0,
      "too" },
    { "{% for a in range(99999) %}{{ range(99999)|list }}{% endfor %}", "", "", 0, "too" },
    { "{% set ns = namespace(x='ab') %}{% for a in range(99) %}{% set ns.x = ns.x + ns.x %}"
      "{% endfor %}",
      "", "", 0, "too" },
    { "{% set ns = namespace(x=[1]) %}{% for a in range(99) %}{% set ns.x = ns.x + ns.x %}"
      "{% endfor %}",
      "", "", 0, "too" },
    { "{{ 'x' * 99999999999 }}", "", "", 0, "too" },
    { "{{ '' * 99999999999 }}{{ [] * 99999999999 }}", "", "", 0, NULL },
    { "{{ range(99999999999) }}", "", "", 0, "more than 100000" },
    { "{{ ('a' * 9999999).replace('a', 'a' * 9999999) }}", "", "", 0, "too" },
    { "{{ ('a' * 3000000).split('a')|length }}", "", "", 0, "too" },
    { "{% set s = 'a' * 9999999 %}{% for a in range(99999) %}{{ s.count('b') }}{% endfor %}", "",
      "", 0, "too" },
    { "{% set s = 'ab' * 3000000 %}{% for a in range(999) %}{{ s[5000000] }}{% endfor %}", "", "",
      0, "too" },
    { "{% set ns = namespace() %}{% set ns.x = ns %}{{ ns }}", "", "", 0, "nests deeper" },
    { "{% set ns = namespace(x=[]) %}{% for a in range(99999) %}{% set ns.x = [ns.x] %}{% endfor %}"
      "{{ ns.x }}",
      "", "", 0, "nests deeper" },
    { "{% set ns = namespace(x=[], y=[]) %}{% for a in range(9999) %}{% set ns.x = [ns.x] %}"
      "{% set ns.y = [ns.y] %}{% endfor %}{{ ns.x == ns.y }}",
      "", "", 0, "nests deeper" },
    { "{% set ns = namespace(x=[]) %}{% for a in range(300) %}{% set ns.x = [ns.x] %}{% endfor %}"
      "{{ ns.x|tojson }}",
      "", "", 0, "nests deeper" },
    { "{{ 9 ** 99999999999 }}{{ 2 ** 62 }}", "", "", 0, "64 bits" },
    { "{{ (-9223372036854775807 - 1) // -1 }}", "", "", 0, "64 bits" },
    { "{{ -(-9223372036854775807 - 1) }}", "", "", 0, "64 bits" },
    { "{{ (-9223372036854775807 - 1) % -1 }}", "", "", 0, NULL },
    { "{{ 'abc'[::-9223372036854775807] }}{{ 'abc'[9223372036854775807:] }}", "", "", 0, NULL },
    { "{{ [1, 2][::-9223372036854775807 - 1] }}", "", "", 0, "too large" },
    { "{{ range(0, 9223372036854775807, 9223372036854775806) }}", "", "", 0, NULL },
    { "{{ 1e308 * 10 }}{{ '1e999'|float }}{{ 'x'|indent(99999999999) }}", "", "", 0, "width" },
    { "\xff", "", "", 0, "UTF-8" },
    { "{{ '\xed\xa0\x80' }}", "", "", 0, "UTF-8" },
};

START_TEST(a_hostile_template_ends_within_a_second) {
    char *template = filled(hostile[_i].head, hostile[_i].middle, hostile[_i].tail,
                            *hostile[_i].middle ? hostile[_i].bytes : 0);
    sc_error err = { 0 };
    const clock_t start = clock();
    char *made = rendered(template, strlen(template), NULL, 0, &err);
    const double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
    ck_assert_msg(seconds < (*cast_sanitize ? 20 : 1), "%.50s: %.2f s", template, seconds);
    if (hostile[_i].message)
        ck_assert_msg(!made && strstr(err.message, hostile[_i].message), "%.50s: %s", template,
                      made ? "rendered" : err.message);
    else
        ck_assert_msg(made != NULL, "%.50s: %s", template, err.message);
    free(made);
    free(template);
}
END_TEST

START_TEST(a_template_is_rendered_again_as_it_was) {
    static const char template[] =
        "{% set ns = namespace(n=0) %}{% for m in l %}{% set ns.n = ns.n + m %}{% endfor %}"
        "{{ ns.n }}";
    const sc_jinja *read = NULL;
    cJSON *values = cJSON_Parse("{\"l\": [1, 2, 3]}");
    ck_assert(!sc_jinja_read(&read, pool, "t", template, strlen(template), NULL));
    for (int i = 0; i < 2; i++) {
        char *text = NULL;
        size_t bytes = 0;
        ck_assert(!sc_jinja_render(&text, &bytes, read, values, 0, NULL));
        ck_assert_uint_eq(bytes, 1);
        ck_assert_str_eq(text, "6");
        free(text);
    }
    cJSON_Delete(values);
}
END_TEST

/* What reads a character relies on it. */
START_TEST(a_value_that_is_no_utf8_is_refused) {
    sc_error err = { 0 };
    cJSON *values = cJSON_CreateObject();
    ck_assert_ptr_nonnull(cJSON_AddStringToObject(values, "s", "a\xf0"));
    ck_assert_ptr_null(rendered("{{ s[1] }}", 10, values, 0, &err));
    ck_assert_str_eq(err.message, "chat_template:1: a text that it is given is no UTF-8");
    cJSON_Delete(values);
}
END_TEST

Suite *jinja_suite(void) {
    Suite *suite = suite_create("jinja");
    TCase *tc = tcase_create("jinja");
    tcase_set_timeout(tc, 60);
    tcase_add_checked_fixture(tc, begin, end);
    tcase_add_test(tc, a_published_template_makes_the_text_that_jinja2_makes);
    tcase_add_test(tc, a_small_template_makes_what_jinja2_makes);
    tcase_add_test(tc, smollm2_greets_as_transformers_had_it);
    tcase_add_test(tc, what_is_refused_is_named_with_its_line);
    tcase_add_loop_test(tc, a_hostile_template_ends_within_a_second, 0,
                        sizeof hostile / sizeof *hostile);
    tcase_add_test(tc, a_value_that_is_no_utf8_is_refused);
    tcase_add_test(tc, a_template_is_rendered_again_as_it_was);
    suite_add_tcase(suite, tc);
    return suite;
}
