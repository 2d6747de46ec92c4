/* gpu_model.c - see gpu_model.h. */
#include "gpu_model.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/statvfs.h>

#include "../../codegen/json.h"
#include "../../runtime/weights.h"

/* 8b: Llama-3.1-8B's. small: for a test. */
static const gpu_model models[] = {
    { "8b", 32, 4096, 32, 8, 128, 14336, 128256, 4096, 1024, 3072, 64, 16, (size_t)256 << 20 },
    { "small", 3, 64, 4, 2, 16, 96, 256, 64, 16, 32, 4, 2, (size_t)1 << 20 },
};

enum { ELEMENT = 2 }; /* bytes of bfloat16 */

const gpu_model *gpu_model_find(const char *name) {
    for (size_t i = 0; i < sizeof models / sizeof *models; i++)
        if (!strcmp(models[i].name, name))
            return &models[i];
    return NULL;
}

double gpu_model_embedding_bytes(const gpu_model *m) {
    return (double)m->vocab * (double)m->hidden * ELEMENT;
}

double gpu_model_bytes(const gpu_model *m) {
    const double attention = (double)m->head_dim * (double)(2 * m->heads + 2 * m->kv_heads);
    const double layer = (double)m->hidden * (attention + 3 * (double)m->ffn) * ELEMENT;
    return 2 * gpu_model_embedding_bytes(m) + (double)m->layers * layer;
}

double gpu_model_kv_bytes(const gpu_model *m, int tokens) {
    return 2.0 * (double)(m->layers * m->kv_heads * m->head_dim) * tokens * ELEMENT;
}

double gpu_model_fetched_bytes(const gpu_model *m, int tokens) {
    enum { STEP = 256 }; /* docs/cuda.md, Offload */
    const int slots = (tokens + STEP - 1) / STEP * STEP;
    return gpu_model_kv_bytes(m, slots < m->max_cache_len ? slots : m->max_cache_len);
}

/* Of /proc/meminfo; 0: it does not say. */
static double available_memory(void) {
    FILE *f = fopen("/proc/meminfo", "r");
    char line[128];
    double kib = 0;
    while (f && fgets(line, sizeof line, f))
        if (sscanf(line, "MemAvailable: %lf", &kib) == 1)
            break;
    if (f)
        fclose(f);
    return 1024 * kib;
}

gpu_model gpu_model_fit(const gpu_model *m, const char *folder, double device_free) {
    const double spare = 0.9; /* the rest is for scratch, and for others */
    struct statvfs disk;
    const double space = statvfs(folder, &disk) ? 0 : (double)disk.f_bavail * (double)disk.f_frsize;
    const double memory = available_memory();
    gpu_model fit = *m;
    for (; fit.layers > 0; fit.layers--) {
        const double bytes = gpu_model_bytes(&fit);
        if (bytes <= spare * space && 2 * bytes <= spare * memory &&
            bytes + gpu_model_kv_bytes(&fit, fit.max_cache_len) <= spare * device_free)
            break;
    }
    return fit;
}

int gpu_model_write_config(const gpu_model *m, const char *path, sc_error *err) {
    FILE *f = fopen(path, "w");
    if (!f)
        return sc_fail(err, SC_EENV, "%s: %s", path, strerror(errno));
    fprintf(f,
            "{\"model_type\": \"llama\", \"hidden_size\": %lld, \"intermediate_size\": %lld,\n"
            " \"num_hidden_layers\": %lld, \"num_attention_heads\": %lld,\n"
            " \"num_key_value_heads\": %lld, \"head_dim\": %lld, \"vocab_size\": %lld,\n"
            " \"max_position_embeddings\": %d, \"rms_norm_eps\": 1e-5, \"rope_theta\": 500000.0,\n"
            " \"hidden_act\": \"silu\", \"tie_word_embeddings\": false}\n",
            (long long)m->hidden, (long long)m->ffn, (long long)m->layers, (long long)m->heads,
            (long long)m->kv_heads, (long long)m->head_dim, (long long)m->vocab, m->max_cache_len);
    return fclose(f) ? sc_fail(err, SC_EENV, "%s: %s", path, strerror(errno)) : SC_OK;
}

static int read_layout(uint8_t layout[SC_WEIGHTS_LAYOUT_BYTES], const cJSON *manifest,
                       sc_error *err) {
    const cJSON *text = sc_json_get(manifest, "layout");
    if (!cJSON_IsString(text) || strlen(text->valuestring) != 2 * SC_WEIGHTS_LAYOUT_BYTES)
        return sc_fail(err, SC_EINPUT, "manifest.json: layout: no digest");
    for (int i = 0; i < SC_WEIGHTS_LAYOUT_BYTES; i++) {
        const char pair[3] = { text->valuestring[2 * i], text->valuestring[2 * i + 1], 0 };
        layout[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    return SC_OK;
}

/* Either sign, 2^-7 … 2^-5: two of them make a float of that size too. */
static void fill_noise(uint16_t *words, size_t count) {
    uint64_t state = 0x9e3779b97f4a7c15u;
    for (size_t i = 0; i < count; i++) {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        words[i] = (uint16_t)((state >> 32 & 0x80ff) | 0x3c00);
    }
}

int gpu_model_write_weights(const char *path, const cJSON *manifest, sc_error *err) {
    enum { WORDS = 16 << 20 }; /* 32 MiB */
    sc_weights_header header = { .bytes = 0 };
    int64_t bytes = 0;
    int rc = read_layout(header.layout, manifest, err);
    if (!rc && (!sc_json_int(sc_json_get(sc_json_get(manifest, "plan"), "weights_bytes"), &bytes) ||
                bytes < SC_WEIGHTS_HEADER_BYTES))
        rc = sc_fail(err, SC_EINPUT, "manifest.json: plan.weights_bytes: no size");
    if (rc)
        return rc;
    memcpy(header.magic, SC_WEIGHTS_MAGIC, SC_WEIGHTS_MAGIC_BYTES);
    header.bytes = (uint64_t)bytes; /* the checksum is wrong, and read by --check alone */
    uint16_t *noise = malloc(WORDS * sizeof *noise);
    FILE *f = noise ? fopen(path, "wb") : NULL;
    bool ok = f && fwrite(&header, sizeof header, 1, f) == 1;
    if (noise)
        fill_noise(noise, WORDS);
    for (size_t left = (size_t)bytes - sizeof header; ok && left;) {
        const size_t n = left < WORDS * sizeof *noise ? left : WORDS * sizeof *noise;
        ok = fwrite(noise, 1, n, f) == n;
        left -= n;
    }
    ok = (!f || !fclose(f)) && ok;
    if (!ok)
        rc = sc_fail(err, SC_EENV, "%s: %lld bytes cannot be written: %s", path, (long long)bytes,
                     strerror(errno));
    free(noise);
    return rc;
}
