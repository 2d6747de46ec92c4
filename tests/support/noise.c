/* noise.c - see noise.h. */
#include "noise.h"

#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cast.h"
#include "graph.h"
#include "run.h"

enum { MOST = 1024 };

/* The file on its way: its header, its data and the names in it. */
typedef struct {
    FILE *header, *data;
    const char *name[MOST];
    int names;
    long long bytes;
    uint32_t state;
} noise_file;

static float draw_noise(noise_file *f) {
    f->state = f->state * 1664525 + 1013904223;
    return (float)(f->state >> 8) / 8388608.0f - 1;
}

static void add_tensor(noise_file *f, const char *name, int rank, const int64_t *shape) {
    long long count = 1;
    for (int i = 0; i < f->names; i++)
        if (!strcmp(f->name[i], name))
            return;
    ck_assert_int_lt(f->names, MOST);
    fprintf(f->header, "%s\"%s\":{\"dtype\":\"F32\",\"shape\":[", f->names ? "," : "", name);
    f->name[f->names++] = name;
    for (int i = 0; i < rank; i++) {
        fprintf(f->header, "%s%lld", i ? "," : "", (long long)shape[i]);
        count *= shape[i];
    }
    fprintf(f->header, "],\"data_offsets\":[%lld,%lld]}", f->bytes, f->bytes + 4 * count);
    f->bytes += 4 * count;
    const float scale = rank > 1 ? 1.7f / sqrtf((float)shape[rank - 1]) : 0.2f;
    for (long long i = 0; i < count; i++) {
        const float x = (rank > 1 ? 0.0f : 1.0f) + scale * draw_noise(f);
        fwrite(&x, sizeof x, 1, f->data);
    }
}

static void add_weight(noise_file *f, const sc_weight *w) {
    for (int i = 0; w && i < w->blocks * w->parts; i++)
        if (w->part[i].tensor)
            add_tensor(f, w->part[i].tensor, w->part[i].rank, w->part[i].shape);
}

static void add_list(noise_file *f, const sc_op_list *list) {
    for (int i = 0; i < list->ops; i++)
        for (int k = 0; sc_op_weight(&list->op[i], k); k++)
            add_weight(f, sc_op_weight(&list->op[i], k));
}

static void add_graph(noise_file *f, const sc_graph *g) {
    const int64_t embed[] = { g->vocab, g->hidden };
    add_tensor(f, g->embed_name, 2, embed);
    add_list(f, &g->first);
    for (int i = 0; i < g->layers; i++)
        add_list(f, &g->layer[i]);
    add_list(f, &g->last);
    add_weight(f, g->lm_head);
    add_weight(f, g->lm_head_bias);
}

void noise_model(const char *folder, const char *config) {
    char path[256], *text[2];
    size_t bytes[2];
    sc_pool *pool = sc_pool_create();
    noise_file f = { .header = open_memstream(&text[0], &bytes[0]),
                     .data = open_memstream(&text[1], &bytes[1]),
                     .state = 1 };
    ck_assert(pool && f.header && f.data);
    ck_assert_int_eq(run(NULL, NULL, "mkdir -p %s", folder), 0);
    snprintf(path, sizeof path, "%s/config.json", folder);
    cast_write(path, config, strlen(config));
    fputc('{', f.header);
    add_graph(&f, graph_of(pool, config, NULL));
    fputc('}', f.header);
    fclose(f.header);
    fclose(f.data);
    snprintf(path, sizeof path, "%s/model.safetensors", folder);
    FILE *out = fopen(path, "wb");
    ck_assert_ptr_nonnull(out);
    const uint64_t length = bytes[0];
    fwrite(&length, sizeof length, 1, out);
    fwrite(text[0], 1, bytes[0], out);
    fwrite(text[1], 1, bytes[1], out);
    ck_assert_int_eq(fclose(out), 0);
    free(text[0]);
    free(text[1]);
    sc_pool_destroy(pool);
}
