/*
 * emit.h - the sources of a casting: Graph and Plan -> text.
 *
 * Fills the templates and copies the runtime; computes nothing. The casting is complete but for
 * NAME.weights and NAME.tokenizer (pack.h) and manifest.json (manifest.h).
 */
#ifndef SC_EMIT_H
#define SC_EMIT_H

#include "file.h"
#include "plan.h"
#include "template.h"

/* The values that every template may use, in the pool. layout: sha256 of the plan's tables. */
int sc_emit_values(sc_values **values, sc_pool *pool, const sc_plan *plan, const sc_config *config,
                   sc_error *err);

/* Writes NAME.h, NAME_*.c, NAME_*.h, Makefile and runtime/ into the folder. */
int sc_emit_sources(sc_folder *folder, const sc_plan *plan, const sc_values *values, sc_error *err);

/* The i-th suffix of the emitted sources, "_cache.c"; NULL past the last. */
const char *sc_emit_source(const sc_plan *plan, int i);

/* Whether the embedded file of that path goes into the casting. */
bool sc_emit_needs(const sc_plan *plan, const char *path);

/* 64 hex digits: what cache shapes and packed tensors the casting has. */
int sc_emit_layout(char hex[65], sc_pool *pool, const sc_plan *plan, sc_error *err);

#endif
