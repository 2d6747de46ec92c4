/* tokenizer_pack.c - see tokenizer_pack.h. */
#include "tokenizer_pack.h"

#include "../runtime/tokenizer.h"
#include "json.h"

#include <stdlib.h>
#include <string.h>

#define NONE SC_TOKENIZER_NONE
#define TOKENS_MAX (1 << 22)
#define TEXT_MAX ((size_t)1 << 30)

#define GPT2_PATTERN                                                                               \
    "'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| ?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+"
#define CONTRACTIONS "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
#define LLAMA3_PATTERN(digits)                                                                     \
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|" digits                                          \
                 "| ?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"
#define QWEN35_PATTERN                                                                             \
    CONTRACTIONS "|[^\\r\\n\\p{L}\\p{N}]?[\\p{L}\\p{M}]+|\\p{N}"                                   \
                 "| ?[^\\s\\p{L}\\p{M}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+"

/* What llama.cpp's names of pre-tokenisers stand for: isolating patterns, one after the other. */
static const struct {
    const char *name;
    bool nfc;
    const char *pattern[2];
} pre_names[] = {
    { "default", false, { GPT2_PATTERN, NULL } },
    { "gpt-2", false, { GPT2_PATTERN, NULL } },
    { "gpt2", false, { GPT2_PATTERN, NULL } },
    { "phi-2", false, { GPT2_PATTERN, NULL } },
    { "olmo", true, { GPT2_PATTERN, NULL } },
    { "smollm", false, { "\\p{N}", GPT2_PATTERN } },
    { "starcoder", false, { "\\p{N}", GPT2_PATTERN } },
    { "command-r", true, { "\\p{N}", GPT2_PATTERN } },
    { "llama-bpe", false, { LLAMA3_PATTERN("\\p{N}{1,3}"), NULL } },
    { "llama3", false, { LLAMA3_PATTERN("\\p{N}{1,3}"), NULL } },
    { "llama-v3", false, { LLAMA3_PATTERN("\\p{N}{1,3}"), NULL } },
    { "smaug-bpe", false, { LLAMA3_PATTERN("\\p{N}{1,3}"), NULL } },
    { "qwen2", true, { LLAMA3_PATTERN("\\p{N}"), NULL } },
    { "deepseek-r1-qwen", true, { LLAMA3_PATTERN("\\p{N}"), NULL } },
    { "qwen35", true, { QWEN35_PATTERN, NULL } },
};

typedef struct {
    char *bytes;
    size_t count, room;
} text_buffer;

typedef struct {
    const char *key; /* as it stands in the JSON; NULL in an empty slot */
    uint32_t id;
} name_slot;

/* One packing. The JSON's strings are pointed to, all else is owned. */
typedef struct {
    const char *file;
    sc_error *err;
    sc_tokenizer_header header;
    text_buffer text;
    sc_token_record *token;
    bool *taken; /* [token_count]: which ids something stands for */
    name_slot *name;
    size_t name_slots;
    sc_merge_record *merge;
    uint32_t *word;
    uint32_t *added;
    sc_pattern_record pattern[SC_TOKENIZER_PATTERNS_MAX];
    int16_t byte_of[512]; /* code point of the GPT-2 alphabet → byte, or -1 */
    bool byte_level;      /* the pre_tokenizer has a ByteLevel */
    bool holes;           /* ids without a token are allowed: GGUF's unused ones */
} packer;

static int no_memory(packer *p) { return sc_fail(p->err, SC_EENV, "%s: out of memory", p->file); }

static int wrong(packer *p, const char *key, const char *what) {
    return sc_fail(p->err, SC_EINPUT, "%s: %s: %s (take the model's published tokenizer.json)",
                   p->file, key, what);
}

static int unsupported(packer *p, const char *key, const char *value, const char *instead) {
    return sc_fail(p->err, SC_EINPUT, "%s: %s: \"%s\" is not supported (%s)", p->file, key,
                   sc_json_printable(value), instead);
}

/* ---- JSON ---- */

static const char *get_string(const cJSON *object, const char *key) {
    const cJSON *item = sc_json_get(object, key);
    return cJSON_IsString(item) ? item->valuestring : NULL;
}

static bool is_set(const cJSON *object, const char *key) {
    const cJSON *item = sc_json_get(object, key);
    return item && !cJSON_IsNull(item);
}

static bool get_bool(const cJSON *object, const char *key, bool otherwise) {
    const cJSON *item = sc_json_get(object, key);
    return cJSON_IsBool(item) ? cJSON_IsTrue(item) : otherwise;
}

static int get_id(packer *p, const cJSON *item, const char *key, uint32_t *id) {
    int64_t value;
    if (!sc_json_int(item, &value) || value < 0 || value >= TOKENS_MAX)
        return wrong(p, key, "an id is no integer from 0 to 4194303");
    *id = (uint32_t)value;
    return 0;
}

/* ---- the byte alphabet and the text section ---- */

static void fill_alphabet(packer *p) {
    memset(p->byte_of, -1, sizeof p->byte_of);
    int next = 256;
    for (int b = 0; b < 256; b++) {
        const bool itself = (b >= '!' && b <= '~') || (b >= 0xA1 && b <= 0xAC) || b >= 0xAE;
        p->byte_of[itself ? b : next++] = (int16_t)b;
    }
}

static int reserve_text(packer *p, size_t more) {
    text_buffer *t = &p->text;
    if (more <= t->room - t->count)
        return 0;
    if (more > TEXT_MAX - t->count)
        return wrong(p, "model.vocab", "more than 1 GiB of text");
    const size_t room = t->count + more + t->room / 2 + 4096;
    char *bytes = realloc(t->bytes, room);
    if (!bytes)
        return no_memory(p);
    t->bytes = bytes;
    t->room = room;
    return 0;
}

static int add_text(packer *p, const char *bytes, size_t count, uint32_t *at) {
    const int rc = reserve_text(p, count + 1);
    if (rc != 0)
        return rc;
    *at = (uint32_t)p->text.count;
    memcpy(p->text.bytes + p->text.count, bytes, count);
    p->text.count += count;
    return 0;
}

/* A character of at most two bytes as its byte, or -1: it is none of the alphabet. */
static int alphabet_byte(const packer *p, const unsigned char *s, size_t *length) {
    unsigned code = s[0];
    *length = 1;
    if (code >= 0x80) {
        if ((s[0] & 0xE0) != 0xC0 || (s[1] & 0xC0) != 0x80)
            return -1;
        code = (s[0] & 0x1Fu) << 6 | (s[1] & 0x3Fu);
        *length = 2;
    }
    return code < 512 ? p->byte_of[code] : -1;
}

/* A token's bytes; one with a character beyond the alphabet stands for itself, as published. */
static int add_token_text(packer *p, const char *key, sc_token_record *token) {
    const size_t length = strlen(key);
    int rc = reserve_text(p, length + 1);
    if (rc != 0)
        return rc;
    char *out = p->text.bytes + p->text.count;
    size_t count = 0, step;
    for (size_t i = 0; i < length; i += step) {
        const int byte = alphabet_byte(p, (const unsigned char *)key + i, &step);
        if (byte < 0) {
            memcpy(out, key, length);
            count = length;
            break;
        }
        out[count++] = (char)byte;
    }
    token->at = (uint32_t)p->text.count;
    token->bytes = (uint32_t)count;
    p->text.count += count;
    return 0;
}

/* ---- vocabulary ---- */

static name_slot *find_name(packer *p, const char *key) {
    const size_t mask = p->name_slots - 1;
    size_t i = sc_tokenizer_checksum(key, strlen(key)) & mask;
    while (p->name[i].key && strcmp(p->name[i].key, key) != 0)
        i = (i + 1) & mask;
    return &p->name[i];
}

static uint64_t slots_for(uint64_t count) {
    uint64_t slots = 16;
    while (slots < 2 * count + 1)
        slots *= 2;
    return slots;
}

/* The ids are 0 … count-1; the greatest one is sought first, so that the tables can be made. */
static int size_tokens(packer *p, const cJSON *vocab, const cJSON *added) {
    uint32_t greatest = 0, id = 0;
    uint64_t names = 0;
    for (const cJSON *item = vocab->child; item; item = item->next, names++) {
        const int rc = get_id(p, item, "model.vocab", &id);
        if (rc != 0)
            return rc;
        greatest = id > greatest ? id : greatest;
    }
    for (const cJSON *item = added ? added->child : NULL; item; item = item->next) {
        const int rc = get_id(p, sc_json_get(item, "id"), "added_tokens", &id);
        if (rc != 0)
            return rc;
        greatest = id > greatest ? id : greatest;
    }
    if (names == 0)
        return wrong(p, "model.vocab", "is empty");
    p->header.token_count = (uint64_t)greatest + 1;
    p->name_slots = slots_for(names);
    p->token = calloc(p->header.token_count, sizeof *p->token);
    p->taken = calloc(p->header.token_count, sizeof *p->taken);
    p->added = calloc(p->header.token_count, sizeof *p->added);
    p->name = calloc(p->name_slots, sizeof *p->name);
    return p->token && p->taken && p->added && p->name ? 0 : no_memory(p);
}

static int twice(packer *p, const char *key, uint32_t id) {
    return sc_fail(p->err, SC_EINPUT,
                   "%s: %s: id %u stands for two tokens (take the model's "
                   "published tokenizer.json)",
                   p->file, key, id);
}

static int read_vocab(packer *p, const cJSON *vocab) {
    for (int b = 0; b < 256; b++)
        p->header.byte_id[b] = NONE;
    for (const cJSON *item = vocab->child; item; item = item->next) {
        uint32_t id = 0;
        int rc = get_id(p, item, "model.vocab", &id);
        if (rc == 0 && p->taken[id])
            rc = twice(p, "model.vocab", id);
        if (rc == 0)
            rc = add_token_text(p, item->string, &p->token[id]);
        if (rc != 0)
            return rc;
        p->taken[id] = true;
        *find_name(p, item->string) = (name_slot){ item->string, id };
        size_t length;
        const int byte = alphabet_byte(p, (const unsigned char *)item->string, &length);
        if (byte >= 0 && strlen(item->string) == length)
            p->header.byte_id[byte] = id;
    }
    return 0;
}

static bool is_ascii(const char *text) {
    while (*text && !(*text & 0x80))
        text++;
    return !*text;
}

static int read_added(packer *p, const cJSON *added) {
    for (const cJSON *item = added ? added->child : NULL; item; item = item->next) {
        uint32_t id = 0;
        int rc = get_id(p, sc_json_get(item, "id"), "added_tokens", &id);
        const char *content = get_string(item, "content");
        if (rc == 0 && !content)
            rc = wrong(p, "added_tokens", "one has no content");
        if (rc != 0)
            return rc;
        sc_token_record *token = &p->token[id];
        const name_slot *known = find_name(p, content);
        if ((token->flags & SC_TOKEN_ADDED) || (p->taken[id] && (!known->key || known->id != id)))
            return twice(p, "added_tokens", id);
        if (!p->taken[id] && known->key)
            return wrong(p, "added_tokens", "one has another id in model.vocab");
        const bool special = get_bool(item, "special", false);
        const bool normalized = get_bool(item, "normalized", !special);
        if (normalized && (p->header.flags & SC_TOKENIZER_NFC) && !is_ascii(content))
            return unsupported(p, "added_tokens", content,
                               "a normalized token beyond ASCII; set normalized to false");
        rc = add_text(p, content, strlen(content), &token->at);
        if (rc != 0)
            return rc;
        token->bytes = (uint32_t)strlen(content);
        token->flags = (special ? SC_TOKEN_SPECIAL : 0u) | SC_TOKEN_ADDED |
                       (get_bool(item, "lstrip", false) ? SC_TOKEN_LSTRIP : 0u) |
                       (get_bool(item, "rstrip", false) ? SC_TOKEN_RSTRIP : 0u) |
                       (get_bool(item, "single_word", false) ? SC_TOKEN_SINGLE_WORD : 0u) |
                       (normalized ? SC_TOKEN_NORMALIZED : 0u);
        p->taken[id] = true;
        if (token->bytes > 0)
            p->added[p->header.added_count++] = id;
    }
    for (uint64_t id = 0; id < p->header.token_count; id++)
        if (p->taken[id])
            continue;
        else if (p->holes)
            p->token[id].flags = SC_TOKEN_SPECIAL; /* no bytes, nothing to print */
        else
            return sc_fail(p->err, SC_EINPUT,
                           "%s: model.vocab: no token has id %d (ids must be "
                           "dense)",
                           p->file, (int)id);
    return 0;
}

static bool added_before(const packer *p, uint32_t a, uint32_t b) {
    const sc_token_record *x = &p->token[a], *y = &p->token[b];
    const unsigned char first_x = (unsigned char)p->text.bytes[x->at];
    const unsigned char first_y = (unsigned char)p->text.bytes[y->at];
    if (first_x != first_y)
        return first_x < first_y;
    return x->bytes != y->bytes ? x->bytes > y->bytes : a < b;
}

/* Heap sort: a few thousand at most, and no state beside the array (qsort has no argument). */
static void sort_added(packer *p) {
    uint32_t *a = p->added;
    const uint64_t count = p->header.added_count;
    for (uint64_t heap = count / 2, end = count; end > 1;) {
        uint32_t moved;
        if (heap > 0)
            moved = a[--heap];
        else {
            moved = a[--end];
            a[end] = a[0];
        }
        uint64_t i = heap, child;
        for (; (child = 2 * i + 1) < end; i = child) {
            if (child + 1 < end && added_before(p, a[child], a[child + 1]))
                child++;
            if (!added_before(p, moved, a[child]))
                break;
            a[i] = a[child];
        }
        a[i] = moved;
    }
}

static int make_words(packer *p) {
    if (!(p->header.flags & SC_TOKENIZER_IGNORE_MERGES))
        return 0;
    p->header.word_slots = slots_for(p->header.token_count);
    p->word = malloc(p->header.word_slots * sizeof *p->word);
    if (!p->word)
        return no_memory(p);
    memset(p->word, 0xFF, p->header.word_slots * sizeof *p->word);
    const uint64_t mask = p->header.word_slots - 1;
    for (uint32_t id = 0; id < p->header.token_count; id++) {
        const sc_token_record *token = &p->token[id];
        if ((token->flags & SC_TOKEN_ADDED) || token->bytes == 0)
            continue;
        uint64_t i = sc_tokenizer_checksum(p->text.bytes + token->at, token->bytes) & mask;
        while (p->word[i] != NONE)
            i = (i + 1) & mask;
        p->word[i] = id;
    }
    return 0;
}

/* ---- merges ---- */

static int no_such_token(packer *p, uint32_t rank, const char *token) {
    return sc_fail(p->err, SC_EINPUT,
                   "%s: model.merges[%u]: \"%.64s\" is not in model.vocab (take "
                   "the model's published tokenizer.json)",
                   p->file, rank, sc_json_printable(token));
}

static void put_merge(packer *p, const sc_merge_record *m) {
    const uint64_t mask = p->header.merge_slots - 1;
    uint64_t i = sc_tokenizer_pair_hash(m->left, m->right) & mask;
    while (p->merge[i].left != NONE &&
           (p->merge[i].left != m->left || p->merge[i].right != m->right))
        i = (i + 1) & mask;
    p->merge[i] = *m; /* of a pair given twice the later one holds, as in `tokenizers` */
}

/* pair holds "left\0right". */
static int add_merge(packer *p, uint32_t rank, char *pair, size_t left_length) {
    const char *right = pair + left_length + 1;
    const name_slot *l = find_name(p, pair), *r = find_name(p, right);
    if (!l->key || !r->key)
        return no_such_token(p, rank, l->key ? right : pair);
    const uint32_t left = l->id, right_id = r->id;
    memmove(pair + left_length, right, strlen(right) + 1);
    const name_slot *whole = find_name(p, pair);
    if (!whole->key)
        return no_such_token(p, rank, pair);
    put_merge(p, &(sc_merge_record){ left, right_id, rank, whole->id });
    return 0;
}

/* "a b" or ["a", "b"] as "a\0b" in memory of its own; NULL with *rc set. */
static char *copy_pair(packer *p, const cJSON *item, uint32_t rank, size_t *left_length, int *rc) {
    const char *left = NULL, *right = NULL;
    if (cJSON_IsString(item)) {
        left = item->valuestring;
        const char *space = strchr(left, ' ');
        if (space && !strchr(space + 1, ' ')) {
            right = space + 1;
            *left_length = (size_t)(space - left);
        }
    } else if (cJSON_IsArray(item) && cJSON_GetArraySize(item) == 2 &&
               cJSON_IsString(item->child) && cJSON_IsString(item->child->next)) {
        left = item->child->valuestring;
        right = item->child->next->valuestring;
        *left_length = strlen(left);
    }
    if (!right || *left_length == 0 || !*right) {
        *rc = sc_fail(p->err, SC_EINPUT,
                      "%s: model.merges[%u]: is no pair of tokens (take the "
                      "model's published tokenizer.json)",
                      p->file, rank);
        return NULL;
    }
    const size_t right_length = strlen(right);
    char *pair = malloc(*left_length + right_length + 2);
    if (!pair) {
        *rc = no_memory(p);
        return NULL;
    }
    memcpy(pair, left, *left_length);
    pair[*left_length] = '\0';
    memcpy(pair + *left_length + 1, right, right_length + 1);
    return pair;
}

static int read_merges(packer *p, const cJSON *merges) {
    if (!cJSON_IsArray(merges))
        return wrong(p, "model.merges", "is no list");
    uint32_t rank = 0;
    for (const cJSON *item = merges->child; item; item = item->next)
        if (++rank > TOKENS_MAX)
            return wrong(p, "model.merges", "has more than 4194304 entries");
    p->header.merge_slots = slots_for(rank);
    p->merge = malloc(p->header.merge_slots * sizeof *p->merge);
    if (!p->merge)
        return no_memory(p);
    memset(p->merge, 0xFF, p->header.merge_slots * sizeof *p->merge);
    rank = 0;
    for (const cJSON *item = merges->child; item; item = item->next, rank++) {
        int rc = 0;
        size_t left_length = 0;
        char *pair = copy_pair(p, item, rank, &left_length, &rc);
        if (pair)
            rc = add_merge(p, rank, pair, left_length);
        free(pair);
        if (rc != 0)
            return rc;
    }
    return 0;
}

static int read_model(packer *p, const cJSON *tokenizer) {
    const cJSON *model = sc_json_get(tokenizer, "model");
    const cJSON *vocab = sc_json_get(model, "vocab"),
                *added = sc_json_get(tokenizer, "added_tokens");
    const char *type = get_string(model, "type");
    if (type && strcmp(type, "BPE") != 0)
        return unsupported(p, "model.type", type,
                           "only byte-level BPE is; pass ids instead of text");
    if (!cJSON_IsObject(vocab))
        return wrong(p, "model.vocab", "is no object");
    static const char *const empty[] = { "continuing_subword_prefix", "end_of_word_suffix" };
    for (int i = 0; i < 2; i++) {
        const char *value = get_string(model, empty[i]);
        if (value && *value)
            return unsupported(p,
                               i ? "model.end_of_word_suffix" : "model.continuing_subword_prefix",
                               value, "only null or \"\"");
    }
    const cJSON *dropout = sc_json_get(model, "dropout");
    if (cJSON_IsNumber(dropout) && dropout->valuedouble != 0)
        return unsupported(p, "model.dropout", "not 0", "only null");
    if (get_bool(model, "byte_fallback", false))
        return unsupported(p, "model.byte_fallback", "true", "only byte-level BPE is");
    if (get_bool(model, "ignore_merges", false))
        p->header.flags |= SC_TOKENIZER_IGNORE_MERGES;
    int rc = size_tokens(p, vocab, added);
    if (rc == 0)
        rc = read_vocab(p, vocab);
    if (rc == 0)
        rc = read_merges(p, sc_json_get(model, "merges"));
    if (rc == 0)
        rc = read_added(p, added);
    if (rc != 0)
        return rc;
    sort_added(p);
    p->header.unk = NONE;
    const char *unk = get_string(model, "unk_token");
    if (unk && find_name(p, unk)->key)
        p->header.unk = find_name(p, unk)->id;
    return make_words(p);
}

/* ---- pre_tokenizer ---- */

/* What \s means in Oniguruma; PCRE2's own takes U+180E for a space too. */
#define SPACES                                                                                     \
    "\\t-\\r\\x{20}\\x{85}\\x{a0}\\x{1680}\\x{2000}-\\x{200a}\\x{2028}\\x{2029}\\x{202f}\\x{205f}" \
    "\\x{3000}"

static int add_string(packer *p, const char *text) {
    uint32_t at;
    return add_text(p, text, strlen(text), &at);
}

/* Copies a pattern, \s and (outside of [...]) \S spelled out. */
static int add_pattern_text(packer *p, const char *source) {
    bool inside = false;
    int rc = 0;
    for (const char *s = source; rc == 0 && *s; s++) {
        uint32_t at;
        if (*s == '\\' && s[1]) {
            s++;
            if (*s == 's')
                rc = add_string(p, inside ? SPACES : "[" SPACES "]");
            else if (*s == 'S' && !inside)
                rc = add_string(p, "[^" SPACES "]");
            else
                rc = add_text(p, s - 1, 2, &at);
            continue;
        }
        if (*s == '[' && inside)
            rc = add_string(p, "\\"); /* nested classes are refused before */
        else if (*s == '[')
            inside = true;
        else if (*s == ']')
            inside = false;
        if (rc == 0)
            rc = add_text(p, s, 1, &at);
    }
    return rc;
}

/* Oniguruma's own syntax: a class within a class, an intersection. */
static bool has_nested_class(const char *pattern) {
    bool inside = false;
    for (const char *s = pattern; *s; s++) {
        if (*s == '\\' && s[1])
            s++;
        else if (inside && (*s == '[' || (*s == '&' && s[1] == '&')))
            return true;
        else if (*s == '[')
            inside = true;
        else if (*s == ']')
            inside = false;
    }
    return false;
}

static int add_pattern(packer *p, const char *pattern, bool literal, uint32_t split) {
    const char *key = "pre_tokenizer.pattern";
    if (!*pattern)
        return wrong(p, key, "is empty");
    if (p->header.pattern_count == SC_TOKENIZER_PATTERNS_MAX)
        return wrong(p, "pre_tokenizer", "has more than 32 patterns");
    if (literal ? strstr(pattern, "\\E") != NULL : has_nested_class(pattern))
        return unsupported(p, key, pattern, "only what PCRE2 and Oniguruma read alike");
    sc_pattern_record *record = &p->pattern[p->header.pattern_count++];
    record->at = (uint32_t)p->text.count;
    record->split = split;
    uint32_t at;
    int rc = literal ? add_string(p, "\\Q") : add_pattern_text(p, pattern);
    if (rc == 0 && literal)
        rc = add_string(p, pattern);
    if (rc == 0 && literal)
        rc = add_string(p, "\\E");
    record->bytes = (uint32_t)(p->text.count - record->at);
    return rc == 0 ? add_text(p, "", 1, &at) : rc;
}

static int read_split(packer *p, const cJSON *pre) {
    const cJSON *pattern = sc_json_get(pre, "pattern");
    const char *regex = get_string(pattern, "Regex"), *literal = get_string(pattern, "String");
    const char *behavior = get_string(pre, "behavior");
    const bool invert = get_bool(pre, "invert", false);
    if (!regex && !literal)
        return wrong(p, "pre_tokenizer.pattern", "is neither Regex nor String");
    uint32_t split = SC_SPLIT_ISOLATED;
    if (behavior && strcmp(behavior, "Removed") == 0)
        split = invert ? SC_SPLIT_KEEP_MATCHES : SC_SPLIT_KEEP_GAPS;
    else if (!behavior || strcmp(behavior, "Isolated") != 0)
        return unsupported(p, "pre_tokenizer.behavior", behavior ? behavior : "null",
                           "Isolated and Removed are");
    return add_pattern(p, regex ? regex : literal, !regex, split);
}

static int read_byte_level(packer *p, const cJSON *pre) {
    if (p->byte_level)
        return wrong(p, "pre_tokenizer", "has two of type ByteLevel");
    p->byte_level = true;
    if (get_bool(pre, "add_prefix_space", true)) {
        if (p->header.pattern_count > 0)
            return unsupported(p, "pre_tokenizer.add_prefix_space", "true",
                               "only where no other splits before");
        p->header.flags |= SC_TOKENIZER_PREFIX_SPACE;
    }
    return get_bool(pre, "use_regex", true) ? add_pattern(p, GPT2_PATTERN, false, SC_SPLIT_ISOLATED)
                                            : 0;
}

static int read_pre_name(packer *p, const char *name) {
    for (size_t i = 0; i < sizeof pre_names / sizeof *pre_names; i++) {
        if (!name || strcmp(pre_names[i].name, name) != 0)
            continue;
        p->byte_level = p->holes = true;
        if (pre_names[i].nfc)
            p->header.flags |= SC_TOKENIZER_NFC;
        int rc = 0;
        for (int k = 0; rc == 0 && k < 2 && pre_names[i].pattern[k]; k++)
            rc = add_pattern(p, pre_names[i].pattern[k], false, SC_SPLIT_ISOLATED);
        return rc;
    }
    return unsupported(p, "tokenizer.ggml.pre", name ? name : "null",
                       "default, gpt-2, llama-bpe, qwen2, smollm and those like them are");
}

static int read_pre_tokenizer(packer *p, const cJSON *pre, bool nested) {
    const char *type = get_string(pre, "type");
    if (type && p->byte_level)
        return unsupported(p, "pre_tokenizer.type", type, "nothing may follow ByteLevel");
    if (type && strcmp(type, "ByteLevel") == 0)
        return read_byte_level(p, pre);
    if (type && strcmp(type, "Split") == 0)
        return read_split(p, pre);
    if (type && strcmp(type, "Digits") == 0)
        return add_pattern(p, get_bool(pre, "individual_digits", false) ? "\\p{N}" : "\\p{N}+",
                           false, SC_SPLIT_ISOLATED);
    if (type && !nested && strcmp(type, "slipcast_pre") == 0)
        return read_pre_name(p, get_string(pre, "name"));
    if (!type || nested || strcmp(type, "Sequence") != 0)
        return unsupported(p, "pre_tokenizer.type", type ? type : "null",
                           "ByteLevel, Split, Digits and a Sequence of them are");
    const cJSON *list = sc_json_get(pre, "pretokenizers");
    int rc = 0;
    for (const cJSON *item = list ? list->child : NULL; rc == 0 && item; item = item->next)
        rc = read_pre_tokenizer(p, item, true);
    return rc;
}

/* ---- normalizer, post_processor, decoder ---- */

static int read_normalizer(packer *p, const cJSON *tokenizer) {
    if (!is_set(tokenizer, "normalizer"))
        return 0;
    const cJSON *normalizer = sc_json_get(tokenizer, "normalizer");
    const char *type = get_string(normalizer, "type");
    if (type && strcmp(type, "NFC") == 0) {
        p->header.flags |= SC_TOKENIZER_NFC;
        return 0;
    }
    if (type && strcmp(type, "Sequence") == 0 &&
        cJSON_GetArraySize(sc_json_get(normalizer, "normalizers")) == 0)
        return 0;
    return unsupported(p, "normalizer.type", type ? type : "null", "NFC and none are");
}

static int add_special(packer *p, const cJSON *template, const char *name, bool after) {
    const cJSON *ids =
        sc_json_get(sc_json_get(sc_json_get(template, "special_tokens"), name), "ids");
    uint32_t *list = after ? p->header.suffix : p->header.prefix;
    uint32_t *count = after ? &p->header.suffix_count : &p->header.prefix_count;
    if (!cJSON_IsArray(ids))
        return wrong(p, "post_processor.special_tokens", "lacks one that single names");
    for (const cJSON *item = ids->child; item; item = item->next) {
        uint32_t id = 0;
        const int rc = get_id(p, item, "post_processor.special_tokens", &id);
        if (rc != 0)
            return rc;
        if (id >= p->header.token_count || *count == SC_TOKENIZER_SPECIALS_MAX)
            return wrong(p, "post_processor.special_tokens", "an id that no token has, or over 16");
        list[(*count)++] = id;
    }
    return 0;
}

static int read_template(packer *p, const cJSON *template) {
    bool after = false;
    const cJSON *single = sc_json_get(template, "single");
    if (!cJSON_IsArray(single))
        return wrong(p, "post_processor.single", "is no list");
    for (const cJSON *item = single->child; item; item = item->next) {
        const cJSON *sequence = sc_json_get(item, "Sequence");
        const char *name = get_string(sc_json_get(item, "SpecialToken"), "id");
        const char *text = get_string(sequence, "id");
        if (sequence) {
            if (after || !text || strcmp(text, "A") != 0)
                return wrong(p, "post_processor.single", "has not exactly one Sequence A");
            after = true;
            continue;
        }
        const int rc = name ? add_special(p, template, name, after)
                            : wrong(p, "post_processor.single",
                                    "has what is no Sequence and no "
                                    "SpecialToken");
        if (rc != 0)
            return rc;
    }
    return after ? 0 : wrong(p, "post_processor.single", "has not exactly one Sequence A");
}

static int read_post_processor(packer *p, const cJSON *post, bool nested) {
    if (!post || cJSON_IsNull(post))
        return 0;
    const char *type = get_string(post, "type");
    if (type && strcmp(type, "ByteLevel") == 0)
        return 0; /* moves offsets only */
    if (type && strcmp(type, "TemplateProcessing") == 0) {
        if (p->header.prefix_count + p->header.suffix_count > 0)
            return wrong(p, "post_processor", "has two templates");
        return read_template(p, post);
    }
    if (!type || nested || strcmp(type, "Sequence") != 0)
        return unsupported(p, "post_processor.type", type ? type : "null",
                           "TemplateProcessing, ByteLevel and a Sequence of them are");
    const cJSON *list = sc_json_get(post, "processors");
    int rc = 0;
    for (const cJSON *item = list ? list->child : NULL; rc == 0 && item; item = item->next)
        rc = read_post_processor(p, item, true);
    return rc;
}

static int read_decoder(packer *p, const cJSON *tokenizer) {
    const char *type = get_string(sc_json_get(tokenizer, "decoder"), "type");
    if (!is_set(tokenizer, "decoder") || (type && strcmp(type, "ByteLevel") == 0))
        return 0;
    return unsupported(p, "decoder.type", type ? type : "null", "ByteLevel is");
}

static int read_all(packer *p, const cJSON *tokenizer) {
    int rc = read_normalizer(p, tokenizer);
    if (rc == 0)
        rc = read_pre_tokenizer(p, sc_json_get(tokenizer, "pre_tokenizer"), false);
    if (rc == 0 && !p->byte_level)
        rc = wrong(p, "pre_tokenizer", "has no ByteLevel, so this is no byte-level BPE");
    if (rc == 0)
        rc = read_decoder(p, tokenizer);
    if (rc == 0)
        rc = read_model(p, tokenizer);
    if (rc == 0)
        rc = read_post_processor(p, sc_json_get(tokenizer, "post_processor"), false);
    return rc;
}

/* ---- the image ---- */

static uint64_t place(uint64_t *end, uint64_t count, size_t size) {
    const uint64_t at = *end;
    *end = (at + count * size + 7) / 8 * 8;
    return at;
}

static void put(unsigned char *image, uint64_t at, const void *from, uint64_t bytes) {
    if (bytes > 0)
        memcpy(image + at, from, bytes);
}

static int write_image(packer *p, unsigned char **image, size_t *bytes) {
    sc_tokenizer_header *h = &p->header;
    uint64_t end = (sizeof *h + 7) / 8 * 8;
    memcpy(h->magic, SC_TOKENIZER_MAGIC, 8);
    h->text_bytes = p->text.count;
    h->token_at = place(&end, h->token_count, sizeof *p->token);
    h->merge_at = place(&end, h->merge_slots, sizeof *p->merge);
    h->word_at = place(&end, h->word_slots, sizeof *p->word);
    h->added_at = place(&end, h->added_count, sizeof *p->added);
    h->pattern_at = place(&end, h->pattern_count, sizeof *p->pattern);
    h->text_at = place(&end, h->text_bytes, 1);
    h->bytes = end;
    unsigned char *out = calloc(1, end);
    if (!out)
        return no_memory(p);
    put(out, h->token_at, p->token, h->token_count * sizeof *p->token);
    put(out, h->merge_at, p->merge, h->merge_slots * sizeof *p->merge);
    put(out, h->word_at, p->word, h->word_slots * sizeof *p->word);
    put(out, h->added_at, p->added, h->added_count * sizeof *p->added);
    put(out, h->pattern_at, p->pattern, h->pattern_count * sizeof *p->pattern);
    put(out, h->text_at, p->text.bytes, h->text_bytes);
    put(out, 0, h, sizeof *h);
    h->checksum = sc_tokenizer_checksum(out + 16, end - 16);
    put(out, 0, h, sizeof *h);
    *image = out;
    *bytes = end;
    return 0;
}

int sc_tokenizer_pack(unsigned char **image, size_t *bytes, const cJSON *tokenizer,
                      const char *file, sc_error *err) {
    packer p = { .file = file, .err = err };
    fill_alphabet(&p);
    int rc = cJSON_IsObject(tokenizer) ? read_all(&p, tokenizer)
                                       : sc_fail(err, SC_EINPUT,
                                                 "%s: is no object (take the "
                                                 "model's published tokenizer.json)",
                                                 file);
    if (rc == 0)
        rc = write_image(&p, image, bytes);
    free(p.word);
    free(p.merge);
    free(p.name);
    free(p.added);
    free(p.taken);
    free(p.token);
    free(p.text.bytes);
    return rc;
}
