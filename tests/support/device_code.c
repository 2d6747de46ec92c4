/* device_code.c - see device_code.h. */
#include "device_code.h"

#include <check.h>
#include <dlfcn.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../../codegen/emit.h"
#include "../../codegen/export.h"
#include "../../runtime/half.h"
#include "cast.h"
#include "draw.h"
#include "kernels.h"
#include "once.h"
#include "run.h"

const device_model device_models[DEVICE_MODELS] = {
    /* family, hidden, heads, kv_heads, head_dim, ffn, vocab, window, max_cache_len, batch, rewind
     */
    { "llama", 64, 4, 2, 16, 48, 100, 0, 96, 1, 0, SC_F32, SC_F32, false, false },
    /* head_dim an odd multiple of 8, an ffn that ends within a load, biases */
    { "llama", 136, 8, 2, 72, 100, 333, 0, 300, 3, 0, SC_BF16, SC_BF16, true, false },
    /* norms of q and k, a group of 3 */
    { "qwen3", 96, 6, 2, 128, 64, 77, 0, 200, 2, 0, SC_F16, SC_F16, false, false },
    /* a ring with room to rewind, floats beside halves */
    { "mistral", 64, 4, 2, 20, 32, 50, 24, 70, 3, 3, SC_BF16, SC_F32, false, true },
    /* a ring shorter than a pass, a group of more than 8 */
    { "mistral", 64, 12, 1, 40, 36, 50, 20, 90, 2, 0, SC_F32, SC_BF16, false, true },
    /* a group of more than 16, another type of cache */
    { "qwen3", 72, 20, 1, 24, 40, 130, 0, 140, 1, 0, SC_BF16, SC_F16, false, false },
    /* nothing is a multiple of a load; too many rows for the linears of decode */
    { "llama", 62, 3, 3, 10, 27, 51, 0, 64, 9, 0, SC_F16, SC_BF16, true, false },
    /* heads too wide for the registers of a prefill */
    { "llama", 64, 4, 2, 256, 32, 40, 0, 130, 1, 0, SC_BF16, SC_BF16, false, false },
    /* x in pieces; heads of a float cache too wide for large tiles */
    { "llama", 1092, 6, 2, 144, 44, 40, 0, 70, 8, 0, SC_F32, SC_F32, true, false },
    { "llama", 2056, 4, 4, 32, 40, 40, 0, 70, 8, 0, SC_BF16, SC_BF16, false, false },
};

/* What tests ask for: in every model's device code, and in those with decode linears. */
static const char *const constants[] = {
    "DEVICE_BLOCK",
    "DEVICE_ROWS",
    "DECODE_ROWS",
    "STEP_AT",
    "X_AT",
    "X_STRIDE",
    "NORMED_AT",
    "NORMED_DEPTH",
    "HIDDEN_DEPTH",
    "QKV_STRIDE",
    "ATTENDED_DEPTH",
    "SUMS_STRIDE",
    "FFN_DEPTH",
    "PARTIAL",
    "ARRIVED",
    "ANGLES",
    "ROPE0_PAIRS",
    "ROPE0_COS",
    "ROPE0_SIN",
    "DECODE_THREADS",
    "ROW_THREADS",
    "PICK_THREADS",
    "UNPACK_THREADS",
    "UNPACK_COLUMNS",
    "ATTEND_THREADS",
    "ATTENTION_THREADS",
    "END_COLUMNS",
    "qkv_proj0_DEPTH",
    "o_proj0_DEPTH",
    "gate_up_proj0_DEPTH",
    "down_proj0_DEPTH",
    "lm_head_DEPTH",
    "qkv_proj0_GRID",
    "o_proj0_GRID",
    "gate_up_proj0_GRID",
    "down_proj0_GRID",
    "lm_head_GRID",
    "ATTEND0_SPLITS",
    "ATTEND0_HEADS",
    "KEEP0_GRID",
    "ATTENTION0_GROUP",
    "ATTENTION0_QUERIES",
    "SHAPE0_SLOTS",
    "SHAPE0_LENGTH",
    "SHAPE0_EVICTED",
    "PANEL",
    "RUN",
};
enum { CONSTANTS = sizeof constants / sizeof *constants };

static device_code made[DEVICE_MODELS];

static void write_config(const char *folder, const device_model *m) {
    char text[2048], window[64] = "null", path[256];
    if (m->window)
        snprintf(window, sizeof window, "%d", m->window);
    snprintf(text, sizeof text,
             "{\"model_type\": \"%s\", \"hidden_size\": %d, \"num_attention_heads\": %d, "
             "\"num_key_value_heads\": %d, \"head_dim\": %d, \"intermediate_size\": %d, "
             "\"vocab_size\": %d, \"num_hidden_layers\": 1, \"max_position_embeddings\": 4096, "
             "\"hidden_act\": \"silu\", \"rms_norm_eps\": 1e-5, \"sliding_window\": %s, "
             "\"attention_bias\": %s, \"mlp_bias\": %s, \"tie_word_embeddings\": false, "
             "\"rope_theta\": 10000.0}\n",
             m->family, m->hidden, m->heads, m->kv_heads, m->head_dim, m->ffn, m->vocab, window,
             m->bias ? "true" : "false", m->bias ? "true" : "false");
    snprintf(path, sizeof path, "%s/config.json", folder);
    cast_write(path, text, strlen(text));
}

/* The device code, and behind it its constants for us. */
static void write_code(const char *path, const sc_values *values) {
    char *text = NULL;
    size_t bytes;
    sc_error err = { 0 };
    ck_assert_msg(!sc_template_render(&text, &bytes, NULL, "cuda/device.cu", values, &err), "%s",
                  err.message);
    char *all = malloc(bytes + 4096), *end = all;
    ck_assert_ptr_nonnull(all);
    end += sprintf(end, "%s\nextern \"C\" __global__ const long long test_constants[] = {", text);
    for (int i = 0; i < CONSTANTS; i++)
        end += sprintf(end, "%s,", constants[i]);
    end += sprintf(end, "};\n");
    cast_write(path, all, (size_t)(end - all));
    free(all);
    free(text);
}

const device_code *device_code_make(int model) {
    device_code *code = &made[model];
    const device_model *m = &device_models[model];
    if (code->library)
        return code;
    char folder[128], cu[160], library[160];
    snprintf(folder, sizeof folder, "build/test-castings/kernels-%d", model);
    snprintf(cu, sizeof cu, "%s/device.cu", folder);
    snprintf(library, sizeof library, "%s/device.so", folder);
    const bool build = once_begin(folder);
    if (build) {
        ck_assert_int_eq(run(NULL, NULL, "mkdir -p %s", folder), 0);
        write_config(folder, m);
    }

    sc_pool *pool = sc_pool_create(); /* the plan lives there, as long as the process */
    sc_source *source = NULL;
    sc_values *values = NULL;
    sc_error err = { 0 };
    const sc_export_options options = { .name = "tiny",
                                        .max_cache_len = m->max_cache_len,
                                        .batch_size = m->batch,
                                        .rewind = m->rewind,
                                        .dtype = sc_dtype_name(m->dtype),
                                        .kv_dtype = sc_dtype_name(m->kv),
                                        .offloading = m->offloading,
                                        .offload_sliding = m->offloading,
                                        .target = "cuda",
                                        .arch = "x86-64-v4-bf16,sm_80" };
    ck_assert_msg(!sc_source_open(&source, pool, folder, false, false, &err), "%s", err.message);
    ck_assert_msg(!sc_export_plan(&code->plan, pool, source, &options, &err), "%s", err.message);
    ck_assert_msg(!sc_emit_values(&values, pool, code->plan, source->config, &err), "%s",
                  err.message);
    if (build) {
        write_code(cu, values);
        kernels_build(library, cu, "");
        once_end();
    }
    code->library = kernels_open(library);
    code->model = m;
    return code;
}

int64_t device_code_constant(const device_code *code, const char *name) {
    const long long *values = dlsym(code->library, "test_constants");
    ck_assert_ptr_nonnull(values);
    for (int i = 0; i < CONSTANTS; i++)
        if (!strcmp(constants[i], name))
            return values[i];
    ck_abort_msg("%s: not in support/device_code.c", name);
    return 0;
}

void device_code_launch(const device_code *code, const char *kernel, int64_t grid_x, int64_t grid_y,
                        int64_t threads, const word *words, int count, word seed) {
    char report[512];
    sc_host_launch_fn *call;
    const unsigned grid[3] = { (unsigned)grid_x, (unsigned)grid_y, 1 };
    const unsigned block[3] = { (unsigned)threads, 1, 1 };
    *(void **)&call = dlsym(code->library, "sc_host_launch");
    void *function = dlsym(code->library, kernel);
    ck_assert_msg(call && function, "%s: there is no such kernel", kernel);
    ck_assert_msg(!call(function, grid, block, 0, words, count, seed, report, sizeof report),
                  "%s: %s", kernel, report);
}

void *device_alloc(size_t bytes) {
    enum { ALIGN = 256 };
    void *p = NULL;
    ck_assert_int_eq(posix_memalign(&p, ALIGN, bytes ? bytes : 1), 0);
    memset(p, 0xff, bytes);
    return p;
}

void *device_step(const device_code *code, const device_pass *pass) {
    const int batch = code->model->batch;
    const size_t words = 2 + 3 * (size_t)batch;
    const size_t ids = (size_t)(pass->batch * pass->tokens);
    long long *step = device_alloc(words * 8 + (size_t)device_code_constant(code, "DEVICE_ROWS") *
                                                   sizeof(int32_t));
    step[0] = pass->batch;
    step[1] = pass->tokens;
    for (int b = 0; b < pass->batch; b++) {
        step[2 + b] = pass->row[b];
        step[2 + batch + b] = pass->seen[b];
        step[2 + 2 * batch + b] = pass->padding[b];
    }
    if (pass->ids)
        memcpy(step + words, pass->ids, ids * sizeof(int32_t));
    else
        memset(step + words, 0, ids * sizeof(int32_t));
    return step;
}

size_t device_bytes(sc_dtype dtype) { return dtype == SC_F32 ? 4 : 2; }

double device_get(const void *buffer, sc_dtype dtype, int64_t i) {
    if (dtype == SC_F32)
        return (double)((const float *)buffer)[i];
    const uint16_t half = ((const uint16_t *)buffer)[i];
    return (double)(dtype == SC_BF16 ? sc_from_bf16(half) : sc_from_f16(half));
}

void device_put(void *buffer, sc_dtype dtype, int64_t i, double x) {
    if (dtype == SC_F32)
        ((float *)buffer)[i] = (float)x;
    else
        ((uint16_t *)buffer)[i] = dtype == SC_BF16 ? sc_to_bf16((float)x) : sc_to_f16((float)x);
}

double device_round(sc_dtype dtype, double x) {
    uint32_t one;
    device_put(&one, dtype, 0, x);
    return device_get(&one, dtype, 0);
}

void *device_draw(sc_dtype dtype, int64_t count, double scale, uint64_t *state) {
    void *p = device_alloc((size_t)count * device_bytes(dtype));
    for (int64_t i = 0; i < count; i++)
        device_put(p, dtype, i, (draw(state, 20001) / 10000.0 - 1) * scale);
    return p;
}

void device_compare(const char *what, int64_t i, double ours, double wanted, double bound) {
    ck_assert_msg(fabs(ours - wanted) <= bound, "%s[%lld]: %.9g, it should be %.9g (bound %.3g)",
                  what, (long long)i, ours, wanted, bound);
}
