/* fuzz_template.c - the template language, with a value, a flag each way and a list of one item:
 * lists of two would double with each level of nesting. */
#include "fuzz.h"

#include "../../codegen/template.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    sc_error err = { 0 };
    char *text = NULL, *source = malloc(size + 1);
    size_t bytes;
    sc_pool *pool = sc_pool_create();
    sc_values *values = pool ? sc_values_make(pool) : NULL, *item;
    if (source && values) {
        if (size)
            memcpy(source, data, size);
        source[size] = 0;
        item = sc_values_add(values, "list");
        if (item && !sc_values_int(item, "inner", 7) && !sc_values_set(values, "name", "x") &&
            !sc_values_flag(values, "yes", true) && !sc_values_flag(values, "no", false)) {
            const int rc =
                sc_template_render_text(&text, &bytes, NULL, "fuzz", source, values, &err);
            if (rc)
                fuzz_refusal(rc, &err);
        }
    }
    free(text);
    free(source);
    sc_pool_destroy(pool);
    return 0;
}
