/*
 * mxfp4.h - tensors in MXFP4, as gpt-oss is published: NAME_blocks [.., blocks, 16] and NAME_scales
 * [.., blocks], both U8, are one tensor NAME [.., 32 * blocks].
 *
 * Source  OCP Microscaling Formats (MX) Specification 1.0: elements E2M1, scales E8M0; two elements
 *         in a byte, the first in its low half: transformers
 * src/transformers/integrations/mxfp4.py.
 */
#ifndef SC_MXFP4_H
#define SC_MXFP4_H

#include "tensors.h"

enum { SC_MXFP4_ELEMENTS = 32, SC_MXFP4_BYTES = 16 };

/* Makes one tensor of every pair. SC_EINPUT: blocks without scales, or of other shapes. */
int sc_mxfp4_pair(sc_tensors *tensors, sc_pool *pool, sc_error *err);

/* One block. false: its scale is 255, which stands for no number. */
bool sc_mxfp4_decode(float out[SC_MXFP4_ELEMENTS], const unsigned char block[SC_MXFP4_BYTES],
                     unsigned char scale);

#endif
