/*
 * json.c - see json.h.
 *
 * The text is parsed here and only the tree is cJSON's: its own parser follows the locale, cuts
 * numbers at 63 characters and passes duplicate keys, so it could be trusted only after a scan that
 * is as long as this parser.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* strtod_l */
#endif
#include "json.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { MAX_DEPTH = 64 };

typedef struct {
    const char *name, *at, *end;
    long line;
    locale_t c_locale;
    char *scratch; /* for strings and numbers: as long as the text, so that nothing outgrows it */
    sc_error *err;
} parser;

const char *sc_json_printable(const char *text) {
    for (const char *c = text; *c; c++)
        if ((unsigned char)*c < 0x20 || *c == 0x7f)
            return "(unprintable)";
    return text;
}

/* The length of the UTF-8 sequence at text, 0 when there is no valid one. */
static int utf8_length(const unsigned char *text, size_t left) {
    const unsigned first = text[0];
    if (first < 0x80)
        return first ? 1 : 0;
    const int length = first >= 0xc2 && first <= 0xdf   ? 2
                       : first >= 0xe0 && first <= 0xef ? 3
                       : first >= 0xf0 && first <= 0xf4 ? 4
                                                        : 0;
    if (!length || (size_t)length > left)
        return 0;
    for (int i = 1; i < length; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;
    /* Overlong forms, surrogates and what lies above U+10FFFF show in the second byte. */
    if ((first == 0xe0 && text[1] < 0xa0) || (first == 0xed && text[1] > 0x9f) ||
        (first == 0xf0 && text[1] < 0x90) || (first == 0xf4 && text[1] > 0x8f))
        return 0;
    return length;
}

bool sc_json_utf8(const char *text, size_t bytes) {
    for (size_t i = 0; i < bytes;) {
        const int length = utf8_length((const unsigned char *)text + i, bytes - i);
        if (!length)
            return false;
        i += (size_t)length;
    }
    return true;
}

static int no(parser *p, const char *reason) {
    return sc_fail(p->err, SC_EINPUT, "%s: line %ld: %s (not the JSON that slipcast accepts)",
                   p->name, p->line, reason);
}

static int no_memory(parser *p) {
    return sc_fail(p->err, SC_EENV, "out of memory while reading %s", p->name);
}

static void skip_space(parser *p) {
    for (; p->at < p->end && (*p->at == ' ' || *p->at == '\t' || *p->at == '\r' || *p->at == '\n');
         p->at++)
        p->line += *p->at == '\n';
}

static bool take(parser *p, const char *word) {
    const size_t bytes = strlen(word);
    if ((size_t)(p->end - p->at) < bytes || memcmp(p->at, word, bytes) != 0)
        return false;
    p->at += bytes;
    return true;
}

/* Four hexadecimal digits, or -1. */
static long hex4(parser *p) {
    long value = 0;
    if (p->end - p->at < 4)
        return -1;
    for (int i = 0; i < 4; i++) {
        const char c = *p->at++;
        const int digit = c >= '0' && c <= '9'   ? c - '0'
                          : c >= 'a' && c <= 'f' ? c - 'a' + 10
                          : c >= 'A' && c <= 'F' ? c - 'A' + 10
                                                 : -1;
        if (digit < 0)
            return -1;
        value = value * 16 + digit;
    }
    return value;
}

static char *put_utf8(char *out, long code) {
    if (code < 0x80) {
        *out++ = (char)code;
    } else if (code < 0x800) {
        *out++ = (char)(0xc0 | code >> 6);
        *out++ = (char)(0x80 | (code & 0x3f));
    } else if (code < 0x10000) {
        *out++ = (char)(0xe0 | code >> 12);
        *out++ = (char)(0x80 | (code >> 6 & 0x3f));
        *out++ = (char)(0x80 | (code & 0x3f));
    } else {
        *out++ = (char)(0xf0 | code >> 18);
        *out++ = (char)(0x80 | (code >> 12 & 0x3f));
        *out++ = (char)(0x80 | (code >> 6 & 0x3f));
        *out++ = (char)(0x80 | (code & 0x3f));
    }
    return out;
}

/* What follows a backslash and u. An escape is never shorter than its UTF-8, so scratch holds it.
 */
static int parse_unicode(parser *p, char **out) {
    long code = hex4(p);
    if (code < 0)
        return no(p, "\\u without four hexadecimal digits");
    if (code == 0)
        return no(p, "a string holds NUL");
    if (code >= 0xd800 && code <= 0xdbff) {
        const long low = take(p, "\\u") ? hex4(p) : -1;
        if (low < 0xdc00 || low > 0xdfff)
            return no(p, "half a surrogate pair");
        code = 0x10000 + ((code - 0xd800) << 10) + (low - 0xdc00);
    } else if (code >= 0xdc00 && code <= 0xdfff) {
        return no(p, "half a surrogate pair");
    }
    *out = put_utf8(*out, code);
    return SC_OK;
}

static int parse_escape(parser *p, char **out) {
    static const char from[] = "\"\\/bfnrt", to[] = "\"\\/\b\f\n\r\t";
    if (p->at >= p->end)
        return no(p, "the text ends inside a string");
    const char c = *p->at++;
    if (c == 'u')
        return parse_unicode(p, out);
    const char *found = c ? strchr(from, c) : NULL;
    if (!found)
        return no(p, "an unknown escape in a string");
    *(*out)++ = to[found - from];
    return SC_OK;
}

/* A string into p->scratch, terminated. */
static int parse_text(parser *p) {
    char *out = p->scratch;
    if (!take(p, "\""))
        return no(p, "a string was expected");
    while (p->at < p->end && *p->at != '"') {
        const unsigned char c = (unsigned char)*p->at;
        if (c == '\\') {
            p->at++;
            const int status = parse_escape(p, &out);
            if (status)
                return status;
            continue;
        }
        if (c < 0x20)
            return no(p, c ? "a control character in a string" : "a string holds NUL");
        const int length = utf8_length((const unsigned char *)p->at, (size_t)(p->end - p->at));
        if (!length)
            return no(p, "invalid UTF-8");
        memcpy(out, p->at, (size_t)length);
        out += length;
        p->at += length;
    }
    if (!take(p, "\""))
        return no(p, "the text ends inside a string");
    *out = '\0';
    return SC_OK;
}

static const char *digits(const char *at, const char *end) {
    while (at < end && *at >= '0' && *at <= '9')
        at++;
    return at;
}

/* The end of the number at p->at by JSON's grammar, or NULL. */
static const char *number_end(const parser *p) {
    const char *at = p->at;
    if (at < p->end && *at == '-')
        at++;
    const char *whole = at;
    at = digits(at, p->end);
    if (at == whole || (*whole == '0' && at - whole > 1))
        return NULL;
    if (at < p->end && *at == '.') {
        const char *fraction = ++at;
        at = digits(at, p->end);
        if (at == fraction)
            return NULL;
    }
    if (at < p->end && (*at == 'e' || *at == 'E')) {
        at++;
        if (at < p->end && (*at == '+' || *at == '-'))
            at++;
        const char *exponent = at;
        at = digits(at, p->end);
        if (at == exponent)
            return NULL;
    }
    return at;
}

/* cJSON's own constructor casts NaN to int, so the number is set here. */
static cJSON *make_number(double value) {
    cJSON *item = cJSON_CreateNumber(0);
    if (item) {
        item->valuedouble = value;
        item->valueint = value >= INT_MAX   ? INT_MAX
                         : value <= INT_MIN ? INT_MIN
                         : isnan(value)     ? 0
                                            : (int)value;
    }
    return item;
}

static int parse_number(parser *p, cJSON **item) {
    double value;
    if (take(p, "NaN")) {
        value = (double)NAN;
    } else if (take(p, "Infinity")) {
        value = (double)INFINITY;
    } else if (take(p, "-Infinity")) {
        value = -(double)INFINITY;
    } else {
        const char *end = number_end(p);
        if (!end)
            return no(p, "a value was expected");
        const size_t bytes = (size_t)(end - p->at);
        memcpy(p->scratch, p->at, bytes);
        p->scratch[bytes] = '\0';
        value = strtod_l(p->scratch, NULL, p->c_locale);
        p->at = end;
    }
    *item = make_number(value);
    return *item ? SC_OK : no_memory(p);
}

static int parse_value(parser *p, cJSON **item, int depth);

static int parse_array(parser *p, cJSON *array, int depth) {
    skip_space(p);
    if (take(p, "]"))
        return SC_OK;
    for (;;) {
        cJSON *item = NULL;
        const int status = parse_value(p, &item, depth);
        if (status)
            return status;
        cJSON_AddItemToArray(array, item);
        skip_space(p);
        if (take(p, "]"))
            return SC_OK;
        if (!take(p, ","))
            return no(p, "\",\" or \"]\" was expected");
    }
}

static int by_key(const void *a, const void *b) {
    return strcmp((*(const cJSON *const *)a)->string, (*(const cJSON *const *)b)->string);
}

static int refuse_duplicates(parser *p, const cJSON *object, size_t count) {
    if (count < 2)
        return SC_OK;
    const cJSON **item = malloc(count * sizeof *item);
    if (!item)
        return no_memory(p);
    size_t n = 0;
    for (const cJSON *child = object->child; child; child = child->next)
        item[n++] = child;
    qsort(item, n, sizeof *item, by_key);
    int status = SC_OK;
    for (size_t i = 1; i < n && !status; i++)
        if (strcmp(item[i - 1]->string, item[i]->string) == 0)
            status = sc_fail(p->err, SC_EINPUT,
                             "%s: line %ld: key \"%.200s\" is there twice (remove one)", p->name,
                             p->line, sc_json_printable(item[i]->string));
    free(item);
    return status;
}

static int parse_member(parser *p, cJSON *object, int depth) {
    cJSON *item = NULL;
    skip_space(p);
    int status = parse_text(p);
    if (status)
        return status;
    char *key = strdup(p->scratch);
    if (!key)
        return no_memory(p);
    skip_space(p);
    status = take(p, ":") ? parse_value(p, &item, depth) : no(p, "\":\" was expected");
    if (!status && !cJSON_AddItemToObject(object, key, item)) {
        cJSON_Delete(item);
        status = no_memory(p);
    }
    free(key);
    return status;
}

static int parse_object(parser *p, cJSON *object, int depth) {
    skip_space(p);
    if (take(p, "}"))
        return SC_OK;
    for (size_t count = 1;; count++) {
        const int status = parse_member(p, object, depth);
        if (status)
            return status;
        skip_space(p);
        if (take(p, "}"))
            return refuse_duplicates(p, object, count);
        if (!take(p, ","))
            return no(p, "\",\" or \"}\" was expected");
    }
}

/* depth: how many arrays and objects stand around it. */
static int parse_value(parser *p, cJSON **item, int depth) {
    int status = SC_OK;
    cJSON *made = NULL;
    skip_space(p);
    if (p->at >= p->end)
        return no(p, "the text ends early");
    if (*p->at == '{' || *p->at == '[') {
        const bool object = *p->at++ == '{';
        if (depth >= MAX_DEPTH)
            return no(p, "nested deeper than 64");
        made = object ? cJSON_CreateObject() : cJSON_CreateArray();
        if (made)
            status = object ? parse_object(p, made, depth + 1) : parse_array(p, made, depth + 1);
    } else if (*p->at == '"') {
        status = parse_text(p);
        made = status ? NULL : cJSON_CreateString(p->scratch);
    } else if (take(p, "true")) {
        made = cJSON_CreateTrue();
    } else if (take(p, "false")) {
        made = cJSON_CreateFalse();
    } else if (take(p, "null")) {
        made = cJSON_CreateNull();
    } else {
        status = parse_number(p, &made);
    }
    if (!status && !made)
        status = no_memory(p);
    if (status)
        cJSON_Delete(made);
    else
        *item = made;
    return status;
}

int sc_json_parse(cJSON **json, const char *name, const char *text, size_t bytes, sc_error *err) {
    parser p = { .name = name, .at = text, .end = text + bytes, .line = 1, .err = err };
    cJSON *made = NULL;
    int status;
    p.c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    p.scratch = malloc(bytes + 1);
    status = p.scratch && p.c_locale ? parse_value(&p, &made, 0) : no_memory(&p);
    if (!status) {
        skip_space(&p);
        if (p.at < p.end)
            status = no(&p, *p.at ? "more text after the value" : "NUL after the value");
    }
    free(p.scratch);
    if (p.c_locale)
        freelocale(p.c_locale);
    if (status)
        cJSON_Delete(made);
    else
        *json = made;
    return status;
}

static int read_all(int fd, char *text, size_t bytes, const char *path, sc_error *err) {
    for (size_t done = 0; done < bytes;) {
        const ssize_t got = read(fd, text + done, bytes - done);
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return sc_fail(err, SC_EENV, "%s: cannot be read: %s", path, strerror(errno));
        if (got == 0)
            return sc_fail(err, SC_EINPUT, "%s: became shorter while it was read", path);
        done += (size_t)got;
    }
    return SC_OK;
}

int sc_json_read(cJSON **json, const char *path, size_t max_bytes, sc_error *err) {
    struct stat info;
    char *text = NULL;
    int status;
    /* O_NONBLOCK: a FIFO of that name must not hang the run before fstat names it. */
    const int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (fd < 0)
        return sc_fail(err, SC_EINPUT, "%s: cannot be opened: %s", path, strerror(errno));
    if (fstat(fd, &info) != 0 || !S_ISREG(info.st_mode)) {
        status = sc_fail(err, SC_EINPUT, "%s: is no regular file", path);
        goto done;
    }
    if ((uintmax_t)info.st_size > max_bytes) {
        status = sc_fail(err, SC_EINPUT, "%s: %lld bytes, at most %zu are read", path,
                         (long long)info.st_size, max_bytes);
        goto done;
    }
    text = malloc((size_t)info.st_size + 1);
    status = text ? read_all(fd, text, (size_t)info.st_size, path, err)
                  : sc_fail(err, SC_EENV, "out of memory while reading %s", path);
    if (!status)
        status = sc_json_parse(json, path, text, (size_t)info.st_size, err);
done:
    free(text);
    close(fd);
    return status;
}

const cJSON *sc_json_get(const cJSON *object, const char *key) {
    return cJSON_IsObject(object) ? cJSON_GetObjectItemCaseSensitive(object, key) : NULL;
}

int sc_json_int(const cJSON *item, int64_t *value) {
    /* From 2^53 on a double no longer tells neighbouring integers apart. */
    const double limit = 9007199254740992.0;
    if (!cJSON_IsNumber(item) || !(fabs(item->valuedouble) < limit) ||
        trunc(item->valuedouble) != item->valuedouble)
        return 0;
    *value = (int64_t)item->valuedouble;
    return 1;
}
