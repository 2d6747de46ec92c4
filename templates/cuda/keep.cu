{{! keep.cu - prefill, or latent attention: q, k and v of a pass are normed, rotated and go where attention finds them. }}
/*
 * {{layer_list}}: {{#q_norm}}norms, {{/q_norm}}{{#roped}}rope, {{/roped}}and the cache's dtype. query [rows, {{heads}}, {{head_dim}}{{#latent}} + {{v_head_dim}}{{/latent}}]. A padding token's
 * key and value are zero.
{{#ring}}
 * Token t goes to slot (seen + t) % SLOTS, over the oldest one; what this drives out although the
 * first of the new tokens still sees it is kept aside, oldest first, and so are new ones that later
 * ones of the pass drive out. A thread moves what it then overwrites.
{{/ring}}
 *
 * Grid [rows of the pass, KEEP{{id}}_GRID], block ROW_THREADS, shared {{keep_shared}} bytes. The blocks of a
 * token share its {{heads}} heads of q, {{kv_heads}} of k and {{kv_heads}} of v, a warp one after another; a thread
 * has every 32nd element.
 */
enum {
    KEEP{{id}}_WARPS = ROW_THREADS / 32,
    KEEP{{id}}_HEADS = {{heads}},
    KEEP{{id}}_QUERY = SHAPE{{shape}}_DIM{{#latent}} + SHAPE{{shape}}_V_DIM{{/latent}}, /* elements of a query */
};

{{#keeps}}
/* Where a new token's row of one kv_head goes. */
typedef struct {
    long long pos;  /* of the token */
    long long end;  /* of the pass */
    long long seen; /* before the pass */
    bool padding;
} keep{{id}}_token;

/* rows of dim elements, x those of the token: of its kv_head the slots and what is kept aside. */
static __device__ __forceinline__ void keep{{id}}_row(const keep{{id}}_token *t, kv *slots, kv *evicted,
                                             SHARED_OF(float) x, int at, int dim) {
    const int lane = (int)threadIdx.x % 32;
{{#ring}}
    const long long first = most(0, t->seen - SHAPE{{shape}}_LENGTH + 1);
    kv *slot = slots + t->pos % SHAPE{{shape}}_SLOTS * dim;
    /* The token that had the slot before the pass, and is to be kept aside. */
    const long long before = t->pos - (t->pos - t->seen + SHAPE{{shape}}_SLOTS) / SHAPE{{shape}}_SLOTS * SHAPE{{shape}}_SLOTS;
    const bool stays = t->pos + SHAPE{{shape}}_SLOTS >= t->end, saves = stays && before >= first;
    kv *to = stays ? slot : evicted + (t->pos - first) * dim;
    for (int i = lane; i < dim; i += 32) {
        if (saves)
            evicted[(before - first) * dim + i] = slot[i];
        to[i] = t->padding ? (kv)0 : kv_of(x[at + i]);
    }
{{/ring}}
{{^ring}}
    (void)evicted; /* a full layer drives nothing out */
#pragma unroll 4
    for (int i = lane; i < dim; i += 32)
        slots[t->pos * dim + i] = t->padding ? (kv)0 : kv_of(x[at + i]);
{{/ring}}
}

{{/keeps}}
extern "C" __global__ void __launch_bounds__(ROW_THREADS)
    keep{{id}}_kernel(const step *s, const float *q, {{#latent}}const float *q_rope, {{/latent}}const float *k, const float *v, const float *q_norm,
                 const float *k_norm, const float *angles, kv *keys, kv *values, kv *evicted_keys,
                 kv *evicted_values, kv *query) {
    SHARED(float, head_row, KEEP{{id}}_WARPS * {{widest_head}});
    const long long row = blockIdx.x, batch = row / s->tokens;
    if (batch >= s->batch)
        return;
{{#keeps}}
    keep{{id}}_token t;
    t.seen = s->seen[batch];
    t.pos = t.seen + row % s->tokens;
    t.end = t.seen + s->tokens;
    t.padding = t.pos < s->padding[batch];
{{/keeps}}
{{^keeps}}
    (void)k; /* they are in the cache: another layer's */
    (void)v;
    (void)k_norm;
    (void)keys;
    (void)values;
    (void)evicted_keys;
    (void)evicted_values;
{{/keeps}}
    q += row * {{q_row}};
{{#latent}}
    q_rope += row * {{q_rope_row}};
{{/latent}}
{{#keeps}}
    k += row * {{k_row}};
    v += row * {{v_row}};
{{/keeps}}
{{^q_norm}}
    (void)q_norm;
{{/q_norm}}
{{#keeps}}
{{^k_norm}}
    (void)k_norm;
{{/k_norm}}
{{/keeps}}
{{#roped}}
    const float *cosine = angles + ROPE{{rope}}_COS + row * ROPE{{rope}}_PAIRS;
    const float *sine = angles + ROPE{{rope}}_SIN + row * ROPE{{rope}}_PAIRS;
{{/roped}}
{{^roped}}
    (void)angles;
{{/roped}}
    const int lane = (int)threadIdx.x % 32, at = (int)threadIdx.x / 32 * {{widest_head}};
    for (int item = (int)(threadIdx.x / 32 + KEEP{{id}}_WARPS * blockIdx.y);
         item < KEEP{{id}}_HEADS{{#keeps}} + 2 * SHAPE{{shape}}_KV_HEADS{{/keeps}}; item += KEEP{{id}}_WARPS * KEEP{{id}}_GRID) {
        if (item < KEEP{{id}}_HEADS) {
            load_head(head_row, at, q + item * SHAPE{{shape}}_DIM, SHAPE{{shape}}_DIM, {{#q_norm}}q_norm, {{norm_eps}}{{/q_norm}}{{^q_norm}}0, 0{{/q_norm}},
                      {{#roped}}cosine, sine, ROPE{{rope}}_PAIRS{{/roped}}{{^roped}}0, 0, 0{{/roped}});
#pragma unroll 4
            for (int i = lane; i < SHAPE{{shape}}_DIM; i += 32)
                query[(row * KEEP{{id}}_HEADS + item) * KEEP{{id}}_QUERY + i] = kv_of(head_row[at + i]);
{{#latent}}
            for (int i = lane; i < SHAPE{{shape}}_V_DIM; i += 32)
                query[(row * KEEP{{id}}_HEADS + item) * KEEP{{id}}_QUERY + SHAPE{{shape}}_DIM + i] =
                    kv_of(q_rope[item * SHAPE{{shape}}_V_DIM + i]);
{{/latent}}
            continue;
        }
{{#keeps}}
        const int head = (item - KEEP{{id}}_HEADS) % SHAPE{{shape}}_KV_HEADS;
        const long long place = s->row[batch] * SHAPE{{shape}}_KV_HEADS + head;
        if (item < KEEP{{id}}_HEADS + SHAPE{{shape}}_KV_HEADS) {
            load_head(head_row, at, k + head * SHAPE{{shape}}_DIM, SHAPE{{shape}}_DIM, {{#k_norm}}k_norm, {{norm_eps}}{{/k_norm}}{{^k_norm}}0, 0{{/k_norm}},
                      {{#roped}}cosine, sine, ROPE{{rope}}_PAIRS{{/roped}}{{^roped}}0, 0, 0{{/roped}});
            keep{{id}}_row(&t, keys + place * SHAPE{{shape}}_SLOTS * SHAPE{{shape}}_DIM,
                      evicted_keys + place * SHAPE{{shape}}_EVICTED * SHAPE{{shape}}_DIM, head_row, at, SHAPE{{shape}}_DIM);
        } else {
            load_head(head_row, at, v + head * SHAPE{{shape}}_V_DIM, SHAPE{{shape}}_V_DIM, 0, 0, 0, 0, 0);
            keep{{id}}_row(&t, values + place * SHAPE{{shape}}_SLOTS * SHAPE{{shape}}_V_DIM,
                      evicted_values + place * SHAPE{{shape}}_EVICTED * SHAPE{{shape}}_V_DIM, head_row, at, SHAPE{{shape}}_V_DIM);
        }
{{/keeps}}
    }
}

