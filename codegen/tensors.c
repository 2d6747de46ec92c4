/* tensors.c - see tensors.h. Block formats: ggml, dequantize_row_* in ggml-quants.c. */
#include "tensors.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "../runtime/half.h"
#include "json.h"
#include "mxfp4.h"

enum { PIECE_BYTES = 64 * 1024, QUANTS = 32 };

/* Elements and bytes of a block, by sc_dtype. */
static const struct {
    int64_t elements, bytes;
} block_of[SC_DTYPE_OTHER] = {
    [SC_F32] = { 1, 4 },    [SC_F16] = { 1, 2 },     [SC_BF16] = { 1, 2 },
    [SC_Q8_0] = { 32, 34 }, [SC_MXFP4] = { 32, 16 }, [SC_Q4_0] = { 32, 18 },
    [SC_Q4_1] = { 32, 20 }, [SC_Q5_0] = { 32, 22 },  [SC_Q5_1] = { 32, 24 },
};

int sc_tensors_pread(int fd, const char *file, void *out, size_t bytes, uint64_t offset,
                     sc_error *err) {
    for (size_t done = 0; done < bytes;) {
        const ssize_t got = pread(fd, (char *)out + done, bytes - done, (off_t)(offset + done));
        if (got < 0 && errno == EINTR)
            continue;
        if (got < 0)
            return sc_fail(err, SC_EENV, "%s: cannot be read: %s", file, strerror(errno));
        if (got == 0)
            return sc_fail(err, SC_EINPUT, "%s: ends early, at byte %llu (fetch it again)", file,
                           (unsigned long long)(offset + done));
        done += (size_t)got;
    }
    return SC_OK;
}

int sc_tensors_open_fd(int *fd, uint64_t *bytes, const char *file, sc_error *err) {
    struct stat info;
    /* O_NONBLOCK: a FIFO of that name must not hang the run before fstat names it. */
    const int opened = open(file, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    if (opened < 0)
        return sc_fail(err, errno == ENOENT || errno == ENOTDIR ? SC_EINPUT : SC_EENV,
                       "%s: cannot be opened: %s", file, strerror(errno));
    if (fstat(opened, &info) != 0 || !S_ISREG(info.st_mode)) {
        close(opened);
        return sc_fail(err, SC_EINPUT, "%s: is no regular file", file);
    }
    *fd = opened;
    *bytes = (uint64_t)info.st_size;
    return SC_OK;
}

static int by_name(const void *a, const void *b) {
    return strcmp(((const sc_tensor *)a)->name, ((const sc_tensor *)b)->name);
}

int sc_tensors_sort(sc_tensors *tensors, sc_error *err) {
    if (tensors->count > 1)
        qsort(tensors->tensor, (size_t)tensors->count, sizeof *tensors->tensor, by_name);
    for (int i = 1; i < tensors->count; i++)
        if (strcmp(tensors->tensor[i - 1].name, tensors->tensor[i].name) == 0)
            return sc_fail(err, SC_EINPUT, "%s: %.200s: the tensor is there twice (fetch it again)",
                           tensors->tensor[i].file, sc_json_printable(tensors->tensor[i].name));
    return SC_OK;
}

const sc_tensor *sc_tensors_find(const sc_tensors *tensors, const char *name) {
    const sc_tensor key = { .name = name };
    return tensors->count
               ? bsearch(&key, tensors->tensor, (size_t)tensors->count, sizeof key, by_name)
               : NULL;
}

void sc_tensors_close(sc_tensors *tensors) {
    if (!tensors)
        return;
    for (int i = 0; i < tensors->files; i++)
        close(tensors->fd[i]);
    tensors->files = 0;
}

static uint16_t u16_at(const unsigned char *p) { return (uint16_t)(p[0] | p[1] << 8); }

static uint32_t u32_at(const unsigned char *p) { return u16_at(p) | (uint32_t)u16_at(p + 2) << 16; }

static float half_at(const unsigned char *p) { return sc_from_f16(u16_at(p)); }

/* 4-bit blocks: byte j holds element j in its low half, j+16 in its high half. high: the fifth
 * bits, element by element, or 0. A product of at most 5 and 11 bits is exact, so that only the
 * addition of the minimum rounds, with or without a fused multiply. */
static void nibbles(float *out, const unsigned char *quants, uint32_t high, int centre, float scale,
                    float minimum, bool has_minimum) {
    for (int j = 0; j < QUANTS / 2; j++) {
        const int low = (int)((quants[j] & 0xfu) | (high >> j & 1) << 4) - centre;
        const int top = (int)(((unsigned)quants[j] >> 4) | (high >> (j + 16) & 1) << 4) - centre;
        out[j] = (float)low * scale;
        out[j + QUANTS / 2] = (float)top * scale;
        /* Not "+ 0": that would turn -0 into 0. */
        if (has_minimum) {
            out[j] += minimum;
            out[j + QUANTS / 2] += minimum;
        }
    }
}

static void decode_block(sc_dtype dtype, const unsigned char *in, float *out) {
    switch (dtype) {
    case SC_F32:
        memcpy(out, &(uint32_t){ u32_at(in) }, 4);
        break;
    case SC_F16:
        *out = half_at(in);
        break;
    case SC_BF16:
        *out = sc_from_bf16(u16_at(in));
        break;
    case SC_Q8_0:
        for (int j = 0; j < QUANTS; j++)
            out[j] = (float)(in[2 + j] < 128 ? in[2 + j] : in[2 + j] - 256) * half_at(in);
        break;
    case SC_Q4_0:
        nibbles(out, in + 2, 0, 8, half_at(in), 0, false);
        break;
    case SC_Q4_1:
        nibbles(out, in + 4, 0, 0, half_at(in), half_at(in + 2), true);
        break;
    case SC_Q5_0:
        nibbles(out, in + 6, u32_at(in + 2), 16, half_at(in), 0, false);
        break;
    case SC_Q5_1:
        nibbles(out, in + 8, u32_at(in + 4), 0, half_at(in), half_at(in + 2), true);
        break;
    case SC_MXFP4: /* read_mxfp4 */
    case SC_FP8_E4M3:
    case SC_DTYPE_OTHER:
        break;
    }
}

/* elements (whole blocks) from the element first on, in the order of the file. */
static int read_stored(const sc_tensor *t, int64_t first, int64_t elements, float *out,
                       sc_error *err) {
    unsigned char piece[PIECE_BYTES];
    const int64_t width = block_of[t->dtype].elements, bytes = block_of[t->dtype].bytes;
    uint64_t offset = t->offset + (uint64_t)(first / width * bytes);
    for (int64_t left = elements / width; left > 0;) {
        const int64_t blocks = left < PIECE_BYTES / bytes ? left : PIECE_BYTES / bytes;
        const int status =
            sc_tensors_pread(t->fd, t->file, piece, (size_t)(blocks * bytes), offset, err);
        if (status)
            return status;
        for (int64_t i = 0; i < blocks; i++, out += width)
            decode_block(t->dtype, piece + i * bytes, out);
        offset += (uint64_t)(blocks * bytes);
        left -= blocks;
    }
    return SC_OK;
}

/* The same of MXFP4, whose blocks have their scales in a tensor of their own. */
static int read_mxfp4(const sc_tensor *t, int64_t first, int64_t elements, float *out,
                      sc_error *err) {
    enum { BLOCKS = PIECE_BYTES / SC_MXFP4_BYTES };
    unsigned char block[BLOCKS * SC_MXFP4_BYTES], scale[BLOCKS];
    int64_t at = first / SC_MXFP4_ELEMENTS;
    for (int64_t left = elements / SC_MXFP4_ELEMENTS; left > 0;) {
        const int64_t n = left < BLOCKS ? left : BLOCKS;
        int status = sc_tensors_pread(t->fd, t->file, block, (size_t)(n * SC_MXFP4_BYTES),
                                      t->offset + (uint64_t)(at * SC_MXFP4_BYTES), err);
        if (!status)
            status = sc_tensors_pread(t->scales->fd, t->scales->file, scale, (size_t)n,
                                      t->scales->offset + (uint64_t)at, err);
        for (int64_t i = 0; i < n && !status; i++, out += SC_MXFP4_ELEMENTS)
            if (!sc_mxfp4_decode(out, block + i * SC_MXFP4_BYTES, scale[i]))
                status = sc_fail(err, SC_EINPUT,
                                 "%s: %.200s: block %lld has the scale 255, which "
                                 "is no number (fetch the file again)",
                                 t->file, t->name, (long long)(at + i));
        if (status)
            return status;
        at += n;
        left -= n;
    }
    return SC_OK;
}

/* Where the checkpoint's row h*hd + j*(hd/2) + i is stored: at h*hd + i*2 + j. */
static int64_t stored_row(int64_t row, int64_t head_dim) {
    const int64_t head = row / head_dim, within = row % head_dim, half = head_dim / 2;
    return head * head_dim + within % half * 2 + within / half;
}

/* A bias is one row whose elements are interleaved as a weight's rows are. */
static int read_bias(const sc_tensor *t, int64_t width, float *out, sc_error *err) {
    for (int64_t i = 0; i < width; i++) {
        const int status =
            read_stored(t, stored_row(i, width / t->interleaved_heads), 1, out + i, err);
        if (status)
            return status;
    }
    return SC_OK;
}

int sc_tensor_read(const sc_tensor *t, int64_t first, int64_t rows, float *out, sc_error *err) {
    const int64_t width = t->rank ? t->shape[t->rank - 1] : 1;
    int64_t all = 1;
    for (int i = 0; i + 1 < t->rank; i++)
        all *= t->shape[i];
    if (t->dtype >= SC_FP8_E4M3)
        return sc_fail(
            err, SC_EINPUT,
            "%s: %.200s: type %s is not read (F32, F16, BF16, Q8_0, Q4_0, Q4_1, Q5_0 and "
            "Q5_1 are)",
            t->file, t->name, t->type);
    if (first < 0 || rows < 0 || rows > all || first > all - rows)
        return sc_fail(err, SC_EINPUT, "%s: %.200s: rows %lld and %lld more wanted, it has %lld",
                       t->file, t->name, (long long)first, (long long)rows, (long long)all);
    if (rows == 0 || width == 0)
        return SC_OK;
    if (t->dtype == SC_MXFP4)
        return read_mxfp4(t, first * width, rows * width, out, err);
    if (!t->interleaved_heads)
        return read_stored(t, first * width, rows * width, out, err);
    if (t->rank == 1)
        return read_bias(t, width, out, err);
    for (int64_t i = 0; i < rows; i++) {
        const int64_t row = stored_row(first + i, all / t->interleaved_heads);
        const int status = read_stored(t, row * width, width, out + i * width, err);
        if (status)
            return status;
    }
    return SC_OK;
}
