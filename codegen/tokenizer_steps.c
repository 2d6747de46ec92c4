/* tokenizer_steps.c - normalizer, pre_tokenizer, post_processor: see tokenizer_build.h. */
#include "tokenizer_build.h"

#include "../runtime/tokenizer_parts.h"
#include "json.h"
#include "tokenizer_pre.h"

#include <stdlib.h>
#include <string.h>

#define PUNCTUATION "[\\p{P}$+<=>^`|~]"

/* ---- steps ---- */

static int add_step(sc_packer *p, sc_step_kind kind, uint32_t how, const char *text,
                    const char *to) {
    if (p->header.step.count == SC_TOKENIZER_STEPS_MAX)
        return sc_pack_wrong(p, "normalizer, pre_tokenizer", "have more than 64 steps");
    sc_step_record *s = &p->step[p->header.step.count++];
    *s = (sc_step_record){ .kind = kind, .how = how };
    int rc = 0;
    if (text && (how & SC_PATTERN)) {
        s->at = (uint32_t)p->text.count;
        rc = sc_pack_regex(p, text);
        s->bytes = (uint32_t)p->text.count - s->at;
    } else if (text) {
        s->bytes = (uint32_t)strlen(text);
        rc = sc_pack_text_add(p, text, s->bytes, &s->at);
    }
    if (rc == 0 && to) {
        s->to_bytes = (uint32_t)strlen(to);
        rc = sc_pack_text_add(p, to, s->to_bytes, &s->to_at);
    }
    return rc;
}

static int add_split(sc_packer *p, const char *regex, uint32_t how) {
    return add_step(p, SC_STEP_SPLIT, how | SC_PATTERN, regex, NULL);
}

/* "pattern": {"Regex": …} or {"String": …}. */
static int read_pattern(sc_packer *p, const cJSON *part, const char *key, const char **text,
                        uint32_t *how) {
    const cJSON *pattern = sc_json_get(part, "pattern");
    const char *regex = sc_pack_string(pattern, "Regex");
    *text = regex ? regex : sc_pack_string(pattern, "String");
    *how = regex ? SC_PATTERN : 0;
    if (!*text)
        return sc_pack_wrong(p, key, "is neither Regex nor String");
    return **text ? 0 : sc_pack_wrong(p, key, "is empty");
}

/* Calls read for part, or for each part in a Sequence's list. */
typedef int read_function(sc_packer *p, const cJSON *part);

static int read_parts(sc_packer *p, const cJSON *part, const char *list, read_function *read) {
    if (strcmp(sc_pack_type(part), "Sequence") != 0)
        return read(p, part);
    const cJSON *items = sc_json_get(part, list);
    int rc = 0;
    for (const cJSON *item = items ? items->child : NULL; rc == 0 && item; item = item->next)
        rc = read_parts(p, item, list, read);
    return rc;
}

/* ---- normalizer ---- */

static int digit64(char c) {
    static const char letters[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const char *found = c ? strchr(letters, c) : NULL;
    return found ? (int)(found - letters) : -1;
}

/* Base64 to the text section. */
static int read_charsmap(sc_packer *p, const cJSON *normalizer) {
    const char *source = sc_pack_string(normalizer, "precompiled_charsmap");
    if (!source || !*source)
        return 0; /* null: no map */
    const size_t length = strlen(source);
    int rc = add_step(p, SC_STEP_CHARSMAP, 0, NULL, NULL);
    if (rc == 0)
        rc = sc_pack_reserve(p, length);
    if (rc != 0)
        return rc;
    sc_step_record *s = &p->step[p->header.step.count - 1];
    s->at = (uint32_t)p->text.count;
    uint32_t bits = 0;
    int held = 0;
    for (const char *c = source; *c && *c != '='; c++) {
        const int digit = digit64(*c);
        if (digit < 0)
            return sc_pack_wrong(p, "normalizer.precompiled_charsmap", "is no base64");
        bits = bits << 6 | (uint32_t)digit;
        held += 6;
        if (held >= 8) {
            held -= 8;
            p->text.bytes[p->text.count++] = (char)(bits >> held);
        }
    }
    s->bytes = (uint32_t)p->text.count - s->at;
    return sc_charsmap_fits((unsigned char *)p->text.bytes + s->at, s->bytes)
               ? 0
               : sc_pack_wrong(p, "normalizer.precompiled_charsmap", "is no compiled map");
}

static int read_normalizer(sc_packer *p, const cJSON *part) {
    static const struct {
        const char *type;
        sc_step_kind kind;
    } plain[] = { { "NFC", SC_STEP_NFC },
                  { "NFD", SC_STEP_NFD },
                  { "NFKC", SC_STEP_NFKC },
                  { "NFKD", SC_STEP_NFKD },
                  { "Lowercase", SC_STEP_LOWERCASE },
                  { "StripAccents", SC_STEP_STRIP_ACCENTS },
                  { "Nmt", SC_STEP_NMT },
                  { "ByteLevel", SC_STEP_BYTES } };
    const char *type = sc_pack_type(part), *text = NULL;
    uint32_t how = 0;
    for (size_t i = 0; i < sizeof plain / sizeof *plain; i++)
        if (strcmp(type, plain[i].type) == 0)
            return add_step(p, plain[i].kind, 0, NULL, NULL);
    if (strcmp(type, "Strip") == 0)
        return add_step(p, SC_STEP_STRIP,
                        (sc_pack_bool(part, "strip_left", true) ? SC_STRIP_LEFT : 0u) |
                            (sc_pack_bool(part, "strip_right", true) ? SC_STRIP_RIGHT : 0u),
                        NULL, NULL);
    if (strcmp(type, "Prepend") == 0) {
        text = sc_pack_string(part, "prepend");
        return text ? add_step(p, SC_STEP_PREPEND, 0, text, NULL)
                    : sc_pack_wrong(p, "normalizer.prepend", "is no string");
    }
    if (strcmp(type, "Replace") == 0) {
        const char *to = sc_pack_string(part, "content");
        const int rc = read_pattern(p, part, "normalizer.pattern", &text, &how);
        if (rc == 0 && !to)
            return sc_pack_wrong(p, "normalizer.content", "is no string");
        return rc == 0 ? add_step(p, SC_STEP_REPLACE, how, text, to) : rc;
    }
    if (strcmp(type, "Precompiled") == 0)
        return read_charsmap(p, part);
    return sc_pack_unsupported(p, "normalizer.type", type,
                               "NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Prepend, "
                               "Replace, Nmt, Precompiled, ByteLevel and a Sequence of them are");
}

int sc_pack_normalizer(sc_packer *p, const cJSON *normalizer) {
    int rc = 0;
    if (normalizer && !cJSON_IsNull(normalizer))
        rc = read_parts(p, normalizer, "normalizers", read_normalizer);
    p->header.normalizers = (uint32_t)p->header.step.count;
    return rc;
}

/* ---- pre_tokenizer ---- */

static int read_behavior(sc_packer *p, const cJSON *part, const char *otherwise, uint32_t *how) {
    static const char *const names[SC_SPLIT_COUNT] = {
        [SC_SPLIT_ISOLATED] = "Isolated",
        [SC_SPLIT_REMOVED] = "Removed",
        [SC_SPLIT_MERGED_WITH_PREVIOUS] = "MergedWithPrevious",
        [SC_SPLIT_MERGED_WITH_NEXT] = "MergedWithNext",
        [SC_SPLIT_CONTIGUOUS] = "Contiguous",
    };
    const char *behavior = sc_pack_string(part, "behavior");
    if (!behavior)
        behavior = otherwise;
    for (uint32_t i = 0; i < SC_SPLIT_COUNT; i++)
        if (strcmp(names[i], behavior) == 0) {
            *how = i;
            return 0;
        }
    return sc_pack_unsupported(p, "pre_tokenizer.behavior", behavior,
                               "Isolated, Removed, MergedWithPrevious, MergedWithNext and "
                               "Contiguous are");
}

static int read_split(sc_packer *p, const cJSON *part) {
    const char *text;
    uint32_t pattern = 0, how = 0;
    int rc = read_pattern(p, part, "pre_tokenizer.pattern", &text, &pattern);
    if (rc == 0)
        rc = read_behavior(p, part, "null", &how);
    if (sc_pack_bool(part, "invert", false))
        how |= SC_INVERT;
    return rc == 0 ? add_step(p, SC_STEP_SPLIT, how | pattern, text, NULL) : rc;
}

static int read_byte_level(sc_packer *p, const cJSON *part) {
    int rc = 0;
    if (sc_pack_bool(part, "add_prefix_space", true))
        rc = add_step(p, SC_STEP_PREFIX, SC_PREFIX_ALWAYS, " ", NULL);
    if (rc == 0 && sc_pack_bool(part, "use_regex", true))
        rc = add_split(p, SC_GPT2_PATTERN, SC_SPLIT_ISOLATED);
    return rc == 0 ? add_step(p, SC_STEP_BYTES, 0, NULL, NULL) : rc;
}

static int read_metaspace(sc_packer *p, const cJSON *part) {
    const char *replacement = sc_pack_string(part, "replacement");
    const char *scheme = sc_pack_string(part, "prepend_scheme");
    if (!replacement || !*replacement)
        return sc_pack_wrong(p, "pre_tokenizer.replacement", "is no character");
    if (!scheme)
        scheme = sc_pack_bool(part, "add_prefix_space", true) ? "always" : "never";
    const bool always = strcmp(scheme, "always") == 0, first = strcmp(scheme, "first") == 0;
    if (!always && !first && strcmp(scheme, "never") != 0)
        return sc_pack_unsupported(p, "pre_tokenizer.prepend_scheme", scheme,
                                   "always, first and never are");
    int rc = add_step(p, SC_STEP_REPLACE, 0, " ", replacement);
    if (rc == 0 && (always || first))
        rc = add_step(p, SC_STEP_PREFIX, always ? SC_PREFIX_ALWAYS : SC_PREFIX_FIRST, replacement,
                      NULL);
    if (rc == 0 && sc_pack_bool(part, "split", true))
        rc = add_step(p, SC_STEP_SPLIT, SC_SPLIT_MERGED_WITH_NEXT, replacement, NULL);
    return rc;
}

static int read_pre_name(sc_packer *p, const char *name) {
    const sc_pre *pre = sc_pre_find(name);
    if (!pre)
        return sc_pack_unsupported(p, "tokenizer.ggml.pre", name,
                                   "default, gpt-2, llama-bpe, qwen2, smollm and their like are");
    int rc = 0;
    for (int k = 0; rc == 0 && k < SC_PRE_PATTERNS && pre->pattern[k]; k++)
        rc = add_split(p, pre->pattern[k], SC_SPLIT_ISOLATED);
    return rc == 0 && !pre->plain ? add_step(p, SC_STEP_BYTES, 0, NULL, NULL) : rc;
}

static int read_delimiter(sc_packer *p, const cJSON *part) {
    const char *delimiter = sc_pack_string(part, "delimiter");
    return delimiter && *delimiter ? add_step(p, SC_STEP_SPLIT, SC_SPLIT_REMOVED, delimiter, NULL)
                                   : sc_pack_wrong(p, "pre_tokenizer.delimiter", "is no character");
}

static int read_punctuation(sc_packer *p, const cJSON *part) {
    uint32_t how = 0;
    const int rc = read_behavior(p, part, "Isolated", &how);
    return rc == 0 ? add_split(p, PUNCTUATION, how) : rc;
}

static int read_pre(sc_packer *p, const cJSON *part) {
    const char *type = sc_pack_type(part), *name = sc_pack_string(part, "name");
    if (strcmp(type, "ByteLevel") == 0)
        return read_byte_level(p, part);
    if (strcmp(type, "Split") == 0)
        return read_split(p, part);
    if (strcmp(type, "Metaspace") == 0)
        return read_metaspace(p, part);
    if (strcmp(type, "Digits") == 0)
        return add_split(p, sc_pack_bool(part, "individual_digits", false) ? "\\p{N}" : "\\p{N}+",
                         SC_SPLIT_ISOLATED);
    if (strcmp(type, "Punctuation") == 0)
        return read_punctuation(p, part);
    if (strcmp(type, "Whitespace") == 0)
        return add_split(p, "[\\w\\x{200c}\\x{200d}]+|[^\\w\\s\\x{200c}\\x{200d}]+",
                         SC_SPLIT_REMOVED | SC_INVERT);
    if (strcmp(type, "WhitespaceSplit") == 0)
        return add_split(p, "\\s+", SC_SPLIT_REMOVED);
    if (strcmp(type, "BertPreTokenizer") == 0) {
        const int rc = add_split(p, "\\s+", SC_SPLIT_REMOVED);
        return rc == 0 ? add_split(p, PUNCTUATION, SC_SPLIT_ISOLATED) : rc;
    }
    if (strcmp(type, "CharDelimiterSplit") == 0)
        return read_delimiter(p, part);
    if (strcmp(type, "slipcast_pre") == 0)
        return read_pre_name(p, name ? name : "null");
    return sc_pack_unsupported(p, "pre_tokenizer.type", type,
                               "ByteLevel, Split, Metaspace, Digits, Punctuation, Whitespace, "
                               "WhitespaceSplit, CharDelimiterSplit, BertPreTokenizer and a "
                               "Sequence of them are");
}

int sc_pack_pre_tokenizer(sc_packer *p, const cJSON *pre) {
    return pre && !cJSON_IsNull(pre) ? read_parts(p, pre, "pretokenizers", read_pre) : 0;
}

/* ---- post_processor ---- */

static int add_special(sc_packer *p, const cJSON *item, const char *key, bool after) {
    uint32_t *list = after ? p->header.suffix : p->header.prefix;
    uint32_t *count = after ? &p->header.suffix_count : &p->header.prefix_count;
    uint32_t id = 0;
    const int rc = sc_pack_id(p, item, key, &id);
    if (rc != 0)
        return rc;
    if (id >= p->header.token.count || *count == SC_TOKENIZER_SPECIALS_MAX)
        return sc_pack_wrong(p, key, "an id that no token has, or over 16");
    list[(*count)++] = id;
    return 0;
}

static int add_named(sc_packer *p, const cJSON *template, const char *name, bool after) {
    const char *key = "post_processor.special_tokens";
    const cJSON *ids =
        sc_json_get(sc_json_get(sc_json_get(template, "special_tokens"), name), "ids");
    if (!cJSON_IsArray(ids))
        return sc_pack_wrong(p, key, "lacks one that single names");
    int rc = 0;
    for (const cJSON *item = ids->child; rc == 0 && item; item = item->next)
        rc = add_special(p, item, key, after);
    return rc;
}

static int read_template(sc_packer *p, const cJSON *template) {
    const char *key = "post_processor.single";
    bool after = false;
    const cJSON *single = sc_json_get(template, "single");
    if (!cJSON_IsArray(single))
        return sc_pack_wrong(p, key, "is no list");
    for (const cJSON *item = single->child; item; item = item->next) {
        const cJSON *sequence = sc_json_get(item, "Sequence");
        const char *name = sc_pack_string(sc_json_get(item, "SpecialToken"), "id");
        const char *text = sc_pack_string(sequence, "id");
        if (sequence) {
            if (after || !text || strcmp(text, "A") != 0)
                return sc_pack_wrong(p, key, "has not exactly one Sequence A");
            after = true;
            continue;
        }
        const int rc = name ? add_named(p, template, name, after)
                            : sc_pack_wrong(p, key, "has what is no Sequence and no SpecialToken");
        if (rc != 0)
            return rc;
    }
    return after ? 0 : sc_pack_wrong(p, key, "has not exactly one Sequence A");
}

/* "cls": ["<s>", 0] in front, "sep": ["</s>", 2] behind. */
static int read_ends(sc_packer *p, const cJSON *post) {
    static const char *const keys[] = { "cls", "sep" };
    int rc = 0;
    for (int i = 0; rc == 0 && i < 2; i++) {
        const cJSON *pair = sc_json_get(post, keys[i]);
        rc = cJSON_IsArray(pair) && cJSON_GetArraySize(pair) == 2
                 ? add_special(p, pair->child->next, "post_processor", i == 1)
                 : sc_pack_wrong(p, "post_processor", "cls or sep is no token with its id");
    }
    return rc;
}

static int read_post(sc_packer *p, const cJSON *post) {
    const char *type = sc_pack_type(post);
    if (strcmp(type, "ByteLevel") == 0)
        return 0; /* moves offsets only */
    const bool template = strcmp(type, "TemplateProcessing") == 0;
    if (!template && strcmp(type, "BertProcessing") != 0 && strcmp(type, "RobertaProcessing") != 0)
        return sc_pack_unsupported(p, "post_processor.type", type,
                                   "TemplateProcessing, BertProcessing, RobertaProcessing, "
                                   "ByteLevel and a Sequence of them are");
    if (p->header.prefix_count + p->header.suffix_count > 0)
        return sc_pack_wrong(p, "post_processor", "has two templates");
    return template ? read_template(p, post) : read_ends(p, post);
}

int sc_pack_post_processor(sc_packer *p, const cJSON *post) {
    return post && !cJSON_IsNull(post) ? read_parts(p, post, "processors", read_post) : 0;
}
