/*
 * rope.h - a rope's settings as numbers: the angle of each pair per position.
 *
 * Frequencies take the reference's steps: float32 where it has tensors, double where it has
 * Python's numbers; they are its numbers to the last bit or next to it.
 *
 * longrope and dynamic change with the length of the sequence. The reference takes the length of
 * each forward pass, for all its tokens, and keeps the keys of earlier ones as they are: its logits
 * depend on how a prompt is cut. Here each token takes its own position + 1 for that length. This
 * is what the reference does in decode, and in a prefill up to the length from which they change;
 * every way of cutting a prompt gives the same.
 *
 * Source  transformers src/transformers/modeling_rope_utils.py, _compute_*_parameters,
 *         dynamic_rope_update; YaRN: Peng et al. 2023; LongRoPE: Ding et al. 2024.
 */
#ifndef SC_ROPE_H
#define SC_ROPE_H

#include "graph.h"

/*
 * Of a head of head_dim, of which partial_rotary_factor is turned; of a proportional one all is,
 * most of it by nothing.
 * SC_EINPUT  the turned part is no even width; the lists of longrope have another length; a dynamic
 *            one has one pair.
 */
int sc_rope_make(sc_rope *rope, sc_pool *pool, const sc_rope_config *config, int64_t head_dim,
                 int64_t max_position_embeddings, sc_error *err);

/*
 * What latent attention multiplies its scores by, besides head_dim^-0.5: of yarn, what
 * mscale_all_dim leaves out of cos and sin, squared; else 1.
 * Source  transformers src/transformers/models/deepseek_v3/modeling_deepseek_v3.py,
 *         yarn_apply_mscale.
 */
double sc_rope_score_scale(const sc_rope_config *config);

#endif
