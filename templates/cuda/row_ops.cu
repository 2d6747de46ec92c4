{{! row_ops.cu - what is done to a token's row by itself: a block's threads share it. }}
{{! As templates/ops/rows.c has it for the processor. y are floats, to operands, one of them 0. }}
{{#uses_rms_norm}}
/* y = x / sqrt(mean(x^2) + eps) * w of each run: LlamaRMSNorm; w 0: ones, else w_step apart from
 * run to run. One run is the block's, of several a warp has each. A thread squares every
 * ROW_THREADS-th, or 32nd, element in rising order; lanes are added by halves, then the warps in
 * order. */
static __device__ __forceinline__ void rms_norm(const float *x, const float *w, int runs, int width,
                                                int w_step, float eps, float *y, operand *to,
                                                SHARED_OF(float) sums) {
    const int step = runs == 1 ? ROW_THREADS : 32, first = (int)threadIdx.x % step;
    for (int run = runs == 1 ? 0 : (int)threadIdx.x / 32; run < runs; run += BLOCK_WARPS) {
        const int begin = run * width;
        float sum = 0;
        for (int i = first; i < width; i += step)
            sum += x[begin + i] * x[begin + i];
        sum = runs == 1 ? block_sum(sum, sums) : warp_sum(sum);
        const float scale = 1.0f / sqrtf(sum / (float)width + eps);
        for (int i = first; i < width; i += step)
            put(y, to, begin + i, x[begin + i] * scale * (w ? w[run * w_step + i] : 1.0f));
    }
}

{{/uses_rms_norm}}
{{#uses_layer_norm}}
/* y = (x - mean) / sqrt(variance + eps) * w + bias of each run: torch.nn.LayerNorm; bias 0: none.
 * Weights are w_step apart from run to run. Sums as above. */
static __device__ __forceinline__ void layer_norm(const float *x, const float *w, const float *bias,
                                                  int runs, int width, int w_step, float eps,
                                                  float *y, operand *to, SHARED_OF(float) sums) {
    const int step = runs == 1 ? ROW_THREADS : 32, first = (int)threadIdx.x % step;
    for (int run = runs == 1 ? 0 : (int)threadIdx.x / 32; run < runs; run += BLOCK_WARPS) {
        const int begin = run * width;
        float sum = 0, squares = 0;
        for (int i = first; i < width; i += step)
            sum += x[begin + i];
        const float mean = (runs == 1 ? block_sum(sum, sums) : warp_sum(sum)) / (float)width;
        for (int i = first; i < width; i += step)
            squares += (x[begin + i] - mean) * (x[begin + i] - mean);
        squares = runs == 1 ? block_sum(squares, sums) : warp_sum(squares);
        const float scale = 1.0f / sqrtf(squares / (float)width + eps);
        for (int i = first; i < width; i += step)
            put(y, to, begin + i,
                (x[begin + i] - mean) * scale * w[run * w_step + i] + (bias ? bias[i] : 0.0f));
    }
}

{{/uses_layer_norm}}
{{#uses_add}}
/* y = a * fa + b * fb. */
static __device__ __forceinline__ void add(const float *a, float fa, const float *b, float fb,
                                           int width, float *y, operand *to) {
    for (int i = (int)threadIdx.x; i < width; i += ROW_THREADS)
        put(y, to, i, a[i] * fa + b[i] * fb);
}

{{/uses_add}}
{{#uses_multiply}}
/* y = a * b. */
static __device__ __forceinline__ void multiply(const float *a, const float *b, int width, float *y,
                                                operand *to) {
    for (int i = (int)threadIdx.x; i < width; i += ROW_THREADS)
        put(y, to, i, a[i] * b[i]);
}

{{/uses_multiply}}
{{#uses_times}}
/* y = x * factor. */
static __device__ __forceinline__ void times(const float *x, float factor, int width, float *y,
                                             operand *to) {
    for (int i = (int)threadIdx.x; i < width; i += ROW_THREADS)
        put(y, to, i, x[i] * factor);
}

{{/uses_times}}
{{#uses_sigmoid_gate}}
/* y = a * sigmoid(b), each by its own or all by the one. */
static __device__ __forceinline__ void sigmoid_gate(const float *a, const float *b, int width,
                                                    int gates, float *y, operand *to) {
    for (int i = (int)threadIdx.x; i < width; i += ROW_THREADS)
        put(y, to, i, a[i] / (1.0f + expf(-b[gates > 1 ? i : 0])));
}

{{/uses_sigmoid_gate}}
{{#uses_silu_gate}}
/* y = a * silu(b). */
static __device__ __forceinline__ void silu_gate(const float *a, const float *b, int width, float *y,
                                                 operand *to) {
    for (int i = (int)threadIdx.x; i < width; i += ROW_THREADS)
        put(y, to, i, a[i] * (b[i] / (1.0f + expf(-b[i]))));
}

{{/uses_silu_gate}}
{{#uses_scale}}
/* y = x * w, each by its own or all by the one. */
static __device__ __forceinline__ void scale(const float *x, const float *w, int width, int weights,
                                             float *y, operand *to) {
    for (int i = (int)threadIdx.x; i < width; i += ROW_THREADS)
        put(y, to, i, x[i] * w[weights > 1 ? i : 0]);
}

{{/uses_scale}}
{{#uses_lookup}}
/* y = x * fx + row id of the table [rows, depth] * ft; an id that it does not have takes row 0. */
static __device__ __forceinline__ void lookup(const float *x, float fx, const weight *table, int depth,
                                              float ft, int id, int rows, int width, float *y,
                                              operand *to) {
    table += (id < rows ? id : 0) * (long long)depth;
    for (int i = (int)threadIdx.x; i < width; i += ROW_THREADS)
        put(y, to, i, x[i] * fx + weight_float(table[i]) * ft);
}

{{/uses_lookup}}
{{#uses_tanh_row}}
/* y = tanh(x). */
static __device__ __forceinline__ void tanh_row(const float *x, int width, float *y, operand *to) {
    for (int i = (int)threadIdx.x; i < width; i += ROW_THREADS)
        put(y, to, i, tanhf(x[i]));
}

{{/uses_tanh_row}}
{{#uses_match_magnitude}}
/* y = x, as long as the other row is: Gemma3nTextModel. */
static __device__ __forceinline__ void match_magnitude(const float *x, const float *other,
                                                       float least_square, int width, float *y,
                                                       operand *to, SHARED_OF(float) sums) {
    float wanted = 0, has = 0;
    for (int i = (int)threadIdx.x; i < width; i += ROW_THREADS) {
        wanted += other[i] * other[i];
        has += x[i] * x[i];
    }
    wanted = sqrtf(block_sum(wanted, sums) / (float)width);
    has = sqrtf(fmaxf(block_sum(has, sums) / (float)width, least_square));
    for (int i = (int)threadIdx.x; i < width; i += ROW_THREADS)
        put(y, to, i, x[i] * wanted / has);
}

{{/uses_match_magnitude}}
{{#uses_predict}}
/* Each stream is itself and a sum of all of them, by its coefficients: AltUp's prediction (Baykal et
 * al. 2023), Gemma3nTextAltUp. A thread has one element of all streams. */
static __device__ __forceinline__ void predict(const float *x, const float *coefs, int width,
                                               int streams, float *y, operand *to) {
    enum { MOST_STREAMS = 16 };
    const int each = width / streams;
    for (int k = (int)threadIdx.x; k < each; k += ROW_THREADS) {
        float old[MOST_STREAMS];
#pragma unroll
        for (int i = 0; i < streams; i++)
            old[i] = x[i * each + k];
#pragma unroll
        for (int j = 0; j < streams; j++) {
            float sum = 0;
#pragma unroll
            for (int i = 0; i < streams; i++)
                sum += old[i] * coefs[j * streams + i];
            put(y, to, j * each + k, old[j] + sum);
        }
    }
}

{{/uses_predict}}
{{#uses_correct}}
/* Each stream gets what is new in the active one, by its coefficient and one: its correction. */
static __device__ __forceinline__ void correct(const float *innovation, const float *coefs, int width,
                                               int streams, float *y, operand *to) {
    const int each = width / streams;
    for (int i = (int)threadIdx.x; i < width; i += ROW_THREADS)
        put(y, to, i, y[i] + innovation[i % each] * (coefs[i / each] + 1.0f));
}

{{/uses_correct}}
{{#uses_sparse_gate}}
/* y = act(gate) * up, of gates above their row's mean by so many standard deviations alone, and by
 * how much they are: Gemma3nTextMLP. */
#define sparse_gate(gate, up, deviations, act, width, y, to, sums)                                 \
    do {                                                                                           \
        const float cutoff = sparse_cutoff(gate, deviations, width, sums);                         \
        for (int i = (int)threadIdx.x; i < (width); i += ROW_THREADS)                              \
            put(y, to, i, act(fmaxf((gate)[i] - cutoff, 0.0f)) * (up)[i]);                         \
    } while (0)

static __device__ __forceinline__ float sparse_cutoff(const float *gate, float deviations, int width,
                                                      SHARED_OF(float) sums) {
    float sum = 0, squares = 0;
    for (int i = (int)threadIdx.x; i < width; i += ROW_THREADS)
        sum += gate[i];
    const float mean = block_sum(sum, sums) / (float)width;
    for (int i = (int)threadIdx.x; i < width; i += ROW_THREADS)
        squares += (gate[i] - mean) * (gate[i] - mean);
    return mean + sqrtf(block_sum(squares, sums) / (float)width) * deviations;
}

{{/uses_sparse_gate}}
{{#uses_rope_pairs}}
/* Pair i of each head is (x[2i], x[2i + 1]); the rest of it stays. Gptj, Cohere, Ernie 4.5, GLM. */
static __device__ __forceinline__ void rope_pairs(const float *x, int heads, int head_dim,
                                                  const float *cosine, const float *sine, int pairs,
                                                  float *y, operand *to) {
    const int half = (head_dim + 1) / 2;
    for (int item = (int)threadIdx.x; item < heads * half; item += ROW_THREADS) {
        const int pair = item % half, at = item / half * head_dim + 2 * pair;
        const bool turns = pair < pairs, whole = 2 * pair + 1 < head_dim;
        const float a = x[at], b = whole ? x[at + 1] : 0.0f;
        put(y, to, at, turns ? a * cosine[pair] - b * sine[pair] : a);
        if (whole)
            put(y, to, at + 1, turns ? b * cosine[pair] + a * sine[pair] : b);
    }
}

{{/uses_rope_pairs}}
{{#uses_rope}}
/* Pair i of each head is (x[2i], x[2i + 1]) of neighbours, else (x[i], x[i + pairs]); turned, it is
 * (y[i], y[i + pairs]). apply_rotary_pos_emb and its _interleave of DeepseekV3. */
static __device__ __forceinline__ void rope(const float *x, int heads, int x_step, int y_step,
                                            int neighbours, const float *cosine, const float *sine,
                                            int pairs, float *y, operand *to) {
    const int apart = neighbours ? 2 : 1, second = neighbours ? 1 : pairs;
    for (int item = (int)threadIdx.x; item < heads * pairs; item += ROW_THREADS) {
        const int head = item / pairs, pair = item % pairs, at = head * x_step + apart * pair;
        const float a = x[at], b = x[at + second];
        put(y, to, head * y_step + pair, a * cosine[pair] - b * sine[pair]);
        put(y, to, head * y_step + pair + pairs, b * cosine[pair] + a * sine[pair]);
    }
}

{{/uses_rope}}
{{#uses_route}}
/* What an expert is worth before all are divided by their total, and what it is chosen by. */
static __device__ __forceinline__ float worth_of(float score, float top, int sigmoid) {
    return sigmoid ? 1.0f / (1.0f + expf(-score)) : expf(score - top);
}

/* What an expert is chosen by. */
static __device__ __forceinline__ float choice_of(const float *scores, const float *correction, int i,
                                                  float top, int sigmoid) {
    return correction ? worth_of(scores[i], top, sigmoid) + correction[i] : scores[i];
}

/* A bit for each of the top_groups best of the groups, of equals the lower one first: a group is
 * worth its two best. A lane has one. DeepseekV3TopkRouter. */
static __device__ __forceinline__ unsigned best_groups(const float *scores, const float *correction,
                                                       int experts, float top, int sigmoid,
                                                       int groups, int top_groups) {
    const int lane = (int)threadIdx.x, size = experts / groups;
    const float none = -__uint_as_float(0x7f800000);
    float first = none, second = none;
    for (int i = lane * size; i < (lane + 1) * size && lane < groups; i++) {
        const float x = choice_of(scores, correction, i, top, sigmoid);
        second = x > first ? first : x > second ? x : second;
        first = x > first ? x : first;
    }
    const float worth = first + second;
    int better = 0;
    for (int other = 0; other < groups; other++) {
        const float its = __shfl_sync(0xffffffff, worth, other);
        better += its > worth || (its == worth && other < lane);
    }
    return __ballot_sync(0xffffffff, lane < groups && better < top_groups);
}

/* Softmax or sigmoid of the scores; ids of the top_k best, of equals the lower one first, then their
 * weights times scale, which add up to it if that is wanted. correction (0: none) is added to choose
 * by; weights are times expert_scale (0: none). Of several groups of experts only the top_groups best
 * count. The first warp does it, a lane every 32nd expert: each time it takes the best behind the one
 * before. */
static __device__ __forceinline__ void route(const float *scores, const float *correction,
                                             const float *expert_scale, int experts, int top_k,
                                             int normalise, int sigmoid, int groups, int top_groups,
                                             float scale, float *y, operand *to) {
    const int lane = (int)threadIdx.x;
    if (lane >= 32)
        return;
    float top = -1e30f, total = 0, chosen = 0, before = __uint_as_float(0x7f800000);
    int before_id = -1;
    for (int i = lane; i < experts; i += 32)
        top = fmaxf(top, scores[i]);
    for (int apart = 16; apart; apart /= 2)
        top = fmaxf(top, __shfl_xor_sync(0xffffffff, top, apart));
    for (int i = lane; i < experts; i += 32)
        total += expf(scores[i] - top);
    total = warp_sum(total);
    const unsigned kept =
        groups > 1 ? best_groups(scores, correction, experts, top, sigmoid, groups, top_groups) : 0;
    for (int k = 0; k < top_k; k++) {
        float best = -__uint_as_float(0x7f800000);
        int id = experts;
        for (int i = lane; i < experts; i += 32) {
            const bool out = groups > 1 && !(kept >> i / (experts / groups) & 1);
            const float x = out ? -__uint_as_float(0x7f800000)
                                : choice_of(scores, correction, i, top, sigmoid);
            const bool left = x < before || (x == before && i > before_id);
            if (left && (x > best || (x == best && i < id))) {
                best = x;
                id = i;
            }
        }
        for (int apart = 16; apart; apart /= 2) {
            const float other = __shfl_xor_sync(0xffffffff, best, apart);
            const int other_id = __shfl_xor_sync(0xffffffff, id, apart);
            if (other > best || (other == best && other_id < id)) {
                best = other;
                id = other_id;
            }
        }
        before = best;
        before_id = id;
        const int one = id < experts ? id : 0; /* no score is a number: any id will do */
        const float weight_of =
            worth_of(scores[one], top, sigmoid) / (sigmoid ? 1.0f : total);
        chosen += weight_of;
        if (lane == 0) {
            put(y, to, k, (float)one);
            put(y, to, top_k + k, weight_of * (expert_scale ? expert_scale[one] : 1.0f));
        }
    }
    __syncwarp();
    for (int k = lane; k < top_k; k += 32)
        put(y, to, top_k + k, y[top_k + k] * scale / (normalise ? chosen + 1e-20f : 1.0f));
}

{{/uses_route}}
{{#uses_add_position}}
/* y = x + row pos + offset of the table [rows, depth] of learned positions. */
static __device__ __forceinline__ void add_position(const float *x, const weight *table, int depth,
                                                    long long pos, int offset, int width, float *y,
                                                    operand *to) {
    table += (pos + offset) * depth;
    for (int i = (int)threadIdx.x; i < width; i += ROW_THREADS)
        put(y, to, i, x[i] + weight_float(table[i]));
}

{{/uses_add_position}}
{{#uses_temperature}}
/* Queries grow with their position, by the logarithm of how many floors it is high:
 * Llama4TextAttention. */
static __device__ __forceinline__ void temperature(const float *x, long long pos, int floor_scale,
                                                   float scale, int width, float *y, operand *to) {
    const float floors = floorf(((float)pos + 1.0f) / (float)floor_scale);
    const float factor = log1pf(floors) * scale + 1.0f;
    for (int i = (int)threadIdx.x; i < width; i += ROW_THREADS)
        put(y, to, i, x[i] * factor);
}

{{/uses_temperature}}
