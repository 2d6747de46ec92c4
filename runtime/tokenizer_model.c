/* tokenizer_model.c - one word to ids: BPE, SentencePiece's BPE, Unigram; see tokenizer_parts.h. */
#include "tokenizer_parts.h"

#include <stdlib.h>
#include <string.h>

#define NONE SC_TOKENIZER_NONE

/* What an unknown character costs beyond the worst token. */
#define UNK_PENALTY 10.0

/* ---- tries ---- */

uint32_t sc_trie_child(const sc_trie *trie, uint32_t node, unsigned char byte) {
    if (node == 0)
        return trie->root[byte];
    const sc_trie_record *parent = &trie->node[node];
    uint32_t low = parent->first, high = low + parent->count;
    while (high - low > 1) {
        const uint32_t middle = low + (high - low) / 2;
        if (trie->node[middle].byte <= byte)
            low = middle;
        else
            high = middle;
    }
    return high > low && trie->node[low].byte == byte ? low : 0;
}

uint32_t sc_trie_find(const sc_trie *trie, const char *key, size_t n) {
    uint32_t node = 0;
    for (size_t i = 0; i < n; i++) {
        node = sc_trie_child(trie, node, (unsigned char)key[i]);
        if (node == 0)
            return NONE;
    }
    return n > 0 ? trie->node[node].id : NONE;
}

static uint32_t find(const sc_encoder *e, const char *text, size_t n) {
    return n <= e->t->header->longest ? sc_trie_find(&e->t->trie[SC_TRIE_VOCAB], text, n) : NONE;
}

/* ---- what has no token ---- */

/* Whether these bytes all have tokens that stand for them. */
static bool has_bytes(const sc_encoder *e, const char *text, size_t n) {
    if (!(e->t->header->flags & SC_TOKENIZER_BYTE_FALLBACK))
        return false;
    for (size_t i = 0; i < n; i++)
        if (e->t->header->byte_id[(unsigned char)text[i]] == NONE)
            return false;
    return true;
}

static int add_unknown(sc_encoder *e, const char *text, size_t n) {
    if (!has_bytes(e, text, n))
        return e->t->header->unk == NONE ? 0 : sc_encoder_add(e, e->t->header->unk);
    int rc = 0;
    for (size_t i = 0; rc == 0 && i < n; i++)
        rc = sc_encoder_add(e, e->t->header->byte_id[(unsigned char)text[i]]);
    return rc;
}

/* ---- the heap ---- */

static bool before(const sc_candidate *a, const sc_candidate *b) {
    return a->rank != b->rank ? a->rank < b->rank : a->pos < b->pos;
}

static void sift_up(sc_encoder *e, size_t i, sc_candidate c) {
    while (i > 0 && before(&c, &e->heap[(i - 1) / 2])) {
        e->heap[i] = e->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    e->heap[i] = c;
}

static void sift_down(sc_encoder *e, size_t i, sc_candidate c) {
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= e->heap_count)
            break;
        if (child + 1 < e->heap_count && before(&e->heap[child + 1], &e->heap[child]))
            child++;
        if (!before(&e->heap[child], &c))
            break;
        e->heap[i] = e->heap[child];
        i = child;
    }
    e->heap[i] = c;
}

/* Makes a heap of a list. */
static void heap_order(sc_encoder *e) {
    for (size_t i = e->heap_count / 2; i-- > 0;)
        sift_down(e, i, e->heap[i]);
}

static void heap_push(sc_encoder *e, sc_candidate c) {
    e->heap_count++;
    sift_up(e, e->heap_count - 1, c);
}

static sc_candidate heap_pop(sc_encoder *e) {
    const sc_candidate top = e->heap[0], last = e->heap[--e->heap_count];
    if (e->heap_count > 0)
        sift_down(e, 0, last);
    return top;
}

/* ---- merging ---- */

static int reserve_symbols(sc_encoder *e, size_t n) {
    if (n <= e->symbol_room)
        return 0;
    const size_t room = n + n / 2 + 64;
    free(e->symbols);
    free(e->heap);
    e->symbol_room = 0;
    e->symbols = malloc(room * sizeof *e->symbols);
    e->heap = malloc(3 * room * sizeof *e->heap);
    if (!e->symbols || !e->heap)
        return sc_encoder_no_memory(e);
    e->symbol_room = room;
    return 0;
}

static const sc_merge_record *find_merge(const sc_tokenizer *t, uint32_t left, uint32_t right) {
    const uint64_t mask = t->header->merge.count - 1;
    for (uint64_t i = sc_tokenizer_pair_hash(left, right) & mask;; i = (i + 1) & mask) {
        const sc_merge_record *m = &t->merge[i];
        if (m->left == NONE)
            return NULL;
        if (m->left == left && m->right == right)
            return m;
    }
}

/* What the pair that begins at pos would become; false: nothing. */
static bool candidate_at(const sc_encoder *e, const char *text, uint32_t pos, sc_candidate *c,
                         uint32_t *id) {
    const sc_symbol *l = &e->symbols[pos];
    if (l->bytes == 0 || l->next == NONE)
        return false;
    const sc_symbol *r = &e->symbols[l->next];
    if (e->t->header->model == SC_MODEL_BPE) {
        const sc_merge_record *m = find_merge(e->t, l->id, r->id);
        if (m) {
            *c = (sc_candidate){ m->rank, pos, m->id };
            *id = m->id;
        }
        return m != NULL;
    }
    *id = find(e, text + l->at, (size_t)l->bytes + r->bytes);
    if (*id == NONE)
        return false;
    *c = (sc_candidate){ e->t->rank[*id], pos, l->bytes + r->bytes };
    return true;
}

/* Whether one of the two has changed so far that looking for the pair is needless. */
static bool is_stale(const sc_encoder *e, const sc_candidate *c) {
    const sc_symbol *l = &e->symbols[c->pos];
    return l->bytes == 0 || l->next == NONE ||
           (e->t->header->model == SC_MODEL_SPM && l->bytes + e->symbols[l->next].bytes != c->what);
}

static void offer(sc_encoder *e, const char *text, uint32_t pos) {
    sc_candidate c;
    uint32_t id;
    if (candidate_at(e, text, pos, &c, &id))
        heap_push(e, c);
}

static void merge_run(sc_encoder *e, const char *text, uint32_t begin, uint32_t end) {
    sc_candidate now;
    uint32_t id;
    e->heap_count = 0;
    for (uint32_t i = begin; i + 1 < end; i++)
        if (candidate_at(e, text, i, &e->heap[e->heap_count], &id))
            e->heap_count++;
    heap_order(e);
    while (e->heap_count > 0) {
        const sc_candidate c = heap_pop(e);
        if (is_stale(e, &c) || !candidate_at(e, text, c.pos, &now, &id) || now.what != c.what)
            continue;
        sc_symbol *left = &e->symbols[c.pos], *right = &e->symbols[left->next];
        left->id = id;
        left->bytes += right->bytes;
        left->next = right->next;
        right->bytes = 0;
        if (left->next != NONE)
            e->symbols[left->next].prev = c.pos;
        if (left->prev != NONE)
            offer(e, text, left->prev);
        offer(e, text, c.pos);
    }
}

/* Whether a merge may ever join these two, which are as the word began. */
static bool may_join(const sc_encoder *e, const char *text, uint32_t left) {
    const sc_symbol *l = &e->symbols[left], *r = l + 1;
    int32_t a, b;
    if (l->at == NONE || r->at == NONE)
        return true;
    sc_utf8_code(text + l->at, &a);
    sc_utf8_code(text + r->at, &b);
    const uint64_t bit = sc_tokenizer_pair_bit(a, b, e->t->header->pair.count * 64);
    return e->t->pair[bit / 64] >> bit % 64 & 1;
}

/* Runs that no merge leaves are merged one by one: small heaps are fast. */
static void merge_all(sc_encoder *e, const char *text, uint32_t count) {
    for (uint32_t begin = 0, end; begin < count; begin = end) {
        end = begin + 1;
        while (end < count && may_join(e, text, end - 1))
            end++;
        merge_run(e, text, begin, end);
    }
}

static void add_symbol(sc_encoder *e, uint32_t *count, size_t at, size_t bytes, uint32_t id) {
    e->symbols[*count] = (sc_symbol){ (uint32_t)at, (uint32_t)bytes, id, *count - 1, *count + 1 };
    ++*count; /* the first one's prev was 0 - 1, which is NONE */
}

/* Characters as symbols. An unk waits for the next character that is no byte fallback. */
static uint32_t begin_bpe(sc_encoder *e, const char *text, size_t n) {
    const sc_tokenizer_header *h = e->t->header;
    uint32_t count = 0;
    size_t unks = 0, length;
    for (size_t at = 0; at < n; at += length) {
        length = sc_utf8_length(text[at]);
        const uint32_t id = find(e, text + at, length);
        if (id == NONE && has_bytes(e, text + at, length)) {
            for (size_t i = 0; i < length; i++)
                add_symbol(e, &count, NONE, 1, h->byte_id[(unsigned char)text[at + i]]);
            continue;
        }
        if (unks > 0 && (id != NONE || !(h->flags & SC_TOKENIZER_FUSE_UNK))) {
            add_symbol(e, &count, NONE, 1, h->unk);
            unks = 0;
        }
        if (id != NONE)
            add_symbol(e, &count, at, length, id);
        else if (h->unk != NONE)
            unks++;
    }
    if (unks > 0)
        add_symbol(e, &count, NONE, 1, h->unk);
    if (count > 0)
        e->symbols[count - 1].next = NONE;
    return count;
}

static uint32_t begin_spm(sc_encoder *e, const char *text, size_t n) {
    uint32_t count = 0;
    size_t length;
    for (size_t at = 0; at < n; at += length) {
        length = sc_utf8_length(text[at]);
        add_symbol(e, &count, at, length, find(e, text + at, length));
    }
    e->symbols[count - 1].next = NONE;
    return count;
}

static int encode_merging(sc_encoder *e, const char *text, size_t n) {
    int rc = reserve_symbols(e, n);
    if (rc != 0)
        return rc;
    const bool spm = e->t->header->model == SC_MODEL_SPM;
    const uint32_t count = spm ? begin_spm(e, text, n) : begin_bpe(e, text, n);
    merge_all(e, text, count);
    for (uint32_t i = 0; rc == 0 && i < count; i++) { /* in order, as merges keep the left one */
        const sc_symbol *s = &e->symbols[i];
        if (s->bytes > 0)
            rc = s->id != NONE ? sc_encoder_add(e, s->id) : add_unknown(e, text + s->at, s->bytes);
    }
    return rc;
}

/* ---- Unigram ---- */

/* A way to end from start by that token, if it is better than what is known. */
static void reach(sc_path *end, double score, size_t start, uint32_t id) {
    if (end->start == NONE || score > end->score)
        *end = (sc_path){ score, (uint32_t)start, id };
}

static void find_path(sc_encoder *e, const char *text, size_t n) {
    const sc_trie *trie = &e->t->trie[SC_TRIE_VOCAB];
    const double unk_score = e->t->header->min_score - UNK_PENALTY;
    sc_path *path = e->path;
    for (size_t i = 0; i <= n; i++)
        path[i] = (sc_path){ 0, NONE, NONE };
    size_t length;
    for (size_t at = 0; at < n; at += length) {
        length = sc_utf8_length(text[at]);
        const double here = path[at].score;
        bool single = false;
        uint32_t node = 0;
        for (size_t end = at; end < n;) {
            node = sc_trie_child(trie, node, (unsigned char)text[end++]);
            if (node == 0)
                break;
            const uint32_t id = trie->node[node].id;
            if (id == NONE)
                continue;
            reach(&path[end], e->t->score[id] + here, at, id);
            single = single || end == at + length;
        }
        if (!single)
            reach(&path[at + length], unk_score + here, at, e->t->header->unk);
    }
}

/* The pieces of the best path as the last symbols, of which there are n; unks in a row are one. */
static size_t take_path(sc_encoder *e, size_t n) {
    const uint32_t unk = e->t->header->unk;
    size_t count = n;
    bool fuses = false;
    for (size_t end = n; end > 0;) {
        const sc_path *p = &e->path[end];
        if (p->id == unk && fuses) {
            e->symbols[count].bytes += e->symbols[count].at - p->start;
            e->symbols[count].at = p->start;
        } else
            e->symbols[--count] =
                (sc_symbol){ p->start, (uint32_t)end - p->start, p->id, NONE, NONE };
        fuses = p->id == unk;
        end = p->start;
    }
    return count;
}

static int encode_unigram(sc_encoder *e, const char *text, size_t n) {
    int rc = reserve_symbols(e, n);
    if (rc == 0 && n + 1 > e->path_room) {
        free(e->path);
        e->path_room = n + n / 2 + 64;
        e->path = malloc(e->path_room * sizeof *e->path);
        if (!e->path) {
            e->path_room = 0;
            rc = sc_encoder_no_memory(e);
        }
    }
    if (rc != 0)
        return rc;
    find_path(e, text, n);
    for (size_t i = take_path(e, n); rc == 0 && i < n; i++) {
        const sc_symbol *s = &e->symbols[i];
        uint32_t id = s->id;
        if (id == e->t->header->unk) /* several unknown characters may be a token together */
            id = find(e, text + s->at, s->bytes);
        rc = id != NONE ? sc_encoder_add(e, id) : add_unknown(e, text + s->at, s->bytes);
    }
    return rc;
}

int sc_model_encode(sc_encoder *e, const char *text, size_t n) {
    if (e->t->header->flags & SC_TOKENIZER_IGNORE_MERGES) {
        const uint32_t id = find(e, text, n);
        if (id != NONE)
            return sc_encoder_add(e, id);
    }
    return e->t->header->model == SC_MODEL_UNIGRAM ? encode_unigram(e, text, n)
                                                   : encode_merging(e, text, n);
}
