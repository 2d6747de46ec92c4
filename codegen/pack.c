/* pack.c - see pack.h. */
#include "pack.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../runtime/checksum.h"
#include "../runtime/half.h"
#include "../runtime/weights.h"
#include "file.h"
#include "sha256.h"

/* Tensors that published checkpoints carry and nothing needs: tables that are computed anyway, and
 * a lm_head that repeats the embedding (source.c sees to one that does not). */
static bool is_known_extra(const char *name) {
    return strstr(name, "rotary_emb.inv_freq") || !strcmp(name, "rope_freqs.weight") ||
           !strcmp(name, "lm_head.weight");
}

static void shape_text(char text[160], const int64_t *shape, int rank) {
    size_t at = (size_t)snprintf(text, 160, "[");
    for (int i = 0; i < rank && at < 130; i++)
        at += (size_t)snprintf(text + at, 160 - at, "%s%lld", i ? ", " : "", (long long)shape[i]);
    snprintf(text + at, 160 - at, "]");
}

/* The part's tensor; GPT-2 and BLOOM are published without the name of the class before it. */
static const sc_tensor *tensor_of(const sc_tensors *tensors, const sc_part *part) {
    static const char prefix[] = "transformer.";
    const sc_tensor *t = sc_tensors_find(tensors, part->tensor);
    return t || strncmp(part->tensor, prefix, sizeof prefix - 1)
               ? t
               : sc_tensors_find(tensors, part->tensor + sizeof prefix - 1);
}

static int check_part(const sc_plan *plan, const sc_part *part, const sc_tensors *tensors,
                      sc_error *err) {
    if (!part->tensor)
        return SC_OK;
    const sc_tensor *t = tensor_of(tensors, part);
    if (!t)
        return sc_fail(err, SC_EINPUT,
                       "%s: %s: is missing (is the checkpoint complete, and of model_type %s?)",
                       tensors->path, part->tensor, plan->config->model_type);
    bool same = t->rank == part->rank;
    for (int i = 0; i < part->rank && same; i++)
        same = t->shape[i] == part->shape[i];
    if (!same) {
        char has[160], wants[160];
        shape_text(has, t->shape, t->rank);
        shape_text(wants, part->shape, part->rank);
        return sc_fail(err, SC_EINPUT,
                       "%s: %s: %s, the config wants %s (check hidden_size, heads and head_dim)",
                       t->file, t->name, has, wants);
    }
    if (t->dtype == SC_DTYPE_OTHER)
        return sc_fail(err, SC_EINPUT,
                       "%s: %s: type %s is none of F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0, Q5_1 "
                       "(convert the file)",
                       t->file, t->name, t->type);
    return SC_OK;
}

int sc_pack_check(const sc_plan *plan, const sc_tensors *tensors, const char **extra,
                  sc_error *err) {
    bool *used = calloc((size_t)tensors->count + 1, sizeof *used);
    if (!used)
        return sc_oom(err, "checking the weights");
    int rc = SC_OK;
    for (int i = 0; i < plan->packed && !rc; i++)
        for (int k = 0; k < plan->pack[i].weight->blocks * plan->pack[i].weight->parts && !rc;
             k++) {
            const sc_part *part = &plan->pack[i].weight->part[k];
            rc = check_part(plan, part, tensors, err);
            const sc_tensor *t = part->tensor ? tensor_of(tensors, part) : NULL;
            if (t)
                used[t - tensors->tensor] = true;
        }
    *extra = NULL;
    for (int i = tensors->count - 1; i >= 0 && !rc; i--)
        if (!used[i] && !is_known_extra(tensors->tensor[i].name))
            *extra = tensors->tensor[i].name;
    free(used);
    return rc;
}

typedef struct {
    int fd;
    const char *path;
    const sc_plan *plan;
    const sc_tensors *tensors;
    sc_checksum sum;
    uint64_t at; /* bytes written, the header included */
    void (*progress)(uint64_t, uint64_t);
    float *rows;           /* [panel, widest row] */
    float *whole;          /* a vector, or a matrix that lies the other way round */
    const sc_tensor *held; /* its tensor; NULL: none yet */
    int64_t held_first;    /* and first row there */
    unsigned char *out;    /* one packed panel */
    unsigned char *block;
} packer;

/* What is written at once. Large and aligned, so that the page cache holds the file in large
 * folios: decoding from a file written panel by panel is 5 to 12 % slower. */
enum { BLOCK = 4 << 20 };

static int flush(packer *p, sc_error *err) {
    const size_t filled = (size_t)((p->at - 1) % BLOCK + 1);
    return sc_file_put(p->fd, p->block, filled, p->path, err);
}

static int put_unsummed(packer *p, const unsigned char *bytes, size_t size, sc_error *err) {
    while (size) {
        const size_t at = (size_t)(p->at % BLOCK), n = size < BLOCK - at ? size : BLOCK - at;
        memcpy(p->block + at, bytes, n);
        p->at += n;
        bytes += n;
        size -= n;
        const int rc = p->at % BLOCK ? SC_OK : flush(p, err);
        if (rc)
            return rc;
    }
    return SC_OK;
}

static int put(packer *p, const void *bytes, size_t size, sc_error *err) {
    sc_checksum_add(&p->sum, bytes, size);
    return put_unsummed(p, bytes, size, err);
}

static int pad_to(packer *p, uint64_t offset, sc_error *err) {
    static const unsigned char zeros[64];
    return p->at < offset ? put(p, zeros, (size_t)(offset - p->at), err) : SC_OK;
}

static void store(const packer *p, size_t index, float x, bool floats) {
    if (floats || p->plan->options.dtype == SC_F32) {
        memcpy(p->out + index * 4, &x, 4);
        return;
    }
    const uint16_t half = p->plan->options.dtype == SC_F16 ? sc_to_f16(x) : sc_to_bf16(x);
    memcpy(p->out + index * 2, &half, 2);
}

static int check_range(const packer *k, const sc_tensor *t, int64_t row, const float *out,
                       int64_t width, sc_error *err) {
    for (int64_t i = 0; i < width && k->plan->options.dtype == SC_F16; i++)
        if (isfinite(out[i]) && (sc_to_f16(out[i]) & 0x7fff) == 0x7c00)
            return sc_fail(err, SC_EINPUT,
                           "%s: %s: %g at [%lld, %lld] is more than float16 holds (take --dtype "
                           "bfloat16)",
                           t->file, t->name, (double)out[i], (long long)row, (long long)i);
    return SC_OK;
}

/* The part's vector, or all inputs of its columns, into k->whole, unless they are there. */
static int hold(packer *k, const sc_tensor *t, const sc_part *part, int64_t in, sc_error *err) {
    if (k->held == t && k->held_first == part->in_first)
        return SC_OK;
    const int rc = sc_tensor_read(t, part->in_first, in, k->whole, err);
    k->held = rc ? NULL : t;
    k->held_first = part->in_first;
    return rc;
}

/* Row of a part, in elements of it: a matrix's row or column, or an element of a vector. */
static int read_row(packer *k, const sc_part *part, int64_t row, int64_t in, bool floats,
                    float *out, sc_error *err) {
    const sc_tensor *t = tensor_of(k->tensors, part);
    const int64_t at =
        part->first + (part->run ? row / part->run * part->stride + row % part->run : row);
    int rc = SC_OK;
    if (part->rank == 1 || part->transposed) {
        rc = hold(k, t, part, in, err);
        const int64_t apart = part->shape[part->rank - 1];
        for (int64_t i = 0; i < in && !rc; i++)
            out[i] = k->whole[i * apart + at];
    } else
        rc = sc_tensor_read(t, at, 1, out, err);
    for (int64_t i = 0; i < in && !rc && part->plus > 0; i++)
        out[i] += part->plus;
    return rc || floats ? rc : check_range(k, t, at, out, in, err);
}

/* Which part and row of it is lane `lane` of panel `panel`? false: padding. */
static bool find_lane(const packer *k, const sc_packed *p, int64_t panel, int64_t lane, int *part,
                      int64_t *row) {
    const sc_weight *w = p->weight;
    const int64_t width = k->plan->panel, lanes = width / 2, each = p->panels / w->blocks;
    const int first = (int)(panel / each) * w->parts;
    panel %= each;
    if (sc_weight_is_gated(w)) {
        *part = first + (lane >= lanes);
        *row = panel * lanes + lane % lanes;
        return *row < w->part[*part].rows;
    }
    *row = panel * width + lane;
    for (*part = first; *part < first + w->parts; *row -= w->part[(*part)++].rows)
        if (*row < w->part[*part].rows)
            return true;
    return false;
}

static int pack_panels(packer *k, const sc_packed *p, sc_error *err) {
    const sc_weight *w = p->weight;
    const int64_t width = k->plan->panel;
    const bool floats = sc_weight_is_floats(w);
    const size_t size = floats || k->plan->options.dtype == SC_F32 ? 4 : 2;
    for (int64_t panel = 0; panel < p->panels; panel++) {
        for (int64_t lane = 0; lane < width; lane++) {
            float *row = k->rows + lane * w->in;
            int part;
            int64_t part_row;
            int rc = SC_OK;
            if (find_lane(k, p, panel, lane, &part, &part_row) && w->part[part].tensor)
                rc = read_row(k, &w->part[part], part_row, w->in, floats, row, err);
            else
                memset(row, 0, (size_t)w->in * sizeof *row);
            if (rc)
                return rc;
        }
        const int64_t run = k->plan->pairs && !floats ? 2 : 1; /* inputs that lie side by side */
        for (int64_t i = 0; i < p->depth; i++)
            for (int64_t lane = 0; lane < width; lane++)
                store(k, (size_t)((i / run * width + lane) * run + i % run),
                      i < w->in ? k->rows[lane * w->in + i] : 0, floats);
        const int rc = put(k, k->out, (size_t)(p->depth * width) * size, err);
        if (rc)
            return rc;
        if (k->progress)
            k->progress(k->at, k->plan->weights_bytes);
    }
    return SC_OK;
}

static int pack_rows(packer *k, const sc_packed *p, sc_error *err) {
    const sc_weight *w = p->weight;
    const bool floats = sc_weight_is_floats(w);
    const size_t size = floats || k->plan->options.dtype == SC_F32 ? 4 : 2;
    for (int i = 0; i < w->parts; i++)
        for (int64_t row = 0; row < w->part[i].rows; row++) {
            int rc = read_row(k, &w->part[i], row, w->in, floats, k->rows, err);
            for (int64_t j = 0; j < w->in && !rc; j++)
                store(k, (size_t)j, k->rows[j], floats);
            if (!rc)
                rc = put(k, k->out, (size_t)w->in * size, err);
            if (rc)
                return rc;
        }
    return SC_OK;
}

static int pack_all(packer *k, sc_error *err) {
    int rc = SC_OK;
    for (int i = 0; i < k->plan->packed && !rc; i++) {
        const sc_packed *p = &k->plan->pack[i];
        rc = pad_to(k, p->offset, err);
        if (!rc)
            rc = p->panels ? pack_panels(k, p, err) : pack_rows(k, p, err);
    }
    if (!rc)
        rc = pad_to(k, k->plan->weights_bytes, err);
    return rc || k->at % BLOCK == 0 ? rc : flush(k, err);
}

/* The digest of the finished file, read back: its header came last. */
static int digest(int fd, const char *path, char hex[65], sc_error *err) {
    enum { PIECE = 1 << 16 };
    unsigned char *piece = malloc(PIECE);
    sc_sha256 *sum = NULL;
    int rc = piece ? sc_sha256_begin(&sum, err) : sc_oom(err, "summing the weights");
    off_t at = 0;
    while (!rc) {
        const ssize_t n = pread(fd, piece, PIECE, at);
        if (n < 0)
            rc = sc_fail(err, SC_EENV, "%s: cannot be read back: %s", path, strerror(errno));
        if (n <= 0)
            break;
        rc = sc_sha256_update(sum, piece, (size_t)n, err);
        at += n;
    }
    free(piece);
    if (!rc)
        return sc_sha256_finish(sum, hex, err);
    sc_sha256_drop(sum);
    return rc;
}

int sc_pack_write(int fd, const char *path, const sc_plan *plan, const sc_tensors *tensors,
                  const char layout_hex[65], char sha256_hex[65],
                  void (*progress)(uint64_t, uint64_t), sc_error *err) {
    int64_t widest = 1, whole = 1;
    for (int i = 0; i < plan->packed; i++) {
        const sc_weight *w = plan->pack[i].weight;
        widest = w->in > widest ? w->in : widest;
        for (int k = 0; k < w->blocks * w->parts; k++) {
            const sc_part *part = &w->part[k]; /* its shape is the checkpoint's: it fits */
            const bool holds = part->transposed || part->rank == 1;
            const int64_t held = holds ? w->in * part->shape[part->rank - 1] : 0;
            whole = held > whole ? held : whole;
        }
    }
    packer k = { .fd = fd, .path = path, .plan = plan, .tensors = tensors, .progress = progress };
    const size_t room = (size_t)(plan->panel * (widest + 1));
    k.rows = calloc(room, sizeof(float));
    k.out = calloc(room, sizeof(float));
    k.whole = calloc((size_t)whole, sizeof(float));
    sc_weights_header header;
    memset(&header, 0, sizeof header);
    k.block = malloc(BLOCK);
    int rc = k.rows && k.out && k.whole && k.block
                 ? put_unsummed(&k, (const unsigned char *)&header, sizeof header, err)
                 : sc_oom(err, "packing");
    sc_checksum_begin(&k.sum);
    if (!rc)
        rc = pack_all(&k, err);
    free(k.rows);
    free(k.out);
    free(k.whole);
    free(k.block);
    if (rc)
        return rc;
    memcpy(header.magic, SC_WEIGHTS_MAGIC, sizeof header.magic);
    header.bytes = plan->weights_bytes;
    header.checksum = sc_checksum_end(&k.sum);
    for (int i = 0; i < 32; i++) {
        const char pair[3] = { layout_hex[2 * i], layout_hex[2 * i + 1], 0 };
        header.layout[i] = (uint8_t)strtoul(pair, NULL, 16);
    }
    if (pwrite(fd, &header, sizeof header, 0) != (ssize_t)sizeof header)
        return sc_fail(err, SC_EENV, "%s: cannot be written: %s", path, strerror(errno));
    return digest(fd, path, sha256_hex, err);
}
