/* kv runs of dim elements, one per position first … end - 1, between equal places of two buffers. */
static __device__ __forceinline__ void copy_positions(kv *to, const kv *from, long long first,
                                                      long long end, long long slots, int dim) {
    for (long long i = threadIdx.x; i < (end - first) * dim; i += ROW_THREADS) {
        const long long at = (first + i / dim) % slots * dim + i % dim;
        to[at] = from[at];
    }
}

{{#shapes}}
/*
 * {{layer_list}}: what the pass gave goes from the slot on the device home to the host: positions
 * max(seen, end - SLOTS) … end of its rows.
 * Grid batch * SHAPE{{id}}_KV_HEADS, block ROW_THREADS; a thread copies every ROW_THREADS-th element of
 * one row of the batch and one kv_head.
 */
extern "C" __global__ void __launch_bounds__(ROW_THREADS)
    write_back{{id}}_kernel(const step *s, const kv *slot_keys, const kv *slot_values, kv *home_keys,
                       kv *home_values) {
    const long long batch = blockIdx.x / SHAPE{{id}}_KV_HEADS, head = blockIdx.x % SHAPE{{id}}_KV_HEADS;
    if (batch >= s->batch)
        return;
    const long long at = (s->row[batch] * SHAPE{{id}}_KV_HEADS + head) * SHAPE{{id}}_SLOTS;
    const long long end = s->seen[batch] + s->tokens, first = most(s->seen[batch], end - SHAPE{{id}}_SLOTS);
    copy_positions(home_keys + at * SHAPE{{id}}_DIM, slot_keys + at * SHAPE{{id}}_DIM, first, end, SHAPE{{id}}_SLOTS,
                   SHAPE{{id}}_DIM);
    copy_positions(home_values + at * SHAPE{{id}}_V_DIM, slot_values + at * SHAPE{{id}}_V_DIM, first, end,
                   SHAPE{{id}}_SLOTS, SHAPE{{id}}_V_DIM);
}

{{/shapes}}
