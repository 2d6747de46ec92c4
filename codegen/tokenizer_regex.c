/*
 * tokenizer_regex.c - Oniguruma's patterns as PCRE2's: see tokenizer_build.h.
 *
 * Rewritten are \s, \w, \b and their opposites, \h, which take other characters in PCRE2, \uXXXX, a
 * class within a class, which is united with it, and an intersection, which becomes a lookahead.
 * What would mean something else and is not rewritten is refused.
 */
#include "tokenizer_build.h"

#include <ctype.h>
#include <string.h>

typedef struct {
    sc_packer *p;
    const char *whole, *at;
} reader;

static int add_n(reader *r, const char *text, size_t n) {
    uint32_t at;
    return sc_pack_text_add(r->p, text, n, &at);
}

static int add(reader *r, const char *text) { return add_n(r, text, strlen(text)); }

static int refuse(const reader *r, const char *what) {
    char key[64] = "pattern";
    strcat(key, what);
    return sc_pack_unsupported(r->p, key, r->whole, "only what PCRE2 and Oniguruma read alike");
}

/* \p{Han} at p: the script alone, where PCRE2 means what scripts share with it too. */
static int translate_property(reader *r) {
    const char *name = r->at + 2, *end = strchr(name, '}');
    if (!end)
        return refuse(r, ": no }");
    const bool negated = *name == '^';
    name += negated;
    const size_t length = (size_t)(end - name);
    const char begin[] = { '\\', *r->at, '{', '\0' };
    int rc = add(r, begin);
    if (rc == 0 && negated)
        rc = add(r, "^");
    if (rc == 0 && length > 2) /* a category has one letter or two */
        rc = add(r, "sc:");
    if (rc == 0)
        rc = add_n(r, name, length + 1);
    r->at = end + 1;
    return rc;
}

/* An escape, at behind the backslash. Inside of a class a negated one stays PCRE2's own. */
static int translate_escape(reader *r, bool inside) {
    static const struct {
        char letter;
        const char *inside, *outside;
    } table[] = {
        { 's', SC_SPACES, "[" SC_SPACES "]" },
        { 'w', SC_WORDS, "[" SC_WORDS "]" },
        { 'h', "0-9A-Fa-f", "[0-9A-Fa-f]" },
        { 'S', "\\S", "[^" SC_SPACES "]" },
        { 'W', "\\W", "[^" SC_WORDS "]" },
        { 'b', "\\x{8}",
          "(?:(?<=[" SC_WORDS "])(?![" SC_WORDS "])|(?<![" SC_WORDS "])(?=[" SC_WORDS "]))" },
        { 'B', "B",
          "(?:(?<=[" SC_WORDS "])(?=[" SC_WORDS "])|(?<![" SC_WORDS "])(?![" SC_WORDS "]))" },
    };
    const char letter = *r->at;
    if (letter == '\0')
        return refuse(r, ": a backslash at the end");
    for (size_t i = 0; i < sizeof table / sizeof *table; i++)
        if (table[i].letter == letter) {
            r->at++;
            return add(r, inside ? table[i].inside : table[i].outside);
        }
    if (letter == 'u') {
        for (int i = 1; i <= 4; i++)
            if (!isxdigit((unsigned char)r->at[i]))
                return refuse(r, ": \\u");
        int rc = add(r, "\\x{");
        if (rc == 0)
            rc = add_n(r, r->at + 1, 4);
        r->at += 5;
        return rc == 0 ? add(r, "}") : rc;
    }
    if (strchr("HKGQEkgXRON123456789", letter))
        return refuse(r, ": an escape");
    if ((letter == 'p' || letter == 'P') && r->at[1] == '{')
        return translate_property(r);
    const char *end = r->at + 1;
    if (letter == 'x' && *end == '{') {
        end = strchr(end, '}');
        if (!end)
            return refuse(r, ": no }");
        end++;
    } else if ((letter & 0xC0) == 0xC0)
        while ((*end & 0xC0) == 0x80)
            end++;
    int rc = add(r, "\\");
    if (rc == 0)
        rc = add_n(r, r->at, (size_t)(end - r->at));
    r->at = end;
    return rc;
}

static int translate_items(reader *r, int depth, bool *intersects);

/* A class inside of another one: what it holds goes to the outer one, if it is no negation. */
static int translate_nested(reader *r, int depth) {
    bool intersects = false;
    if (*r->at == ':') { /* [:alpha:] */
        const char *end = strstr(r->at, ":]");
        if (!end)
            return refuse(r, ": no :]");
        const int rc = add(r, "[");
        const char *from = r->at;
        r->at = end + 2;
        return rc == 0 ? add_n(r, from, (size_t)(r->at - from)) : rc;
    }
    if (*r->at == '^' || depth > 8)
        return refuse(r, ": a negation in a class");
    const int rc = translate_items(r, depth + 1, &intersects);
    if (rc == 0 && intersects)
        return refuse(r, ": an intersection in a class");
    return rc;
}

/* What a class holds, up to its ] or to &&, which are passed. */
static int translate_items(reader *r, int depth, bool *intersects) {
    int rc = 0;
    for (bool begins = true; rc == 0; begins = false) {
        const char c = *r->at++;
        if (c == '\0')
            return refuse(r, ": no ]");
        if (c == ']' && !begins)
            return 0;
        if (c == '&' && *r->at == '&') {
            r->at++;
            *intersects = true;
            return 0;
        }
        if (c == '\\')
            rc = translate_escape(r, true);
        else if (c == '[')
            rc = translate_nested(r, depth);
        else {
            if (c == ']')
                rc = add(r, "\\");
            if (rc == 0)
                rc = add_n(r, &c, 1);
        }
    }
    return rc;
}

/* One operand of an intersection: a class of its own, or items. It ends at && or ]. */
static int translate_operand(reader *r, bool *more) {
    int rc = add(r, "[");
    *more = false;
    if (*r->at == '[' && r->at[1] != ':') {
        bool intersects = false;
        r->at++;
        if (*r->at == '^') {
            r->at++;
            rc = rc == 0 ? add(r, "^") : rc;
        }
        if (rc == 0)
            rc = translate_items(r, 1, &intersects);
        if (rc == 0 && (intersects || (*r->at != ']' && strncmp(r->at, "&&", 2) != 0)))
            return refuse(r, ": an intersection of more than classes");
        *more = *r->at == '&';
        r->at += *more ? 2 : 1;
    } else if (rc == 0)
        rc = translate_items(r, 0, more);
    return rc == 0 ? add(r, "]") : rc;
}

static bool has_intersection(const char *s) {
    int depth = 1;
    for (bool begins = true; *s && depth > 0; s++, begins = false) {
        if (*s == '\\' && s[1])
            s++;
        else if (*s == '[')
            depth++;
        else if (*s == ']' && !begins)
            depth--;
        else if (*s == '&' && s[1] == '&')
            return true;
    }
    return false;
}

/* A class, at behind its [. A && B is "B comes, and it is one of A". */
static int translate_class(reader *r) {
    bool more = true;
    if (!has_intersection(r->at)) {
        int rc = add(r, "[");
        if (rc == 0 && *r->at == '^') {
            r->at++;
            rc = add(r, "^");
        }
        if (rc == 0)
            rc = translate_items(r, 0, &more);
        return rc == 0 ? add(r, "]") : rc;
    }
    if (*r->at == '^')
        return refuse(r, ": a negated intersection");
    int rc = add(r, "(?:");
    while (rc == 0 && more) {
        const size_t begin = r->p->text.count;
        rc = add(r, "(?=");
        if (rc == 0)
            rc = translate_operand(r, &more);
        if (rc == 0 && !more) /* the last one is what is taken, not looked at */
            memcpy(r->p->text.bytes + begin, "(?:", 3);
        if (rc == 0)
            rc = add(r, ")");
    }
    return rc == 0 ? add(r, ")") : rc;
}

/* {2}+ and {1,3}+: two quantifiers there, one possessive one here. */
static bool is_counted_plus(const char *s) {
    if (*s++ != '{')
        return false;
    while (isdigit((unsigned char)*s) || *s == ',')
        s++;
    return s[0] == '}' && s[1] == '+';
}

int sc_pack_regex(sc_packer *p, const char *pattern) {
    reader r = { p, pattern, pattern };
    int rc = 0;
    while (rc == 0 && *r.at) {
        if (is_counted_plus(r.at))
            return refuse(&r, ": {}+");
        const char c = *r.at++;
        if (c == '\\')
            rc = translate_escape(&r, false);
        else if (c == '[')
            rc = translate_class(&r);
        else
            rc = add_n(&r, &c, 1);
    }
    return rc;
}
