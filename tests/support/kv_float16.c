/* kv_float16.c - runtime/kv_float16.h in a file of its own, as castings have it; see kv_codec.h. */
#include "../../runtime/kv_float16.h"

#include "kv_codec.h"

KV_CODEC(float16)
