/* kv_q8_0.c - runtime/kv_q8_0.h in a file of its own, as castings have it; see kv_codec.h. */
#include "../../runtime/kv_q8_0.h"

#include "kv_codec.h"

KV_CODEC(q8_0)
