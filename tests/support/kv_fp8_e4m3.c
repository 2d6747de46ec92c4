/* kv_fp8_e4m3.c - runtime/kv_fp8_e4m3.h in a file of its own, as castings have it; see kv_codec.h.
 */
#include "../../runtime/kv_fp8_e4m3.h"

#include "kv_codec.h"

KV_CODEC(fp8_e4m3)
