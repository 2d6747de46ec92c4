/* jinja_lex.c - a template's text to tokens; see jinja_syntax.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* memmem */
#endif
#include "jinja_syntax.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "jinja_unicode.h"

enum { BRACKETS_MOST = 256 };

typedef struct {
    const char *name, *at, *end;
    int line, token_line;
    bool line_begins; /* the last tag ended its line, or there was none */
    sc_jtoken *token;
    size_t count, room;
    char bracket[BRACKETS_MOST]; /* what has to close, innermost last */
    int brackets;
    sc_pool *pool;
    sc_error *err;
} lexer;

#define REFUSE(l, ...) refuse_at(l, (l)->line, __VA_ARGS__)

__attribute__((format(printf, 3, 4))) static int refuse_at(lexer *l, int line, const char *format,
                                                           ...) {
    char reason[256];
    va_list args;
    va_start(args, format);
    vsnprintf(reason, sizeof reason, format, args);
    va_end(args);
    return sc_fail(l->err, SC_EINPUT, "%s:%d: %s", l->name, line, reason);
}

static int add(lexer *l, sc_jtoken_type type, const char *text, size_t bytes) {
    if (l->count == l->room) {
        const size_t room = l->room ? 2 * l->room : 256;
        sc_jtoken *bigger = sc_pool_alloc(l->pool, room, sizeof *bigger);
        if (!bigger)
            return sc_oom(l->err, "reading a chat template");
        if (l->count)
            memcpy(bigger, l->token, l->count * sizeof *bigger);
        l->token = bigger;
        l->room = room;
    }
    char *copy = sc_pool_alloc(l->pool, bytes + 1, 1);
    if (!copy)
        return sc_oom(l->err, "reading a chat template");
    memcpy(copy, text, bytes);
    l->token[l->count++] = (sc_jtoken){ type, l->token_line, copy, bytes };
    return SC_OK;
}

static bool starts(const lexer *l, const char *at, const char *with) {
    const size_t n = strlen(with);
    return (size_t)(l->end - at) >= n && !memcmp(at, with, n);
}

static void move(lexer *l, const char *to) {
    for (; l->at < to; l->at++)
        l->line += *l->at == '\n';
}

static void skip_space(lexer *l) {
    const sc_jvalue rest = sc_j_string(l->at, (size_t)(l->end - l->at));
    const sc_jvalue none = { 0 };
    move(l, l->end - sc_j_strip(rest, none, true, false).bytes);
}

/* Behind a tag: -%} takes all white space away, %} the end of its line, +%} nothing. */
static void close_tag(lexer *l, size_t bytes, char sign, bool trims) {
    move(l, l->at + bytes);
    if (sign == '-')
        skip_space(l);
    else if (trims && sign != '+' && l->at < l->end && *l->at == '\n')
        move(l, l->at + 1);
    l->line_begins = l->at[-1] == '\n';
}

/* {{- and {%- take the white space before them away; {% and {# that which begins their line. */
static size_t kept_before(const lexer *l, const char *tag) {
    const sc_jvalue unset = { 0 }, text = sc_j_string(l->at, (size_t)(tag - l->at));
    const char sign = tag + 2 < l->end ? tag[2] : 0;
    if (sign == '-')
        return sc_j_strip(text, unset, false, true).bytes;
    if (sign == '+' || tag[1] == '{')
        return text.bytes;
    size_t line = text.bytes;
    while (line && text.text[line - 1] != '\n')
        line--;
    if (!line && !l->line_begins)
        return text.bytes;
    const sc_jvalue last = sc_j_string(text.text + line, text.bytes - line);
    return sc_j_strip(last, unset, true, false).bytes ? text.bytes : line;
}

/* The text up to the next tag, and the tag's beginning. */
static int lex_data(lexer *l, char *kind) {
    const char *tag = l->at;
    while (tag < l->end && !(tag[0] == '{' && tag + 1 < l->end && strchr("{%#", tag[1]) && tag[1]))
        tag++;
    const size_t kept = tag < l->end ? kept_before(l, tag) : (size_t)(tag - l->at);
    l->token_line = l->line;
    int rc = kept ? add(l, SC_J_DATA, l->at, kept) : SC_OK;
    move(l, tag);
    *kind = 0;
    if (rc || tag == l->end)
        return rc;
    *kind = tag[1];
    const bool sign = tag + 2 < l->end && (tag[2] == '-' || (tag[2] == '+' && tag[1] != '{'));
    l->token_line = l->line;
    if (*kind != '#')
        rc = add(l, *kind == '{' ? SC_J_VAR_BEGIN : SC_J_BLOCK_BEGIN, tag, 2);
    move(l, tag + 2 + sign);
    return rc;
}

static int skip_comment(lexer *l) {
    const char *close = memmem(l->at, (size_t)(l->end - l->at), "#}", 2);
    if (!close)
        return REFUSE(l, "a comment {# has no end #}");
    const char sign = close > l->at && (close[-1] == '-' || close[-1] == '+') ? close[-1] : 0;
    move(l, close);
    close_tag(l, 2, sign, true);
    return SC_OK;
}

/* The character of an escape behind its backslash; *n its bytes. -1: stays as it is; -2: a line's
 * end, which vanishes; -3: none. */
static int32_t escape(const char *at, const char *end, size_t *n) {
    static const char letters[] = "nrtbfav\\'\"", means[] = "\n\r\t\b\f\a\v\\'\"";
    const char *letter = *at ? strchr(letters, *at) : NULL;
    *n = 1;
    if (letter)
        return means[letter - letters];
    if (*at == '\n')
        return -2;
    if (*at >= '0' && *at <= '7') {
        int32_t code = 0;
        for (*n = 0; *n < 3 && at + *n < end && at[*n] >= '0' && at[*n] <= '7'; ++*n)
            code = 8 * code + (at[*n] - '0');
        return code;
    }
    const int digits = *at == 'x' ? 2 : *at == 'u' ? 4 : *at == 'U' ? 8 : 0;
    if (*at == 'N')
        return -3;
    if (!digits)
        return -1;
    uint32_t code = 0;
    for (int i = 1; i <= digits; i++, ++*n) {
        if (at + i >= end || !isxdigit((unsigned char)at[i]))
            return -3;
        const int c = tolower((unsigned char)at[i]);
        code = 16 * code + (uint32_t)(c <= '9' ? c - '0' : c - 'a' + 10);
    }
    return code > 0x10ffff || (code >= 0xd800 && code < 0xe000) ? -3 : (int32_t)code;
}

static int lex_string(lexer *l) {
    const char quote = *l->at;
    const char *close = l->at + 1;
    while (close < l->end && *close != quote)
        close += *close == '\\' && close + 1 < l->end ? 2 : 1;
    if (close >= l->end)
        return REFUSE(l, "a string has no end");
    char *text = sc_pool_alloc(l->pool, (size_t)(close - l->at) + 4, 1);
    if (!text)
        return sc_oom(l->err, "reading a chat template");
    size_t bytes = 0;
    for (const char *c = l->at + 1; c < close;) {
        if (*c != '\\') {
            text[bytes++] = *c++;
            continue;
        }
        size_t n;
        const int32_t code = escape(++c, close, &n);
        if (code == -3)
            return REFUSE(l, "the escape \\%c of a string has no such character", *c);
        if (code == -1) {
            text[bytes++] = '\\'; /* and the character comes by itself */
            continue;
        }
        if (code >= 0)
            bytes += sc_j_encode(text + bytes, code);
        c += n;
    }
    const int rc = add(l, SC_J_TEXT, text, bytes);
    move(l, close + 1);
    return rc;
}

static const char *digits_end(const lexer *l, const char *at) {
    while (at < l->end && (isdigit((unsigned char)*at) ||
                           (*at == '_' && at + 1 < l->end && isdigit((unsigned char)at[1]))))
        at++;
    return at;
}

static int lex_number(lexer *l, const char *before) {
    const char *stop = digits_end(l, l->at);
    sc_jtoken_type type = SC_J_NUMBER;
    const bool index = before && *before == '.'; /* list.0.1 */
    if (!index && stop + 1 < l->end && *stop == '.' && isdigit((unsigned char)stop[1])) {
        type = SC_J_REAL;
        stop = digits_end(l, stop + 1);
    }
    if (!index && stop < l->end && (*stop == 'e' || *stop == 'E')) {
        const char *power = stop + 1;
        power += power < l->end && (*power == '+' || *power == '-');
        if (power < l->end && isdigit((unsigned char)*power)) {
            type = SC_J_REAL;
            stop = digits_end(l, power);
        }
    }
    char text[64];
    size_t bytes = 0;
    for (const char *c = l->at; c < stop && bytes < sizeof text; c++)
        if (*c != '_')
            text[bytes++] = *c;
    if (bytes == sizeof text)
        return REFUSE(l, "a number has more than %d digits", (int)sizeof text - 1);
    move(l, stop);
    return add(l, type, text, bytes);
}

static int lex_operator(lexer *l) {
    static const char *const two[] = { "//", "**", "==", "!=", "<=", ">=" };
    static const char one[] = "+-/*%~[](){}<>=.:|,;", opens[] = "[({", closes[] = "])}";
    size_t n = 1;
    for (size_t i = 0; i < sizeof two / sizeof *two; i++)
        if (starts(l, l->at, two[i]))
            n = 2;
    if (n == 1 && !strchr(one, *l->at))
        return REFUSE(l, "\"%.*s\" is nothing that an expression may hold",
                      (unsigned char)*l->at < 0x80 ? 1 : 0, l->at);
    const char *open = n == 1 ? strchr(opens, *l->at) : NULL;
    if (open && l->brackets == BRACKETS_MOST)
        return REFUSE(l, "brackets nest deeper than %d", BRACKETS_MOST);
    if (open)
        l->bracket[l->brackets++] = closes[open - opens];
    else if (n == 1 && strchr(closes, *l->at) &&
             (!l->brackets || l->bracket[--l->brackets] != *l->at))
        return REFUSE(l, "\"%c\" closes nothing", *l->at);
    const int rc = add(l, SC_J_OPERATOR, l->at, n);
    l->at += n;
    return rc;
}

/* The inside of {{ }} or {% %}, and its end. */
static int lex_tag(lexer *l, char kind) {
    const char *const close = kind == '{' ? "}}" : "%}";
    const int begun = l->line;
    int rc = SC_OK;
    l->brackets = 0;
    while (!rc) {
        skip_space(l);
        if (l->at == l->end)
            return refuse_at(l, begun, "a tag {%c has no end %s", kind, close);
        l->token_line = l->line;
        const char sign = *l->at == '-' || (*l->at == '+' && kind == '%') ? *l->at : 0;
        if (!l->brackets && starts(l, l->at + (sign != 0), close)) {
            rc = add(l, kind == '{' ? SC_J_VAR_END : SC_J_BLOCK_END, close, 2);
            close_tag(l, 2 + (sign != 0), sign, kind == '%');
            return rc;
        }
        const unsigned char c = (unsigned char)*l->at;
        if (c == '"' || c == '\'')
            rc = lex_string(l);
        else if (isdigit(c))
            rc = lex_number(l, l->count ? l->token[l->count - 1].text : NULL);
        else if (isalpha(c) || c == '_') {
            const char *stop = l->at;
            while (stop < l->end && (isalnum((unsigned char)*stop) || *stop == '_'))
                stop++;
            rc = add(l, SC_J_NAME, l->at, (size_t)(stop - l->at));
            l->at = stop;
        } else
            rc = lex_operator(l);
    }
    return rc;
}

/* Line ends become \n, and the last one goes. */
static char *normalised(sc_pool *pool, const char *text, size_t *bytes) {
    char *copy = sc_pool_alloc(pool, *bytes + 1, 1);
    size_t n = 0;
    for (size_t i = 0; copy && i < *bytes; i++) {
        copy[n++] = text[i] == '\r' ? '\n' : text[i];
        i += text[i] == '\r' && i + 1 < *bytes && text[i + 1] == '\n';
    }
    if (copy && n && copy[n - 1] == '\n')
        n--;
    *bytes = n;
    return copy;
}

int sc_jinja_lex(const sc_jtoken **token, sc_pool *pool, const char *name, const char *text,
                 size_t bytes, sc_error *err) {
    const char *copy = normalised(pool, text, &bytes);
    if (!copy)
        return sc_oom(err, "reading a chat template");
    lexer l = { .name = name,
                .at = copy,
                .end = copy + bytes,
                .line = 1,
                .line_begins = true,
                .pool = pool,
                .err = err };
    int rc = SC_OK;
    while (!rc && l.at < l.end) {
        char kind;
        rc = lex_data(&l, &kind);
        if (!rc && kind == '#')
            rc = skip_comment(&l);
        else if (!rc && kind)
            rc = lex_tag(&l, kind);
    }
    l.token_line = l.line;
    if (!rc)
        rc = add(&l, SC_J_END_OF_TEMPLATE, "", 0);
    if (!rc)
        *token = l.token;
    return rc;
}
