/* tokenizer_merges.c - BPE's pairs: see tokenizer_build.h. */
#include "tokenizer_build.h"

#include "json.h"

#include <stdlib.h>
#include <string.h>

#define NONE SC_TOKENIZER_NONE

static int no_such_token(sc_packer *p, uint32_t rank, const char *token) {
    return sc_fail(p->err, SC_EINPUT,
                   "%s: model.merges[%u]: \"%.64s\" is not in model.vocab (take "
                   "the model's published tokenizer.json)",
                   p->file, rank, sc_json_printable(token));
}

static void put_merge(sc_packer *p, const sc_merge_record *m) {
    const uint64_t mask = p->header.merge.count - 1;
    uint64_t i = sc_tokenizer_pair_hash(m->left, m->right) & mask;
    while (p->merge[i].left != NONE &&
           (p->merge[i].left != m->left || p->merge[i].right != m->right))
        i = (i + 1) & mask;
    p->merge[i] = *m; /* of a pair given twice the later one holds, as in `tokenizers` */
}

/* pair holds "left\0right". */
static int add_merge(sc_packer *p, uint32_t rank, char *pair, size_t left_length) {
    const char *right = pair + left_length + 1;
    const sc_pack_name *l = sc_pack_find(p, pair), *r = sc_pack_find(p, right);
    if (!l->key || !r->key)
        return no_such_token(p, rank, l->key ? right : pair);
    const uint32_t left = l->id, right_id = r->id;
    memmove(pair + left_length, right, strlen(right) + 1);
    const sc_pack_name *whole = sc_pack_find(p, pair);
    if (!whole->key)
        return no_such_token(p, rank, pair);
    put_merge(p, &(sc_merge_record){ left, right_id, rank, whole->id });
    return 0;
}

/* "a b" or ["a", "b"] as "a\0b" in memory of its own; NULL with *rc set. */
static char *copy_pair(sc_packer *p, const cJSON *item, uint32_t rank, size_t *left_length,
                       int *rc) {
    const char *left = NULL, *right = NULL;
    if (cJSON_IsString(item)) {
        left = item->valuestring;
        const char *space = strchr(left, ' ');
        if (space && !strchr(space + 1, ' ')) {
            right = space + 1;
            *left_length = (size_t)(space - left);
        }
    } else if (cJSON_IsArray(item) && cJSON_GetArraySize(item) == 2 &&
               cJSON_IsString(item->child) && cJSON_IsString(item->child->next)) {
        left = item->child->valuestring;
        right = item->child->next->valuestring;
        *left_length = strlen(left);
    }
    if (!right || *left_length == 0 || !*right) {
        *rc = sc_fail(p->err, SC_EINPUT,
                      "%s: model.merges[%u]: is no pair of tokens (take the "
                      "model's published tokenizer.json)",
                      p->file, rank);
        return NULL;
    }
    const size_t right_length = strlen(right);
    char *pair = malloc(*left_length + right_length + 2);
    if (!pair) {
        *rc = sc_pack_no_memory(p);
        return NULL;
    }
    memcpy(pair, left, *left_length);
    pair[*left_length] = '\0';
    memcpy(pair + *left_length + 1, right, right_length + 1);
    return pair;
}

int sc_pack_merges(sc_packer *p, const cJSON *merges) {
    if (!cJSON_IsArray(merges))
        return sc_pack_wrong(p, "model.merges", "is no list");
    uint32_t rank = 0;
    for (const cJSON *item = merges->child; item; item = item->next)
        if (++rank > SC_TOKENIZER_IDS_MAX)
            return sc_pack_wrong(p, "model.merges", "has more than 4194304 entries");
    p->header.merge.count = sc_pack_slots(rank);
    p->merge = malloc(p->header.merge.count * sizeof *p->merge);
    if (!p->merge)
        return sc_pack_no_memory(p);
    memset(p->merge, 0xFF, p->header.merge.count * sizeof *p->merge);
    rank = 0;
    for (const cJSON *item = merges->child; item; item = item->next, rank++) {
        int rc = 0;
        size_t left_length = 0;
        char *pair = copy_pair(p, item, rank, &left_length, &rc);
        if (pair)
            rc = add_merge(p, rank, pair, left_length);
        free(pair);
        if (rc != 0)
            return rc;
    }
    return 0;
}
