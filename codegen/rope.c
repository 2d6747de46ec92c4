/* rope.c - see rope.h. */
#include "rope.h"

#include <math.h>
#include <string.h>

static const double pi = 3.14159265358979323846;

static bool is(const sc_rope_config *c, const char *type) { return !strcmp(c->rope_type, type); }

/* theta^(2 pair / width). */
static float wave(const sc_rope_config *c, int64_t pair, int64_t width) {
    const float exponent = (float)(2 * pair) / (float)width;
    return (float)pow((double)(float)c->rope_theta, (double)exponent);
}

/* Long waves are stretched by factor, short ones kept, between them a blend. */
static float llama3_freq(float freq, const sc_rope_config *c) {
    const double low = c->low_freq_factor, high = c->high_freq_factor;
    const double context = (double)c->original_max_position_embeddings;
    const float factor = (float)c->factor, wavelen = (float)(2 * pi) / freq;
    if (wavelen > (float)(context / low))
        return freq / factor;
    if (wavelen < (float)(context / high))
        return freq;
    const float smooth = ((float)context / wavelen - (float)low) / (float)(high - low);
    return (1 - smooth) * freq / factor + smooth * freq;
}

/* The pair that turns so many times within the original context. */
static double yarn_pair(double turns, double width, const sc_rope_config *c) {
    return width * log((double)c->original_max_position_embeddings / (turns * 2 * pi)) /
           (2 * log(c->rope_theta));
}

/* Pairs up to low keep their frequency, those from high on are stretched, between them a blend. */
static float yarn_freq(float length, int64_t pair, int64_t width, const sc_rope_config *c) {
    double low = yarn_pair(c->beta_fast, (double)width, c);
    double high = yarn_pair(c->beta_slow, (double)width, c);
    if (c->truncate) {
        low = floor(low);
        high = ceil(high);
    }
    low = fmax(low, 0);
    high = fmin(high, (double)width - 1);
    if (high <= low && high >= low)
        high += 0.001;
    const float line = ((float)pair - (float)low) / (float)(high - low);
    const float kept = 1 - fminf(fmaxf(line, 0), 1);
    return 1 / ((float)c->factor * length) * (1 - kept) + 1 / length * kept;
}

static double yarn_mscale(double factor, double mscale) {
    return factor <= 1 ? 1 : 0.1 * mscale * log(factor) + 1;
}

static double attention_factor(const sc_rope_config *c, int64_t positions) {
    if (c->attention_factor > 0)
        return c->attention_factor;
    if (is(c, "yarn"))
        return c->mscale > 0 && c->mscale_all_dim > 0
                   ? yarn_mscale(c->factor, c->mscale) / yarn_mscale(c->factor, c->mscale_all_dim)
                   : yarn_mscale(c->factor, 1);
    if (!is(c, "longrope"))
        return 1;
    const double original = (double)c->original_max_position_embeddings;
    const double factor = c->factor > 0 ? c->factor : (double)positions / original;
    return factor <= 1 ? 1 : sqrt(1 + log(factor) / log(original));
}

double sc_rope_score_scale(const sc_rope_config *c) {
    const bool scaled = is(c, "yarn") && c->mscale_all_dim > 0;
    const double scale = scaled ? yarn_mscale(c->factor, c->mscale_all_dim) : 1;
    return scale * scale;
}

/* longrope's factors are in divisor. */
static float frequency(const sc_rope_config *c, int64_t pair, int64_t width,
                       const double *divisor) {
    const float length = wave(c, pair, width);
    if (divisor)
        return 1 / ((float)divisor[pair] * length);
    if (is(c, "yarn"))
        return yarn_freq(length, pair, width, c);
    float freq = 1 / length;
    if (is(c, "linear") || is(c, "proportional"))
        freq /= (float)c->factor;
    else if (is(c, "llama3"))
        freq = llama3_freq(freq, c);
    return c->freq_factors ? freq / c->freq_factor[pair] : freq;
}

/* Of a proportional rope, the pairs from turning on stand still. */
static float *frequencies(sc_pool *pool, const sc_rope_config *c, int64_t width, int64_t turning,
                          const double *divisor) {
    float *freq = sc_pool_alloc(pool, (size_t)width / 2, sizeof *freq);
    for (int64_t i = 0; freq && i < width / 2; i++)
        freq[i] = i < turning ? frequency(c, i, width, divisor) : 0;
    return freq;
}

static int check(const sc_rope_config *c, int64_t head_dim, int64_t width, sc_error *err) {
    if (width < 2 || width % 2)
        return sc_fail(err, SC_EINPUT, "%s.partial_rotary_factor: %g of %lld is no even width",
                       c->where, c->partial_rotary_factor, (long long)head_dim);
    if (c->factors && c->factors != width / 2)
        return sc_fail(err, SC_EINPUT, "%s.short_factor: %lld numbers for %lld pairs", c->where,
                       (long long)c->factors, (long long)width / 2);
    if (is(c, "dynamic") && width == 2)
        return sc_fail(err, SC_EINPUT, "%s.rope_type: \"dynamic\" wants two pairs or more",
                       c->where);
    return SC_OK;
}

int sc_rope_make(sc_rope *rope, sc_pool *pool, const sc_rope_config *config, int64_t head_dim,
                 int64_t max_position_embeddings, sc_error *err) {
    const int64_t turned = (int64_t)((double)head_dim * config->partial_rotary_factor);
    const int64_t width = is(config, "proportional") ? head_dim : turned;
    const int rc = check(config, head_dim, width, err);
    if (rc)
        return rc;
    *rope =
        (sc_rope){ .rope_type = config->rope_type,
                   .rope_theta = config->rope_theta,
                   .rotary_dim = width,
                   .attention_factor = (float)attention_factor(config, max_position_embeddings) };
    rope->inv_freq = frequencies(pool, config, width, turned / 2, config->short_factor);
    if (config->factors) {
        rope->long_freq = frequencies(pool, config, width, turned / 2, config->long_factor);
        rope->long_from = config->original_max_position_embeddings;
    } else if (is(config, "dynamic")) {
        rope->growth = (float)config->factor;
        rope->long_from = max_position_embeddings;
    }
    return rope->inv_freq && (rope->long_freq || !config->factors)
               ? SC_OK
               : sc_oom(err, "building the graph");
}
