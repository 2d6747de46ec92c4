/* fuzz_safetensors.c - sc_safetensors_open_file, sc_mxfp4_pair, and every readable tensor's last
 * row.
 */
#include "fuzz.h"

#include "../../codegen/mxfp4.h"
#include "../../codegen/safetensors.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void read_last_rows(const sc_tensors *tensors) {
    for (int i = 0; i < tensors->count; i++) {
        const sc_tensor *t = &tensors->tensor[i];
        int64_t rows = 1;
        for (int k = 0; k + 1 < t->rank; k++)
            rows *= t->shape[k];
        if (t->dtype == SC_DTYPE_OTHER || !t->rank || rows < 1)
            continue;
        const int64_t width = t->shape[t->rank - 1];
        float *row = width > 0 && width <= 1 << 20 ? malloc((size_t)width * sizeof *row) : NULL;
        if (row)
            fuzz_promise(!sc_tensor_read(t, rows - 1, 1, row, NULL) || t->dtype == SC_MXFP4,
                         "a listed tensor reads");
        free(row);
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    char path[64];
    sc_error err = { 0 };
    sc_tensors *tensors = NULL;
    sc_pool *pool = sc_pool_create();
    const int fd = fuzz_file(path, data, size);
    const int rc = pool ? sc_safetensors_open_file(&tensors, pool, path, &err) : SC_OK;
    int paired = SC_OK;
    if (!rc && tensors)
        paired = sc_mxfp4_pair(tensors, pool, &err);
    if (rc || paired)
        fuzz_refusal(rc ? rc : paired, &err);
    else if (tensors)
        read_last_rows(tensors);
    sc_tensors_close(tensors);
    close(fd);
    sc_pool_destroy(pool);
    return 0;
}
