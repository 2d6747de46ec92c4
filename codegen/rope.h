/*
 * rope.h - a rope's settings as numbers: the angle of each pair per position.
 *
 * Source  transformers src/transformers/modeling_rope_utils.py, _compute_*_parameters; YaRN: Peng
 *         et al. 2023; LongRoPE: Ding et al. 2024. In double, rounded once.
 */
#ifndef SC_ROPE_H
#define SC_ROPE_H

#include "graph.h"

/*
 * Of a head of head_dim, of which partial_rotary_factor is turned. longrope has two tables: a token
 * at original_max_position_embeddings or later takes the long one. The reference takes one table
 * for all tokens of a forward pass, by its last; ours is what it does token by token.
 * SC_EINPUT  the turned part is no even width; the lists of longrope have another length.
 */
int sc_rope_make(sc_rope *rope, sc_pool *pool, const sc_rope_config *config, int64_t head_dim,
                 int64_t max_position_embeddings, sc_error *err);

#endif
