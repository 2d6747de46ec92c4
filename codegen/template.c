/* template.c - see template.h. */
#include "template.h"

#include <assert.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
    MAX_DEPTH = 64
}; /* sections and parts inside each other; a part that includes itself ends here */

#define SEE "docs/templates.md"

/* ---- values ---- */

/* What all items of one list have in common: which names they know, and which of them were used. */
struct known {
    const char *name;
    bool used;
    struct shape *items; /* of the lists of this name */
    struct known *next;
};

struct shape {
    struct known *first, **last;
};

struct entry {
    struct known *known;
    const char *text; /* NULL: a list */
    sc_values *first, *last;
    struct entry *next;
};

struct sc_values {
    sc_pool *pool;
    const sc_values *parent;
    struct shape *shape;
    struct entry *entries;
    sc_values *next; /* in the same list */
};

static struct shape *shape_make(sc_pool *pool) {
    struct shape *shape = sc_pool_alloc(pool, 1, sizeof *shape);
    if (shape)
        shape->last = &shape->first;
    return shape;
}

static sc_values *scope_make(sc_pool *pool, const sc_values *parent, struct shape *shape) {
    sc_values *values = shape ? sc_pool_alloc(pool, 1, sizeof *values) : NULL;
    if (!values)
        return NULL;
    values->pool = pool;
    values->parent = parent;
    values->shape = shape;
    return values;
}

sc_values *sc_values_make(sc_pool *pool) { return scope_make(pool, NULL, shape_make(pool)); }

static struct entry *entry_find(const sc_values *values, const char *name, size_t length) {
    for (struct entry *entry = values->entries; entry; entry = entry->next)
        if (strlen(entry->known->name) == length && !memcmp(entry->known->name, name, length))
            return entry;
    return NULL;
}

static struct known *known_get(sc_values *values, const char *name) {
    struct shape *shape = values->shape;
    for (struct known *known = shape->first; known; known = known->next)
        if (!strcmp(known->name, name))
            return known;
    struct known *known = sc_pool_alloc(values->pool, 1, sizeof *known);
    if (!known)
        return NULL;
    known->name = sc_pool_strdup(values->pool, name);
    known->items = shape_make(values->pool);
    if (!known->name || !known->items)
        return NULL;
    *shape->last = known;
    shape->last = &known->next;
    return known;
}

/* The entry of that name in this very scope, made as a list without items when it is new. */
static struct entry *entry_get(sc_values *values, const char *name, bool *made) {
    struct entry *entry = entry_find(values, name, strlen(name));
    *made = !entry;
    if (entry)
        return entry;
    struct known *known = known_get(values, name);
    entry = known ? sc_pool_alloc(values->pool, 1, sizeof *entry) : NULL;
    if (!entry)
        return NULL;
    entry->known = known;
    entry->next = values->entries;
    values->entries = entry;
    return entry;
}

int sc_values_set(sc_values *values, const char *name, const char *text) {
    bool made;
    char *copy = sc_pool_strdup(values->pool, text);
    struct entry *entry = copy ? entry_get(values, name, &made) : NULL;
    if (!entry)
        return SC_EENV;
    if (!made && !entry->text)
        return SC_ESTATE;
    entry->text = copy;
    return SC_OK;
}

int sc_values_int(sc_values *values, const char *name, long long number) {
    char text[32];
    snprintf(text, sizeof text, "%lld", number);
    return sc_values_set(values, name, text);
}

/* printf writes the locale's decimal point, which may be several bytes: puts a '.' there. */
static void plain_point(char *text) {
    char *to = text;
    bool inside = false;
    for (const char *from = text; *from; from++) {
        const bool plain = strchr("0123456789+-e", *from) != NULL;
        if (plain)
            *to++ = *from;
        else if (!inside)
            *to++ = '.';
        inside = !plain;
    }
    *to = '\0';
}

const char *sc_float_literal(char text[SC_FLOAT_LITERAL], float number) {
    if (isnan(number))
        return strcpy(text, "NAN");
    if (isinf(number))
        return strcpy(text, number < 0 ? "-INFINITY" : "INFINITY");
    if (fabsf(number) < 1e7f && truncf(number) == number) {
        snprintf(text, SC_FLOAT_LITERAL, "%.1f", (double)number);
    } else {
        /* Nine digits tell any two floats apart. snprintf and strtof see the same locale. */
        for (int digits = 1; digits <= 9; digits++) {
            snprintf(text, SC_FLOAT_LITERAL, "%.*g", digits, (double)number);
            const float back = strtof(text, NULL);
            if (!memcmp(&back, &number, sizeof back))
                break;
        }
    }
    plain_point(text);
    /* C wants a point or an exponent before the f. */
    return strcat(text, strpbrk(text, ".e") ? "f" : ".0f");
}

int sc_values_float(sc_values *values, const char *name, float number) {
    char text[SC_FLOAT_LITERAL];
    return sc_values_set(values, name, sc_float_literal(text, number));
}

sc_values *sc_values_add(sc_values *values, const char *list) {
    bool made;
    struct entry *entry = entry_get(values, list, &made);
    if (!entry || entry->text)
        return NULL;
    sc_values *item = scope_make(values->pool, values, entry->known->items);
    if (!item)
        return NULL;
    if (entry->last)
        entry->last->next = item;
    else
        entry->first = item;
    entry->last = item;
    return item;
}

int sc_values_flag(sc_values *values, const char *name, bool flag) {
    bool made;
    struct entry *entry = entry_get(values, name, &made);
    if (!entry)
        return SC_EENV;
    if (entry->text)
        return SC_ESTATE;
    entry->first = entry->last = NULL;
    return !flag || sc_values_add(values, name) ? SC_OK : SC_EENV;
}

static const char *unused(const struct shape *shape) {
    for (const struct known *known = shape->first; known; known = known->next) {
        const char *inner = known->used ? unused(known->items) : known->name;
        if (inner)
            return inner;
    }
    return NULL;
}

const char *sc_values_unused(const sc_values *values) { return unused(values->shape); }

/* ---- the language ---- */

struct output {
    char *text;
    size_t bytes, room;
    sc_template_map *map; /* NULL: nobody asks */
};

/* One file being read; places are byte offsets into it. */
struct source {
    const char *name;
    const char *text;
    size_t size;
    struct output *out;
    sc_error *err;
    int depth;
};

enum tag_kind { TAG_END, TAG_VALUE, TAG_IF, TAG_UNLESS, TAG_CLOSE, TAG_PART, TAG_NOTE };

struct tag {
    enum tag_kind kind;
    size_t place;    /* of its {{ */
    size_t text_end; /* where the text before it ends */
    size_t next;     /* where the text after it begins */
    const char *name;
    size_t length;
};

static bool append(struct output *out, const char *text, size_t bytes) {
    if (bytes >= out->room - out->bytes) {
        size_t room = out->room < 4096 ? 4096 : out->room;
        while (bytes >= room - out->bytes) {
            if (room > (size_t)-1 / 2)
                return false;
            room *= 2;
        }
        char *grown = realloc(out->text, room);
        if (!grown)
            return false;
        out->text = grown;
        out->room = room;
    }
    memcpy(out->text + out->bytes, text, bytes);
    out->bytes += bytes;
    out->text[out->bytes] = '\0';
    return true;
}

static int count_lines(const char *text, size_t bytes) {
    int lines = 0;
    for (size_t i = 0; i < bytes; i++)
        lines += text[i] == '\n';
    return lines;
}

/* The text that comes next begins at place. */
static int add_piece(const struct source *source, size_t place, bool value) {
    sc_template_map *map = source->out->map;
    if (!map)
        return SC_OK;
    if (map->count == map->room) {
        const int room = map->room ? 2 * map->room : 256;
        void *grown = realloc(map->piece, (size_t)room * sizeof *map->piece);
        if (!grown)
            return sc_oom(source->err, "rendering a template");
        map->piece = grown;
        map->room = room;
    }
    map->piece[map->count++] = (sc_template_piece){ .at = source->out->bytes,
                                                    .file = source->name,
                                                    .line = 1 + count_lines(source->text, place),
                                                    .value = value };
    return SC_OK;
}

static int emit(const struct source *source, size_t from, size_t to) {
    const int rc = from < to ? add_piece(source, from, false) : SC_OK;
    if (rc || append(source->out, source->text + from, to - from))
        return rc;
    return sc_oom(source->err, "rendering a template");
}

static int wrong(const struct source *source, size_t place, const char *text, size_t length,
                 const char *reason) {
    int line = 1;
    size_t start = 0;
    for (size_t i = 0; i < place; i++)
        if (source->text[i] == '\n') {
            line++;
            start = i + 1;
        }
    const char *newline = memchr(text, '\n', length);
    if (newline)
        length = (size_t)(newline - text);
    return sc_fail(source->err, SC_EINPUT, "%s:%d:%zu: %.*s: %s", source->name, line,
                   place - start + 1, (int)(length < 80 ? length : 80), text, reason);
}

/* Where two of that brace stand next, at or behind from; NULL: nowhere. */
static const char *braces(const struct source *source, size_t from, char brace) {
    const char *at = source->text + from, *end = source->text + source->size;
    while (at < end && (at = memchr(at, brace, (size_t)(end - at)))) {
        if (at + 1 < end && at[1] == brace)
            return at;
        at++;
    }
    return NULL;
}

static int wrong_tag(const struct source *source, const struct tag *tag, const char *reason) {
    const char *end = braces(source, tag->place, '}');
    const char *text = source->text + tag->place;
    return wrong(source, tag->place, text, end ? (size_t)(end - text) + 2 : 2, reason);
}

static bool is_name(const char *name, size_t length, bool path) {
    for (size_t i = 0; i < length; i++) {
        const char c = name[i];
        const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        const bool later = i > 0 && ((c >= '0' && c <= '9') || (path && strchr("/.-", c)));
        if (!c || !(letter || later))
            return false;
    }
    return length > 0;
}

static bool is_blank(char c) { return c == ' ' || c == '\t'; }

/* Widens a tag that is alone on its line to the whole line. */
static void take_line(const struct source *source, struct tag *tag) {
    size_t before = tag->place, after = tag->next;
    while (before > 0 && is_blank(source->text[before - 1]))
        before--;
    while (after < source->size && is_blank(source->text[after]))
        after++;
    if (before > 0 && source->text[before - 1] != '\n')
        return;
    if (after < source->size && source->text[after] != '\n')
        return;
    tag->text_end = before;
    tag->next = after < source->size ? after + 1 : after;
}

/* The first tag at or behind from; TAG_END at the end of the source. */
static int tag_read(struct tag *tag, const struct source *source, size_t from) {
    const char *open = braces(source, from, '{');
    *tag = (struct tag){
        .kind = TAG_END, .place = source->size, .text_end = source->size, .next = source->size
    };
    if (!open)
        return SC_OK;
    tag->place = tag->text_end = (size_t)(open - source->text);
    const char *name = open + 2, *end = braces(source, tag->place + 2, '}');
    if (!end)
        return wrong(source, tag->place, open, 2, "no }} ends it (" SEE ")");
    tag->next = (size_t)(end - source->text) + 2;
    static const char signs[] = "#^/>!";
    static const enum tag_kind kinds[] = { TAG_IF, TAG_UNLESS, TAG_CLOSE, TAG_PART, TAG_NOTE };
    const char *sign = strchr(signs, *name);
    tag->kind = sign && *sign ? kinds[sign - signs] : TAG_VALUE;
    if (tag->kind != TAG_VALUE) {
        name++;
        take_line(source, tag);
    }
    while (name < end && is_blank(*name))
        name++;
    while (end > name && is_blank(end[-1]))
        end--;
    tag->name = name;
    tag->length = (size_t)(end - name);
    if (tag->kind != TAG_NOTE && !is_name(name, tag->length, tag->kind == TAG_PART))
        return wrong_tag(source, tag, "not a tag (write { { for two braces; " SEE ")");
    return SC_OK;
}

static struct entry *lookup(const sc_values *values, const struct tag *tag) {
    for (; values; values = values->parent) {
        struct entry *entry = entry_find(values, tag->name, tag->length);
        if (entry) {
            entry->known->used = true;
            return entry;
        }
    }
    return NULL;
}

static int render(const struct source *source, const sc_values *values);
static int block(size_t *end, const struct source *source, size_t from, const struct tag *opener,
                 const sc_values *values, int depth);

static int value(const struct source *source, const struct tag *tag, const sc_values *values) {
    const struct entry *entry = lookup(values, tag);
    if (!entry)
        return wrong_tag(source, tag, "no such value (" SEE ")");
    if (!entry->text)
        return wrong_tag(source, tag, "a list, not a value (" SEE ")");
    const int rc = add_piece(source, tag->place, true);
    if (rc || append(source->out, entry->text, strlen(entry->text)))
        return rc;
    return sc_oom(source->err, "rendering a template");
}

static const struct sc_embedded *find_embedded(const char *path) {
    for (int i = 0; i < sc_embedded_count; i++)
        if (!strcmp(sc_embedded[i].path, path))
            return &sc_embedded[i];
    return NULL;
}

static int no_file(const char *path, sc_error *err) {
    return sc_fail(err, SC_EINPUT, "%s: no such file in this slipcast (rebuild it)", path);
}

static int part(const struct source *source, const struct tag *tag, const sc_values *values,
                int depth) {
    char path[256];
    const int length = snprintf(path, sizeof path, "templates/%.*s", (int)tag->length, tag->name);
    const struct sc_embedded *e = length < (int)sizeof path ? find_embedded(path) : NULL;
    if (!e)
        return wrong_tag(source, tag, "no such part (templates/ has the parts)");
    const struct source inner = { .name = e->path,
                                  .text = (const char *)e->bytes,
                                  .size = e->size,
                                  .out = source->out,
                                  .err = source->err,
                                  .depth = depth + 1 };
    return render(&inner, values);
}

/* Both kinds of section. values NULL: nothing is written, only the close is looked for. */
static int section(size_t *end, const struct source *source, const struct tag *tag,
                   const sc_values *values, int depth) {
    const struct entry *entry = values ? lookup(values, tag) : NULL;
    if (values && !entry)
        return wrong_tag(source, tag, "no such list (" SEE ")");
    if (values && entry->text)
        return wrong_tag(source, tag, "a value, not a list (" SEE ")");
    const sc_values *item = entry ? entry->first : NULL;
    if (tag->kind == TAG_UNLESS || !item)
        return block(end, source, tag->next, tag, tag->kind == TAG_UNLESS && !item ? values : NULL,
                     depth + 1);
    int rc = SC_OK;
    for (; item && !rc; item = item->next)
        rc = block(end, source, tag->next, tag, item, depth + 1);
    return rc;
}

/* Text and tags from `from` to the close of opener, or to the end of the source when it is NULL. */
static int block(size_t *end, const struct source *source, size_t from, const struct tag *opener,
                 const sc_values *values, int depth) {
    if (depth > MAX_DEPTH)
        return wrong(source, opener ? opener->place : 0, source->name, strlen(source->name),
                     "nested too deep (does a part include itself?)");
    for (;;) {
        struct tag tag;
        int rc = tag_read(&tag, source, from);
        if (!rc && values)
            rc = emit(source, from, tag.text_end);
        if (rc)
            return rc;
        from = tag.next;
        switch (tag.kind) {
        case TAG_END:
            if (opener)
                return wrong_tag(source, opener, "the section is never closed (add its {{/...}})");
            *end = from;
            return SC_OK;
        case TAG_CLOSE:
            if (!opener)
                return wrong_tag(source, &tag, "closes nothing (no section is open here)");
            if (tag.length != opener->length || memcmp(tag.name, opener->name, tag.length))
                return wrong_tag(source, &tag, "closes a section that is not the innermost");
            *end = from;
            return SC_OK;
        case TAG_VALUE:
            rc = values ? value(source, &tag, values) : SC_OK;
            break;
        case TAG_PART:
            rc = values ? part(source, &tag, values, depth) : SC_OK;
            break;
        case TAG_IF:
        case TAG_UNLESS:
            rc = section(&from, source, &tag, values, depth);
            break;
        case TAG_NOTE:
            break;
        }
        if (rc)
            return rc;
    }
}

static int render(const struct source *source, const sc_values *values) {
    size_t end;
    const char *nul = memchr(source->text, '\0', source->size);
    if (nul)
        return wrong(source, (size_t)(nul - source->text), "NUL", 3, "a byte that no C file has");
    return block(&end, source, 0, NULL, values, source->depth);
}

int sc_template_source(const unsigned char **bytes, size_t *size, const char *path, sc_error *err) {
    const struct sc_embedded *e = find_embedded(path);
    if (!e)
        return no_file(path, err);
    *bytes = e->bytes;
    *size = e->size;
    return SC_OK;
}

int sc_template_render_text(char **text, size_t *bytes, sc_template_map *map, const char *name,
                            const char *source, const sc_values *values, sc_error *err) {
    assert(values);
    struct output out = { .map = map };
    const struct source whole = {
        .name = name, .text = source, .size = strlen(source), .out = &out, .err = err, .depth = 0
    };
    int rc = append(&out, "", 0) ? SC_OK : sc_oom(err, "rendering a template");
    if (!rc)
        rc = render(&whole, values);
    if (rc) {
        free(out.text);
        return rc;
    }
    *text = out.text;
    *bytes = out.bytes;
    return SC_OK;
}

int sc_template_render(char **text, size_t *bytes, sc_template_map *map, const char *file,
                       const sc_values *values, sc_error *err) {
    char path[256];
    if (snprintf(path, sizeof path, "templates/%s", file) >= (int)sizeof path)
        return sc_fail(err, SC_EINPUT, "templates/%s: the name is too long", file);
    const struct sc_embedded *e = find_embedded(path);
    if (!e)
        return no_file(path, err);
    return sc_template_render_text(text, bytes, map, e->path, (const char *)e->bytes, values, err);
}

const char *sc_template_origin(int *template_line, const sc_template_map *map, const char *text,
                               int line) {
    if (!map->count)
        return NULL;
    size_t at = 0;
    for (int i = 1; i < line && text[at]; at++)
        i += text[at] == '\n';
    int n = 0; /* the last of the pieces that begin there: those before it are empty */
    while (n + 1 < map->count && map->piece[n + 1].at <= at)
        n++;
    const sc_template_piece *piece = &map->piece[n];
    *template_line =
        piece->line + (piece->value ? 0 : count_lines(text + piece->at, at - piece->at));
    return piece->file;
}
