/*
 * target.h - what a casting is made for, as --target, --arch and what goes with them name it.
 *
 * Reads   sc_export_options; NULL and 0 are the defaults.
 * Makes   arch, cuda, sms, sm, emit_only and offload_weights of sc_plan_options.
 */
#ifndef SC_TARGET_H
#define SC_TARGET_H

#include "export.h"

/*
 * arch is a list: at most one processor (native) and, with target cuda, any sm_NN (sm_80, sm_90),
 * kept in ascending order and each once.
 * SC_EUSAGE  a name is unknown, empty, a second processor, or wants --target cuda; an option that
 *            does; more layers' weights on the host than there are, or of a cache alone.
 */
int sc_target_read(sc_plan_options *o, sc_pool *pool, const sc_export_options *options,
                   sc_error *err);

/* kv_dtype, and what keeps it there: SC_EUSAGE when devices cannot. */
int sc_target_check(const sc_plan_options *o, sc_error *err);

#endif
