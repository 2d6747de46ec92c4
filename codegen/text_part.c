/* text_part.c - see text_part.h. */
#include "text_part.h"

#include <string.h>

#include "json.h"

static const char old_prefix[] = "language_model.", new_prefix[] = "model.language_model.";

static bool begins(const char *text, const char *with) {
    return !strncmp(text, with, strlen(with));
}

/* The name that the text model alone gives it; NULL: it is none of its. */
static const char *text_name(sc_pool *pool, const char *name) {
    if (begins(name, old_prefix))
        return name + strlen(old_prefix);
    if (begins(name, new_prefix))
        return sc_pool_printf(pool, "model.%s", name + strlen(new_prefix));
    return begins(name, "lm_head.") ? name : NULL;
}

/* "vision_tower" of "model.vision_tower.encoder.layers.0…". */
static int module_length(const char **name) {
    if (begins(*name, "model."))
        *name += strlen("model.");
    return (int)strcspn(*name, ".");
}

/* Names come sorted: those of one module follow each other. */
static const char *add_skipped(sc_pool *pool, const char *text, const char *first, int count) {
    const int length = module_length(&first);
    return sc_pool_printf(pool, "%s%s%.*s (%d tensor%s)", text ? text : "", text ? ", " : "",
                          length < 60 ? length : 60, sc_json_printable(first), count,
                          count == 1 ? "" : "s");
}

static bool same_module(const char *a, const char *b) {
    const int length = module_length(&a), other = module_length(&b);
    return length == other && !strncmp(a, b, (size_t)length);
}

int sc_text_part(sc_tensors *tensors, const char **skipped, sc_pool *pool, sc_error *err) {
    const char *run = NULL, *text = NULL;
    int kept = 0, count = 0;
    bool has_part = false;
    *skipped = NULL;
    for (int i = 0; i < tensors->count; i++)
        has_part |= begins(tensors->tensor[i].name, old_prefix) ||
                    begins(tensors->tensor[i].name, new_prefix);
    if (!has_part)
        return SC_OK;
    for (int i = 0; i < tensors->count; i++) {
        const char *old = tensors->tensor[i].name, *name = text_name(pool, old);
        if (name) {
            tensors->tensor[kept] = tensors->tensor[i];
            tensors->tensor[kept++].name = name;
        } else if (run && same_module(run, old))
            count++;
        else {
            text = run ? add_skipped(pool, text, run, count) : NULL;
            run = old;
            count = 1;
        }
    }
    tensors->count = kept;
    *skipped = run ? add_skipped(pool, text, run, count) : NULL;
    return sc_tensors_sort(tensors, err);
}
