/*
 * graph_states.h - building layers that keep states: convolutions, state spaces.
 *
 * Widths are those of the layer's states in the config: nothing is said twice.
 */
#ifndef SC_GRAPH_STATES_H
#define SC_GRAPH_STATES_H

#include "graph_build.h"

/* The convolution of the layer's conv_state by the module's weights; y may be x. */
void sc_build_conv(sc_builder *b, sc_span x, const char *module, bool bias, sc_activation act,
                   sc_span y);

/* How a Mamba-2 mixer is normed before its last linear. */
typedef enum {
    SC_MIXER_GATE_NORM, /* norm(y silu(gate)) */
    SC_MIXER_NORM_GATE, /* norm(y) silu(gate) */
    SC_MIXER_GATE       /* y silu(gate) */
} sc_mixer_norm;

/* Where one mixer differs from the next. */
typedef struct {
    const char *module;     /* "mixer": in_proj, conv1d, A_log, D, dt_bias, norm, out_proj of it */
    const char *groups_key; /* "n_groups", for messages */
    bool in_bias, conv_bias, out_bias;
    sc_activation act; /* behind the convolution */
    float dt_least, dt_most;
    sc_mixer_norm norm;    /* of each group by itself */
    const float *multiply; /* [5] of what in_proj makes: gate, x, B, C, dt; NULL: none */
    float onto;            /* times what is added to the residual stream; 0: 1 */
} sc_mixer;

/*
 * Mamba2Mixer: one linear makes gate, x, B, C and dt; x, B and C are convolved; the state space;
 * norm; a linear onto the residual stream. The layer has a conv_state and a recurrent_state [heads,
 * head_dim, state_size]; groups follow from the first one's channels.
 */
void sc_build_mamba2(sc_builder *b, sc_span x, const sc_mixer *mixer);

/* Where one Mamba mixer differs from the next. */
typedef struct {
    const char *module;   /* "mamba": in_proj, conv1d, x_proj, dt_proj, A_log, D, out_proj of it */
    bool bias, conv_bias; /* bias: of in_proj and out_proj */
    sc_activation act;    /* behind the convolution */
    int64_t dt_rank;
    const char *dt_norm, *b_norm, *c_norm; /* RMS norms of these; NULL: none */
} sc_mamba;

/*
 * MambaMixer: one linear makes x and its gate; x is convolved, and makes dt (of dt_rank, then a
 * linear), B and C; the state space of one channel per head; gate; a linear onto the residual
 * stream. The layer has a conv_state and a recurrent_state [channels, state_size].
 */
void sc_build_mamba(sc_builder *b, sc_span x, const sc_mamba *mamba);

/*
 * Qwen3NextGatedDeltaNet: in_proj_qkvz and in_proj_ba hold q, k, v and gates, and b and a, key head
 * by key head; q, k and v are convolved; the delta rule; a norm per head; gate; a linear onto the
 * residual stream. The layer has a conv_state and a recurrent_state [heads, key_dim, value_dim].
 */
void sc_build_gated_delta(sc_builder *b, sc_span x, const char *module, sc_activation act);

/* A key of two limits of dt, absent: none; fails unless the first is below the second. */
void sc_build_dt_limits(sc_builder *b, const char *key, float *least, float *most);

#endif
