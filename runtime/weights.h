/*
 * weights.h - the packed weights file of a casting, mapped read-only.
 *
 * Layout   sc_weights_header (64 bytes), then the tensors, each at a multiple of SC_WEIGHTS_ALIGN
 *          from the start of the file. Numbers are little-endian.
 * Owner    the caller; the mapping lives until sc_weights_close. Processes share its pages. The
 *          file must not be shortened or rewritten in place while it is mapped.
 */
#ifndef SC_WEIGHTS_H
#define SC_WEIGHTS_H

#include "error.h"

#include <stdbool.h>
#include <stdint.h>

#define SC_WEIGHTS_MAGIC "SCWEIGH1" /* the 8 letters, without the ending zero */
#define SC_WEIGHTS_MAGIC_BYTES 8
#define SC_WEIGHTS_LAYOUT_BYTES 32
#define SC_WEIGHTS_HEADER_BYTES 64
#define SC_WEIGHTS_ALIGN 64

typedef struct sc_weights_header {
    char magic[SC_WEIGHTS_MAGIC_BYTES];
    uint64_t bytes;                          /* of the whole file, this header included */
    uint64_t checksum;                       /* XXH64 (checksum.h) of all after the header */
    uint8_t layout[SC_WEIGHTS_LAYOUT_BYTES]; /* sha256 of the casting's shapes and tensors */
    uint64_t reserved;                       /* 0 */
} sc_weights_header;

_Static_assert(sizeof(sc_weights_header) == SC_WEIGHTS_HEADER_BYTES, "the header is 64 bytes");

typedef struct sc_weights sc_weights;

/*
 * layout and bytes are what the casting was emitted with. SC_EINPUT: no such file, wrong magic,
 * truncated, another size, another casting's layout, and if check is set another checksum (which
 * reads the whole file). SC_EENV: no memory, or the file cannot be mapped.
 */
int sc_weights_open(sc_weights **out, const char *path,
                    const unsigned char layout[SC_WEIGHTS_LAYOUT_BYTES], uint64_t bytes, bool check,
                    sc_error *err);

/* NULL is allowed. */
void sc_weights_close(sc_weights *weights);

/* offset: from the start of the file, below its size. The pointer lives until close. */
const void *sc_weights_at(const sc_weights *weights, uint64_t offset);

#endif
