/* tokenizer_tries.c - see tokenizer_build.h. */
#include "tokenizer_build.h"

#include <stdlib.h>
#include <string.h>

/* The keys below a node: sorted, alike in their first depth bytes. */
typedef struct {
    uint32_t low, high, depth;
} range;

typedef struct {
    sc_trie_record *node;
    range *below;
    size_t count, room;
} builder;

int sc_pack_key_add(sc_packer *p, int trie, const char *text, size_t bytes, uint32_t id) {
    sc_pack_keys *keys = &p->keys[trie];
    if (bytes == 0)
        return 0; /* found nowhere */
    if (keys->count == keys->room) {
        const size_t room = keys->room * 2 + 256;
        sc_pack_key *list = realloc(keys->key, room * sizeof *list);
        if (!list)
            return sc_pack_no_memory(p);
        keys->key = list;
        keys->room = room;
    }
    keys->key[keys->count] = (sc_pack_key){ text, bytes, id, (uint32_t)keys->count };
    keys->count++;
    return 0;
}

static int by_text(const void *a, const void *b) {
    const sc_pack_key *x = a, *y = b;
    const size_t n = x->bytes < y->bytes ? x->bytes : y->bytes;
    const int sign = memcmp(x->text, y->text, n);
    if (sign != 0)
        return sign;
    if (x->bytes != y->bytes)
        return x->bytes < y->bytes ? -1 : 1;
    return x->order < y->order ? -1 : x->order > y->order;
}

static int add_node(sc_packer *p, builder *b, unsigned char byte, range below) {
    if (b->count == b->room) {
        const size_t room = b->room * 2 + 1024;
        if (room > INT32_MAX)
            return sc_pack_wrong(p, "model.vocab", "is over 2 GiB of text");
        sc_trie_record *node = realloc(b->node, room * sizeof *node);
        b->node = node ? node : b->node;
        range *list = node ? realloc(b->below, room * sizeof *list) : NULL;
        if (!list)
            return sc_pack_no_memory(p);
        b->below = list;
        b->room = room;
    }
    b->below[b->count] = below;
    b->node[b->count++] = (sc_trie_record){ .id = SC_TOKENIZER_NONE, .byte = byte };
    return 0;
}

/* The children of node i, and its id where keys end there: the last of them. */
static int grow(sc_packer *p, builder *b, const sc_pack_key *key, size_t i) {
    range r = b->below[i];
    while (r.low < r.high && key[r.low].bytes == r.depth)
        b->node[i].id = key[r.low++].id;
    const size_t first = b->count;
    int rc = 0;
    for (uint32_t low = r.low, high = low; rc == 0 && low < r.high; low = high) {
        const unsigned char byte = (unsigned char)key[low].text[r.depth];
        while (high < r.high && (unsigned char)key[high].text[r.depth] == byte)
            high++;
        rc = add_node(p, b, byte, (range){ low, high, r.depth + 1 });
    }
    if (rc == 0 && b->count > first) {
        b->node[i].first = (uint32_t)first;
        b->node[i].count = (uint16_t)(b->count - first);
    }
    return rc;
}

int sc_pack_trie(sc_packer *p, int trie) {
    sc_pack_keys *keys = &p->keys[trie];
    builder b = { 0 };
    if (keys->count == 0)
        return 0;
    qsort(keys->key, keys->count, sizeof *keys->key, by_text);
    int rc = add_node(p, &b, 0, (range){ 0, (uint32_t)keys->count, 0 });
    for (size_t i = 0; rc == 0 && i < b.count; i++)
        rc = grow(p, &b, keys->key, i);
    free(b.below);
    p->trie[trie] = b.node;
    p->header.trie[trie].count = rc == 0 ? b.count : 0;
    return rc;
}
