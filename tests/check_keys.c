/*
 * check_keys.c - every key of every config class is honoured, irrelevant or refused.
 *
 * tests/reference/class_keys.tsv says which, of all families that have a graph; class_defaults.json
 * has the classes' keys and defaults. What it says is tried: a model of four layers of the class's
 * own sizes is cast, in memory, with the key and without.
 */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../codegen/emit.h"
#include "../codegen/export.h"
#include "../codegen/families.h"
#include "../codegen/json.h"

Suite *keys_suite(void);

/* ---- the table ---- */

enum { MOST_ROWS = 512, COLUMNS = 6 };

typedef struct {
    const char *key, *families, *verdict, *value, *beside, *why;
} row;

static const char base_key[] = "-"; /* of the row that has what all of a family's need */

static sc_pool *pool;
static row rows[MOST_ROWS];
static int count;
static cJSON *classes;

static void read_row(char *line) {
    const char *column[COLUMNS] = { "", "", "", "", "", "" };
    for (int i = 0; i < COLUMNS && line; i++) {
        char *end = strchr(line, '\t');
        column[i] = line;
        line = end ? end + 1 : NULL;
        if (end)
            *end = 0;
    }
    ck_assert_msg(!line && *column[2], "%s: is no row", column[0]);
    ck_assert_int_lt(count, MOST_ROWS);
    rows[count++] = (row){ column[0], column[1], column[2], column[3], column[4], column[5] };
}

static void begin(void) {
    static const char table[] = "tests/reference/class_keys.tsv";
    char *text = NULL;
    size_t size = 0;
    sc_error err = { 0 };
    pool = sc_pool_create();
    count = 0;
    ck_assert_msg(!sc_file_read(&text, &size, table, 1 << 20, pool, &err), "%s", err.message);
    for (char *line = text, *end; (end = strchr(line, '\n')); line = end + 1) {
        *end = 0;
        if (*line != '#')
            read_row(line);
    }
    ck_assert_msg(!sc_json_read(&classes, "tests/reference/class_defaults.json", 1 << 20, &err),
                  "%s", err.message);
}

static void end(void) {
    cJSON_Delete(classes);
    sc_pool_destroy(pool);
}

/* The i-th family that has a graph, NULL past the last. */
static const sc_family *built(int i) {
    const sc_family *family = NULL;
    for (size_t k = 0; (family = sc_family_at(k)); k++)
        if (family->build && !i--)
            break;
    return family;
}

static int families_built(void) {
    int n = 0;
    while (built(n))
        n++;
    return n;
}

static const cJSON *fields_of(const char *family) {
    const cJSON *fields = sc_json_get(sc_json_get(classes, family), "fields");
    ck_assert_msg(fields != NULL, "%s: class_defaults.json does not have its class", family);
    return fields;
}

/* Whether the row names the family. */
static bool names(const row *r, const char *family) {
    const size_t length = strlen(family);
    for (const char *at = r->families; *at; at += strcspn(at, ","), at += *at == ',')
        if (strcspn(at, ",") == length && !strncmp(at, family, length))
            return true;
    return false;
}

/* The row that holds for that key: one that names the family, or the one of all. */
static const row *row_of(const char *family, const char *key) {
    const row *all = NULL, *own = NULL;
    for (int i = 0; i < count; i++) {
        const bool named = names(&rows[i], family), star = !strcmp(rows[i].families, "*");
        if (strcmp(rows[i].key, key) || !(named || star))
            continue;
        const row **found = named ? &own : &all;
        ck_assert_msg(!*found, "%s: %s: has two rows", family, key);
        *found = &rows[i];
    }
    return own ? own : all;
}

START_TEST(every_key_has_a_row_and_every_row_a_key) {
    bool used[MOST_ROWS] = { false };
    const sc_family *family;
    const cJSON *field;
    for (int i = 0; (family = built(i)); i++)
        cJSON_ArrayForEach(field, fields_of(family->model_type)) {
            const row *r = row_of(family->model_type, field->string);
            ck_assert_msg(r != NULL, "%s: %s: has no row", family->model_type, field->string);
            used[r - rows] = true;
        }
    for (int i = 0; i < count; i++) {
        if (!strcmp(rows[i].key, base_key))
            continue;
        ck_assert_msg(used[i], "%s: %s: no such key", rows[i].families, rows[i].key);
        for (const char *at = rows[i].families; *at && *at != '*'; at += *at == ',') {
            char name[64];
            snprintf(name, sizeof name, "%.*s", (int)strcspn(at, ","), at);
            ck_assert_msg(sc_json_get(fields_of(name), rows[i].key) != NULL, "%s: has no key %s",
                          name, rows[i].key);
            at += strcspn(at, ",");
        }
    }
}
END_TEST

/* ---- castings in memory ---- */

/* What a config makes: all that is emitted for it, and its plan. */
typedef struct {
    int rc;
    sc_error err;
    char *text; /* NULL: nothing */
} product;

static void emit(product *p, sc_pool *run, const sc_plan *plan, const sc_config *config) {
    static const char *const templates[] = { "casting.h", "internal.h", "cache.c",   "table.c",
                                             "weights.h", "model.c",    "weights.c", "main.c" };
    sc_values *values = NULL;
    size_t bytes;
    FILE *out = open_memstream(&p->text, &bytes);
    ck_assert_ptr_nonnull(out);
    p->rc = sc_emit_values(&values, run, plan, config, &p->err);
    for (size_t i = 0; i < sizeof templates / sizeof *templates && !p->rc; i++) {
        char *text = NULL;
        size_t length;
        p->rc = sc_template_render(&text, &length, NULL, templates[i], values, &p->err);
        if (!p->rc)
            fwrite(text, 1, length, out);
        free(text);
    }
    sc_plan_print_json(out, plan);
    fclose(out);
}

static product make(const cJSON *json) {
    product p = { 0 };
    sc_pool *run = sc_pool_create();
    sc_config *config = NULL;
    const sc_plan *plan = NULL;
    const sc_export_options options = { .name = "cast", .arch = "generic" };
    p.rc = sc_config_make(&config, run, "config.json", json, NULL, false, &p.err);
    const sc_source source = { .config = config };
    if (!p.rc)
        p.rc = sc_export_plan(&plan, run, &source, &options, &p.err);
    if (!p.rc)
        emit(&p, run, plan, config);
    sc_pool_destroy(run);
    return p;
}

static void set(cJSON *json, const char *key, cJSON *value) {
    ck_assert_ptr_nonnull(value);
    cJSON_DeleteItemFromObjectCaseSensitive(json, key);
    ck_assert(cJSON_AddItemToObject(json, key, value));
}

/* The keys of that JSON; "-" takes one away. */
static void set_all(cJSON *json, const char *text) {
    cJSON *beside = cJSON_Parse(*text ? text : "{}"), *item;
    ck_assert_msg(beside != NULL, "%s: is no JSON", text);
    cJSON_ArrayForEach(item, beside) {
        if (cJSON_IsString(item) && !strcmp(item->valuestring, "-"))
            cJSON_DeleteItemFromObjectCaseSensitive(json, item->string);
        else
            set(json, item->string, cJSON_Duplicate(item, true));
    }
    cJSON_Delete(beside);
}

/* Four layers, everything else as the class has it, what the family's other rows have, and what the
 * row has beside its key. */
static cJSON *base_of(const char *family, const row *r) {
    const row *base = row_of(family, base_key);
    cJSON *json = cJSON_CreateObject();
    set(json, "model_type", cJSON_CreateString(family));
    set(json, "num_hidden_layers", cJSON_CreateNumber(4));
    set_all(json, base ? base->beside : "");
    set_all(json, r->beside);
    return json;
}

/* The value to try; usual: the class's default. */
static cJSON *other_value(const row *r, const cJSON *usual) {
    if (*r->value)
        return cJSON_Parse(r->value);
    if (cJSON_IsBool(usual))
        return cJSON_CreateBool(!cJSON_IsTrue(usual));
    const double number = usual->valuedouble;
    ck_assert_msg(cJSON_IsNumber(usual) && number > 0, "%s: wants a value", r->key);
    return cJSON_CreateNumber(number >= 1 && (double)(int64_t)number >= number ? 2 * number
                                                                               : number / 2);
}

/* Like base, with the key. */
static product make_with(const cJSON *base, const char *key, cJSON *value) {
    cJSON *json = cJSON_Duplicate(base, true);
    set(json, key, value);
    const product p = make(json);
    cJSON_Delete(json);
    return p;
}

static bool same(const product *a, const product *b) { return !strcmp(a->text, b->text); }

/* The key as the class has it says no more than its absence. */
static void check_default(const char *family, const row *r, const cJSON *base, const product *usual,
                          const cJSON *field) {
    if (sc_json_get(base, r->key) || (cJSON_IsString(field) && strstr(field->valuestring, "inf")))
        return; /* there already, for a reason; or JSON has no such number */
    product p = make_with(base, r->key, cJSON_Duplicate(field, true));
    ck_assert_msg(!p.rc, "%s: %s: its default: %s", family, r->key, p.err.message);
    ck_assert_msg(same(&p, usual), "%s: %s: its default makes another casting", family, r->key);
    free(p.text);
}

/* usual: what base makes. */
static void check_verdict(const char *family, const row *r, const product *usual,
                          const product *other) {
    if (!strcmp(r->verdict, "refused") || !strcmp(r->verdict, "bound")) {
        ck_assert_msg(other->rc == SC_EINPUT, "%s: %s: is not refused", family, r->key);
        ck_assert_msg(strstr(other->err.message, r->key) != NULL, "%s: %s: is not named: %s",
                      family, r->key, other->err.message);
        return;
    }
    const bool honoured = !strcmp(r->verdict, "honoured");
    ck_assert_msg(honoured || !strcmp(r->verdict, "irrelevant"), "%s: %s: is no verdict", r->key,
                  r->verdict);
    ck_assert_msg(honoured || *r->why, "%s: irrelevant, but why?", r->key);
    ck_assert_msg(!other->rc, "%s: %s: %s", family, r->key, other->err.message);
    ck_assert_msg(same(other, usual) != honoured, "%s: %s: is said to be %s", family, r->key,
                  r->verdict);
}

START_TEST(a_key_is_what_its_row_says) {
    const char *family = built(_i)->model_type;
    const cJSON *field;
    const row nothing = { .key = "", .beside = "" };
    cJSON *alone = base_of(family, &nothing);
    product usual = make(alone);
    ck_assert_msg(!usual.rc, "%s: %s", family, usual.err.message);
    cJSON_ArrayForEach(field, fields_of(family)) {
        const row *r = row_of(family, field->string);
        ck_assert_msg(r != NULL, "%s: %s: has no row", family, field->string);
        cJSON *base = *r->beside ? base_of(family, r) : alone;
        product own = *r->beside ? make(base) : usual;
        ck_assert_msg(!own.rc, "%s: without %s: %s", family, r->key, own.err.message);
        check_default(family, r, base, &own, field);
        product other = make_with(base, r->key, other_value(r, field));
        check_verdict(family, r, &own, &other);
        free(other.text);
        if (*r->beside) {
            free(own.text);
            cJSON_Delete(base);
        }
    }
    free(usual.text);
    cJSON_Delete(alone);
}
END_TEST

Suite *keys_suite(void) {
    Suite *suite = suite_create("keys");
    TCase *tests = tcase_create("all");
    tcase_set_timeout(tests, 120);
    tcase_add_checked_fixture(tests, begin, end);
    tcase_add_test(tests, every_key_has_a_row_and_every_row_a_key);
    tcase_add_loop_test(tests, a_key_is_what_its_row_says, 0, families_built());
    suite_add_tcase(suite, tests);
    return suite;
}
