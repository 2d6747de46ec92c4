/*
 * gguf.c - see gguf.h.
 *
 * Every count and length is held against the bytes that are left in the file before anything of
 * that size is allocated or read, so that a lying header costs no more than the file's own size.
 *
 *   GGUF                                  config.json
 *   <arch>.embedding_length               hidden_size
 *   <arch>.feed_forward_length            intermediate_size
 *   <arch>.block_count                    num_hidden_layers
 *   <arch>.attention.head_count[_kv]      num_attention_heads, num_key_value_heads
 *   <arch>.attention.key_length           head_dim (llama: else rope.dimension_count)
 *   <arch>.attention.layer_norm_rms_epsilon  rms_norm_eps
 *   <arch>.rope.freq_base                 rope_theta
 *   <arch>.rope.scaling.type, .factor     rope_scaling
 *   <arch>.context_length                 max_position_embeddings
 *   rows of token_embd.weight             vocab_size
 *   no output.weight                      tie_word_embeddings
 *   rope_freqs.weight                     slipcast_rope_freq_factors
 */
#include "gguf.h"

#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "json.h"
#include "tokenizer_pre.h"

enum {
    BUFFER_BYTES = 64 * 1024,
    MAX_STRING = 16 * 1024 * 1024,
    MAX_NESTING = 4,
    GGUF_DIMS = 4,
    MIN_PAIR_BYTES = 8 + 4 + 1,      /* key length, type, a bool */
    MIN_TENSOR_BYTES = 8 + 4 + 4 + 8 /* name length, n_dims, type, offset */
};

typedef enum {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    BOOL,
    STRING,
    ARRAY,
    U64,
    I64,
    F64,
    VALUE_TYPES
} value_type;

static const unsigned value_bytes[VALUE_TYPES] = { 1, 1, 2, 2, 4, 4, 4, 1, 0, 0, 8, 8, 8 };

enum { TOKEN_CONTROL = 3, TOKEN_USER = 4, TOKEN_UNUSED = 5 };

typedef struct {
    const char *key;
    value_type type;
    int64_t integer;   /* integers and bools; a u64 over INT64_MAX reads as -1 */
    double number;     /* F32 and F64 */
    const char *text;  /* STRING; NULL when it holds a NUL or is no UTF-8 */
    value_type inner;  /* ARRAY: the type of its elements, */
    uint64_t count;    /* how many there are */
    uint64_t position; /* and where the first lies in the file */
} pair;

typedef struct {
    sc_pool *pool;
    const char *path;
    int fd;
    uint64_t size, position;
    unsigned char *buffer; /* bytes buffered … buffered + held of the file */
    uint64_t buffered, held;
    uint64_t pairs, tensors;
    pair *pair;
    sc_gguf *made;
    sc_error *err;
} reader;

/* ggml's types by their number. Only those with a dtype are read. */
static const struct {
    const char *name;
    int elements, bytes;
    sc_dtype dtype;
} ggml_types[] = {
    [0] = { "F32", 1, 4, SC_F32 },
    [1] = { "F16", 1, 2, SC_F16 },
    [2] = { "Q4_0", 32, 18, SC_Q4_0 },
    [3] = { "Q4_1", 32, 20, SC_Q4_1 },
    [6] = { "Q5_0", 32, 22, SC_Q5_0 },
    [7] = { "Q5_1", 32, 24, SC_Q5_1 },
    [8] = { "Q8_0", 32, 34, SC_Q8_0 },
    [9] = { "Q8_1", 32, 36, SC_DTYPE_OTHER },
    [10] = { "Q2_K", 256, 84, SC_DTYPE_OTHER },
    [11] = { "Q3_K", 256, 110, SC_DTYPE_OTHER },
    [12] = { "Q4_K", 256, 144, SC_DTYPE_OTHER },
    [13] = { "Q5_K", 256, 176, SC_DTYPE_OTHER },
    [14] = { "Q6_K", 256, 210, SC_DTYPE_OTHER },
    [15] = { "Q8_K", 256, 292, SC_DTYPE_OTHER },
    [16] = { "IQ2_XXS", 256, 66, SC_DTYPE_OTHER },
    [17] = { "IQ2_XS", 256, 74, SC_DTYPE_OTHER },
    [18] = { "IQ3_XXS", 256, 98, SC_DTYPE_OTHER },
    [19] = { "IQ1_S", 256, 50, SC_DTYPE_OTHER },
    [20] = { "IQ4_NL", 32, 18, SC_DTYPE_OTHER },
    [21] = { "IQ3_S", 256, 110, SC_DTYPE_OTHER },
    [22] = { "IQ2_S", 256, 82, SC_DTYPE_OTHER },
    [23] = { "IQ4_XS", 256, 136, SC_DTYPE_OTHER },
    [24] = { "I8", 1, 1, SC_DTYPE_OTHER },
    [25] = { "I16", 1, 2, SC_DTYPE_OTHER },
    [26] = { "I32", 1, 4, SC_DTYPE_OTHER },
    [27] = { "I64", 1, 8, SC_DTYPE_OTHER },
    [28] = { "F64", 1, 8, SC_DTYPE_OTHER },
    [29] = { "IQ1_M", 256, 56, SC_DTYPE_OTHER },
    [30] = { "BF16", 1, 2, SC_BF16 },
    [34] = { "TQ1_0", 256, 54, SC_DTYPE_OTHER },
    [35] = { "TQ2_0", 256, 66, SC_DTYPE_OTHER },
    [39] = { "MXFP4", 32, 17, SC_DTYPE_OTHER },
};

static int bad(const reader *r, const char *key, const char *reason) {
    return sc_fail(r->err, SC_EINPUT, "%s: %.200s: %s (fetch the file again)", r->path,
                   sc_json_printable(key), reason);
}

static int no_memory(const reader *r) { return sc_oom(r->err, "reading a GGUF file"); }

static uint64_t left(const reader *r) { return r->size - r->position; }

/* ---- bytes ---- */

static int take(reader *r, void *out, uint64_t bytes) {
    if (bytes > left(r))
        return bad(r, "header", "the file ends early");
    for (unsigned char *to = out; bytes;) {
        if (r->position < r->buffered || r->position >= r->buffered + r->held) {
            r->buffered = r->position;
            r->held = left(r) < BUFFER_BYTES ? left(r) : BUFFER_BYTES;
            const int status =
                sc_tensors_pread(r->fd, r->path, r->buffer, r->held, r->buffered, r->err);
            if (status) {
                r->held = 0;
                return status;
            }
        }
        const uint64_t from = r->position - r->buffered;
        const uint64_t part = bytes < r->held - from ? bytes : r->held - from;
        memcpy(to, r->buffer + from, part);
        to += part;
        r->position += part;
        bytes -= part;
    }
    return SC_OK;
}

static int take_integer(reader *r, uint64_t *value, unsigned bytes) {
    unsigned char raw[8];
    const int status = take(r, raw, bytes);
    if (status)
        return status;
    *value = 0;
    for (unsigned i = bytes; i-- > 0;)
        *value = *value << 8 | raw[i];
    return SC_OK;
}

/* *text is NULL when the string is none that C and JSON can hold. */
static int take_string(reader *r, const char **text, const char *what) {
    uint64_t bytes;
    const int status = take_integer(r, &bytes, 8);
    if (status)
        return status;
    if (bytes > left(r) || bytes > MAX_STRING)
        return bad(r, what, "a string longer than the file or 16 MiB");
    char *made = sc_pool_alloc(r->pool, 1, bytes + 1);
    if (!made)
        return no_memory(r);
    const int taken = take(r, made, bytes);
    if (!taken)
        *text = sc_json_utf8(made, bytes) ? made : NULL;
    return taken;
}

static int skip_string(reader *r, const char *key) {
    uint64_t bytes;
    const int status = take_integer(r, &bytes, 8);
    if (status)
        return status;
    if (bytes > left(r))
        return bad(r, key, "a string runs past the end of the file");
    r->position += bytes;
    return SC_OK;
}

/* ---- metadata ---- */

static int take_type(reader *r, value_type *type, const char *key) {
    uint64_t number;
    const int status = take_integer(r, &number, 4);
    if (status)
        return status;
    if (number >= VALUE_TYPES)
        return bad(r, key, "a value of unknown type");
    *type = (value_type)number;
    return SC_OK;
}

/* Walks over an array, so that what lies behind it is found; the elements are read when wanted. */
static int skip_array(reader *r, const char *key, value_type *inner, uint64_t *count,
                      uint64_t *position, int nesting) {
    int status = nesting < MAX_NESTING ? take_type(r, inner, key)
                                       : bad(r, key, "arrays nested deeper than 4");
    if (!status)
        status = take_integer(r, count, 8);
    if (status)
        return status;
    *position = r->position;
    /* The least an element takes: a string its length, an array its type and length. */
    const uint64_t least = *inner == STRING ? 8 : *inner == ARRAY ? 12 : value_bytes[*inner];
    if (*count > left(r) / least)
        return bad(r, key, "an array longer than the file");
    if (value_bytes[*inner]) {
        r->position += *count * least;
        return SC_OK;
    }
    for (uint64_t i = 0; i < *count && !status; i++) {
        value_type type;
        uint64_t n, at;
        status = *inner == STRING ? skip_string(r, key)
                                  : skip_array(r, key, &type, &n, &at, nesting + 1);
    }
    return status;
}

static int take_scalar(reader *r, pair *p) {
    uint64_t raw;
    const unsigned bytes = value_bytes[p->type];
    const int status = take_integer(r, &raw, bytes);
    if (status)
        return status;
    if (p->type == F32) {
        const uint32_t bits = (uint32_t)raw;
        float value;
        memcpy(&value, &bits, sizeof value);
        p->number = (double)value;
    } else if (p->type == F64) {
        memcpy(&p->number, &raw, sizeof p->number);
    } else if (p->type == BOOL && raw > 1) {
        return bad(r, p->key, "a bool that is neither 0 nor 1");
    } else {
        const bool is_signed = p->type == I8 || p->type == I16 || p->type == I32;
        const uint64_t sign = (uint64_t)1 << (bytes * 8 - 1);
        if (is_signed && raw & sign)
            p->integer = (int64_t)(raw - sign) - (int64_t)sign;
        else if (p->type == I64)
            memcpy(&p->integer, &raw, sizeof raw);
        else
            p->integer = raw > INT64_MAX ? -1 : (int64_t)raw;
    }
    return SC_OK;
}

static int take_pair(reader *r, pair *p) {
    int status = take_string(r, &p->key, "a key");
    if (status)
        return status;
    if (!p->key || !*p->key || sc_json_printable(p->key) != p->key)
        return bad(r, "header", "an empty or unprintable key");
    status = take_type(r, &p->type, p->key);
    if (status)
        return status;
    if (p->type == STRING)
        return take_string(r, &p->text, p->key);
    if (p->type == ARRAY)
        return skip_array(r, p->key, &p->inner, &p->count, &p->position, 0);
    return take_scalar(r, p);
}

static int by_key(const void *a, const void *b) {
    return strcmp(((const pair *)a)->key, ((const pair *)b)->key);
}

static int take_pairs(reader *r) {
    if (r->pairs > left(r) / MIN_PAIR_BYTES)
        return bad(r, "header", "more metadata than the file can hold");
    r->pair = sc_pool_alloc(r->pool, r->pairs, sizeof *r->pair);
    if (!r->pair)
        return no_memory(r);
    for (uint64_t i = 0; i < r->pairs; i++) {
        const int status = take_pair(r, &r->pair[i]);
        if (status)
            return status;
    }
    if (r->pairs > 1)
        qsort(r->pair, r->pairs, sizeof *r->pair, by_key);
    for (uint64_t i = 1; i < r->pairs; i++)
        if (strcmp(r->pair[i - 1].key, r->pair[i].key) == 0)
            return bad(r, r->pair[i].key, "the key is there twice");
    return SC_OK;
}

static const pair *find(const reader *r, const char *key) {
    const pair wanted = { .key = key };
    return r->pairs ? bsearch(&wanted, r->pair, r->pairs, sizeof wanted, by_key) : NULL;
}

/* <arch>.<key>; NULL as well when memory is short, which the next allocation reports. */
static const pair *find_arch(const reader *r, const char *arch, const char *key) {
    const char *full = sc_pool_printf(r->pool, "%s.%s", arch, key);
    return full ? find(r, full) : NULL;
}

static bool is_integer(const pair *p) {
    return p && p->type != F32 && p->type != F64 && p->type != BOOL && p->type != STRING &&
           p->type != ARRAY;
}

static const char *text_of(const pair *p) { return p && p->type == STRING ? p->text : NULL; }

/* ---- tensors ---- */

static const char *const layer_names[][2] = {
    { "attn_norm", "input_layernorm" },    { "ffn_norm", "post_attention_layernorm" },
    { "attn_q", "self_attn.q_proj" },      { "attn_k", "self_attn.k_proj" },
    { "attn_v", "self_attn.v_proj" },      { "attn_output", "self_attn.o_proj" },
    { "attn_q_norm", "self_attn.q_norm" }, { "attn_k_norm", "self_attn.k_norm" },
    { "ffn_gate", "mlp.gate_proj" },       { "ffn_up", "mlp.up_proj" },
    { "ffn_down", "mlp.down_proj" },
};

static const char *const outer_names[][2] = {
    { "token_embd.weight", "model.embed_tokens.weight" },
    { "output_norm.weight", "model.norm.weight" },
    { "output.weight", "lm_head.weight" },
    { "output.bias", "lm_head.bias" },
};

/* The checkpoint's name for GGUF's; a name that is not known stays. NULL: out of memory. */
static const char *hf_name(sc_pool *pool, const char *name) {
    for (size_t i = 0; i < sizeof outer_names / sizeof *outer_names; i++)
        if (strcmp(outer_names[i][0], name) == 0)
            return outer_names[i][1];
    if (strncmp(name, "blk.", 4) != 0)
        return name;
    const char *number = name + 4;
    const size_t digits = strspn(number, "0123456789");
    const char *part = number + digits + 1;
    if (!digits || number[digits] != '.' || (digits > 1 && *number == '0'))
        return name;
    const char *dot = strchr(part, '.');
    if (!dot || (strcmp(dot, ".weight") != 0 && strcmp(dot, ".bias") != 0))
        return name;
    for (size_t i = 0; i < sizeof layer_names / sizeof *layer_names; i++)
        if (strlen(layer_names[i][0]) == (size_t)(dot - part) &&
            strncmp(layer_names[i][0], part, (size_t)(dot - part)) == 0)
            return sc_pool_printf(pool, "model.layers.%.*s.%s%s", (int)digits, number,
                                  layer_names[i][1], dot);
    return name;
}

static int take_shape(reader *r, sc_tensor *t, long long *elements) {
    uint64_t dims, size;
    int status = take_integer(r, &dims, 4);
    if (status)
        return status;
    if (dims > GGUF_DIMS)
        return bad(r, t->name, "more than 4 dimensions");
    t->rank = (int)dims;
    *elements = 1;
    for (int i = t->rank; i-- > 0;) { /* innermost first in the file */
        status = take_integer(r, &size, 8);
        if (status)
            return status;
        if (size == 0 || size > INT64_MAX)
            return bad(r, t->name, "a dimension that is no size");
        t->shape[i] = (int64_t)size;
        if (sc_mul(elements, *elements, t->shape[i], "shape", NULL))
            return bad(r, t->name, "the shape's product overflows");
    }
    return SC_OK;
}

static int take_tensor_type(reader *r, sc_tensor *t, long long elements) {
    uint64_t type;
    long long bytes;
    const int status = take_integer(r, &type, 4);
    if (status)
        return status;
    if (type >= sizeof ggml_types / sizeof *ggml_types || !ggml_types[type].name)
        return sc_fail(r->err, SC_EINPUT, "%s: %.200s: ggml type %llu is unknown (use Q8_0 or F16)",
                       r->path, t->name, (unsigned long long)type);
    t->type = ggml_types[type].name;
    t->dtype = ggml_types[type].dtype;
    const int64_t width = t->rank ? t->shape[t->rank - 1] : 1;
    if (width % ggml_types[type].elements != 0)
        return bad(r, t->name, "a row is no whole number of blocks");
    if (sc_mul(&bytes, elements / ggml_types[type].elements, ggml_types[type].bytes, "bytes", NULL))
        return bad(r, t->name, "the tensor's size overflows");
    t->bytes = (uint64_t)bytes;
    return SC_OK;
}

/* Leaves the file's name in place of the checkpoint's; rename_tensors changes it. */
static int take_tensor(reader *r, sc_tensor *t) {
    const char *name = NULL;
    long long elements = 0;
    int status = take_string(r, &name, "a tensor's name");
    if (status)
        return status;
    if (!name || !*name || sc_json_printable(name) != name)
        return bad(r, "header", "a tensor's name is empty or unprintable");
    *t = (sc_tensor){ .name = name, .file = r->path, .fd = r->fd };
    status = take_shape(r, t, &elements);
    if (!status)
        status = take_tensor_type(r, t, elements);
    return status ? status : take_integer(r, &t->offset, 8);
}

static int alignment(const reader *r, uint64_t *value) {
    const pair *p = find(r, "general.alignment");
    *value = 32;
    if (!p)
        return SC_OK;
    if (p->type != U32 || p->integer <= 0 || (p->integer & (p->integer - 1)) != 0)
        return bad(r, p->key, "is no uint32 power of two");
    *value = (uint64_t)p->integer;
    return SC_OK;
}

static int by_offset(const void *a, const void *b) {
    const sc_tensor *x = a, *y = b;
    return x->offset < y->offset ? -1 : x->offset > y->offset;
}

/* Offsets count from the first aligned byte after the header; made absolute here. */
static int place_tensors(reader *r) {
    sc_tensors *all = r->made->tensors;
    uint64_t step;
    const int status = alignment(r, &step);
    if (status || !all->count)
        return status;
    const uint64_t start = (r->position + step - 1) / step * step;
    if (start > r->size)
        return bad(r, "header", "the file ends before the tensors' data");
    qsort(all->tensor, (size_t)all->count, sizeof *all->tensor, by_offset);
    uint64_t end = 0;
    for (int i = 0; i < all->count; i++) {
        sc_tensor *t = &all->tensor[i];
        if (t->offset % step != 0)
            return bad(r, t->name, "its offset is not aligned");
        if (t->offset > r->size - start || t->bytes > r->size - start - t->offset)
            return bad(r, t->name, "its data lies past the end of the file");
        if (t->offset < end)
            return bad(r, t->name, "its bytes are also another tensor's");
        end = t->offset + t->bytes;
        t->offset += start;
    }
    return SC_OK;
}

static int take_tensors(reader *r) {
    sc_tensors *all = r->made->tensors;
    if (r->tensors > left(r) / MIN_TENSOR_BYTES || r->tensors > INT_MAX)
        return bad(r, "header", "more tensors than the file can hold");
    all->tensor = sc_pool_alloc(r->pool, r->tensors, sizeof *all->tensor);
    if (!all->tensor)
        return no_memory(r);
    for (; (uint64_t)all->count < r->tensors; all->count++) {
        const int status = take_tensor(r, &all->tensor[all->count]);
        if (status)
            return status;
    }
    const int status = place_tensors(r);
    if (status)
        return status;
    for (int i = 0; i < all->count; i++) {
        all->tensor[i].name = hf_name(r->pool, all->tensor[i].name);
        if (!all->tensor[i].name)
            return no_memory(r);
    }
    return sc_tensors_sort(all, r->err);
}

static bool ends_with(const char *text, const char *end) {
    const size_t a = strlen(text), b = strlen(end);
    return a >= b && strcmp(text + a - b, end) == 0;
}

/* llama's converter turned q_proj and k_proj for its own rotary order. */
static int mark_interleaved(const reader *r, int64_t heads, int64_t kv_heads) {
    for (int i = 0; i < r->made->tensors->count; i++) {
        sc_tensor *t = &r->made->tensors->tensor[i];
        const bool q = ends_with(t->name, ".self_attn.q_proj.weight") ||
                       ends_with(t->name, ".self_attn.q_proj.bias");
        const bool k = ends_with(t->name, ".self_attn.k_proj.weight") ||
                       ends_with(t->name, ".self_attn.k_proj.bias");
        if (!q && !k)
            continue;
        t->interleaved_heads = q ? heads : kv_heads;
        const bool bias = ends_with(t->name, ".bias");
        if (t->rank != (bias ? 1 : 2) || t->shape[0] % t->interleaved_heads != 0 ||
            t->shape[0] / t->interleaved_heads % 2 != 0)
            return bad(r, t->name, "its rows do not divide into heads of even size");
        /* Elements of a bias are read one by one: it must not be cut into blocks. */
        if (bias && t->dtype != SC_F32 && t->dtype != SC_F16 && t->dtype != SC_BF16)
            return bad(r, t->name, "a bias of a quantised type");
    }
    return SC_OK;
}

/* ---- config ---- */

static bool put_number(cJSON *object, const char *key, double value) {
    cJSON *item = cJSON_CreateNumber(0);
    if (!item)
        return false;
    item->valuedouble = value; /* cJSON's own cast to int does not take infinity */
    item->valueint = fabs(value) < INT_MAX ? (int)value : value > 0 ? INT_MAX : INT_MIN;
    if (isnan(value))
        item->valueint = 0;
    if (cJSON_AddItemToObject(object, key, item))
        return true;
    cJSON_Delete(item);
    return false;
}

static int put(const reader *r, cJSON *object, const char *key, double value) {
    return put_number(object, key, value) ? SC_OK : no_memory(r);
}

/* A positive integer of the architecture: must: its absence is an error, else *value stays. */
static int arch_size(const reader *r, const char *arch, const char *key, bool must,
                     int64_t *value) {
    const pair *p = find_arch(r, arch, key);
    if (!p && !must)
        return SC_OK;
    if (!is_integer(p) || p->integer <= 0 || p->integer > INT32_MAX)
        return sc_fail(r->err, SC_EINPUT, "%s: %s.%s: %s (fetch the file again)", r->path, arch,
                       key, p ? "is no single positive integer" : "is missing");
    *value = p->integer;
    return SC_OK;
}

static int arch_float(const reader *r, const char *arch, const char *key, bool must,
                      double *value) {
    const pair *p = find_arch(r, arch, key);
    if (!p && !must)
        return SC_OK;
    if (!p || (p->type != F32 && p->type != F64) || !isfinite(p->number))
        return sc_fail(r->err, SC_EINPUT, "%s: %s.%s: %s (fetch the file again)", r->path, arch,
                       key, p ? "is no finite float" : "is missing");
    *value = p->number;
    return SC_OK;
}

static int put_size(const reader *r, cJSON *config, const char *key, const char *arch,
                    const char *from, int64_t *value) {
    const int status = arch_size(r, arch, from, true, value);
    return status ? status : put(r, config, key, (double)*value);
}

/* What changes the arithmetic and is not carried over must not pass in silence. */
static int refuse_unread(const reader *r, const char *arch, int64_t head_dim) {
    static const char *const unread[] = { "expert_count",        "expert_used_count",
                                          "logit_scale",         "attention.scale",
                                          "residual_scale",      "embedding_scale",
                                          "attention.clamp_kqv", "attention.max_alibi_bias" };
    for (size_t i = 0; i < sizeof unread / sizeof *unread; i++) {
        const pair *p = find_arch(r, arch, unread[i]);
        if (p && (p->type == STRING || p->type == ARRAY || p->integer ||
                  fpclassify(p->number) != FP_ZERO))
            return bad(r, p->key, "is not read by slipcast from GGUF");
    }
    static const char *const same[] = { "attention.value_length", "rope.dimension_count" };
    for (size_t i = 0; i < sizeof same / sizeof *same; i++) {
        const pair *p = find_arch(r, arch, same[i]);
        if (p && (!is_integer(p) || p->integer != head_dim))
            return bad(r, p->key, "differs from the size of a head");
    }
    const pair *split = find(r, "split.count");
    if (split && (!is_integer(split) || split->integer > 1))
        return bad(r, split->key, "a file in parts is not read");
    return SC_OK;
}

static int put_heads(const reader *r, cJSON *config, const char *arch, int64_t hidden) {
    int64_t heads, kv_heads, head_dim = 0;
    const bool llama = strcmp(arch, "llama") == 0;
    int status = put_size(r, config, "num_attention_heads", arch, "attention.head_count", &heads);
    if (status)
        return status;
    kv_heads = heads;
    status = arch_size(r, arch, "attention.head_count_kv", false, &kv_heads);
    if (!status)
        status = put(r, config, "num_key_value_heads", (double)kv_heads);
    if (!status)
        status = arch_size(r, arch, "attention.key_length", false, &head_dim);
    if (!status && !head_dim && llama)
        status = arch_size(r, arch, "rope.dimension_count", false, &head_dim);
    if (status)
        return status;
    if (!head_dim && hidden % heads != 0)
        return bad(r, "attention.head_count", "does not divide embedding_length");
    if (!head_dim)
        head_dim = hidden / heads;
    status = put(r, config, "head_dim", (double)head_dim);
    if (!status)
        status = refuse_unread(r, arch, head_dim);
    return !status && llama ? mark_interleaved(r, heads, kv_heads) : status;
}

static int put_rope(const reader *r, cJSON *config, const char *arch) {
    double theta = 10000, factor = 0;
    const pair *type = find_arch(r, arch, "rope.scaling.type");
    int status = arch_float(r, arch, "rope.freq_base", false, &theta);
    if (!status)
        status = arch_float(r, arch, "rope.scale_linear", false, &factor); /* its old name */
    if (!status)
        status = arch_float(r, arch, "rope.scaling.factor", false, &factor);
    if (!status)
        status = put(r, config, "rope_theta", theta);
    if (status)
        return status;
    const char *name = type ? text_of(type) : "linear";
    if (!name || (strcmp(name, "linear") != 0 && strcmp(name, "none") != 0))
        return bad(r, type->key, "only linear and none are read from GGUF");
    if (strcmp(name, "none") == 0 || fpclassify(factor) == FP_ZERO)
        return SC_OK;
    cJSON *scaling = cJSON_AddObjectToObject(config, "rope_scaling");
    if (!scaling || !cJSON_AddStringToObject(scaling, "rope_type", "linear"))
        return no_memory(r);
    return put(r, scaling, "factor", factor);
}

/* llama 3's factors, computed by the converter; taken out of the list, for it is no weight. */
static int put_rope_factors(const reader *r, cJSON *config) {
    sc_tensors *all = r->made->tensors;
    const sc_tensor *t = sc_tensors_find(all, "rope_freqs.weight");
    if (!t)
        return SC_OK;
    if (t->rank != 1 || t->dtype != SC_F32 || t->shape[0] > 65536)
        return bad(r, t->name, "is no row of F32");
    float *value = sc_pool_alloc(r->pool, (size_t)t->shape[0], sizeof *value);
    cJSON *array = cJSON_AddArrayToObject(config, "slipcast_rope_freq_factors");
    if (!value || !array)
        return no_memory(r);
    const int status = sc_tensor_read(t, 0, 1, value, r->err);
    if (status)
        return status;
    for (int64_t i = 0; i < t->shape[0]; i++) {
        if (!isfinite(value[i]))
            return bad(r, t->name, "holds a number that is not finite");
        cJSON *item = cJSON_CreateNumber((double)value[i]);
        if (!item)
            return no_memory(r);
        cJSON_AddItemToArray(array, item);
    }
    const int at = (int)(t - all->tensor);
    memmove(&all->tensor[at], &all->tensor[at + 1],
            (size_t)(all->count - at - 1) * sizeof *all->tensor);
    all->count--;
    return SC_OK;
}

static int put_window(const reader *r, cJSON *config, const char *arch, const char **model_type) {
    const pair *p = find_arch(r, arch, "attention.sliding_window");
    *model_type = arch;
    if (!p || (is_integer(p) && p->integer == 0))
        return SC_OK;
    int64_t window = 0;
    int status = arch_size(r, arch, "attention.sliding_window", true, &window);
    if (!status)
        status = put(r, config, "sliding_window", (double)window);
    if (status)
        return status;
    if (strcmp(arch, "llama") == 0) {
        *model_type = "mistral"; /* the Hugging Face llama has no window */
        return SC_OK;
    }
    /* qwen's classes use the window only when told to, and from a layer on. */
    if (!cJSON_AddTrueToObject(config, "use_sliding_window"))
        return no_memory(r);
    return put(r, config, "max_window_layers", 0);
}

static int put_flags(const reader *r, cJSON *config, const char *arch) {
    const sc_tensors *all = r->made->tensors;
    const sc_tensor *embedding = sc_tensors_find(all, "model.embed_tokens.weight");
    const bool bias = sc_tensors_find(all, "model.layers.0.self_attn.q_proj.bias");
    if (!embedding || embedding->rank != 2)
        return bad(r, "token_embd.weight", "is missing or no matrix");
    if (!cJSON_AddBoolToObject(config, "tie_word_embeddings",
                               !sc_tensors_find(all, "lm_head.weight")) ||
        !cJSON_AddStringToObject(config, "hidden_act", "silu"))
        return no_memory(r);
    /* qwen2 always has these biases, and no key for them. */
    if (strcmp(arch, "qwen2") != 0 && !cJSON_AddBoolToObject(config, "attention_bias", bias))
        return no_memory(r);
    return put(r, config, "vocab_size", (double)embedding->shape[0]);
}

static int token_id(const reader *r, const char *key, int64_t *id) {
    const pair *p = find(r, key);
    *id = -1;
    if (!p)
        return SC_OK;
    if (!is_integer(p) || p->integer < 0 || p->integer > INT32_MAX)
        return bad(r, key, "is no token id");
    *id = p->integer;
    return SC_OK;
}

static int put_ids(const reader *r, cJSON *config, cJSON *generation) {
    int64_t bos, eos, eot;
    int status = token_id(r, "tokenizer.ggml.bos_token_id", &bos);
    if (!status)
        status = token_id(r, "tokenizer.ggml.eos_token_id", &eos);
    if (!status)
        status = token_id(r, "tokenizer.ggml.eot_token_id", &eot);
    if (!status && bos >= 0)
        status = put(r, config, "bos_token_id", (double)bos);
    if (!status && bos >= 0)
        status = put(r, generation, "bos_token_id", (double)bos);
    if (!status && eos >= 0)
        status = put(r, config, "eos_token_id", (double)eos);
    if (status || eos < 0)
        return status;
    if (eot < 0 || eot == eos)
        return put(r, generation, "eos_token_id", (double)eos);
    const int ends[] = { (int)eos, (int)eot };
    cJSON *array = cJSON_CreateIntArray(ends, 2);
    if (!array || !cJSON_AddItemToObject(generation, "eos_token_id", array)) {
        cJSON_Delete(array);
        return no_memory(r);
    }
    return SC_OK;
}

static int make_config(const reader *r) {
    const char *arch = text_of(find(r, "general.architecture")), *model_type;
    cJSON *config = r->made->config;
    int64_t hidden, value;
    double eps;
    if (!arch)
        return bad(r, "general.architecture", "is missing or no string");
    if (strcmp(arch, "llama") != 0 && strcmp(arch, "qwen2") != 0 && strcmp(arch, "qwen3") != 0)
        return sc_fail(r->err, SC_EINPUT,
                       "%s: general.architecture: \"%.60s\" is none of llama, qwen2, qwen3 (export "
                       "from the Hugging Face folder)",
                       r->path, sc_json_printable(arch));
    int status = put_window(r, config, arch, &model_type);
    if (!status && !cJSON_AddStringToObject(config, "model_type", model_type))
        status = no_memory(r);
    if (!status)
        status = put_size(r, config, "hidden_size", arch, "embedding_length", &hidden);
    if (!status)
        status = put_size(r, config, "intermediate_size", arch, "feed_forward_length", &value);
    if (!status)
        status = put_size(r, config, "num_hidden_layers", arch, "block_count", &value);
    if (!status)
        status = put_size(r, config, "max_position_embeddings", arch, "context_length", &value);
    if (!status)
        status = put_heads(r, config, arch, hidden);
    if (!status)
        status = arch_float(r, arch, "attention.layer_norm_rms_epsilon", true, &eps);
    if (!status)
        status = put(r, config, "rms_norm_eps", eps);
    if (!status)
        status = put_rope(r, config, arch);
    if (!status)
        status = put_rope_factors(r, config);
    if (!status)
        status = put_flags(r, config, arch);
    return status ? status : put_ids(r, config, r->made->generation);
}

/* ---- tokenizer ---- */

/* The strings of an array; each must be one that JSON can hold. */
static int strings_of(reader *r, const pair *p, const char *key, const char ***out) {
    if (!p || p->type != ARRAY || p->inner != STRING || p->count > INT_MAX)
        return bad(r, key, "is missing or no array of strings");
    const char **text = sc_pool_alloc(r->pool, p->count, sizeof *text);
    if (!text)
        return no_memory(r);
    r->position = p->position;
    for (uint64_t i = 0; i < p->count; i++) {
        const int status = take_string(r, &text[i], p->key);
        if (status)
            return status;
        if (!text[i])
            return bad(r, p->key, "a string with NUL or invalid UTF-8");
    }
    *out = text;
    return SC_OK;
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

static int refuse_twins(const reader *r, const char *const *token, uint64_t count) {
    const char **sorted = sc_pool_alloc(r->pool, count, sizeof *sorted);
    if (!sorted)
        return no_memory(r);
    if (count)
        memcpy(sorted, token, count * sizeof *sorted);
    if (count > 1)
        qsort(sorted, count, sizeof *sorted, by_text);
    for (uint64_t i = 1; i < count; i++)
        if (strcmp(sorted[i - 1], sorted[i]) == 0)
            return bad(r, "tokenizer.ggml.tokens", "a token is there twice");
    return SC_OK;
}

static int put_added(const reader *r, cJSON *added, uint64_t id, const char *content,
                     bool special) {
    cJSON *entry = cJSON_CreateObject();
    if (!entry)
        return no_memory(r);
    cJSON_AddItemToArray(added, entry);
    if (!put_number(entry, "id", (double)id) ||
        !cJSON_AddStringToObject(entry, "content", content) ||
        !cJSON_AddFalseToObject(entry, "single_word") || !cJSON_AddFalseToObject(entry, "lstrip") ||
        !cJSON_AddFalseToObject(entry, "rstrip") || !cJSON_AddFalseToObject(entry, "normalized") ||
        !cJSON_AddBoolToObject(entry, "special", special))
        return no_memory(r);
    return SC_OK;
}

/* One int32 or float32 per token, with one of the tokens' ids as its place. */
static int one_per_token(const reader *r, const pair *p, uint64_t count, bool floats) {
    if (p->type == ARRAY && p->count == count &&
        (floats ? p->inner == F32 : p->inner == I32 || p->inner == U32))
        return SC_OK;
    return bad(r, p->key,
               floats ? "is no array of one float32 per token"
                      : "is no array of one int32 per token");
}

/* The next float32 of an array of them. */
static int take_score(reader *r, double *score) {
    uint64_t bits = 0;
    const int status = take_integer(r, &bits, 4);
    const uint32_t low = (uint32_t)bits;
    float value;
    memcpy(&value, &low, sizeof value);
    *score = (double)value;
    return status;
}

typedef struct {
    const char **token;
    uint64_t *type; /* all 1 where the file does not say */
    double *score;  /* NULL: none wanted */
    uint64_t count;
} vocabulary;

static int take_vocabulary(reader *r, vocabulary *v, bool scored) {
    const pair *tokens = find(r, "tokenizer.ggml.tokens");
    const pair *types = find(r, "tokenizer.ggml.token_type");
    const pair *scores = find(r, "tokenizer.ggml.scores");
    int status = strings_of(r, tokens, "tokenizer.ggml.tokens", &v->token);
    if (!status && !scored)
        status = refuse_twins(r, v->token, tokens->count);
    if (!status && types)
        status = one_per_token(r, types, tokens->count, false);
    if (!status && scored)
        status = scores ? one_per_token(r, scores, tokens->count, true)
                        : bad(r, "tokenizer.ggml.scores", "is missing");
    if (status)
        return status;
    v->count = tokens->count;
    v->type = sc_pool_alloc(r->pool, v->count, sizeof *v->type);
    v->score = scored ? sc_pool_alloc(r->pool, v->count, sizeof *v->score) : NULL;
    if (!v->type || (scored && !v->score))
        return no_memory(r);
    if (types)
        r->position = types->position;
    for (uint64_t i = 0; i < v->count && !status; i++) {
        v->type[i] = 1;
        if (types)
            status = take_integer(r, &v->type[i], 4);
    }
    if (scored)
        r->position = scores->position;
    for (uint64_t i = 0; scored && i < v->count && !status; i++)
        status = take_score(r, &v->score[i]);
    return status;
}

/* ["token", score], or null for a place that the model itself does not use. */
static int put_scored(const reader *r, cJSON *vocab, const char *token, double score) {
    cJSON *item = token ? cJSON_CreateArray() : cJSON_CreateNull();
    cJSON *name = token ? cJSON_CreateString(token) : NULL;
    cJSON *number = token ? cJSON_CreateNumber(score) : NULL;
    if (!item || (token && (!name || !number))) {
        cJSON_Delete(item);
        cJSON_Delete(name);
        cJSON_Delete(number);
        return no_memory(r);
    }
    if (token) {
        cJSON_AddItemToArray(item, name);
        cJSON_AddItemToArray(item, number);
    }
    cJSON_AddItemToArray(vocab, item);
    return SC_OK;
}

/* Control and user-defined tokens are added tokens only: no merge may make them from text. */
static int put_tokens(reader *r, cJSON *vocab, cJSON *added, bool scored) {
    vocabulary v;
    int status = take_vocabulary(r, &v, scored);
    for (uint64_t i = 0; !status && i < v.count; i++) {
        const bool apart = v.type[i] == TOKEN_CONTROL || v.type[i] == TOKEN_USER;
        const bool model = !apart && v.type[i] != TOKEN_UNUSED;
        if (apart)
            status = put_added(r, added, i, v.token[i], v.type[i] == TOKEN_CONTROL);
        if (!status && scored)
            status = put_scored(r, vocab, model ? v.token[i] : NULL, v.score[i]);
        else if (!status && model)
            status = put(r, vocab, v.token[i], (double)i);
    }
    return status;
}

static int put_merges(reader *r, cJSON *merges) {
    const pair *p = find(r, "tokenizer.ggml.merges");
    const char **merge;
    const int status = strings_of(r, p, "tokenizer.ggml.merges", &merge);
    if (status)
        return status;
    for (uint64_t i = 0; i < p->count; i++) {
        cJSON *item = cJSON_CreateString(merge[i]);
        if (!item)
            return no_memory(r);
        cJSON_AddItemToArray(merges, item);
    }
    return SC_OK;
}

/* text, JSON of our own, as top's member key. */
static int put_part(const reader *r, cJSON *top, const char *key, const char *text) {
    cJSON *part = cJSON_Parse(text);
    if (part && cJSON_AddItemToObject(top, key, part))
        return SC_OK;
    cJSON_Delete(part);
    return no_memory(r);
}

/* Puts {"SpecialToken": {"id": name}} into single, and name's id into tokens. */
static bool put_special(cJSON *single, cJSON *tokens, const char *name, int64_t id) {
    cJSON *item = cJSON_CreateObject();
    if (!item || !cJSON_AddItemToArray(single, item)) {
        cJSON_Delete(item);
        return false;
    }
    cJSON *special = cJSON_AddObjectToObject(item, "SpecialToken");
    cJSON *token = cJSON_AddObjectToObject(tokens, name);
    cJSON *ids = token ? cJSON_AddArrayToObject(token, "ids") : NULL;
    cJSON *number = ids ? cJSON_CreateNumber((double)id) : NULL;
    if (!number)
        return false;
    cJSON_AddItemToArray(ids, number);
    return special && cJSON_AddStringToObject(special, "id", name);
}

/* The id that goes at one end of every text, or -1. */
static int end_id(const reader *r, const char *says_key, const char *id_key, bool otherwise,
                  int64_t *id) {
    const pair *says = find(r, says_key);
    const bool wanted = says ? says->type == BOOL && says->integer : otherwise;
    const int status = token_id(r, id_key, id);
    if (!status && !wanted)
        *id = -1;
    return status;
}

/* BOS in front and EOS behind, where the file says so; add_bos holds where it does not. */
static int put_ends(const reader *r, cJSON *top, bool add_bos) {
    int64_t bos, eos;
    int status =
        end_id(r, "tokenizer.ggml.add_bos_token", "tokenizer.ggml.bos_token_id", add_bos, &bos);
    if (!status)
        status =
            end_id(r, "tokenizer.ggml.add_eos_token", "tokenizer.ggml.eos_token_id", false, &eos);
    if (status || (bos < 0 && eos < 0))
        return status;
    cJSON *post = cJSON_AddObjectToObject(top, "post_processor");
    cJSON *single = post ? cJSON_AddArrayToObject(post, "single") : NULL;
    cJSON *tokens = post ? cJSON_AddObjectToObject(post, "special_tokens") : NULL;
    if (!single || !tokens || !cJSON_AddStringToObject(post, "type", "TemplateProcessing") ||
        (bos >= 0 && !put_special(single, tokens, "bos", bos)))
        return no_memory(r);
    cJSON *text = cJSON_Parse("{\"Sequence\":{\"id\":\"A\"}}");
    if (!text || !cJSON_AddItemToArray(single, text)) {
        cJSON_Delete(text);
        return no_memory(r);
    }
    return eos < 0 || put_special(single, tokens, "eos", eos) ? SC_OK : no_memory(r);
}

#define SPACE "\xE2\x96\x81"
#define NORMALIZER "{\"type\":\"Replace\",\"pattern\":{\"String\":\" \"},\"content\":\"" SPACE "\"}"
#define DECODER                                                                                    \
    "{\"type\":\"Replace\",\"pattern\":{\"String\":\"" SPACE "\"},\"content\":\" \"},"             \
    "{\"type\":\"ByteFallback\"},{\"type\":\"Fuse\"}"

/* Spaces are U+2581 in tokens, one more in front of a text with prefix, and bytes have tokens. */
static int put_spaces(const reader *r, cJSON *top, bool prefix) {
    const int status =
        put_part(r, top, "normalizer",
                 prefix ? "{\"type\":\"Sequence\",\"normalizers\":[{\"type\":\"Prepend\","
                          "\"prepend\":\"" SPACE "\"}," NORMALIZER "]}"
                        : NORMALIZER);
    if (status)
        return status;
    return put_part(r, top, "decoder",
                    prefix ? "{\"type\":\"Sequence\",\"decoders\":[" DECODER ",{\"type\":\"Strip\","
                             "\"content\":\" \",\"start\":1,\"stop\":0}]}"
                           : "{\"type\":\"Sequence\",\"decoders\":[" DECODER "]}");
}

/* SentencePiece's BPE: what has the best score is merged first. */
static int put_spm(reader *r, cJSON *top, cJSON *model, cJSON *added) {
    const pair *prefix = find(r, "tokenizer.ggml.add_space_prefix");
    int64_t unk;
    cJSON *vocab = cJSON_AddArrayToObject(model, "vocab");
    if (!vocab || !cJSON_AddStringToObject(model, "type", "slipcast_spm"))
        return no_memory(r);
    int status = put_tokens(r, vocab, added, true);
    if (!status)
        status = token_id(r, "tokenizer.ggml.unknown_token_id", &unk);
    if (!status && unk >= 0)
        status = put(r, model, "unk_id", (double)unk);
    if (!status)
        status = put_spaces(r, top, !prefix || prefix->type != BOOL || prefix->integer);
    return status ? status : put_ends(r, top, true);
}

static int put_bpe(reader *r, cJSON *top, cJSON *model, cJSON *added, const char *name) {
    static const sc_pre unknown = { .name = "" }; /* named by whoever packs the tokenizer */
    const sc_pre *pre = sc_pre_find(name) ? sc_pre_find(name) : &unknown;
    cJSON *splitter = cJSON_AddObjectToObject(top, "pre_tokenizer");
    cJSON *vocab = cJSON_AddObjectToObject(model, "vocab");
    cJSON *merges = cJSON_AddArrayToObject(model, "merges");
    if (!splitter || !vocab || !merges ||
        !cJSON_AddStringToObject(splitter, "type", "slipcast_pre") ||
        !cJSON_AddStringToObject(splitter, "name", name) ||
        !cJSON_AddStringToObject(model, "type", "BPE") ||
        !cJSON_AddBoolToObject(model, "byte_fallback", pre->plain) ||
        !cJSON_AddBoolToObject(model, "ignore_merges", pre->ignore_merges))
        return no_memory(r);
    int status = put_tokens(r, vocab, added, false);
    if (!status)
        status = put_merges(r, merges);
    if (!status && pre->nfc)
        status = put_part(r, top, "normalizer", "{\"type\":\"NFC\"}");
    if (!status)
        status = pre->plain ? put_spaces(r, top, false)
                            : put_part(r, top, "decoder", "{\"type\":\"ByteLevel\"}");
    return status ? status : put_ends(r, top, pre->add_bos);
}

static int make_tokenizer(reader *r) {
    const char *model = text_of(find(r, "tokenizer.ggml.model"));
    const char *pre = text_of(find(r, "tokenizer.ggml.pre"));
    const bool spm = model && strcmp(model, "llama") == 0;
    const bool gemma4 = model && strcmp(model, "gemma4") == 0;
    if (!model || (!spm && !gemma4 && strcmp(model, "gpt2") != 0))
        return SC_OK; /* named by whoever wants the tokenizer */
    if (gemma4)
        pre = "gemma4";
    cJSON *top = r->made->tokenizer = cJSON_CreateObject();
    cJSON *added = top ? cJSON_AddArrayToObject(top, "added_tokens") : NULL;
    cJSON *into = top ? cJSON_AddObjectToObject(top, "model") : NULL;
    if (!added || !into)
        return no_memory(r);
    return spm ? put_spm(r, top, into, added) : put_bpe(r, top, into, added, pre ? pre : "default");
}

/* ---- the whole ---- */

static int take_header(reader *r) {
    uint64_t version;
    unsigned char magic[4];
    if (left(r) < 4)
        return bad(r, "header", "is too short for a GGUF file");
    int status = take(r, magic, sizeof magic);
    if (status)
        return status;
    if (memcmp(magic, "vers", 4) == 0)
        return sc_fail(r->err, SC_EINPUT,
                       "%s: is a git-lfs pointer, not the weights (run git lfs pull)", r->path);
    if (memcmp(magic, "GGUF", 4) != 0)
        return bad(r, "header", "is no GGUF file");
    status = take_integer(r, &version, 4);
    if (status)
        return status;
    if (version != 2 && version != 3)
        return sc_fail(r->err, SC_EINPUT,
                       "%s: version: %llu is neither 2 nor 3, little-endian (convert it again)",
                       r->path, (unsigned long long)version);
    status = take_integer(r, &r->tensors, 8);
    return status ? status : take_integer(r, &r->pairs, 8);
}

static int read_file(reader *r, bool vocabulary_alone) {
    int status = take_header(r);
    if (!status)
        status = take_pairs(r);
    if (vocabulary_alone)
        return status ? status : make_tokenizer(r);
    if (!status)
        status = take_tensors(r);
    if (!status)
        status = make_config(r);
    if (!status)
        status = make_tokenizer(r);
    if (!status)
        r->made->chat_template = text_of(find(r, "tokenizer.chat_template"));
    return status;
}

static int allocate(reader *r, const char *path) {
    r->path = sc_pool_strdup(r->pool, path);
    r->buffer = sc_pool_alloc(r->pool, 1, BUFFER_BYTES);
    r->made = sc_pool_alloc(r->pool, 1, sizeof *r->made);
    sc_tensors *all = sc_pool_alloc(r->pool, 1, sizeof *all);
    if (!r->path || !r->buffer || !r->made || !all)
        return no_memory(r);
    r->made->tensors = all;
    all->path = r->path;
    all->fd = sc_pool_alloc(r->pool, 1, sizeof *all->fd);
    r->made->config = cJSON_CreateObject();
    r->made->generation = cJSON_CreateObject();
    return all->fd && r->made->config && r->made->generation ? SC_OK : no_memory(r);
}

static int open_file(sc_gguf **gguf, sc_pool *pool, const char *path, bool vocabulary_alone,
                     sc_error *err) {
    reader r = { .pool = pool, .fd = -1, .err = err };
    int status = allocate(&r, path);
    if (!status)
        status = sc_tensors_open_fd(&r.fd, &r.size, r.path, err);
    if (!status) {
        r.made->tensors->fd[r.made->tensors->files++] = r.fd;
        status = read_file(&r, vocabulary_alone);
    }
    if (status)
        sc_gguf_close(r.made);
    else
        *gguf = r.made;
    return status;
}

int sc_gguf_open(sc_gguf **gguf, sc_pool *pool, const char *path, sc_error *err) {
    return open_file(gguf, pool, path, false, err);
}

int sc_gguf_open_vocabulary(sc_gguf **gguf, sc_pool *pool, const char *path, sc_error *err) {
    return open_file(gguf, pool, path, true, err);
}

void sc_gguf_close(sc_gguf *gguf) {
    if (!gguf)
        return;
    cJSON_Delete(gguf->config);
    cJSON_Delete(gguf->tokenizer);
    cJSON_Delete(gguf->generation);
    gguf->config = gguf->tokenizer = gguf->generation = NULL;
    sc_tensors_close(gguf->tensors);
}
