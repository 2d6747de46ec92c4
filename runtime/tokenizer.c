/* tokenizer.c - see tokenizer.h. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include "tokenizer.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#if defined(__BYTE_ORDER__) && __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
#error "the tokenizer file is little-endian and used as it lies"
#endif

#define NONE SC_TOKENIZER_NONE
#define TEXT_MAX ((size_t)1 << 28)
#define MATCH_LIMIT 100000000u

/* PCRE2's 8-bit interface, as far as it is used, and utf8proc's one function. */
typedef struct {
    void *library;
    void *(*compile)(const uint8_t *, size_t, uint32_t, int *, size_t *, void *);
    void (*code_free)(void *);
    void *(*match_data_create)(const void *, void *);
    void (*match_data_free)(void *);
    void *(*match_context_create)(void *);
    void (*match_context_free)(void *);
    int (*set_match_limit)(void *, uint32_t);
    int (*match)(const void *, const uint8_t *, size_t, size_t, uint32_t, void *, void *);
    size_t *(*ovector)(void *);
    int (*message)(int, uint8_t *, size_t);
} pcre2_table;

enum { PCRE2_NOTEMPTY = 4, PCRE2_NOMATCH = -1 };
#define PCRE2_UCP_UTF (UINT32_C(0x00020000) | UINT32_C(0x00080000))
#define PCRE2_NO_UTF_CHECK UINT32_C(0x40000000)

/* A character of a word, next to which a single_word token does not count. */
#define WORD_PATTERN "[\\p{L}\\p{M}\\p{Nd}\\p{Nl}\\p{Pc}\\x{200c}\\x{200d}\\x{24b6}-\\x{24e9}]"

typedef ptrdiff_t utf8proc_map_function(const uint8_t *, ptrdiff_t, uint8_t **, int);
enum { UTF8PROC_STABLE_COMPOSE = 2 | 8 };

struct sc_tokenizer {
    const unsigned char *base;
    size_t bytes;
    const sc_tokenizer_header *header;
    const sc_token_record *token;
    const sc_merge_record *merge;
    const uint32_t *word;
    const uint32_t *added;
    const sc_pattern_record *pattern;
    const char *text;
    uint32_t added_first[257]; /* added[added_first[b]] … begin with byte b */
    void *code[SC_TOKENIZER_PATTERNS_MAX];
    void *word_code; /* WORD_PATTERN; NULL without patterns */
    pcre2_table pcre2;
    void *utf8proc; /* NULL: not needed or not there */
    utf8proc_map_function *map;
};

uint64_t sc_tokenizer_pair_hash(uint32_t left, uint32_t right) {
    uint64_t x = ((uint64_t)left << 32 | right) * UINT64_C(0x9E3779B97F4A7C15);
    x ^= x >> 32;
    x *= UINT64_C(0xD6E8FEB86659FD93);
    return x ^ x >> 32;
}

uint64_t sc_tokenizer_checksum(const void *data, size_t bytes) {
    const unsigned char *p = data;
    uint64_t sum = UINT64_C(0xCBF29CE484222325);
    for (size_t i = 0; i < bytes; i++)
        sum = (sum ^ p[i]) * UINT64_C(0x100000001B3);
    return sum;
}

/* ---- UTF-8 ---- */

typedef enum { UTF8_WHOLE, UTF8_BAD, UTF8_CUT } utf8_kind;

/* How many of the n > 0 bytes are one character, or the longest beginning of one. */
static size_t utf8_next(const unsigned char *s, size_t n, utf8_kind *kind) {
    const unsigned lead = s[0];
    size_t need = lead < 0x80 ? 1 : lead < 0xC2 ? 0 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (need == 0 || lead > 0xF4) {
        *kind = UTF8_BAD;
        return 1;
    }
    for (size_t i = 1; i < need; i++) {
        if (i == n) {
            *kind = UTF8_CUT;
            return n;
        }
        unsigned low = 0x80, high = 0xBF;
        if (i == 1) {
            low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : low;
            high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : high;
        }
        if (s[i] < low || s[i] > high) {
            *kind = UTF8_BAD;
            return i;
        }
    }
    *kind = UTF8_WHOLE;
    return need;
}

static size_t put_replacement(char *out) {
    memcpy(out, "\xEF\xBF\xBD", 3);
    return 3;
}

static size_t put_character(char *out, const unsigned char *s, size_t n, utf8_kind kind) {
    if (kind != UTF8_WHOLE)
        return put_replacement(out);
    memcpy(out, s, n);
    return n;
}

size_t sc_utf8_push(sc_utf8_stream *s, const char *in, size_t n, char *out) {
    const unsigned char *p = (const unsigned char *)in;
    size_t wrote = 0, i = 0;
    utf8_kind kind;
    while (s->count > 0 && i < n) {
        const size_t held = (size_t)s->count;
        s->bytes[held] = in[i];
        size_t used = utf8_next((const unsigned char *)s->bytes, held + 1, &kind);
        if (kind == UTF8_CUT) {
            s->count++;
            i++;
            continue;
        }
        wrote += put_character(out + wrote, (const unsigned char *)s->bytes, used, kind);
        s->count = 0;
        i += used > held; /* a bad byte may begin the next character */
    }
    while (i < n) {
        size_t used = utf8_next(p + i, n - i, &kind);
        if (kind == UTF8_CUT) {
            memcpy(s->bytes, p + i, used);
            s->count = (int)used;
            break;
        }
        wrote += put_character(out + wrote, p + i, used, kind);
        i += used;
    }
    return wrote;
}

size_t sc_utf8_flush(sc_utf8_stream *s, char *out) {
    if (s->count == 0)
        return 0;
    s->count = 0;
    return put_replacement(out);
}

/* ---- opening ---- */

static int load(void *library, const char *name, void *function, size_t size) {
    void *symbol = dlsym(library, name);
    memcpy(function, &symbol, size);
    return symbol != NULL;
}

#define LOAD(field, name) load(p->library, name, &p->field, sizeof p->field)

static int load_pcre2(pcre2_table *p, sc_error *err) {
    p->library = dlopen("libpcre2-8.so.0", RTLD_NOW | RTLD_LOCAL);
    if (p->library && LOAD(compile, "pcre2_compile_8") && LOAD(code_free, "pcre2_code_free_8") &&
        LOAD(match_data_create, "pcre2_match_data_create_from_pattern_8") &&
        LOAD(match_data_free, "pcre2_match_data_free_8") &&
        LOAD(match_context_create, "pcre2_match_context_create_8") &&
        LOAD(match_context_free, "pcre2_match_context_free_8") &&
        LOAD(set_match_limit, "pcre2_set_match_limit_8") && LOAD(match, "pcre2_match_8") &&
        LOAD(ovector, "pcre2_get_ovector_pointer_8") && LOAD(message, "pcre2_get_error_message_8"))
        return 0;
    return sc_fail(err, SC_EENV,
                   "libpcre2-8.so.0: the tokenizer's patterns need it and it cannot be loaded "
                   "(install libpcre2-8-0)");
}

static int damaged(const char *path, const char *what, sc_error *err) {
    return sc_fail(err, SC_EINPUT, "%s: %s: damaged tokenizer file (export again)", path, what);
}

/* Whether count records of size lie at at, inside the file. */
static bool section_fits(const sc_tokenizer *t, uint64_t at, uint64_t count, size_t size) {
    return at % 8 == 0 && at >= sizeof *t->header && at <= t->bytes &&
           count <= (t->bytes - at) / size && count < INT32_MAX;
}

static bool text_fits(const sc_tokenizer *t, uint32_t at, uint32_t bytes) {
    return at <= t->header->text_bytes && bytes <= t->header->text_bytes - at;
}

/* A hash table: a power of two of slots, and an empty one, or a search would not end. */
static bool power_of_two(uint64_t n) { return n > 0 && (n & (n - 1)) == 0; }

static bool ids_fit(const sc_tokenizer *t, const uint32_t *ids, uint64_t count, bool or_none) {
    for (uint64_t i = 0; i < count; i++)
        if (ids[i] >= t->header->token_count && !(or_none && ids[i] == NONE))
            return false;
    return true;
}

static int check_merges(const sc_tokenizer *t) {
    uint64_t empty = 0;
    for (uint64_t i = 0; i < t->header->merge_slots; i++) {
        const sc_merge_record *m = &t->merge[i];
        if (m->left == NONE)
            empty++;
        else if (!ids_fit(t, &m->left, 1, false) || !ids_fit(t, &m->right, 1, false) ||
                 !ids_fit(t, &m->id, 1, false))
            return -1;
    }
    return empty > 0 ? 0 : -1;
}

static int check_words(const sc_tokenizer *t) {
    const sc_tokenizer_header *h = t->header;
    if (!(h->flags & SC_TOKENIZER_IGNORE_MERGES))
        return 0;
    uint64_t empty = 0;
    for (uint64_t i = 0; i < h->word_slots; i++)
        empty += t->word[i] == NONE;
    return empty > 0 && ids_fit(t, t->word, h->word_slots, true) ? 0 : -1;
}

/* Fills added_first; the added tokens must lie in the order of their first bytes. */
static int check_added(sc_tokenizer *t) {
    const sc_tokenizer_header *h = t->header;
    unsigned byte = 0;
    for (uint32_t i = 0; i < h->added_count; i++) {
        if (t->added[i] >= h->token_count || t->token[t->added[i]].bytes == 0)
            return -1;
        const unsigned first = (unsigned char)t->text[t->token[t->added[i]].at];
        if (first < byte && i > 0)
            return -1;
        while (byte < first)
            t->added_first[++byte] = i;
    }
    while (byte < 256)
        t->added_first[++byte] = (uint32_t)h->added_count;
    return 0;
}

static int check_file(sc_tokenizer *t, const char *path, sc_error *err) {
    if (t->bytes < sizeof *t->header || memcmp(t->base, SC_TOKENIZER_MAGIC, 8) != 0)
        return sc_fail(err, SC_EINPUT, "%s: is no tokenizer file of this version (export again)",
                       path);
    const sc_tokenizer_header *h = t->header = (const sc_tokenizer_header *)t->base;
    if (h->bytes != t->bytes)
        return damaged(path, "size", err);
    if (h->checksum != sc_tokenizer_checksum(t->base + 16, t->bytes - 16))
        return damaged(path, "checksum", err);
    if (!section_fits(t, h->token_at, h->token_count, sizeof *t->token) ||
        !section_fits(t, h->merge_at, h->merge_slots, sizeof *t->merge) ||
        !section_fits(t, h->word_at, h->word_slots, sizeof *t->word) ||
        !section_fits(t, h->added_at, h->added_count, sizeof *t->added) ||
        !section_fits(t, h->pattern_at, h->pattern_count, sizeof *t->pattern) ||
        !section_fits(t, h->text_at, h->text_bytes, 1) || !power_of_two(h->merge_slots) ||
        ((h->flags & SC_TOKENIZER_IGNORE_MERGES) && !power_of_two(h->word_slots)) ||
        h->pattern_count > SC_TOKENIZER_PATTERNS_MAX ||
        h->prefix_count > SC_TOKENIZER_SPECIALS_MAX || h->suffix_count > SC_TOKENIZER_SPECIALS_MAX)
        return damaged(path, "header", err);
    t->token = (const sc_token_record *)(t->base + h->token_at);
    t->merge = (const sc_merge_record *)(t->base + h->merge_at);
    t->word = (const uint32_t *)(t->base + h->word_at);
    t->added = (const uint32_t *)(t->base + h->added_at);
    t->pattern = (const sc_pattern_record *)(t->base + h->pattern_at);
    t->text = (const char *)(t->base + h->text_at);
    for (uint64_t i = 0; i < h->token_count; i++)
        if (!text_fits(t, t->token[i].at, t->token[i].bytes))
            return damaged(path, "tokens", err);
    for (uint64_t i = 0; i < h->pattern_count; i++)
        if (!text_fits(t, t->pattern[i].at, t->pattern[i].bytes) ||
            t->pattern[i].split > SC_SPLIT_KEEP_GAPS)
            return damaged(path, "patterns", err);
    if (!ids_fit(t, h->byte_id, 256, true) || !ids_fit(t, h->prefix, h->prefix_count, false) ||
        !ids_fit(t, h->suffix, h->suffix_count, false) || !ids_fit(t, &h->unk, 1, true) ||
        check_merges(t) != 0 || check_words(t) != 0 || check_added(t) != 0)
        return damaged(path, "ids", err);
    return 0;
}

static int compile_patterns(sc_tokenizer *t, const char *path, sc_error *err) {
    const uint64_t count = t->header->pattern_count;
    if (count == 0)
        return 0;
    int rc = load_pcre2(&t->pcre2, err);
    for (uint64_t i = 0; rc == 0 && i < count; i++) {
        int code = 0;
        size_t at = 0;
        t->code[i] = t->pcre2.compile((const uint8_t *)t->text + t->pattern[i].at,
                                      t->pattern[i].bytes, PCRE2_UCP_UTF, &code, &at, NULL);
        if (!t->code[i]) {
            char reason[128] = "";
            t->pcre2.message(code, (uint8_t *)reason, sizeof reason);
            rc = sc_fail(err, SC_EINPUT,
                         "%s: pattern %d: PCRE2 does not take it: %s at byte %zu (use a tokenizer "
                         "with another pre_tokenizer)",
                         path, (int)i, reason, at);
        }
    }
    if (rc == 0) {
        int code = 0;
        size_t at = 0;
        t->word_code = t->pcre2.compile((const uint8_t *)WORD_PATTERN, strlen(WORD_PATTERN),
                                        PCRE2_UCP_UTF, &code, &at, NULL);
        if (!t->word_code)
            rc = sc_fail(err, SC_EENV, "%s: out of memory", path);
    }
    return rc;
}

static int map_file(sc_tokenizer *t, const char *path, sc_error *err) {
    const int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0)
        return sc_fail(err, errno == ENOENT ? SC_EINPUT : SC_EENV, "%s: %s", path, strerror(errno));
    struct stat info;
    int rc = 0;
    if (fstat(file, &info) != 0)
        rc = sc_fail(err, SC_EENV, "%s: %s", path, strerror(errno));
    else if (!S_ISREG(info.st_mode) || info.st_size < (off_t)sizeof(sc_tokenizer_header))
        rc = sc_fail(err, SC_EINPUT, "%s: is no tokenizer file (export again)", path);
    else {
        void *base = mmap(NULL, (size_t)info.st_size, PROT_READ, MAP_PRIVATE, file, 0);
        if (base == MAP_FAILED)
            rc = sc_fail(err, SC_EENV, "%s: mmap: %s", path, strerror(errno));
        else {
            t->base = base;
            t->bytes = (size_t)info.st_size;
        }
    }
    close(file);
    return rc;
}

int sc_tokenizer_open(sc_tokenizer **out, const char *path, sc_error *err) {
    sc_tokenizer *t = calloc(1, sizeof *t);
    if (!t)
        return sc_fail(err, SC_EENV, "%s: out of memory", path);
    int rc = map_file(t, path, err);
    if (rc == 0)
        rc = check_file(t, path, err);
    if (rc == 0)
        rc = compile_patterns(t, path, err);
    if (rc != 0) {
        sc_tokenizer_close(t);
        return rc;
    }
    if (t->header->flags & SC_TOKENIZER_NFC) {
        t->utf8proc = dlopen("libutf8proc.so.3", RTLD_NOW | RTLD_LOCAL);
        if (!t->utf8proc)
            t->utf8proc = dlopen("libutf8proc.so.2", RTLD_NOW | RTLD_LOCAL);
        if (t->utf8proc)
            load(t->utf8proc, "utf8proc_map", &t->map, sizeof t->map);
    }
    *out = t;
    return 0;
}

void sc_tokenizer_close(sc_tokenizer *t) {
    if (!t)
        return;
    for (int i = 0; i < SC_TOKENIZER_PATTERNS_MAX; i++)
        if (t->code[i])
            t->pcre2.code_free(t->code[i]);
    if (t->word_code)
        t->pcre2.code_free(t->word_code);
    if (t->pcre2.library)
        dlclose(t->pcre2.library);
    if (t->utf8proc)
        dlclose(t->utf8proc);
    if (t->base)
        munmap((void *)(uintptr_t)t->base, t->bytes);
    free(t);
}

/* ---- encoding ---- */

typedef struct {
    uint32_t id; /* NONE: merged into the one before */
    uint32_t prev, next;
} symbol;

typedef struct {
    uint32_t rank, pos, id;
} candidate;

/* One call of sc_tokenizer_encode. */
typedef struct {
    const sc_tokenizer *t;
    sc_error *err;
    void *match_data[SC_TOKENIZER_PATTERNS_MAX];
    void *word_data;
    void *match_context;
    int32_t *ids;
    size_t count, room;
    symbol *symbols; /* for word_room bytes */
    candidate *heap; /* three times as many */
    size_t word_room, heap_count;
} encoder;

static int no_memory(encoder *e) { return sc_fail(e->err, SC_EENV, "tokenizer: out of memory"); }

static int add_id(encoder *e, uint32_t id) {
    if (e->count == e->room) {
        const size_t room = e->room * 2 + 64;
        int32_t *ids = realloc(e->ids, room * sizeof *ids);
        if (!ids)
            return no_memory(e);
        e->ids = ids;
        e->room = room;
    }
    e->ids[e->count++] = (int32_t)id;
    return 0;
}

static bool before(const candidate *a, const candidate *b) {
    return a->rank != b->rank ? a->rank < b->rank : a->pos < b->pos;
}

static void heap_push(encoder *e, candidate c) {
    size_t i = e->heap_count++;
    while (i > 0 && before(&c, &e->heap[(i - 1) / 2])) {
        e->heap[i] = e->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    e->heap[i] = c;
}

static candidate heap_pop(encoder *e) {
    const candidate top = e->heap[0], last = e->heap[--e->heap_count];
    size_t i = 0;
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= e->heap_count)
            break;
        if (child + 1 < e->heap_count && before(&e->heap[child + 1], &e->heap[child]))
            child++;
        if (!before(&e->heap[child], &last))
            break;
        e->heap[i] = e->heap[child];
        i = child;
    }
    e->heap[i] = last;
    return top;
}

static const sc_merge_record *find_merge(const sc_tokenizer *t, uint32_t left, uint32_t right) {
    const uint64_t mask = t->header->merge_slots - 1;
    for (uint64_t i = sc_tokenizer_pair_hash(left, right) & mask;; i = (i + 1) & mask) {
        const sc_merge_record *m = &t->merge[i];
        if (m->left == NONE)
            return NULL;
        if (m->left == left && m->right == right)
            return m;
    }
}

static uint32_t find_word(const sc_tokenizer *t, const char *text, size_t n) {
    const uint64_t mask = t->header->word_slots - 1;
    for (uint64_t i = sc_tokenizer_checksum(text, n) & mask;; i = (i + 1) & mask) {
        const uint32_t id = t->word[i];
        if (id == NONE)
            return NONE;
        if (t->token[id].bytes == n && memcmp(t->text + t->token[id].at, text, n) == 0)
            return id;
    }
}

/* Offers the pair that begins at pos, if there is a merge for it. */
static void offer(encoder *e, uint32_t pos) {
    const symbol *s = &e->symbols[pos];
    if (s->next == NONE)
        return;
    const sc_merge_record *m = find_merge(e->t, s->id, e->symbols[s->next].id);
    if (m)
        heap_push(e, (candidate){ m->rank, pos, m->id });
}

static int reserve_word(encoder *e, size_t n) {
    if (n <= e->word_room)
        return 0;
    const size_t room = n + n / 2 + 64;
    free(e->symbols);
    free(e->heap);
    e->word_room = 0;
    e->symbols = malloc(room * sizeof *e->symbols);
    e->heap = malloc(3 * room * sizeof *e->heap);
    if (!e->symbols || !e->heap)
        return no_memory(e);
    e->word_room = room;
    return 0;
}

/* The bytes of a word as a list of symbols; a byte without a token is unk or nothing. */
static uint32_t begin_word(encoder *e, const char *text, size_t n) {
    const sc_tokenizer_header *h = e->t->header;
    uint32_t count = 0;
    for (size_t i = 0; i < n; i++) {
        uint32_t id = h->byte_id[(unsigned char)text[i]];
        if (id == NONE)
            id = h->unk;
        if (id == NONE)
            continue;
        e->symbols[count] = (symbol){ id, count - 1, count + 1 }; /* 0 - 1 is NONE */
        count++;
    }
    if (count > 0)
        e->symbols[count - 1].next = NONE;
    return count;
}

static void merge_at(encoder *e, const candidate *c) {
    symbol *left = &e->symbols[c->pos];
    if (left->id == NONE || left->next == NONE)
        return;
    symbol *right = &e->symbols[left->next];
    const sc_merge_record *m = find_merge(e->t, left->id, right->id);
    if (!m || m->id != c->id)
        return; /* one of the two has changed since */
    left->id = c->id;
    left->next = right->next;
    right->id = NONE;
    if (left->next != NONE)
        e->symbols[left->next].prev = c->pos;
    if (left->prev != NONE)
        offer(e, left->prev);
    offer(e, c->pos);
}

static int encode_word(encoder *e, const char *text, size_t n) {
    if (e->t->header->flags & SC_TOKENIZER_IGNORE_MERGES) {
        const uint32_t id = find_word(e->t, text, n);
        if (id != NONE)
            return add_id(e, id);
    }
    int rc = reserve_word(e, n);
    if (rc != 0)
        return rc;
    const uint32_t count = begin_word(e, text, n);
    e->heap_count = 0;
    for (uint32_t i = 0; i + 1 < count; i++)
        offer(e, i);
    while (e->heap_count > 0) {
        const candidate c = heap_pop(e);
        merge_at(e, &c);
    }
    for (uint32_t i = 0; rc == 0 && i < count; i++) /* in order, as merges keep the left one */
        if (e->symbols[i].id != NONE)
            rc = add_id(e, e->symbols[i].id);
    return rc;
}

/* Splits by the patterns from step on, each piece on its own, and encodes what comes out. */
static int encode_piece(encoder *e, uint32_t step, const char *text, size_t n) {
    if (n == 0)
        return 0;
    if (step == e->t->header->pattern_count)
        return encode_word(e, text, n);
    const pcre2_table *p = &e->t->pcre2;
    const uint32_t split = e->t->pattern[step].split;
    size_t at = 0;
    int rc = 0;
    while (rc == 0 && at < n) {
        const int found =
            p->match(e->t->code[step], (const uint8_t *)text, n, at,
                     PCRE2_NOTEMPTY | PCRE2_NO_UTF_CHECK, e->match_data[step], e->match_context);
        if (found < 0 && found != PCRE2_NOMATCH) {
            char reason[128] = "";
            p->message(found, (uint8_t *)reason, sizeof reason);
            return sc_fail(e->err, SC_EINPUT,
                           "text: the tokenizer's pattern %d gives up: %s "
                           "(pass the text in parts)",
                           (int)step, reason);
        }
        size_t start = n, end = n;
        if (found >= 0) {
            start = p->ovector(e->match_data[step])[0];
            end = p->ovector(e->match_data[step])[1];
            if (start < at || end <= start) /* \K and the like */
                start = end = n;
        }
        if (split != SC_SPLIT_KEEP_MATCHES)
            rc = encode_piece(e, step + 1, text + at, start - at);
        if (rc == 0 && split != SC_SPLIT_KEEP_GAPS)
            rc = encode_piece(e, step + 1, text + start, end - start);
        at = end;
    }
    return rc;
}

static int encode_plain(encoder *e, const char *text, size_t n) {
    if (!(e->t->header->flags & SC_TOKENIZER_PREFIX_SPACE) || n == 0 || text[0] == ' ')
        return encode_piece(e, 0, text, n);
    char *copy = malloc(n + 1);
    if (!copy)
        return no_memory(e);
    copy[0] = ' ';
    memcpy(copy + 1, text, n);
    const int rc = encode_piece(e, 0, copy, n + 1);
    free(copy);
    return rc;
}

/* The length of the white space (Unicode's White_Space) at s, of which n valid bytes remain, or 0.
 */
static size_t space_length(const char *s, size_t n) {
    static const char *const wide[] = {
        "\xC2\x85",     "\xC2\xA0",     "\xE1\x9A\x80", "\xE2\x80\x80", "\xE2\x80\x81",
        "\xE2\x80\x82", "\xE2\x80\x83", "\xE2\x80\x84", "\xE2\x80\x85", "\xE2\x80\x86",
        "\xE2\x80\x87", "\xE2\x80\x88", "\xE2\x80\x89", "\xE2\x80\x8A", "\xE2\x80\xA8",
        "\xE2\x80\xA9", "\xE2\x80\xAF", "\xE2\x81\x9F", "\xE3\x80\x80"
    };
    if (n > 0 && (*s == ' ' || (*s >= '\t' && *s <= '\r')))
        return 1;
    for (size_t i = 0; i < sizeof wide / sizeof *wide; i++) {
        const size_t length = strlen(wide[i]);
        if (length <= n && memcmp(s, wide[i], length) == 0)
            return length;
    }
    return 0;
}

/* Where the white space before end begins, not before start. */
static size_t strip_left(const char *text, size_t start, size_t end) {
    for (size_t back = 1; back <= 3 && start + back <= end; back++)
        if (space_length(text + end - back, back) == back) {
            end -= back;
            back = 0;
        }
    return end;
}

/* Whether a word's character begins text (n bytes), or ends it. */
static bool touches_word(const encoder *e, const char *text, size_t n, bool at_end) {
    if (n == 0)
        return false;
    size_t from = at_end ? n - 1 : 0, to = from + 1;
    while (at_end && from > 0 && (text[from] & 0xC0) == 0x80)
        from--;
    while (!at_end && to < n && (text[to] & 0xC0) == 0x80)
        to++;
    return e->t->word_code &&
           e->t->pcre2.match(e->t->word_code, (const uint8_t *)text + from, to - from, 0,
                             PCRE2_NO_UTF_CHECK, e->word_data, e->match_context) >= 0;
}

/* The longest added token of that kind that text begins with, or NONE. */
static uint32_t find_added(const sc_tokenizer *t, const char *text, size_t n, uint32_t kind) {
    const unsigned first = (unsigned char)*text;
    for (uint32_t i = t->added_first[first]; i < t->added_first[first + 1]; i++) {
        const sc_token_record *token = &t->token[t->added[i]];
        if ((token->flags & SC_TOKEN_NORMALIZED) == kind && token->bytes <= n &&
            memcmp(t->text + token->at, text, token->bytes) == 0)
            return t->added[i];
    }
    return NONE;
}

static int encode_normalized(encoder *e, const char *text, size_t n);

/* Cuts the added tokens of that kind out; what lies between goes to the next stage. */
static int encode_added(encoder *e, const char *text, size_t n, uint32_t kind) {
    int (*const rest)(encoder *, const char *, size_t) =
        kind == SC_TOKEN_NORMALIZED ? encode_plain : encode_normalized;
    size_t done = 0, at = 0;
    int rc = 0;
    while (rc == 0 && at < n) {
        const uint32_t id = find_added(e->t, text + at, n - at, kind);
        if (id == NONE) {
            at++;
            continue;
        }
        const sc_token_record *token = &e->t->token[id];
        size_t start = at, end = at + token->bytes;
        at = end;
        if ((token->flags & SC_TOKEN_SINGLE_WORD) &&
            (touches_word(e, text, start, true) || touches_word(e, text + end, n - end, false)))
            continue;
        if (start < done) /* an earlier token's rstrip took it */
            start = done;
        if (token->flags & SC_TOKEN_LSTRIP)
            start = strip_left(text, done, start);
        if (token->flags & SC_TOKEN_RSTRIP)
            for (size_t more; (more = space_length(text + end, n - end)) > 0;)
                end += more;
        rc = rest(e, text + done, start - done);
        if (rc == 0)
            rc = add_id(e, id);
        done = end;
        if (at < done)
            at = done;
    }
    return rc == 0 ? rest(e, text + done, n - done) : rc;
}

static int encode_normalized(encoder *e, const char *text, size_t n) {
    bool ascii = true;
    for (size_t i = 0; i < n && ascii; i++)
        ascii = !(text[i] & 0x80);
    if (ascii || !(e->t->header->flags & SC_TOKENIZER_NFC))
        return encode_added(e, text, n, SC_TOKEN_NORMALIZED);
    if (!e->t->map)
        return sc_fail(e->err, SC_EENV,
                       "libutf8proc.so: this tokenizer needs it for text beyond ASCII and it "
                       "cannot be loaded (install libutf8proc)");
    uint8_t *composed = NULL;
    const ptrdiff_t bytes =
        e->t->map((const uint8_t *)text, (ptrdiff_t)n, &composed, UTF8PROC_STABLE_COMPOSE);
    if (bytes < 0)
        return no_memory(e); /* valid UTF-8 fails for nothing else */
    const int rc = encode_added(e, (const char *)composed, (size_t)bytes, SC_TOKEN_NORMALIZED);
    free(composed);
    return rc;
}

static int begin_encoder(encoder *e) {
    const uint64_t count = e->t->header->pattern_count;
    if (add_id(e, 0) != 0) /* so that *ids is never NULL */
        return SC_EENV;
    e->count = 0;
    if (count == 0)
        return 0;
    e->match_context = e->t->pcre2.match_context_create(NULL);
    e->word_data = e->t->pcre2.match_data_create(e->t->word_code, NULL);
    if (!e->match_context || !e->word_data)
        return no_memory(e);
    e->t->pcre2.set_match_limit(e->match_context, MATCH_LIMIT);
    for (uint64_t i = 0; i < count; i++) {
        e->match_data[i] = e->t->pcre2.match_data_create(e->t->code[i], NULL);
        if (!e->match_data[i])
            return no_memory(e);
    }
    return 0;
}

static void end_encoder(encoder *e) {
    for (int i = 0; i < SC_TOKENIZER_PATTERNS_MAX; i++)
        if (e->match_data[i])
            e->t->pcre2.match_data_free(e->match_data[i]);
    if (e->word_data)
        e->t->pcre2.match_data_free(e->word_data);
    if (e->match_context)
        e->t->pcre2.match_context_free(e->match_context);
    free(e->symbols);
    free(e->heap);
    free(e->ids);
}

static int encode_all(encoder *e, const char *text, size_t n, bool add_special) {
    const sc_tokenizer_header *h = e->t->header;
    int rc = 0;
    for (uint32_t i = 0; rc == 0 && add_special && i < h->prefix_count; i++)
        rc = add_id(e, h->prefix[i]);
    if (rc == 0)
        rc = encode_added(e, text, n, 0);
    for (uint32_t i = 0; rc == 0 && add_special && i < h->suffix_count; i++)
        rc = add_id(e, h->suffix[i]);
    return rc;
}

int sc_tokenizer_encode(const sc_tokenizer *t, const char *text, size_t bytes, bool add_special,
                        int32_t **ids, int *count, sc_error *err) {
    if (bytes > TEXT_MAX)
        return sc_fail(err, SC_EUSAGE,
                       "text: %zu bytes are over the limit of %zu (pass it in parts)", bytes,
                       TEXT_MAX);
    encoder e = { .t = t, .err = err };
    char *valid = malloc(3 * bytes + 3);
    int rc = valid ? begin_encoder(&e) : no_memory(&e);
    if (rc == 0) {
        sc_utf8_stream stream = { { 0 }, 0 };
        size_t n = sc_utf8_push(&stream, text, bytes, valid);
        n += sc_utf8_flush(&stream, valid + n);
        rc = encode_all(&e, valid, n, add_special);
    }
    if (rc == 0) {
        *ids = e.ids;
        *count = (int)e.count;
        e.ids = NULL;
    }
    end_encoder(&e);
    free(valid);
    return rc;
}

/* ---- decoding ---- */

int sc_tokenizer_decode(const sc_tokenizer *t, int32_t id, const char **bytes, size_t *count) {
    if (id < 0 || id >= sc_tokenizer_size(t))
        return SC_EUSAGE;
    *bytes = t->text + t->token[id].at;
    *count = t->token[id].bytes;
    return 0;
}

bool sc_tokenizer_is_special(const sc_tokenizer *t, int32_t id) {
    return id >= 0 && id < sc_tokenizer_size(t) && (t->token[id].flags & SC_TOKEN_SPECIAL);
}

int32_t sc_tokenizer_size(const sc_tokenizer *t) { return (int32_t)t->header->token_count; }
