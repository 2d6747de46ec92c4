/* mxfp4.c - see mxfp4.h. */
#include "mxfp4.h"

#include <math.h>
#include <string.h>

#include "json.h"

bool sc_mxfp4_decode(float out[SC_MXFP4_ELEMENTS], const unsigned char block[SC_MXFP4_BYTES],
                     unsigned char scale) {
    static const float value[16] = { 0.0f,  0.5f,  1.0f,  1.5f,  2.0f,  3.0f,  4.0f,  6.0f,
                                     -0.0f, -0.5f, -1.0f, -1.5f, -2.0f, -3.0f, -4.0f, -6.0f };
    for (int i = 0; i < SC_MXFP4_BYTES; i++) {
        out[2 * i] = ldexpf(value[block[i] & 15], scale - 127);
        out[2 * i + 1] = ldexpf(value[block[i] >> 4], scale - 127);
    }
    return scale < 255;
}

/* "NAME" of "NAME_blocks"; NULL: another name. */
static const char *paired_name(sc_pool *pool, const char *name) {
    static const char end[] = "_blocks";
    const size_t n = strlen(name), tail = sizeof end - 1;
    return n > tail && !strcmp(name + n - tail, end)
               ? sc_pool_printf(pool, "%.*s", (int)(n - tail), name)
               : NULL;
}

/* The blocks' tensor becomes the pair. */
static int pair(sc_tensor *t, const char *name, const sc_tensor *scales, sc_pool *pool,
                sc_error *err) {
    bool fits = scales && t->rank >= 2 && scales->rank == t->rank - 1 && !strcmp(t->type, "U8") &&
                !strcmp(scales->type, "U8") && t->shape[t->rank - 1] == SC_MXFP4_BYTES;
    for (int i = 0; fits && i < scales->rank; i++)
        fits = scales->shape[i] == t->shape[i];
    if (!fits)
        return sc_fail(err, SC_EINPUT,
                       "%s: %.200s: mxfp4 wants it U8 [.., blocks, 16] and beside it "
                       "%.200s_scales, U8 [.., blocks] (fetch the files again)",
                       t->file, sc_json_printable(t->name), sc_json_printable(name));
    sc_tensor *own = sc_pool_alloc(pool, 1, sizeof *own);
    if (!own)
        return sc_oom(err, "opening the weights");
    *own = *scales;
    t->name = name;
    t->type = "MXFP4";
    t->dtype = SC_MXFP4;
    t->rank--;
    t->shape[t->rank - 1] *= SC_MXFP4_ELEMENTS; /* of a file's bytes: no more than twice them */
    t->scales = own;
    return SC_OK;
}

int sc_mxfp4_pair(sc_tensors *tensors, sc_pool *pool, sc_error *err) {
    const char **pairs = sc_pool_alloc(pool, (size_t)tensors->count + 1, sizeof *pairs);
    if (!pairs)
        return sc_oom(err, "opening the weights");
    for (int i = 0; i < tensors->count; i++) /* names stay sorted until all are found */
        pairs[i] = paired_name(pool, tensors->tensor[i].name);
    sc_tensor *old = sc_pool_alloc(pool, (size_t)tensors->count + 1, sizeof *old);
    if (!old)
        return sc_oom(err, "opening the weights");
    memcpy(old, tensors->tensor, (size_t)tensors->count * sizeof *old);
    const sc_tensors all = { .count = tensors->count, .tensor = old };
    bool *used = sc_pool_alloc(pool, (size_t)tensors->count + 1, sizeof *used);
    if (!used)
        return sc_oom(err, "opening the weights");
    for (int i = 0; i < all.count; i++) {
        if (!pairs[i])
            continue;
        const char *name = sc_pool_printf(pool, "%s_scales", pairs[i]);
        const sc_tensor *scales = name ? sc_tensors_find(&all, name) : NULL;
        const int rc = pair(&tensors->tensor[i], pairs[i], scales, pool, err);
        if (rc)
            return rc;
        used[scales - old] = true;
    }
    int kept = 0;
    for (int i = 0; i < all.count; i++)
        if (!used[i])
            tensors->tensor[kept++] = tensors->tensor[i];
    tensors->count = kept;
    return sc_tensors_sort(tensors, err);
}
