{{! rows.c - what is done to each token's row by itself; only what a casting uses is there. }}
{{#uses_rms_norm}}
/* Runs of width elements, each normed by itself. Weights are w_step apart from run to run. */
static inline void rms_norm(const float *x, const float *w, int64_t runs, int64_t width,
                            int64_t w_step, float eps, float *y) {
    for (int64_t i = 0; i < runs; i++)
        norm_row(x + i * width, w_step ? w + i * w_step : w, width, eps, y + i * width);
}

{{/uses_rms_norm}}
{{#uses_layer_norm}}
/* (x - mean) / sqrt(variance + eps) * w + bias of each run: torch.nn.LayerNorm. Weights are w_step
 * apart from run to run. Both sums run in rising order. */
static void layer_norm(const float *x, const float *w, const float *bias, int64_t runs,
                       int64_t width, int64_t w_step, float eps, float *y) {
    for (int64_t run = 0; run < runs; run++, x += width, y += width, w += w_step) {
        float sum = 0, squares = 0;
        for (int64_t i = 0; i < width; i++)
            sum += x[i];
        const float mean = sum / (float)width;
        for (int64_t i = 0; i < width; i++)
            squares += (x[i] - mean) * (x[i] - mean);
        const float scale = 1.0f / sqrtf(squares / (float)width + eps);
        for (int64_t i = 0; i < width; i++)
            y[i] = (x[i] - mean) * scale * w[i] + (bias ? bias[i] : 0.0f);
    }
}

{{/uses_layer_norm}}
{{#uses_add}}
/* y = a * fa + b * fb. */
static inline void add(const float *a, float fa, const float *b, float fb, int64_t width,
                       float *y) {
    for (int64_t i = 0; i < width; i++)
        y[i] = a[i] * fa + b[i] * fb;
}

{{/uses_add}}
{{#uses_multiply}}
/* y = a * b. */
static inline void multiply(const float *a, const float *b, int64_t width, float *y) {
    for (int64_t i = 0; i < width; i++)
        y[i] = a[i] * b[i];
}

{{/uses_multiply}}
{{#uses_rope_pairs}}
/* Pair i of each head is (x[2i], x[2i + 1]); the rest of it stays. Gptj, Cohere, Ernie 4.5, GLM. */
static void rope_pairs(const float *x, int64_t heads, int64_t head_dim, const float *cosine,
                       const float *sine, int64_t count, float *y) {
    for (int64_t head = 0; head < heads; head++, x += head_dim, y += head_dim) {
        for (int64_t i = 0; i < count; i++) {
            const float a = x[2 * i], b = x[2 * i + 1];
            y[2 * i] = a * cosine[i] - b * sine[i];
            y[2 * i + 1] = b * cosine[i] + a * sine[i];
        }
        if (x != y)
            memcpy(y + 2 * count, x + 2 * count, (size_t)(head_dim - 2 * count) * sizeof *y);
    }
}

{{/uses_rope_pairs}}
{{#uses_rope}}
/* Pair i of each head is (x[2i], x[2i + 1]) of neighbours, else (x[i], x[i + count]); turned,
 * it is (y[i], y[i + count]). apply_rotary_pos_emb and its _interleave of DeepseekV3. */
static void rope(const float *x, int64_t heads, int64_t x_step, int64_t y_step,
                 int64_t neighbours, const float *cosine, const float *sine, int64_t count,
                 float *y) {
    const int64_t apart = neighbours ? 2 : 1, second = neighbours ? 1 : count;
    for (int64_t head = 0; head < heads; head++, x += x_step, y += y_step)
        for (int64_t i = 0; i < count; i++) {
            const float a = x[apart * i], b = x[apart * i + second];
            y[i] = a * cosine[i] - b * sine[i];
            y[i + count] = b * cosine[i] + a * sine[i];
        }
}

{{/uses_rope}}
{{#uses_route}}
/* Nothing outside the top_groups best of the groups is chosen: a group is worth its two best.
 * DeepseekV3TopkRouter. */
static void keep_groups(float *choice, int64_t experts, int64_t groups, int64_t top_groups) {
    const int64_t size = experts / groups;
    float worth[MOST_EXPERTS];
    bool kept[MOST_EXPERTS] = { false };
    for (int64_t group = 0; group < groups; group++) {
        float first = -INFINITY, second = -INFINITY;
        for (int64_t i = group * size; i < (group + 1) * size; i++) {
            second = choice[i] > first ? first : choice[i] > second ? choice[i] : second;
            first = choice[i] > first ? choice[i] : first;
        }
        worth[group] = first + second;
    }
    for (int64_t k = 0; k < top_groups; k++) {
        int64_t best = -1;
        for (int64_t group = 0; group < groups; group++)
            if (!kept[group] && (best < 0 || worth[group] > worth[best]))
                best = group;
        kept[best] = true;
    }
    for (int64_t i = 0; i < experts; i++)
        choice[i] = kept[i / size] ? choice[i] : -INFINITY;
}

/* Softmax or sigmoid of the scores; ids of the top_k best, of equals the lower one first, then
 * their weights, which add up to 1 if that is wanted. correction is added to choose by; expert_scale
 * (of each) and scale multiply the weights. */
static void route(const float *scores, const float *correction, const float *expert_scale,
                  int64_t experts, int64_t top_k, int64_t normalise, int64_t sigmoid,
                  int64_t groups, int64_t top_groups, float scale, float *y) {
    float worth[MOST_EXPERTS], choice[MOST_EXPERTS], top = scores[0], total = 0, chosen = 0;
    for (int64_t i = 1; i < experts; i++)
        top = scores[i] > top ? scores[i] : top;
    for (int64_t i = 0; i < experts; i++) {
        worth[i] = sigmoid ? 1.0f / (1.0f + expf(-scores[i])) : expf(scores[i] - top);
        choice[i] = correction ? worth[i] + correction[i] : scores[i];
        total += worth[i];
    }
    if (groups > 1)
        keep_groups(choice, experts, groups, top_groups);
    for (int64_t k = 0; k < top_k; k++) {
        int64_t best = -1;
        for (int64_t i = 0; i < experts; i++) {
            bool taken = false;
            for (int64_t j = 0; j < k; j++)
                taken |= (int64_t)y[j] == i;
            if (!taken && (best < 0 || choice[i] > choice[best]))
                best = i;
        }
        y[k] = (float)best;
        y[top_k + k] = sigmoid ? worth[best] : worth[best] / total;
        chosen += y[top_k + k];
    }
    for (int64_t k = 0; k < top_k; k++) {
        const float share = normalise ? y[top_k + k] / (chosen + 1e-20f) : y[top_k + k];
        y[top_k + k] = share * scale * (expert_scale ? expert_scale[(int64_t)y[k]] : 1.0f);
    }
}

{{/uses_route}}
{{#uses_add_position}}
/* y = x + row pos + offset of the table [rows, width] of learned positions. */
static inline void add_position(const float *x, const weight *table, int64_t pos, int64_t offset,
                                int64_t width, float *y) {
    for (int64_t i = 0; i < width; i++)
        y[i] = x[i] + weight_float(table[(pos + offset) * width + i]);
}

{{/uses_add_position}}
{{#uses_times}}
/* y = x * factor. */
static inline void times(const float *x, float factor, int64_t width, float *y) {
    for (int64_t i = 0; i < width; i++)
        y[i] = x[i] * factor;
}

{{/uses_times}}
{{#uses_sigmoid_gate}}
/* y = a * sigmoid(b), each by its own or all by the one. */
static inline void sigmoid_gate(const float *a, const float *b, int64_t width, int64_t gates,
                                float *y) {
    for (int64_t i = 0; i < width; i += SC_LANES) {
        const vec x = gates > 1 ? vec_load_part(b + i, width - i) : vec_set(*b);
        const vec gate = vec_set(1.0f) / (vec_set(1.0f) + vec_exp(-x));
        vec_store_part(y + i, vec_load_part(a + i, width - i) * gate, width - i);
    }
}

{{/uses_sigmoid_gate}}
{{#uses_silu_gate}}
/* y = a * silu(b). */
static inline void silu_gate(const float *a, const float *b, int64_t width, float *y) {
    for (int64_t i = 0; i < width; i += SC_LANES) {
        const vec gate = vec_silu(vec_load_part(b + i, width - i));
        vec_store_part(y + i, vec_load_part(a + i, width - i) * gate, width - i);
    }
}

{{/uses_silu_gate}}
{{#uses_scale}}
/* y = x * w, each by its own or all by the one. */
static inline void scale(const float *x, const float *w, int64_t width, int64_t weights, float *y) {
    for (int64_t i = 0; i < width; i++)
        y[i] = x[i] * w[weights > 1 ? i : 0];
}

{{/uses_scale}}
{{#uses_lookup}}
/* y = x * fx + row id of the table [rows, width] * ft; an id that it does not have takes row 0. */
static inline void lookup(const float *x, float fx, const weight *table, float ft, int64_t id,
                          int64_t rows, int64_t width, float *y) {
    const weight *from = table + (id < rows ? id : 0) * width;
    for (int64_t i = 0; i < width; i++)
        y[i] = x[i] * fx + weight_float(from[i]) * ft;
}

{{/uses_lookup}}
{{#uses_tanh_row}}
/* y = tanh(x). */
static inline void tanh_row(const float *x, int64_t width, float *y) {
    for (int64_t i = 0; i < width; i++)
        y[i] = tanhf(x[i]);
}

{{/uses_tanh_row}}
{{#uses_match_magnitude}}
/* y = x, as long as the other row is: Gemma3nTextModel. */
static void match_magnitude(const float *x, const float *other, float least_square, int64_t width,
                            float *y) {
    float wanted = 0, has = 0;
    for (int64_t i = 0; i < width; i++) {
        wanted += other[i] * other[i];
        has += x[i] * x[i];
    }
    wanted = sqrtf(wanted / (float)width);
    has /= (float)width;
    has = sqrtf(has > least_square ? has : least_square);
    for (int64_t i = 0; i < width; i++)
        y[i] = x[i] * wanted / has;
}

{{/uses_match_magnitude}}
{{#uses_predict}}
enum { MOST_STREAMS = 16 };

/* Each stream is itself and a sum of all of them, by its coefficients: AltUp's prediction (Baykal
 * et al. 2023), Gemma3nTextAltUp. */
static void predict(const float *x, const float *coefs, int64_t width, int64_t streams, float *y) {
    const int64_t each = width / streams;
    float old[MOST_STREAMS];
    for (int64_t k = 0; k < each; k++) {
        for (int64_t i = 0; i < streams; i++)
            old[i] = x[i * each + k];
        for (int64_t j = 0; j < streams; j++) {
            float sum = 0;
            for (int64_t i = 0; i < streams; i++)
                sum += old[i] * coefs[j * streams + i];
            y[j * each + k] = old[j] + sum;
        }
    }
}

/* Each stream gets what is new in the active one, by its coefficient and one: its correction. */
static void correct(const float *innovation, const float *coefs, int64_t width, int64_t streams,
                    float *y) {
    const int64_t each = width / streams;
    for (int64_t j = 0; j < streams; j++)
        for (int64_t k = 0; k < each; k++)
            y[j * each + k] += innovation[k] * (coefs[j] + 1.0f);
}

{{/uses_predict}}
{{#uses_sparse_gate}}
/* y = act(gate) * up, of gates above their row's mean by so many standard deviations alone, and by
 * how much they are: Gemma3nTextMLP. Rows are padded to whole vectors. */
static inline void sparse_gate(const float *gate, const float *up, float deviations,
                               vec (*act)(vec), int64_t width, float *y) {
    float sum = 0, squares = 0;
    for (int64_t i = 0; i < width; i++)
        sum += gate[i];
    const float mean = sum / (float)width;
    for (int64_t i = 0; i < width; i++)
        squares += (gate[i] - mean) * (gate[i] - mean);
    const vec cutoff = vec_set(mean + sqrtf(squares / (float)width) * deviations);
    for (int64_t i = 0; i < width; i += SC_LANES)
        vec_store(y + i, act(vec_relu(vec_load(gate + i) - cutoff)) * vec_load(up + i));
}

{{/uses_sparse_gate}}
{{#uses_temperature}}
/* Queries grow with their position, by the logarithm of how many floors it is high:
 * Llama4TextAttention. */
static inline void temperature(const float *x, int64_t pos, int64_t floor_scale, float scale,
                               int64_t width, float *y) {
    const float floors = floorf(((float)pos + 1.0f) / (float)floor_scale);
    const float factor = log1pf(floors) * scale + 1.0f;
    for (int64_t i = 0; i < width; i++)
        y[i] = x[i] * factor;
}

{{/uses_temperature}}
{{#pairs}}
/* A row as linears take it, to whole vectors. */
static inline void operands(const float *x, int64_t width, operand *y) {
    for (int64_t i = 0; i < width; i += SC_LANES)
        store_operand(y + i, vec_load(x + i));
}

{{/pairs}}
