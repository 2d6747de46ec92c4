/* safetensors.c - see safetensors.h. */
#include "safetensors.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "json.h"

enum { LENGTH_BYTES = 8, MAX_HEADER = 100 * 1000 * 1000, MAX_INDEX = 64 * 1024 * 1024 };

static const struct {
    const char *name;
    int bits;
    sc_dtype dtype;
} types[] = {
    { "F32", 32, SC_F32 },
    { "F16", 16, SC_F16 },
    { "BF16", 16, SC_BF16 },
    { "F64", 64, SC_DTYPE_OTHER },
    { "BOOL", 8, SC_DTYPE_OTHER },
    { "U8", 8, SC_DTYPE_OTHER },
    { "I8", 8, SC_DTYPE_OTHER },
    { "U16", 16, SC_DTYPE_OTHER },
    { "I16", 16, SC_DTYPE_OTHER },
    { "U32", 32, SC_DTYPE_OTHER },
    { "I32", 32, SC_DTYPE_OTHER },
    { "U64", 64, SC_DTYPE_OTHER },
    { "I64", 64, SC_DTYPE_OTHER },
    { "C64", 64, SC_DTYPE_OTHER },
    { "F8_E5M2", 8, SC_DTYPE_OTHER },
    { "F8_E4M3", 8, SC_DTYPE_OTHER },
    { "F8_E8M0", 8, SC_DTYPE_OTHER },
    { "F6_E2M3", 6, SC_DTYPE_OTHER },
    { "F6_E3M2", 6, SC_DTYPE_OTHER },
    { "F4", 4, SC_DTYPE_OTHER },
};

/* The tensors gathered so far; grows as headers are read. */
typedef struct {
    sc_pool *pool;
    sc_tensors *made;
    int room;
} gathering;

static int begin(gathering *g, sc_pool *pool, const char *path, int files, sc_error *err) {
    g->pool = pool;
    g->room = 0;
    g->made = sc_pool_alloc(pool, 1, sizeof *g->made);
    if (!g->made)
        return sc_oom(err, "opening the weights");
    g->made->path = sc_pool_strdup(pool, path);
    g->made->fd = sc_pool_alloc(pool, (size_t)files, sizeof *g->made->fd);
    return g->made->path && g->made->fd ? SC_OK : sc_oom(err, "opening the weights");
}

static int make_room(gathering *g, int more, sc_error *err) {
    sc_tensors *t = g->made;
    if (t->tensor && g->room - t->count >= more)
        return SC_OK;
    g->room = (t->count + more) * 2 + 1; /* never none: the list is no NULL then */
    sc_tensor *tensor = sc_pool_alloc(g->pool, (size_t)g->room, sizeof *tensor);
    if (!tensor)
        return sc_oom(err, "listing the tensors");
    if (t->count)
        memcpy(tensor, t->tensor, (size_t)t->count * sizeof *tensor);
    t->tensor = tensor;
    return SC_OK;
}

static int check_metadata(const cJSON *metadata, const char *file, sc_error *err) {
    if (cJSON_IsNull(metadata))
        return SC_OK;
    if (!cJSON_IsObject(metadata))
        return sc_fail(err, SC_EINPUT, "%s: __metadata__: is no object (write the file anew)",
                       file);
    for (const cJSON *item = metadata->child; item; item = item->next)
        if (!cJSON_IsString(item))
            return sc_fail(err, SC_EINPUT,
                           "%s: __metadata__.%.200s: is no string (write the file anew)", file,
                           sc_json_printable(item->string));
    return SC_OK;
}

static int bad(const sc_tensor *t, const char *reason, sc_error *err) {
    return sc_fail(err, SC_EINPUT, "%s: %.200s: %s (fetch the file again)", t->file, t->name,
                   reason);
}

static int read_type(sc_tensor *t, int *bits, const cJSON *entry, sc_error *err) {
    const cJSON *type = sc_json_get(entry, "dtype");
    if (!cJSON_IsString(type))
        return bad(t, "dtype is no string", err);
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        if (strcmp(types[i].name, type->valuestring) == 0) {
            t->type = types[i].name;
            t->dtype = types[i].dtype;
            *bits = types[i].bits;
            return SC_OK;
        }
    return sc_fail(err, SC_EINPUT, "%s: %.200s: dtype \"%.60s\" is unknown (convert to BF16)",
                   t->file, t->name, sc_json_printable(type->valuestring));
}

/* The shape and, into *elements, its product. */
static int read_shape(sc_tensor *t, long long *elements, const cJSON *entry, sc_error *err) {
    const cJSON *shape = sc_json_get(entry, "shape");
    if (!cJSON_IsArray(shape))
        return bad(t, "shape is no array", err);
    *elements = 1;
    for (const cJSON *item = shape->child; item; item = item->next) {
        int64_t size;
        if (t->rank == SC_TENSOR_RANK)
            return bad(t, "more than 8 dimensions", err);
        if (!sc_json_int(item, &size) || size < 0)
            return bad(t, "a dimension that is no size", err);
        t->shape[t->rank++] = size;
        if (sc_mul(elements, *elements, size, "shape", NULL))
            return bad(t, "the shape's product overflows", err);
    }
    return SC_OK;
}

/* offset and bytes, as yet from the start of the data. */
static int read_range(sc_tensor *t, int64_t data_bytes, const cJSON *entry, sc_error *err) {
    const cJSON *range = sc_json_get(entry, "data_offsets");
    int64_t first, end;
    if (!cJSON_IsArray(range) || cJSON_GetArraySize(range) != 2 ||
        !sc_json_int(range->child, &first) || !sc_json_int(range->child->next, &end))
        return bad(t, "data_offsets is no pair of offsets", err);
    if (first < 0 || first > end)
        return bad(t, "data_offsets run backwards or below 0", err);
    if (end > data_bytes)
        return bad(t, "data_offsets lie past the end of the file", err);
    t->offset = (uint64_t)first;
    t->bytes = (uint64_t)(end - first);
    return SC_OK;
}

static int read_entry(sc_tensor *t, int64_t data_bytes, const cJSON *entry, sc_error *err) {
    long long elements, bits;
    int width = 0;
    if (!*t->name || sc_json_printable(t->name) != t->name)
        return sc_fail(err, SC_EINPUT,
                       "%s: a tensor's name is empty or unprintable (fetch the file again)",
                       t->file);
    if (!cJSON_IsObject(entry))
        return bad(t, "the entry is no object", err);
    int status = read_type(t, &width, entry, err);
    if (!status)
        status = read_shape(t, &elements, entry, err);
    if (!status)
        status = read_range(t, data_bytes, entry, err);
    if (status)
        return status;
    if (sc_mul(&bits, elements, width, "shape", NULL))
        return bad(t, "the tensor's size overflows", err);
    if (bits % 8 != 0 || (uint64_t)(bits / 8) != t->bytes)
        return bad(t, "data_offsets do not match shape and dtype", err);
    return SC_OK;
}

static int by_offset(const void *a, const void *b) {
    const sc_tensor *x = a, *y = b;
    if (x->offset != y->offset)
        return x->offset < y->offset ? -1 : 1;
    return x->bytes < y->bytes ? -1 : x->bytes > y->bytes;
}

/* The ranges must tile the data: nothing shared, nothing left out. Makes offsets absolute. */
static int check_tiling(sc_tensor *t, int count, uint64_t start, uint64_t data_bytes,
                        const char *file, sc_error *err) {
    uint64_t end = 0;
    if (count > 1)
        qsort(t, (size_t)count, sizeof *t, by_offset);
    for (int i = 0; i < count; i++) {
        if (t[i].offset < end)
            return bad(&t[i], "its bytes are also another tensor's", err);
        if (t[i].offset > end)
            return bad(&t[i], "bytes before it belong to no tensor", err);
        end += t[i].bytes;
        t[i].offset += start;
    }
    if (end != data_bytes)
        return sc_fail(err, SC_EINPUT,
                       "%s: %llu bytes after the last tensor (fetch the file again)", file,
                       (unsigned long long)(data_bytes - end));
    return SC_OK;
}

static int read_entries(gathering *g, const cJSON *header, const char *file, int fd, uint64_t start,
                        uint64_t data_bytes, sc_error *err) {
    if (!cJSON_IsObject(header))
        return sc_fail(err, SC_EINPUT, "%s: the header is no JSON object (fetch the file again)",
                       file);
    int status = make_room(g, cJSON_GetArraySize(header), err);
    if (status)
        return status;
    const int before = g->made->count;
    for (const cJSON *entry = header->child; entry && !status; entry = entry->next) {
        if (strcmp(entry->string, "__metadata__") == 0) {
            status = check_metadata(entry, file, err);
            continue;
        }
        sc_tensor *t = &g->made->tensor[g->made->count++];
        *t = (sc_tensor){ .name = sc_pool_strdup(g->pool, entry->string), .file = file, .fd = fd };
        status = t->name ? read_entry(t, (int64_t)data_bytes, entry, err)
                         : sc_oom(err, "listing the tensors");
    }
    return status ? status
                  : check_tiling(g->made->tensor + before, g->made->count - before, start,
                                 data_bytes, file, err);
}

/* The length that the first eight bytes give, held against the file. */
static int read_length(uint64_t *length, int fd, uint64_t bytes, const char *file, sc_error *err) {
    static const char lfs[] = "version https://git-lfs";
    unsigned char head[sizeof lfs - 1];
    const size_t want = bytes < sizeof head ? (size_t)bytes : sizeof head;
    const int status = sc_tensors_pread(fd, file, head, want, 0, err);
    if (status)
        return status;
    if (want == sizeof head && memcmp(head, lfs, sizeof head) == 0)
        return sc_fail(err, SC_EINPUT,
                       "%s: is a git-lfs pointer, not the weights (run git lfs pull)", file);
    if (want < LENGTH_BYTES)
        return sc_fail(err, SC_EINPUT, "%s: %llu bytes are no safetensors file (fetch it again)",
                       file, (unsigned long long)bytes);
    *length = 0;
    for (int i = LENGTH_BYTES; i-- > 0;)
        *length = *length << 8 | head[i];
    if (*length > MAX_HEADER)
        return sc_fail(err, SC_EINPUT,
                       "%s: a header of %llu bytes, at most %d are read (fetch the file again)",
                       file, (unsigned long long)*length, MAX_HEADER);
    if (*length > bytes - LENGTH_BYTES)
        return sc_fail(err, SC_EINPUT,
                       "%s: a header of %llu bytes in a file of %llu (fetch the file again)", file,
                       (unsigned long long)*length, (unsigned long long)bytes);
    return SC_OK;
}

static int add_file(gathering *g, const char *path, sc_error *err) {
    uint64_t bytes = 0, length = 0;
    char *text = NULL;
    cJSON *header = NULL;
    int fd;
    const char *file = sc_pool_strdup(g->pool, path);
    if (!file)
        return sc_oom(err, "opening the weights");
    int status = sc_tensors_open_fd(&fd, &bytes, file, err);
    if (status)
        return status;
    g->made->fd[g->made->files++] = fd; /* from here on sc_tensors_close closes it */
    status = read_length(&length, fd, bytes, file, err);
    if (status)
        return status;
    text = malloc(length + 1);
    status = text ? sc_tensors_pread(fd, file, text, length, LENGTH_BYTES, err)
                  : sc_oom(err, "reading a safetensors header");
    if (!status)
        status = sc_json_parse(&header, file, text, length, err);
    free(text);
    if (!status)
        status = read_entries(g, header, file, fd, LENGTH_BYTES + length,
                              bytes - LENGTH_BYTES - length, err);
    cJSON_Delete(header);
    return status;
}

static int finish(sc_tensors **tensors, gathering *g, int status, sc_error *err) {
    if (!status)
        status = sc_tensors_sort(g->made, err);
    if (status)
        sc_tensors_close(g->made);
    else
        *tensors = g->made;
    return status;
}

int sc_safetensors_open_file(sc_tensors **tensors, sc_pool *pool, const char *path, sc_error *err) {
    gathering g;
    const int status = begin(&g, pool, path, 1, err);
    return status ? status : finish(tensors, &g, add_file(&g, path, err), err);
}

/* One plain file name: then no shard can lie outside the folder. */
static bool is_safe(const char *shard) {
    return *shard && !strpbrk(shard, "/\\") && strcmp(shard, ".") != 0 &&
           strcmp(shard, "..") != 0 && sc_json_printable(shard) == shard;
}

static int by_text(const void *a, const void *b) {
    return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/* The distinct shards of weight_map, sorted, so that the index's order reaches nothing. */
static int list_shards(const char ***shards, int *count, sc_pool *pool, const cJSON *map,
                       const char *index, sc_error *err) {
    if (!cJSON_IsObject(map))
        return sc_fail(err, SC_EINPUT, "%s: weight_map: is no object (fetch the file again)",
                       index);
    int n = 0;
    *count = 0;
    *shards = sc_pool_alloc(pool, (size_t)cJSON_GetArraySize(map) + 1, sizeof **shards);
    if (!*shards)
        return sc_oom(err, "listing the shards");
    for (const cJSON *item = map->child; item; item = item->next) {
        if (!cJSON_IsString(item) || !is_safe(item->valuestring))
            return sc_fail(err, SC_EINPUT,
                           "%s: weight_map.%.200s: \"%.200s\" is no plain file name (shards lie in "
                           "the model's folder)",
                           index, sc_json_printable(item->string),
                           cJSON_IsString(item) ? sc_json_printable(item->valuestring) : "");
        (*shards)[n++] = item->valuestring;
    }
    if (n)
        qsort(*shards, (size_t)n, sizeof **shards, by_text);
    for (int i = 0; i < n; i++)
        if (!i || strcmp((*shards)[i], (*shards)[*count - 1]) != 0)
            (*shards)[(*count)++] = (*shards)[i];
    return SC_OK;
}

static int check_map(const sc_tensors *tensors, const cJSON *map, const char *folder,
                     const char *index, sc_error *err) {
    for (const cJSON *item = map->child; item; item = item->next) {
        const sc_tensor *t = sc_tensors_find(tensors, item->string);
        if (!t)
            return sc_fail(err, SC_EINPUT,
                           "%s: weight_map.%.200s: is not in %.200s (fetch the files again)", index,
                           sc_json_printable(item->string), item->valuestring);
        const char *file = t->file + strlen(folder) + 1;
        if (strcmp(file, item->valuestring) != 0)
            return sc_fail(err, SC_EINPUT,
                           "%s: weight_map.%.200s: is in %.200s, not in %.200s (fetch the files "
                           "again)",
                           index, t->name, file, item->valuestring);
    }
    return SC_OK;
}

static int open_shards(sc_tensors **tensors, sc_pool *pool, const char *folder, const char *index,
                       sc_error *err) {
    cJSON *json = NULL;
    gathering g = { 0 };
    const char **shards;
    int count;
    int status = sc_json_read(&json, index, MAX_INDEX, err);
    if (status)
        return status;
    const cJSON *map = sc_json_get(json, "weight_map");
    status = list_shards(&shards, &count, pool, map, index, err);
    if (!status)
        status = begin(&g, pool, folder, count, err);
    if (status)
        goto done;
    for (int i = 0; i < count && !status; i++) {
        const char *path = sc_pool_printf(pool, "%s/%s", folder, shards[i]);
        status = path ? add_file(&g, path, err) : sc_oom(err, "opening the weights");
    }
    sc_tensors *made = NULL;
    status = finish(&made, &g, status, err);
    if (!status)
        status = check_map(made, map, folder, index, err);
    if (!status)
        *tensors = made;
    else
        sc_tensors_close(made);
done:
    cJSON_Delete(json);
    return status;
}

int sc_safetensors_open(sc_tensors **tensors, sc_pool *pool, const char *folder, sc_error *err) {
    const char *single = sc_pool_printf(pool, "%s/model.safetensors", folder);
    const char *index = sc_pool_printf(pool, "%s/model.safetensors.index.json", folder);
    if (!single || !index)
        return sc_oom(err, "opening the weights");
    if (access(single, F_OK) == 0)
        return sc_safetensors_open_file(tensors, pool, single, err);
    if (access(index, F_OK) == 0)
        return open_shards(tensors, pool, folder, index, err);
    return sc_fail(
        err, SC_EINPUT,
        "%s: neither model.safetensors nor model.safetensors.index.json is there (name a "
        "folder with safetensors weights)",
        folder);
}
