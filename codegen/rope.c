/* rope.c - see rope.h. */
#include "rope.h"

#include <math.h>
#include <string.h>

static const double pi = 3.14159265358979323846;

static bool is(const sc_rope_config *c, const char *type) { return !strcmp(c->rope_type, type); }

/* Long waves are stretched by factor, short ones kept, between them a blend. */
static double llama3_freq(double freq, const sc_rope_config *c) {
    const double low = c->low_freq_factor, high = c->high_freq_factor;
    const double context = (double)c->original_max_position_embeddings;
    const double wavelen = 2 * pi / freq;
    if (wavelen < context / high)
        return freq;
    if (wavelen > context / low)
        return freq / c->factor;
    const double smooth = (context / wavelen - low) / (high - low);
    return (1 - smooth) * freq / c->factor + smooth * freq;
}

/* The pair that turns so many times within the original context. */
static double yarn_pair(double turns, double width, const sc_rope_config *c) {
    return width * log((double)c->original_max_position_embeddings / (turns * 2 * pi)) /
           (2 * log(c->rope_theta));
}

/* Pairs up to low keep their frequency, those from high on are stretched, between them a blend. */
static double yarn_freq(double freq, int64_t pair, int64_t width, const sc_rope_config *c) {
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
    const double ramp = fmin(fmax(((double)pair - low) / (high - low), 0), 1);
    return freq / c->factor * ramp + freq * (1 - ramp);
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

static float *frequencies(sc_pool *pool, const sc_rope_config *c, int64_t width,
                          const double *divisor) {
    float *freq = sc_pool_alloc(pool, (size_t)width / 2, sizeof *freq);
    for (int64_t i = 0; freq && i < width / 2; i++) {
        double f = pow(c->rope_theta, -2.0 * (double)i / (double)width);
        if (is(c, "linear"))
            f /= c->factor;
        else if (is(c, "llama3"))
            f = llama3_freq(f, c);
        else if (is(c, "yarn"))
            f = yarn_freq(f, i, width, c);
        if (divisor)
            f /= divisor[i];
        if (c->freq_factors)
            f /= (double)c->freq_factor[i];
        freq[i] = (float)f;
    }
    return freq;
}

int sc_rope_make(sc_rope *rope, sc_pool *pool, const sc_rope_config *config, int64_t head_dim,
                 int64_t max_position_embeddings, sc_error *err) {
    const int64_t width = (int64_t)((double)head_dim * config->partial_rotary_factor);
    if (width < 2 || width % 2)
        return sc_fail(err, SC_EINPUT,
                       "config.json: partial_rotary_factor: %g of head_dim %lld is no even width",
                       config->partial_rotary_factor, (long long)head_dim);
    if (config->factors && config->factors != width / 2)
        return sc_fail(err, SC_EINPUT,
                       "config.json: rope_parameters.short_factor: %lld numbers for %lld pairs",
                       (long long)config->factors, (long long)width / 2);
    *rope =
        (sc_rope){ .rope_type = config->rope_type,
                   .rope_theta = config->rope_theta,
                   .rotary_dim = width,
                   .attention_factor = (float)attention_factor(config, max_position_embeddings) };
    rope->inv_freq = frequencies(pool, config, width, config->short_factor);
    if (config->factors) {
        rope->long_freq = frequencies(pool, config, width, config->long_factor);
        rope->long_from = config->original_max_position_embeddings;
    }
    return rope->inv_freq && (rope->long_freq || !config->factors)
               ? SC_OK
               : sc_oom(err, "building the graph");
}
