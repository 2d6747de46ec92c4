/* emit.c - see emit.h. */
#include "emit.h"

#include <stdlib.h>
#include <string.h>

#include "emit_scope.h"
#include "sha256.h"

int sc_emit_layout(char hex[65], sc_pool *pool, const sc_plan *plan, sc_error *err) {
    (void)pool;
    sc_sha256 *sum;
    int rc = sc_sha256_begin(&sum, err);
    char line[512];
    for (int i = 0; i < plan->shapes && !rc; i++) {
        const sc_cache_shape *s = &plan->shape[i];
        snprintf(line, sizeof line, "shape %d %lld %lld %lld %lld %lld %lld %lld\n", (int)s->type,
                 (long long)s->kv_heads, (long long)s->slots, (long long)s->length,
                 (long long)s->head_dim, (long long)s->v_head_dim, (long long)s->index_head_dim,
                 (long long)s->window);
        rc = sc_sha256_update(sum, line, strlen(line), err);
    }
    for (int i = 0; i < plan->layers && !rc; i++) {
        snprintf(line, sizeof line, "layer %d shape %d source %d\n", i, plan->layer[i].shape,
                 plan->config->layer[i].kv_source);
        rc = sc_sha256_update(sum, line, strlen(line), err);
        for (int k = 0; k < plan->config->layer[i].states && !rc; k++) {
            const sc_state_config *s = &plan->config->layer[i].state[k];
            snprintf(line, sizeof line, "state %d %s %d %lld %lld %lld %d\n", i, s->name, s->index,
                     (long long)s->dim[0], (long long)s->dim[1], (long long)s->dim[2], s->float32);
            rc = sc_sha256_update(sum, line, strlen(line), err);
        }
    }
    for (int i = 0; i < plan->packed && !rc; i++) {
        const sc_packed *p = &plan->pack[i];
        const sc_weight *w = p->weight;
        snprintf(line, sizeof line, "tensor %d %d %.64s %lld %lld %llu %llu\n", (int)w->kind,
                 p->layer, w->field, (long long)w->in, (long long)p->panels,
                 (unsigned long long)p->offset, (unsigned long long)p->bytes);
        rc = sc_sha256_update(sum, line, strlen(line), err);
        for (int k = 0; k < w->blocks * w->parts && !rc; k++) {
            const sc_part *part = &w->part[k];
            snprintf(line, sizeof line, "part %.300s %lld %lld %lld %lld %d %g\n",
                     part->tensor ? part->tensor : "-", (long long)part->rows,
                     (long long)part->first, (long long)part->run, (long long)part->stride,
                     part->transposed, (double)part->plus);
            rc = sc_sha256_update(sum, line, strlen(line), err);
        }
    }
    if (!rc) {
        snprintf(line, sizeof line,
                 "batch %lld dtype %s kv %s panel %lld name %.200s layers %d max_cache_len %lld\n",
                 (long long)plan->options.batch_size, sc_dtype_name(plan->options.dtype),
                 sc_dtype_name(plan->options.kv_dtype), (long long)plan->panel, plan->options.name,
                 plan->layers, (long long)plan->options.max_cache_len);
        rc = sc_sha256_update(sum, line, strlen(line), err);
    }
    if (rc) {
        sc_sha256_drop(sum);
        return rc;
    }
    return sc_sha256_finish(sum, hex, err);
}

static const char *ctype(sc_dtype dtype) { return dtype == SC_F32 ? "float" : "unsigned short"; }

/* What only castings with a forward pass have. */
static void model_values(sc_scope *s, const sc_plan *plan, const sc_config *config) {
    const sc_graph *g = plan->graph;
    const sc_plan_options *o = &plan->options;
    const bool f32 = o->dtype == SC_F32, f16 = o->dtype == SC_F16;
    sc_scope_number(s, "vocab", g->vocab);
    sc_scope_number(s, "hidden", g->hidden);
    sc_scope_text(s, "weight_ctype", ctype(o->dtype));
    sc_scope_text(s, "weight_load",
                  f32   ? "vec_load(w)"
                  : f16 ? "vec_load_f16(w)"
                        : "vec_load_bf16(w)");
    sc_scope_text(s, "weight_from_float", f32 ? "x" : f16 ? "sc_to_f16(x)" : "sc_to_bf16(x)");
    sc_scope_text(s, "weight_to_float", f32 ? "w" : f16 ? "sc_from_f16(w)" : "sc_from_bf16(w)");
    const sc_dtype value = sc_kv_value_dtype(o->kv_dtype);
    sc_scope_text(s, "kv_dump", value == SC_F32 ? "F32" : value == SC_F16 ? "F16" : "BF16");
    sc_scope_text(s, "value_ctype", ctype(value));
    sc_scope_text(s, "arch", o->arch->name);
    sc_scope_text(s, "arch_cflags", o->arch->cflags);
    sc_scope_text(s, "vector", o->arch->vector);
    sc_scope_number(s, "weights_bytes", (int64_t)plan->weights_bytes);
    sc_scope_number(s, "block", plan->block);
    sc_scope_number(s, "attention_dim", plan->attention_dim);
    sc_scope_number(s, "attention_queries", plan->attention_queries);
    sc_scope_number(s, "step_kv", plan->step_kv);
    sc_scope_number(s, "k_chunk", 192);
    sc_scope_flag(s, "pairs", plan->pairs);
    sc_scope_flag(s, "has_attention", plan->attention_dim > 0);
    sc_scope_flag(s, "has_experts", plan->top_k > 0);
    sc_scope_flag(s, "has_index", plan->index_stride > 0);
    sc_scope_number(s, "index_stride", plan->index_stride);
    sc_scope_number(s, "most_experts", plan->experts);
    sc_scope_number(s, "most_chosen", plan->top_k);
    sc_scope_number(s, "expert_stride", plan->expert_stride);
    sc_scope_number(s, "expert_x_stride", plan->expert_x_stride);
    sc_scope_text(s, "operand_store", plan->pairs ? "vec_store_bf16" : "vec_store");
    sc_scope_text(s, "operand_ctype", plan->pairs ? "unsigned short" : "float");
    sc_scope_number(s, "hidden_depth", plan->pairs ? (g->hidden + 1) / 2 * 2 : g->hidden);
    sc_scope_number(s, "head_panels", (g->vocab + plan->panel - 1) / plan->panel);
    sc_scope_flag(s, "tied", g->tied);
    sc_scope_flag(s, "embed_scaled", g->embed_scale < 1 || g->embed_scale > 1);
    sc_scope_real(s, "embed_scale", g->embed_scale);
    sc_scope_flag(s, "head_bias", g->lm_head_bias != NULL);
    sc_scope_flag(s, "logits_scaled", g->logits_scale < 1 || g->logits_scale > 1);
    sc_scope_real(s, "logits_scale", g->logits_scale);
    sc_scope_flag(s, "logits_capped", g->logits_softcap > 0);
    sc_scope_real(s, "logits_softcap", g->logits_softcap);
    const sc_value *head_in = &g->value[g->head_in.value];
    sc_scope_text(s, "head_in",
                  plan->pairs && head_in->floats
                      ? sc_pool_printf(s->pool, "%s_operands", head_in->name)
                      : head_in->name);
    sc_scope_number(s, "head_in_stride", plan->stride[g->head_in.value]);
    sc_scope_number(s, "eos_count", config->eos_count);
    const char *eos = "";
    for (int i = 0; i < config->eos_count; i++)
        eos = sc_pool_printf(s->pool, "%s%s%lld", eos ? eos : "", i ? ", " : "",
                             (long long)config->eos_token_id[i]);
    sc_scope_text(s, "eos_ids", config->eos_count ? eos : "-1");
    bool bounded = false; /* does any layer limit how much can be fed? */
    for (int i = 0; i < plan->shapes; i++)
        bounded |= plan->shape[i].capacity >= 0;
    sc_scope_flag(s, "bounded", bounded);
}

/* 32 bytes as C, sixteen a line. */
static const char *layout_bytes(sc_pool *pool, const char *hex) {
    const char *all = "";
    for (int i = 0; i < 32 && all; i++)
        all = sc_pool_printf(pool, "%s%s0x%.2s", all,
                             !i       ? ""
                             : i % 16 ? ", "
                                      : ",\n    ",
                             hex + 2 * i);
    return all;
}

int sc_emit_values(sc_values **values, sc_pool *pool, const sc_plan *plan, const sc_config *config,
                   sc_error *err) {
    const sc_plan_options *o = &plan->options;
    char hex[65];
    int rc = sc_emit_layout(hex, pool, plan, err);
    if (rc)
        return rc;
    sc_scope s = { pool, sc_values_make(pool), SC_OK };
    if (!s.values)
        return sc_oom(err, "filling templates");
    sc_scope_text(&s, "name", o->name);
    sc_scope_text(&s, "name_pad", sc_blanks(pool, o->name));
    sc_scope_text(&s, "family", sc_identifier(pool, plan->config->model_type));
    sc_scope_number(&s, "layers", plan->layers);
    sc_scope_number(&s, "batch", o->batch_size);
    sc_scope_number(&s, "max_cache_len", o->max_cache_len);
    sc_scope_text(&s, "dtype", sc_dtype_name(o->dtype));
    sc_scope_text(&s, "kv_dtype", sc_dtype_name(o->kv_dtype));
    sc_scope_text(&s, "value_dtype", sc_dtype_name(sc_kv_value_dtype(o->kv_dtype)));
    sc_scope_flag(&s, "encoded", sc_kv_value_dtype(o->kv_dtype) != o->kv_dtype);
    sc_scope_text(&s, "layout_bytes", layout_bytes(pool, hex));
    sc_scope_flag(&s, "model", plan->graph != NULL);
    sc_scope_flag(&s, "cuda", o->cuda);
    if (o->cuda) {
        sc_scope_flag(&s, "emit_only", o->emit_only);
        sc_scope_number(&s, "first_sm", o->sm[0]);
        sc_scope_number(&s, "cubin_count", o->sms + 1);
        for (int i = 0; i < o->sms; i++) {
            sc_scope item = sc_scope_item(&s, "sms");
            sc_scope_number(&item, "sm", o->sm[i]);
        }
    }
    sc_emit_cache(&s, plan);
    if (plan->graph) {
        model_values(&s, plan, config);
        rc = sc_emit_model(&s, plan, err);
        if (rc)
            return rc;
        if (o->cuda) {
            sc_emit_device(&s, plan);
            sc_emit_cuda(&s, plan);
        }
    }
    if (s.rc)
        return sc_fail(err, s.rc, "emit: no memory, or more than 64 kinds of linear");
    *values = s.values;
    return SC_OK;
}

static int emit_file(sc_folder *folder, const char *path, const char *template_file,
                     const sc_values *values, sc_error *err) {
    char *out = NULL;
    size_t bytes;
    int rc = sc_template_render(&out, &bytes, NULL, template_file, values, err);
    if (!rc)
        rc = sc_folder_write(folder, path, out, bytes, err);
    free(out);
    return rc;
}

/* The sources that are made from templates. */
static const struct {
    const char *from, *suffix;
    bool of_model; /* not in a casting of the cache alone */
    bool of_cuda;
} sources[] = {
    { "casting.h", ".h", false, false },           { "internal.h", "_internal.h", false, false },
    { "cache.c", "_cache.c", false, false },       { "table.c", "_table.c", false, false },
    { "weights.h", "_weights.h", true, false },    { "model.c", "_model.c", true, false },
    { "weights.c", "_weights.c", true, false },    { "main.c", "_main.c", true, false },
    { "cuda/host.h", "_cuda.h", false, true },     { "cuda/host.c", "_cuda.c", true, true },
    { "cuda/device.cu", "_cuda.cu", false, true },
};
enum { SOURCES = sizeof sources / sizeof *sources };

static bool has_source(const sc_plan *plan, int i) {
    return (plan->graph || !sources[i].of_model) && (plan->options.cuda || !sources[i].of_cuda);
}

const char *sc_emit_source(const sc_plan *plan, int i) {
    for (int k = 0; k < SOURCES; k++)
        if (has_source(plan, k) && !i--)
            return sources[k].suffix;
    return plan->options.cuda && !plan->options.emit_only && !i ? "_cubin.c" : NULL;
}

bool sc_emit_needs(const sc_plan *plan, const char *path) {
    static const char *const alone[] = { "casting.h", "checksum.c", "checksum.h",
                                         "error.c",   "error.h",    "half.h" };
    if (strncmp(path, "runtime/", 8))
        return false;
    if (!strncmp(path + 8, "cuda.", 5))
        return plan->options.cuda;
    if (!strncmp(path + 8, "cublaslt.", 9))
        return plan->options.cuda && plan->graph;
    if (!strncmp(path, "runtime/kv_", 11)) {
        const sc_dtype dtype = plan->options.kv_dtype;
        char own[32];
        snprintf(own, sizeof own, "%s.h", sc_dtype_name(dtype));
        return !strcmp(path + 11, own) ||
               !strcmp(path + 11, sc_kv_value_dtype(dtype) == dtype ? "plain.h" : "coded.h");
    }
    if (!plan->graph) {
        for (size_t i = 0; i < sizeof alone / sizeof *alone; i++)
            if (!strcmp(path + 8, alone[i]))
                return true;
        return !strcmp(path + 8, "options.h"); /* casting.h names it */
    }
    const char *own = plan->options.arch->vector;
    if (strncmp(path, "runtime/vector_", 15) || !strcmp(path, "runtime/vector_math.h"))
        return !strncmp(path, "runtime/", 8);
    /* The bfloat16 header stands on the one without. */
    return !strcmp(path + 8, own) ||
           (plan->options.arch->pairs && !strcmp(path + 8, "vector_avx512.h"));
}

int sc_emit_sources(sc_folder *folder, const sc_plan *plan, const sc_values *values,
                    sc_error *err) {
    char path[512];
    int rc = emit_file(folder, "Makefile", "Makefile", values, err);
    for (int i = 0; i < SOURCES && !rc; i++) {
        if (!has_source(plan, i))
            continue;
        snprintf(path, sizeof path, "%s%s", plan->options.name, sources[i].suffix);
        rc = emit_file(folder, path, sources[i].from, values, err);
    }
    for (int i = 0; i < sc_embedded_count && !rc; i++) {
        const struct sc_embedded *e = &sc_embedded[i];
        if (!sc_emit_needs(plan, e->path))
            continue;
        rc = sc_folder_write(folder, e->path, e->bytes, e->size, err);
    }
    return rc;
}
