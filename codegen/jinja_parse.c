/* jinja_parse.c - statements of a template to trees; see jinja_syntax.h. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "jinja_syntax.h"

sc_jnode *sc_j_refuse(sc_jparser *p, const char *format, ...) {
    if (!p->rc) {
        char reason[256];
        va_list args;
        va_start(args, format);
        vsnprintf(reason, sizeof reason, format, args);
        va_end(args);
        p->rc = sc_fail(p->err, SC_EINPUT, "%s:%d: %s", p->name, p->token->line, reason);
    }
    return NULL;
}

sc_jnode *sc_j_node(sc_jparser *p, sc_jnode_type type) {
    sc_jnode *node = p->rc ? NULL : sc_pool_alloc(p->pool, 1, sizeof *node);
    if (!node) {
        if (!p->rc)
            p->rc = sc_oom(p->err, "reading a chat template");
        return NULL;
    }
    node->type = type;
    node->line = p->token->line;
    return node;
}

bool sc_j_peek(const sc_jparser *p, sc_jtoken_type type, const char *text) {
    return p->token->type == type && (!text || !strcmp(p->token->text, text));
}

bool sc_j_take(sc_jparser *p, sc_jtoken_type type, const char *text) {
    if (p->rc || !sc_j_peek(p, type, text))
        return false;
    p->token++;
    return true;
}

static const char *shown(const sc_jparser *p) {
    return p->token->type == SC_J_END_OF_TEMPLATE ? "the end" : p->token->text;
}

void sc_j_expect(sc_jparser *p, sc_jtoken_type type, const char *text) {
    if (!sc_j_take(p, type, text))
        sc_j_refuse(p, "\"%s\" is missing before \"%.60s\"", text, shown(p));
}

const char *sc_j_expect_name(sc_jparser *p) {
    if (p->rc || p->token->type != SC_J_NAME) {
        sc_j_refuse(p, "a name is missing before \"%.60s\"", shown(p));
        return NULL;
    }
    return p->token++->text;
}

bool sc_j_deeper(sc_jparser *p) {
    if (!p->rc && p->depth >= SC_J_MOST_NESTING)
        sc_j_refuse(p, "nests deeper than %d", SC_J_MOST_NESTING);
    if (p->rc)
        return false;
    p->depth++;
    return true;
}

static sc_jnode *statements(sc_jparser *p, const char *const ends[]);

static void end_tag(sc_jparser *p) { sc_j_expect(p, SC_J_BLOCK_END, "%}"); }

/* A body up to one of the tags that end it; that name is taken, the rest of its tag is not. */
static sc_jnode *body(sc_jparser *p, const char *opened, const char *const ends[],
                      const char **ended) {
    if (!sc_j_deeper(p))
        return NULL;
    const char *before = p->opened;
    const int line = p->token->line;
    p->opened = opened;
    end_tag(p);
    sc_jnode *first = statements(p, ends);
    if (!p->rc && p->token->type == SC_J_END_OF_TEMPLATE)
        sc_j_refuse(p, "{%% %s %%} of line %d is not closed", opened, line);
    p->opened = before;
    p->depth--;
    *ended = sc_j_expect_name(p);
    return first;
}

/* The same when one tag alone can end it: its whole tag is taken. */
static sc_jnode *whole_body(sc_jparser *p, const char *opened, const char *end) {
    const char *ended;
    sc_jnode *first = body(p, opened, (const char *const[]){ end, NULL }, &ended);
    end_tag(p);
    return first;
}

static sc_jnode *if_statement(sc_jparser *p) {
    static const char *const ends[] = { "elif", "else", "endif", NULL }, *const last[] = { "endif",
                                                                                           NULL };
    sc_jnode *first = sc_j_node(p, SC_J_IF), *node = first;
    while (!p->rc) {
        const char *ended;
        node->a = sc_j_tuple(p, true);
        node->b = body(p, "if", ends, &ended);
        if (p->rc || !strcmp(ended, "endif"))
            break;
        if (!strcmp(ended, "else")) {
            node->c = body(p, "else", last, &ended);
            break;
        }
        node = node->c = sc_j_node(p, SC_J_IF);
    }
    end_tag(p);
    return first;
}

static sc_jnode *for_statement(sc_jparser *p) {
    static const char *const ends[] = { "else", "endfor", NULL }, *const last[] = { "endfor",
                                                                                    NULL };
    sc_jnode *node = sc_j_node(p, SC_J_FOR);
    const char *ended;
    if (!node)
        return NULL;
    node->a = sc_j_target(p, false);
    sc_j_expect(p, SC_J_NAME, "in");
    node->b = sc_j_tuple(p, true);
    if (sc_j_take(p, SC_J_NAME, "if"))
        node->c = sc_j_expression(p);
    if (sc_j_peek(p, SC_J_NAME, "recursive"))
        return sc_j_refuse(p, "a recursive loop is beyond the subset (docs/chat.md)");
    p->loops++;
    node->d = body(p, "for", ends, &ended);
    p->loops--;
    if (!p->rc && !strcmp(ended, "else"))
        node->e = body(p, "else", last, &ended);
    end_tag(p);
    return node;
}

static sc_jnode *set_statement(sc_jparser *p) {
    sc_jnode *node = sc_j_node(p, SC_J_SET);
    if (!node)
        return NULL;
    node->a = sc_j_target(p, true);
    if (sc_j_take(p, SC_J_OPERATOR, "=")) {
        node->b = sc_j_tuple(p, false);
        end_tag(p);
        return node;
    }
    node->type = SC_J_SET_BLOCK;
    node->b = sc_j_node(p, SC_J_INPUT);
    if (sc_j_take(p, SC_J_OPERATOR, "|"))
        node->b = sc_j_filters(p, node->b);
    node->d = whole_body(p, "set", "endset");
    return node;
}

/* (a, b=1): what a macro, or a call block's caller, takes. ( is taken. */
static sc_jnode *parameters(sc_jparser *p) {
    sc_jnode *first = NULL, **last = &first;
    while (!p->rc && !sc_j_take(p, SC_J_OPERATOR, ")")) {
        *last = sc_j_node(p, SC_J_KEYWORD);
        const char *name = sc_j_expect_name(p);
        if (p->rc)
            break;
        (*last)->text = name;
        if (sc_j_take(p, SC_J_OPERATOR, "="))
            (*last)->a = sc_j_expression(p);
        last = &(*last)->next;
        if (!sc_j_peek(p, SC_J_OPERATOR, ")"))
            sc_j_expect(p, SC_J_OPERATOR, ",");
    }
    return first;
}

/* A loop around a macro is none of its own. */
static sc_jnode *own_body(sc_jparser *p, const char *opened, const char *end) {
    const int loops = p->loops;
    p->loops = 0;
    sc_jnode *first = whole_body(p, opened, end);
    p->loops = loops;
    return first;
}

static sc_jnode *macro_statement(sc_jparser *p) {
    sc_jnode *node = sc_j_node(p, SC_J_MACRO);
    const char *name = sc_j_expect_name(p);
    sc_j_expect(p, SC_J_OPERATOR, "(");
    if (p->rc)
        return NULL;
    node->text = name;
    p->macros++;
    node->a = parameters(p);
    node->d = own_body(p, "macro", "endmacro");
    p->macros--;
    return node;
}

static sc_jnode *call_statement(sc_jparser *p) {
    sc_jnode *node = sc_j_node(p, SC_J_CALL_BLOCK);
    if (!node)
        return NULL;
    if (sc_j_take(p, SC_J_OPERATOR, "("))
        node->a = parameters(p);
    node->b = sc_j_expression(p);
    if (!p->rc && node->b->type != SC_J_CALL)
        return sc_j_refuse(p, "{%% call %%} wants a call");
    node->d = own_body(p, "call", "endcall");
    return node;
}

static sc_jnode *filter_statement(sc_jparser *p) {
    sc_jnode *node = sc_j_node(p, SC_J_FILTER_BLOCK), *input = sc_j_node(p, SC_J_INPUT);
    if (!input)
        return NULL;
    node->b = sc_j_filters(p, input);
    node->d = whole_body(p, "filter", "endfilter");
    return node;
}

static sc_jnode *with_statement(sc_jparser *p) {
    sc_jnode *node = sc_j_node(p, SC_J_WITH), **last = node ? &node->a : NULL;
    while (!p->rc && p->token->type != SC_J_BLOCK_END) {
        *last = sc_j_node(p, SC_J_SET);
        sc_jnode *target = sc_j_target(p, false);
        sc_j_expect(p, SC_J_OPERATOR, "=");
        sc_jnode *value = sc_j_expression(p);
        if (p->rc)
            break;
        (*last)->a = target;
        (*last)->b = value;
        last = &(*last)->next;
        if (p->token->type != SC_J_BLOCK_END)
            sc_j_expect(p, SC_J_OPERATOR, ",");
    }
    sc_jnode *inside = whole_body(p, "with", "endwith");
    if (node)
        node->d = inside;
    return node;
}

/* What a training run wants marked as the assistant's: text like any other here. */
static sc_jnode *generation_statement(sc_jparser *p) {
    sc_jnode *node = sc_j_node(p, SC_J_WITH);
    sc_jnode *inside = own_body(p, "generation", "endgeneration");
    if (node)
        node->d = inside;
    return node;
}

static sc_jnode *loop_control(sc_jparser *p, sc_jnode_type type) {
    if (!p->loops)
        return sc_j_refuse(p, "%s stands in no loop", type == SC_J_BREAK ? "break" : "continue");
    sc_jnode *node = sc_j_node(p, type);
    end_tag(p);
    return node;
}

static sc_jnode *break_statement(sc_jparser *p) { return loop_control(p, SC_J_BREAK); }
static sc_jnode *continue_statement(sc_jparser *p) { return loop_control(p, SC_J_CONTINUE); }

/* {% is taken. */
static sc_jnode *tag(sc_jparser *p) {
    static const struct {
        const char *name;
        sc_jnode *(*read)(sc_jparser *);
    } tags[] = { { "if", if_statement },       { "for", for_statement },
                 { "set", set_statement },     { "macro", macro_statement },
                 { "call", call_statement },   { "filter", filter_statement },
                 { "with", with_statement },   { "generation", generation_statement },
                 { "break", break_statement }, { "continue", continue_statement } };
    const char *name = sc_j_expect_name(p);
    if (!name)
        return NULL;
    for (size_t i = 0; i < sizeof tags / sizeof *tags; i++)
        if (!strcmp(name, tags[i].name))
            return tags[i].read(p);
    p->token--;
    if (!strncmp(name, "end", 3) || !strcmp(name, "else") || !strcmp(name, "elif"))
        return p->opened ? sc_j_refuse(p, "{%% %s %%} stands in a {%% %s %%} that is not closed",
                                       name, p->opened)
                         : sc_j_refuse(p, "{%% %s %%} closes nothing", name);
    return sc_j_refuse(p, "{%% %s %%} is beyond the subset (docs/chat.md)", name);
}

static sc_jnode *print(sc_jparser *p) {
    sc_jnode *node = sc_j_node(p, SC_J_PRINT);
    sc_jnode *value = sc_j_tuple(p, false);
    sc_j_expect(p, SC_J_VAR_END, "}}");
    if (node)
        node->a = value;
    return node;
}

static sc_jnode *write_text(sc_jparser *p) {
    sc_jnode *node = sc_j_node(p, SC_J_WRITE);
    if (node)
        node->value = sc_j_string(p->token->text, p->token->bytes);
    p->token++;
    return node;
}

static bool is_end(const sc_jparser *p, const char *const ends[]) {
    if (p->token->type == SC_J_END_OF_TEMPLATE)
        return true;
    for (; *ends && p->token->type == SC_J_BLOCK_BEGIN; ends++)
        if (p->token[1].type == SC_J_NAME && !strcmp(p->token[1].text, *ends))
            return true;
    return false;
}

static sc_jnode *statements(sc_jparser *p, const char *const ends[]) {
    sc_jnode *first = NULL, **last = &first;
    while (!p->rc && !is_end(p, ends)) {
        if (p->token->type == SC_J_DATA)
            *last = write_text(p);
        else if (sc_j_take(p, SC_J_VAR_BEGIN, NULL))
            *last = print(p);
        else if (sc_j_take(p, SC_J_BLOCK_BEGIN, NULL))
            *last = tag(p);
        if (*last)
            last = &(*last)->next;
    }
    sc_j_take(p, SC_J_BLOCK_BEGIN, NULL);
    return first;
}

int sc_jinja_parse(sc_jnode **made, sc_pool *pool, const char *name, const sc_jtoken *token,
                   sc_error *err) {
    static const char *const none[] = { NULL };
    sc_jparser p = { .name = name, .token = token, .pool = pool, .err = err };
    sc_jnode *first = statements(&p, none);
    if (!p.rc)
        *made = first;
    return p.rc;
}
