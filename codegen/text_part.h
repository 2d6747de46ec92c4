/*
 * text_part.h - the text model of a multimodal checkpoint: its tensors under the names that it has
 * alone. What belongs to images or sound is left out.
 *
 * Published names: language_model.model.layers.0… and language_model.lm_head.weight (gemma3,
 * llama4, mistral3 as uploaded), model.language_model.layers.0… and lm_head.weight (transformers 5,
 * gemma3n, gemma4); beside them vision_tower.…, vision_model.…, multi_modal_projector.…,
 * model.audio_tower.…
 */
#ifndef SC_TEXT_PART_H
#define SC_TEXT_PART_H

#include "tensors.h"

/* *skipped says what was left out: "vision_tower (439 tensors), …"; NULL: nothing was. Tensors of a
 * checkpoint that has no such names stay as they are. SC_EINPUT: two would have one name. */
int sc_text_part(sc_tensors *tensors, const char **skipped, sc_pool *pool, sc_error *err);

#endif
