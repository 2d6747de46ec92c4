/* sample.c - see sample.h. */
#include "sample.h"

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

typedef struct {
    float score;
    int32_t id;
} choice;

struct sc_sampler {
    sc_sampling sampling;
    int vocab;
    uint64_t state;  /* of the generator */
    choice *choices; /* [vocab] */
    uint32_t *seen;  /* [vocab]: the round in which the token's penalty was applied */
    uint32_t round;
};

/* PCG XSH-RR 64/32 (O'Neill 2014). */
static uint32_t random_bits(sc_sampler *s) {
    const uint64_t x = s->state;
    s->state = x * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    const uint32_t mixed = (uint32_t)((x >> 18 ^ x) >> 27);
    const unsigned turn = (unsigned)(x >> 59);
    return mixed >> turn | mixed << (-turn & 31);
}

/* 0 <= u < 1, in steps of 2^-53 */
static double random_unit(sc_sampler *s) {
    const uint64_t high = random_bits(s) >> 5, low = random_bits(s) >> 6;
    return (double)(high << 26 | low) * 0x1p-53;
}

static int check_sampling(const sc_sampling *s, int vocab, sc_error *err) {
    if (vocab < 1)
        return sc_fail(err, SC_EUSAGE, "vocab: %d (at least 1)", vocab);
    if (!(s->temperature >= 0) || isinf(s->temperature))
        return sc_fail(err, SC_EUSAGE, "temperature: %g is out of range (0 or more)",
                       (double)s->temperature);
    if (s->top_k < 0)
        return sc_fail(err, SC_EUSAGE, "top_k: %d is out of range (0 or more)", s->top_k);
    if (!(s->top_p >= 0 && s->top_p <= 1))
        return sc_fail(err, SC_EUSAGE, "top_p: %g is out of range (0 to 1)", (double)s->top_p);
    if (!(s->min_p >= 0 && s->min_p <= 1))
        return sc_fail(err, SC_EUSAGE, "min_p: %g is out of range (0 to 1)", (double)s->min_p);
    if (!(s->repetition_penalty >= 0) || isinf(s->repetition_penalty))
        return sc_fail(err, SC_EUSAGE, "repetition_penalty: %g is out of range (above 0)",
                       (double)s->repetition_penalty);
    return 0;
}

int sc_sampler_create(sc_sampler **out, const sc_sampling *sampling, int vocab, sc_error *err) {
    const int rc = check_sampling(sampling, vocab, err);
    if (rc != 0)
        return rc;
    sc_sampler *s = calloc(1, sizeof *s);
    if (s) {
        s->choices = calloc((size_t)vocab, sizeof *s->choices);
        s->seen = calloc((size_t)vocab, sizeof *s->seen);
    }
    if (!s || !s->choices || !s->seen) {
        sc_sampler_destroy(s);
        return sc_fail(err, SC_EENV, "sampler: out of memory for %d tokens", vocab);
    }
    s->sampling = *sampling;
    s->vocab = vocab;
    random_bits(s);
    s->state += sampling->seed;
    random_bits(s);
    *out = s;
    return 0;
}

void sc_sampler_destroy(sc_sampler *sampler) {
    if (!sampler)
        return;
    free(sampler->seen);
    free(sampler->choices);
    free(sampler);
}

/* Each token of the history once, however often it is there. */
static void penalise(sc_sampler *s, const int32_t *history, int count) {
    const float penalty = s->sampling.repetition_penalty;
    if (penalty == 0 || penalty == 1)
        return;
    if (++s->round == 0) {
        memset(s->seen, 0, (size_t)s->vocab * sizeof *s->seen);
        s->round = 1;
    }
    for (int i = 0; i < count; i++) {
        const int32_t id = history[i];
        if (id < 0 || id >= s->vocab || s->seen[id] == s->round)
            continue;
        s->seen[id] = s->round;
        float *score = &s->choices[id].score;
        *score = *score < 0 ? *score * penalty : *score / penalty;
    }
}

static bool better(choice a, choice b) {
    return a.score != b.score ? a.score > b.score : a.id < b.id;
}

static void sift(choice *heap, int i, int count) {
    const choice moved = heap[i];
    for (;;) {
        int child = 2 * i + 1;
        if (child >= count)
            break;
        if (child + 1 < count && better(heap[child + 1], heap[child]))
            child++;
        if (!better(heap[child], moved))
            break;
        heap[i] = heap[child];
        i = child;
    }
    heap[i] = moved;
}

/* Moves the best of the heap's count choices behind the others. */
static choice take_best(choice *heap, int count) {
    const choice best = heap[0];
    heap[0] = heap[count - 1];
    heap[count - 1] = best;
    sift(heap, 0, count - 1);
    return best;
}

/*
 * The choices that top_k and top_p leave lie from the result to the end, the worst first. The heap
 * gives up the best one by one, so a large vocabulary is not sorted.
 */
static int keep_best(sc_sampler *s, float best) {
    choice *c = s->choices;
    const int top_k = s->sampling.top_k;
    const double top_p = (double)s->sampling.top_p;
    int left = s->vocab;
    for (int i = left / 2; i-- > 0;)
        sift(c, i, left);
    double total = 0;
    if (top_k > 0 && top_k < s->vocab) {
        while (left > 0 && (s->vocab - left < top_k || c[0].score == c[left].score)) {
            total += exp((double)(take_best(c, left).score - best));
            left--;
        }
        if (top_p == 0 || top_p == 1)
            return left;
        double sum = 0;
        int first = s->vocab;
        while (first > left && (first == s->vocab || sum < top_p * total))
            sum += exp((double)(c[--first].score - best));
        return first;
    }
    for (int i = 0; i < left; i++)
        total += exp((double)(c[i].score - best));
    double sum = 0;
    while (left > 0 && (left == s->vocab || sum < top_p * total)) {
        sum += exp((double)(take_best(c, left).score - best));
        left--;
    }
    return left;
}

static int32_t draw(sc_sampler *s, int first, float best) {
    const choice *c = s->choices;
    const double floor_p = (double)s->sampling.min_p;
    double total = 0;
    for (int i = first; i < s->vocab; i++) {
        const double p = exp((double)(c[i].score - best));
        total += p >= floor_p ? p : 0;
    }
    double rest = random_unit(s) * total;
    int32_t last = c[first].id;
    for (int i = first; i < s->vocab; i++) {
        const double p = exp((double)(c[i].score - best));
        if (p < floor_p || p == 0)
            continue;
        last = c[i].id;
        rest -= p;
        if (rest < 0)
            break;
    }
    return last;
}

int32_t sc_sampler_next(sc_sampler *s, const float *logits, const int32_t *history, int count) {
    const sc_sampling *o = &s->sampling;
    for (int i = 0; i < s->vocab; i++)
        s->choices[i] = (choice){ isnan(logits[i]) ? -INFINITY : logits[i], i };
    penalise(s, history, count);
    if (o->temperature > 0)
        for (int i = 0; i < s->vocab; i++)
            s->choices[i].score /= o->temperature;
    choice best = s->choices[0];
    for (int i = 1; i < s->vocab; i++)
        if (better(s->choices[i], best))
            best = s->choices[i];
    if (o->temperature == 0 || isinf(best.score))
        return best.id;
    const bool cut = (o->top_k > 0 && o->top_k < s->vocab) || (o->top_p > 0 && o->top_p < 1);
    return draw(s, cut ? keep_best(s, best.score) : 0, best.score);
}
