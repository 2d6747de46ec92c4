/* jinja_run.c - a template's statements, its variables and macros; see jinja.h. */
#include "jinja.h"

#include <stdlib.h>
#include <string.h>

#include "jinja_builtin.h"
#include "json.h"

enum { TEMPLATE_MOST = 1 << 20, STEPS = 5000000, MEMORY = 64 << 20 };

struct sc_jinja {
    const char *name;
    const sc_jnode *body;
};

typedef struct {
    const char *name;
    sc_jvalue value;
} variable;

struct sc_jscope {
    sc_jscope *parent;
    variable *variable;
    size_t count, room;
};

sc_jscope *sc_j_scope(sc_jrun *run, sc_jscope *parent) {
    sc_jscope *scope = sc_j_alloc(run, 1, sizeof *scope);
    if (scope)
        scope->parent = parent;
    return scope;
}

const sc_jvalue *sc_j_variable(sc_jrun *run, const sc_jscope *scope, const char *name) {
    for (; scope; scope = scope->parent) {
        if (!sc_j_step(run, 1 + scope->count / 8))
            return NULL;
        for (size_t i = 0; i < scope->count; i++)
            if (!strcmp(scope->variable[i].name, name))
                return &scope->variable[i].value;
    }
    return NULL;
}

void sc_j_define(sc_jrun *run, sc_jscope *scope, const char *name, sc_jvalue value) {
    if (run->rc || !sc_j_step(run, scope->count / 8))
        return;
    for (size_t i = 0; i < scope->count; i++)
        if (!strcmp(scope->variable[i].name, name)) {
            scope->variable[i].value = value;
            return;
        }
    if (scope->count == scope->room) {
        const size_t room = scope->room ? 2 * scope->room : 8;
        variable *bigger = sc_j_alloc(run, room, sizeof *bigger);
        if (!bigger)
            return;
        if (scope->count)
            memcpy(bigger, scope->variable, scope->count * sizeof *bigger);
        scope->variable = bigger;
        scope->room = room;
    }
    scope->variable[scope->count++] = (variable){ name, value };
}

typedef enum { GO_ON, BREAK, CONTINUE } flow;

static flow statements(sc_jrun *run, sc_jscope *scope, const sc_jnode *node);

static void assign(sc_jrun *run, sc_jscope *scope, const sc_jnode *target, sc_jvalue value) {
    if (run->rc)
        return;
    if (target->type == SC_J_NAMED) {
        sc_j_define(run, scope, target->text, value);
        return;
    }
    if (target->type == SC_J_ATTRIBUTE) {
        const sc_jvalue of = sc_j_eval(run, scope, target->a);
        if (of.type == SC_J_NAMESPACE)
            sc_j_set(run, of, sc_j_string(target->text, strlen(target->text)), value);
        else
            sc_j_fail(run, "%s.%s cannot be set: %s is no namespace", target->a->text, target->text,
                      target->a->text);
        return;
    }
    sc_jvalue *item;
    size_t count, wanted = 0;
    for (const sc_jnode *one = target->a; one; one = one->next)
        wanted++;
    if (!sc_j_items(run, value, &item, &count))
        return;
    if (count != wanted) {
        sc_j_fail(run, "%zu values for %zu names", count, wanted);
        return;
    }
    for (const sc_jnode *one = target->a; one; one = one->next)
        assign(run, scope, one, *item++);
}

/* What the statements write, instead of where output goes. */
static sc_jvalue captured(sc_jrun *run, sc_jscope *scope, const sc_jnode *body) {
    sc_jtext text = { 0 }, *before = run->out;
    run->out = &text;
    statements(run, scope, body);
    run->out = before;
    return sc_j_finish(&text);
}

/* Filters of a block on what it wrote. */
static sc_jvalue block_value(sc_jrun *run, sc_jscope *scope, const sc_jnode *node) {
    sc_jscope *inside = sc_j_scope(run, scope);
    if (!inside)
        return sc_j_undefined("");
    run->input = captured(run, inside, node->d);
    return sc_j_eval(run, scope, node->b);
}

static flow if_statement(sc_jrun *run, sc_jscope *scope, const sc_jnode *node) {
    for (; node && node->type == SC_J_IF && !run->rc; node = node->c) {
        if (sc_j_truth(sc_j_eval(run, scope, node->a)))
            return statements(run, scope, node->b);
        if (!node->c || node->c->type != SC_J_IF || node->c->next)
            return statements(run, scope, node->c);
    }
    return GO_ON;
}

/* Items that the loop's condition keeps; the target is bound for it as in the body. */
static sc_jvalue kept_items(sc_jrun *run, sc_jscope *scope, const sc_jnode *node, sc_jvalue all) {
    sc_jvalue *item;
    size_t count;
    const sc_jvalue kept = sc_j_list(run, SC_J_PLAIN);
    sc_jscope *inside = sc_j_scope(run, scope);
    if (!inside || !sc_j_items(run, all, &item, &count))
        return kept;
    for (size_t i = 0; i < count && !run->rc; i++) {
        assign(run, inside, node->a, item[i]);
        if (!node->c || sc_j_truth(sc_j_eval(run, inside, node->c)))
            sc_j_append(run, kept, item[i]);
    }
    return kept;
}

static void for_statement(sc_jrun *run, sc_jscope *scope, const sc_jnode *node) {
    sc_jvalue items = sc_j_eval(run, scope, node->b);
    if (!run->rc && node->c)
        items = kept_items(run, scope, node, items);
    sc_jvalue *item;
    size_t count;
    sc_jloop *loop = sc_j_alloc(run, 1, sizeof *loop);
    if (!loop || !sc_j_items(run, items, &item, &count))
        return;
    *loop = (sc_jloop){ .count = count, .item = item };
    if (!count) {
        sc_jscope *inside = sc_j_scope(run, scope);
        if (inside)
            statements(run, inside, node->e);
        return;
    }
    for (size_t i = 0; i < count && sc_j_step(run, 1); i++) {
        sc_jscope *inside = sc_j_scope(run, scope);
        if (!inside)
            return;
        loop->index = i;
        sc_j_define(run, inside, "loop", (sc_jvalue){ .type = SC_J_LOOP, .loop = loop });
        assign(run, inside, node->a, item[i]);
        if (!run->rc && statements(run, inside, node->d) == BREAK)
            return;
    }
}

static sc_jvalue macro_value(sc_jrun *run, sc_jscope *scope, const sc_jnode *node) {
    sc_jcallable *macro = sc_j_alloc(run, 1, sizeof *macro);
    if (!macro)
        return sc_j_undefined("");
    macro->macro = node;
    macro->scope = scope;
    return (sc_jvalue){ .type = SC_J_CALLABLE, .callable = macro };
}

static const char *macro_name(const sc_jnode *macro) {
    return macro->type == SC_J_MACRO ? macro->text : "caller";
}

/* Arguments by place, then by name; what is left takes its default, which may use those before. */
static void bind_parameters(sc_jrun *run, sc_jscope *inside, const sc_jnode *macro,
                            const sc_jarguments *arguments) {
    int used = 0;
    for (const sc_jnode *parameter = macro->a; parameter && !run->rc; parameter = parameter->next) {
        sc_jvalue value = { 0 };
        if (used < arguments->count && !arguments->name[used])
            value = arguments->value[used++];
        else
            for (int i = 0; i < arguments->count; i++)
                if (arguments->name[i] && !strcmp(arguments->name[i], parameter->text))
                    value = arguments->value[i];
        if (value.type == SC_J_UNSET)
            value = parameter->a ? sc_j_eval(run, inside, parameter->a)
                                 : sc_j_undefined(parameter->text);
        sc_j_define(run, inside, parameter->text, value);
    }
    if (used < arguments->count && !arguments->name[used])
        sc_j_fail(run, "%s takes no argument number %d", macro_name(macro), used + 1);
    for (int i = used; i < arguments->count && !run->rc; i++) {
        const sc_jnode *parameter = macro->a;
        while (parameter && strcmp(parameter->text, arguments->name[i]))
            parameter = parameter->next;
        const bool caller = !strcmp(arguments->name[i], "caller");
        if (caller && !parameter)
            sc_j_define(run, inside, "caller", arguments->value[i]);
        else if (!parameter)
            sc_j_fail(run, "%s takes no argument %s", macro_name(macro), arguments->name[i]);
    }
}

sc_jvalue sc_j_call_macro(sc_jrun *run, const sc_jcallable *macro, const sc_jarguments *arguments) {
    sc_jscope *inside = sc_j_scope(run, macro->scope);
    if (!inside)
        return sc_j_undefined("");
    bind_parameters(run, inside, macro->macro, arguments);
    const sc_jvalue text = captured(run, inside, macro->macro->d);
    return text;
}

static void call_block(sc_jrun *run, sc_jscope *scope, const sc_jnode *node) {
    const sc_jvalue callee = sc_j_eval(run, scope, node->b->a);
    const sc_jarguments given = sc_j_arguments(run, scope, node->b->b);
    const size_t count = (size_t)given.count;
    sc_jarguments all = { .count = given.count + 1,
                          .name = sc_j_alloc(run, count + 1, sizeof *all.name),
                          .value = sc_j_alloc(run, count + 1, sizeof *all.value) };
    if (run->rc)
        return;
    if (count) {
        memcpy(all.name, given.name, count * sizeof *all.name);
        memcpy(all.value, given.value, count * sizeof *all.value);
    }
    all.name[count] = "caller";
    all.value[count] = macro_value(run, scope, node);
    sc_j_put_str(run, run->out, sc_j_call(run, callee, &all));
}

static void with_statement(sc_jrun *run, sc_jscope *scope, const sc_jnode *node) {
    sc_jscope *inside = sc_j_scope(run, scope);
    for (const sc_jnode *set = node->a; set && !run->rc; set = set->next)
        assign(run, inside, set->a, sc_j_eval(run, scope, set->b)); /* none sees another */
    if (!run->rc)
        statements(run, inside, node->d);
}

static flow statement(sc_jrun *run, sc_jscope *scope, const sc_jnode *node) {
    switch (node->type) {
    case SC_J_WRITE:
        sc_j_put(run, run->out, node->value.text, node->value.bytes);
        break;
    case SC_J_PRINT:
        sc_j_put_str(run, run->out, sc_j_eval(run, scope, node->a));
        break;
    case SC_J_IF:
        return if_statement(run, scope, node);
    case SC_J_FOR:
        for_statement(run, scope, node);
        break;
    case SC_J_SET:
        assign(run, scope, node->a, sc_j_eval(run, scope, node->b));
        break;
    case SC_J_SET_BLOCK:
        assign(run, scope, node->a, block_value(run, scope, node));
        break;
    case SC_J_FILTER_BLOCK:
        sc_j_put_str(run, run->out, block_value(run, scope, node));
        break;
    case SC_J_MACRO:
        sc_j_define(run, scope, node->text, macro_value(run, scope, node));
        break;
    case SC_J_CALL_BLOCK:
        call_block(run, scope, node);
        break;
    case SC_J_WITH:
        with_statement(run, scope, node);
        break;
    case SC_J_BREAK:
        return BREAK;
    case SC_J_CONTINUE:
        return CONTINUE;
    default: /* expressions stand in no chain of statements */
        break;
    }
    return GO_ON;
}

static flow statements(sc_jrun *run, sc_jscope *scope, const sc_jnode *node) {
    flow what = GO_ON;
    if (run->depth >= SC_J_MOST_DEPTH)
        sc_j_fail(run, "nests deeper than %d", SC_J_MOST_DEPTH);
    run->depth++;
    for (; node && what == GO_ON && sc_j_step(run, 1); node = node->next) {
        run->line = node->line;
        what = statement(run, scope, node);
    }
    run->depth--;
    return what;
}

int sc_jinja_read(const sc_jinja **made, sc_pool *pool, const char *name, const char *text,
                  size_t bytes, sc_error *err) {
    if (bytes > TEMPLATE_MOST)
        return sc_fail(err, SC_EINPUT, "%s: a chat template of %zu bytes (%d at most)", name, bytes,
                       TEMPLATE_MOST);
    if (!sc_json_utf8(text, bytes))
        return sc_fail(err, SC_EINPUT, "%s: the chat template is no UTF-8", name);
    sc_jinja *template = sc_pool_alloc(pool, 1, sizeof *template);
    const sc_jtoken *token = NULL;
    sc_jnode *body = NULL;
    if (!template)
        return sc_oom(err, "reading a chat template");
    int rc = sc_jinja_lex(&token, pool, name, text, bytes, err);
    if (!rc)
        rc = sc_jinja_parse(&body, pool, name, token, err);
    if (rc)
        return rc;
    *template = (sc_jinja){ name, body };
    *made = template;
    return SC_OK;
}

int sc_jinja_render(char **text, size_t *bytes, const sc_jinja *template, const cJSON *values,
                    time_t now, sc_error *err) {
    sc_jtext out = { 0 };
    sc_jrun run = { .name = template->name,
                    .line = 1,
                    .pool = sc_pool_create(),
                    .bytes = MEMORY,
                    .steps = STEPS,
                    .now = now,
                    .err = err,
                    .out = &out };
    if (!run.pool)
        return sc_oom(err, "rendering a chat template");
    sc_jscope *scope = sc_j_scope(&run, NULL);
    const cJSON *value;
    cJSON_ArrayForEach(value, values) if (!run.rc)
        sc_j_define(&run, scope, value->string, sc_j_load(&run, value));
    if (!run.rc)
        statements(&run, scope, template->body);
    char *made = run.rc ? NULL : malloc(out.count + 1);
    if (!run.rc && !made)
        run.rc = sc_oom(err, "rendering a chat template");
    if (!run.rc) {
        if (out.count)
            memcpy(made, out.bytes, out.count);
        made[out.count] = 0;
        *text = made;
        *bytes = out.count;
    }
    sc_pool_destroy(run.pool);
    return run.rc;
}
